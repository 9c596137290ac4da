"""A model and its backbone as one thing: photos in, labels out."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, overload

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.interrupts import interrupt_afterwards
from xlda._internal.not_fitted import is_not_fitted
from xlda.errors import BadSampleError, ChangedModelError
from xlda.identity import BackboneIdentity
from xlda.labels import Label
from xlda.model_file import MOST_KEYS
from xlda.photos.embedding import embed_contents, opened
from xlda.photos.model_backbone import ModelBackbone
from xlda.photos.opened_file import OpenedFile
from xlda.predictor.answers import Judged

if TYPE_CHECKING:
    from PIL.Image import Image

    from xlda.backbones import Backbone
    from xlda.classifier import XLDA


class Candidate(NamedTuple):
    """A class that a photo may show, its score, and its probability if it is one of the known classes."""

    label: Label
    score: float
    probability: float = math.nan


class Answer(NamedTuple):
    """What a photo shows: the best `label`, None where there is none, and the `top` ones, best first.

    `probability` is that of the best, if it is one of the known classes; `p_known` that it is. None where
    nobody can tell.

    >>> Answer.of([Candidate("kiwi", 3.5, 0.8), Candidate("pear", 1.0, 0.1)], 0.9).label
    'kiwi'
    """

    label: Label | None
    top: list[Candidate]
    probability: float | None = None
    p_known: float | None = None

    @classmethod
    def of(cls, top: list[Candidate], p_known: float = math.nan, is_unknown: bool = False) -> Self:
        """The answer with these candidates."""
        if not top:
            return cls(None, top)
        label = None if is_unknown else top[0].label
        return cls(label, top, top[0].probability, None if math.isnan(p_known) else p_known)


def answers_of(judged: Judged) -> list[Answer]:
    """An answer for each sample."""
    tops = zip(judged.labels.tolist(), judged.scores.tolist(), judged.probabilities.tolist(), strict=True)
    each = zip(tops, judged.p_known.tolist(), judged.is_unknown.tolist(), strict=True)
    return [
        Answer.of([Candidate(*one) for one in zip(*top, strict=True)], p_known, is_unknown)
        for top, p_known, is_unknown in each
    ]


class Recognizer:
    """A model file with its backbone: it learns photos and tells what others show. `open` gives one.

    A photo is a path; the bytes of a JPEG, PNG or WebP file; a PIL image; or pixels of uint8, (h, w),
    (h, w, 3) or (h, w, 4). Wherever one may be given, several may: a list, a tuple, an iterator, or an array
    with four axes.

    >>> from PIL import Image
    >>> with Recognizer.open("shop.xlda") as shop:
    ...     shop.learn([Image.new("RGB", (64, 64), colour) for colour in ("red", "blue")], ["cherry", "plum"])
    ...     shop.predict(Image.new("RGB", (64, 64), "darkred")).label
    True
    'cherry'
    >>> Recognizer.open("shop.xlda").classes
    ['cherry', 'plum']

    Only one at a time may change a model file: the first change takes its lock, for which an empty file
    `shop.xlda.lock` stays beside it, and `save`, `close` or the end of the `with` block gives it back.
    Predicting needs no lock. Nothing is written before `save`, which the end of the `with` block calls where
    something was changed, unless an error ends it. What fails changes nothing.

    Threads may share a recognizer; those that change it take turns.
    """

    def __init__(self, file: OpenedFile, backbone: ModelBackbone, classifier: XLDA) -> None:
        self._file, self._backbone = file, backbone
        self._classifier: XLDA | None = classifier
        self._is_changed = False

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        backbone: str | os.PathLike[str] | Backbone | None = None,
        views: int | Sequence[float] | None = None,
        wait: float = 0.0,
        lock: bool = False,
        **params: Any,
    ) -> Self:
        """Open a model file, or start a new model where there is none; `params` are its parameters then.

        `backbone` is "efficientnet-lite0", "-lite1" or "-lite2", the path of an ONNX file, or a loaded one.
        By default it is the one that the model was made with: a built-in one, or an ONNX file of its name
        beside the model or in the current folder. For a new model it is efficientnet-lite0. It is loaded when
        the first photo comes, and another one than the model's, or one that is not found, is an
        OtherBackboneError. `views` says how a new model looks at a photo: 1 is the fastest; 2, the
        default, and 3 recognise more, and take as many times as long; see `backbones.Preprocessing`.

        Where another process or recognizer is changing the file, the first change waits for it for `wait`
        seconds, then it is a LockedModelError; a file that has changed since it was opened is a
        ChangedModelError. With `lock=True` the lock is taken here, before the file is read, so that what is
        changed is always its newest state.
        """
        file = OpenedFile(path, wait)
        if lock:
            file.take_lock()
        try:
            folders = [Path(os.path.abspath(path)).parent, file.path.parent]  # noqa: PTH100 (links stay)
            own = ModelBackbone(backbone, file.name, folders, views)
            recognizer = cls(file, own, file.read(params, cls._kind()))
            if own.loaded is not None:
                _ = recognizer.backbone  # another one than the model's is refused
        except BaseException:
            file.lock.give_back()
            raise
        return recognizer

    # -- predicting

    @overload
    def predict(
        self, photos: str | os.PathLike[str] | bytes | Image, k: int = 5, unknown: float | None = None
    ) -> Answer: ...
    @overload
    def predict(
        self, photos: list[Any] | tuple[Any, ...] | Iterator[Any], k: int = 5, unknown: float | None = None
    ) -> list[Answer]: ...
    @overload
    def predict(self, photos: Any, k: int = 5, unknown: float | None = None) -> Any: ...
    def predict(self, photos: Any, k: int = 5, unknown: float | None = None) -> Any:
        """What a photo shows, with the `k` best candidates: an `Answer`, or for several a list of them.

        With `unknown=0.05`, the label is None where a photo is like no known class, so that at most 5 % of
        those of known classes are rejected. A bad photo is a BadSampleError that names it.
        """
        clf = self.classifier
        embeddings = self.embed(photos)
        try:
            judged = clf.judge(embeddings, k, unknown=unknown)
        except ValueError as error:
            if not is_not_fitted(error):
                raise
            answers = [Answer.of([]) for _ in embeddings]
        else:
            answers = answers_of(judged)
        return answers[0] if _is_one(photos) else answers

    def embed(self, photos: Any) -> Array:
        """Embeddings (n, d) of the photos, float32; (1, d) of one."""
        backbone = self.backbone
        if _is_one(photos):
            return backbone.embed_one(opened(photos, backbone))[None]
        return embed_contents(photos, backbone)

    # -- learning

    def learn(self, photos: Any, labels: Any, key: str | None = None) -> bool:
        """Learn photos: with one label for all, or with one each. Classes may be new.

        A `key` names what is learned: where the model has learned something of that key already, nothing is
        done, and the answer is False.
        """
        with self._writing() as clf:
            if key is not None and key in _keys(clf):
                return False
            embeddings, each = self._samples("learn", photos, labels)
            self._change(lambda clf: self._learn(clf, embeddings, each, key))
        return True

    def forget(self, photos: Any, labels: Any) -> None:
        """Undo having learned photos, with one label for all, or with one each."""
        with self._writing():
            embeddings, each = self._samples("forget", photos, labels)
            self._change(lambda clf: clf.forget(embeddings, each))

    def rename(self, old: Label, new: Label) -> None:
        """Give a class another label."""
        self._change(lambda clf: clf.rename_class(old, new))

    def merge_classes(self, into: Label, other: Label) -> None:
        """Make `other` a part of `into`, as if its photos had been labelled so."""
        self._change(lambda clf: clf.merge_classes(into, other))

    def remove(self, label: Label) -> None:
        """Let a class go."""
        self._change(lambda clf: clf.remove_class(label))

    @contextmanager
    def changing(self) -> Iterator[XLDA]:
        """The classifier, to be changed in the block by whatever it can do, with the lock held.

            with recognizer.changing() as clf:
                clf.partial_fit(embeddings, labels)

        It counts as changed from then on, even if an error ends the block.
        """
        with self._writing() as clf:
            self._is_changed = True
            yield clf

    # -- on disk

    def save(self) -> None:
        """Write the model to its file, whole or not at all, and give back the lock.

        A file that another has changed since it was opened, or last saved here, is a ChangedModelError.
        """
        with self._writing() as clf:
            self._file.write(clf)
            self._is_changed = False
            self._file.lock.give_back()

    def export(self, path: str | os.PathLike[str], top_k: int | None = None) -> dict[str, Any]:
        """Write model and backbone as one ONNX file, which needs no xlda: pixels in, labels out.

        It takes "pixels" (n, size, size, 3), uint8: the usual crop of each photo, resized. It gives "labels"
        and "probabilities" of the `top_k` best classes, (n, top_k), best first; 5 unless said, and no more
        than there are. docs/onnx.md says how to run it. Its answers are first compared with those of the
        model, and nothing is written where they are not the same. Gives how many "classes" it has, its
        "top_k", the "size" of its pictures, and its "bytes".
        """
        from xlda.photos.whole_network import write_whole_network

        backbone = self.backbone
        return write_whole_network(self.classifier, backbone, self._backbone.source(backbone), path, top_k)

    def close(self) -> None:
        """Give back the lock and let go of the model; what was not saved is lost. Closing twice is fine."""
        with self._file.lock.turn:
            self._classifier = None
            self._is_changed = False
            self._file.lock.give_back()

    def __enter__(self) -> Self:
        self.classifier  # noqa: B018 (a closed one is refused)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._is_changed:
                self.save()
        finally:
            self.close()

    # -- what it is

    @property
    def path(self) -> Path:
        """The model file, absolute and without links."""
        return self._file.path

    @property
    def classifier(self) -> XLDA:
        """The classifier. Change it in a block of `changing`, so that nobody else does meanwhile."""
        clf = self._classifier
        if clf is None:
            raise ValueError(f"This recognizer of {self._file.name} is closed. Open the model again.")
        return clf

    @property
    def backbone(self) -> Backbone:
        """The backbone, loaded where it is not yet; an OtherBackboneError where it cannot be the model's."""
        width = getattr(self.classifier, "n_features_in_", None)
        return self._backbone.get(self._made_with(), width)

    @property
    def identity(self) -> BackboneIdentity | None:
        """The backbone that the model was made with, or will be; None where that is not known yet."""
        made_with, loaded = self._made_with(), self._backbone.loaded
        return made_with if made_with is not None or loaded is None else loaded.identity

    @property
    def classes(self) -> list[Label]:
        """The labels that it knows."""
        try:
            labels: list[Label] = self.classifier.classes_.tolist()
        except ValueError as error:
            if not is_not_fitted(error):
                raise
            return []
        return labels

    # -- how it works

    @classmethod
    def _kind(cls) -> type[Any]:
        """What the classifier is."""
        from xlda.classifier import XLDA  # and with it scikit-learn, which takes about a second

        return XLDA

    @contextmanager
    def _writing(self) -> Iterator[XLDA]:
        """The classifier with the lock held, and the file still the one that was read.

        Where nothing was changed in the end, the lock is given back; and where nothing can be saved any more.
        """
        lock = self._file.lock
        with lock.turn:
            clf, had_lock = self.classifier, lock.is_held
            self._file.take_lock()
            try:
                self._file.check_unchanged()
                yield clf
            except ChangedModelError:
                lock.give_back()
                raise
            finally:
                if not had_lock and not self._is_changed:
                    lock.give_back()

    def _change(self, change: Callable[[XLDA], object]) -> None:
        with self._writing() as clf, interrupt_afterwards():
            change(clf)
            self._is_changed = True

    def _learn(self, clf: XLDA, embeddings: Array, labels: list[Any], key: str | None) -> None:
        clf.partial_fit(embeddings, labels)
        if (loaded := self._backbone.loaded) is not None and not _is_known(self._made_with()):
            clf.backbone_ = loaded.identity  # here alone is a model told what made its embeddings
        if key is not None:
            clf.batch_keys_ = [*_keys(clf), key][-MOST_KEYS:]

    def _samples(self, what: str, photos: Any, labels: Any) -> tuple[Array, list[Any]]:
        """Embeddings of the photos, and the label of each."""
        if _is_one(photos) or isinstance(photos, Sized):
            n_photos = 1 if _is_one(photos) else len(photos)
            _label_each(what, labels, n_photos)  # before the work
        embeddings = self.embed(photos)
        return embeddings, _label_each(what, labels, len(embeddings))

    def _made_with(self) -> BackboneIdentity | None:
        return BackboneIdentity.from_json(getattr(self.classifier, "backbone_", None))


def _is_known(backbone: BackboneIdentity | None) -> bool:
    return backbone is not None and backbone.identity is not None


def _is_one(photos: Any) -> bool:
    """Whether this is one photo, and not several."""
    if isinstance(photos, np.ndarray):
        return photos.ndim in (2, 3)
    if isinstance(photos, str | os.PathLike | bytes | bytearray | memoryview) or hasattr(photos, "read"):
        return True
    return not isinstance(photos, Iterable)  # a PIL image, or what will be refused as a photo


def _label_each(what: str, labels: Any, n_photos: int) -> list[Any]:
    if not n_photos:
        raise BadSampleError(f"{what} got no photo.")
    if isinstance(labels, str | Integral):
        return [labels] * n_photos
    if not isinstance(labels, Iterable) or not isinstance(labels, Sized) or len(labels) != n_photos:
        n_labels = len(labels) if isinstance(labels, Sized) else repr(labels)
        raise ValueError(
            f"{what} got {n_labels} labels for {n_photos} photos; give one for all, or one each."
        )
    return list(labels)


def _keys(clf: XLDA) -> list[str]:
    """Keys of what the model has learned."""
    return list(getattr(clf, "batch_keys_", None) or ())
