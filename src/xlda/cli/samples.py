"""Samples for a command: photos, embedded as they come, or files of embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from xlda.arrays import Array
from xlda.cli.console import note, progress_bar
from xlda.cli.models import as_labels, check_same_backbone, named_backbone, own_backbone
from xlda.cli.options import OnError
from xlda.sources import FORMATS, open_source

if TYPE_CHECKING:
    from xlda.backbones import Backbone
    from xlda.classifier import XLDA
    from xlda.images import Photo
    from xlda.labels import Label

BATCH = 4096  # embeddings of files read at once


class Choice(NamedTuple):
    """Labels to take, all where none are named, and to leave out."""

    only: list[str] | None = None
    without: list[str] | None = None

    def takes(self, label: object) -> bool:
        """Whether samples with this label are wanted."""
        text = str(label)
        return (not self.only or text in self.only) and text not in (self.without or ())

    def __bool__(self) -> bool:
        return bool(self.only or self.without)


ALL = Choice()


class Samples(NamedTuple):
    """Some of them: embeddings (n, d), what each shows if that is known, and its name."""

    embeddings: Array
    labels: list[Any]
    names: list[str]


class Input:
    """All samples of one command, batch after batch, with a bar. `info` is their backbone, if known."""

    def __init__(self, info: dict[str, Any] | None, n: int, read: Callable[[], Iterator[Samples]]) -> None:
        self.info, self._n, self._read = info, n, read

    def batches(self, what: str) -> Iterator[Samples]:
        """Read them; `what` stands before the bar."""
        with progress_bar(what, self._n) as advance:
            for samples in self._read():
                yield samples
                advance(len(samples.names))

    def labelled(self, what: str) -> Iterator[Samples]:
        """The same; one without a label is an error that names it, and so is none at all."""
        n = 0
        for samples in self.batches(what):
            n += len(samples.names)
            for name, label in zip(samples.names, samples.labels, strict=True):
                if label is None:
                    raise ValueError(
                        f"{name} has no label: put it in a folder that is named for what it shows, use a "
                        "list, or give --label."
                    )
            yield samples
        if not n:
            raise ValueError(
                "There is no sample to take: see to --only and --without, or to what was skipped."
            )


def for_new_model(
    where: list[str],
    name: str | None,
    size: int | None,
    cut_head: bool,
    on_error: OnError,
    choice: Choice = ALL,
) -> Input:
    """Samples for a model that is made of them."""
    if _are_embeddings(where):
        if name is not None or size is not None or cut_head:
            raise ValueError("--backbone, --size and --cut-head are for photos; these are embeddings.")
        return _from_files(where, None, choice)
    backbone = named_backbone(name, size, cut_head)
    return _from_photos(where, None, backbone, backbone.info, on_error, None, choice)


def for_model(
    where: list[str],
    clf: XLDA,
    model: Path,
    name: str | None,
    on_error: OnError,
    label: str | None = None,
    choice: Choice = ALL,
) -> Input:
    """Samples for a model that is there: refused where they are of another backbone."""
    if _are_embeddings(where):
        found = _from_files(where, label if label is None else as_labels(clf, [label])[0], choice)
        check_same_backbone(found.info, clf.backbone_, str(model))
        return found
    backbone = own_backbone(clf.backbone_, model, name)
    return _from_photos(where, clf, backbone, clf.backbone_, on_error, label, choice)


def _are_embeddings(where: list[str]) -> bool:
    suffixes = {Path(one).suffix for one in where}
    if suffixes & set(FORMATS) and not suffixes <= set(FORMATS):
        raise ValueError(f"Give either photos or files of embeddings ({', '.join(FORMATS)}), not both.")
    return suffixes <= set(FORMATS)


def _from_files(where: list[str], label: Label | None, choice: Choice) -> Input:
    source = open_source([Path(one) for one in where], labels="label" if label is None else None)

    def read() -> Iterator[Samples]:
        for batch in source.batches(BATCH):
            rows = range(batch.start.row, batch.end.row)
            labels = [label] * len(rows) if label is not None else list(batch.labels)
            names = [f"{batch.start.file}, row {row}" for row in rows]
            kept = [place for place in range(len(rows)) if choice.takes(labels[place])] if choice else None
            if kept is None:
                yield Samples(batch.embeddings, labels, names)
            elif kept:
                yield Samples(
                    batch.embeddings[kept],
                    [labels[place] for place in kept],
                    [names[place] for place in kept],
                )

    return Input(_info_of(where), source.n_samples(), read)


def _info_of(where: list[str]) -> dict[str, Any] | None:
    """Backbone of files of embeddings, which must be the same for all that say."""
    from xlda.embedding_files import embedding_info

    known = None
    for one in where:
        try:
            found = embedding_info(one) if Path(one).suffix == ".parquet" else None
        except ValueError:
            found = None  # not written by `xlda embed`
        check_same_backbone(found, known, "The first of these files")
        known = known or found
    return known


def _from_photos(
    where: list[str],
    clf: XLDA | None,
    backbone: Backbone,
    info: dict[str, Any] | None,
    on_error: OnError,
    label: str | None,
    choice: Choice,
) -> Input:
    from xlda.embedding import embed_photos

    photos = [photo for photo in found_photos(where) if choice.takes(photo.label)]

    def read() -> Iterator[Samples]:
        for batch in embed_photos(photos, backbone, on_error=on_error.value):
            for _, reason in batch.skipped:
                note(f"skipped: {reason}")
            texts = [photo.label if label is None else label for photo in batch.photos]
            labels = [None if text is None else as_labels(clf, [text])[0] for text in texts]
            yield Samples(batch.embeddings, labels, [str(photo.path) for photo in batch.photos])

    return Input(info, len(photos), read)


def found_photos(where: list[str]) -> list[Photo]:
    """All photos in these places, in their order; one that comes twice is an error."""
    from xlda.images import find_photos

    photos = [photo for one in where for photo in find_photos(one)]
    seen: set[Path] = set()
    for photo in photos:
        if photo.path in seen:
            raise ValueError(f"{photo.path} is given twice.")
        seen.add(photo.path)
    return photos
