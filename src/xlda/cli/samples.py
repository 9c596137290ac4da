"""Samples for a command: photos, embedded as they come, or files of embeddings."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import typer

from xlda._internal.arrays import Array
from xlda.cli.console import note, progress_bar
from xlda.cli.models import as_labels, check_same_backbone, own_backbone
from xlda.cli.options import OnError
from xlda.sources import FORMATS, SourceError, open_source

if TYPE_CHECKING:
    from xlda.backbones import Backbone
    from xlda.classifier import XLDA
    from xlda.photos.finding import Photo

BATCH = 4096  # embeddings of files read at once
SUFFIXES = (*FORMATS, ".npy")  # of embeddings


@dataclass(frozen=True)
class Choice:
    """Which samples are taken, by their labels, all where none are named; and the label that they get."""

    only: list[str] | None = None
    without: list[str] | None = None
    label: str | None = None
    found: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.label is not None and not self.label.strip():
            raise typer.BadParameter("--label is empty.")

    @property
    def is_all(self) -> bool:
        """Whether labels do not matter."""
        return not self.only and not self.without

    def takes(self, label: object) -> bool:
        """Whether samples with this label are wanted."""
        text = str(label)
        self.found.add(text)
        return (not self.only or text in self.only) and text not in (self.without or ())

    def check(self) -> None:
        """Refuse names that no sample had."""
        for name in (*(self.only or ()), *(self.without or ())):
            if name not in self.found:
                raise ValueError(f"There is no class {name!r} among these samples.")


class Samples(NamedTuple):
    """Some of them: embeddings (n, d), what each shows if that is known, and its name."""

    embeddings: Array
    labels: list[Any]
    names: list[str]


class Input:
    """All samples of one command, batch after batch, with a bar. `info` is their backbone, if known."""

    def __init__(
        self, info: dict[str, Any] | None, n: int, read: Callable[[], Iterator[Samples]], choice: Choice
    ) -> None:
        self.info, self._n, self._read, self._choice = info, n, read, choice

    def batches(self, what: str) -> Iterator[Samples]:
        """Read them; `what` stands before the bar. None at all is an error."""
        n = 0
        with progress_bar(what, self._n) as advance:
            for samples in self._read():
                n += len(samples.names)
                yield samples
                advance(len(samples.names))
        self._choice.check()
        if not n:
            raise ValueError("There is no sample left: all of them were skipped or left out.")

    def labelled(self, what: str) -> Iterator[Samples]:
        """The same; one without a label is an error that names it."""
        for samples in self.batches(what):
            for name, label in zip(samples.names, samples.labels, strict=True):
                if label is None:
                    raise ValueError(
                        f"{name} has no label. A photo has that of its folder, or of a list, or of --label "
                        "where a command has it."
                    )
            yield samples


def are_embeddings(where: list[str]) -> bool:
    """Whether these are files of embeddings, and not photos."""
    known = [Path(one).suffix.lower() in SUFFIXES for one in where]
    if any(known) and not all(known):
        raise ValueError(f"Give either photos or files of embeddings ({', '.join(SUFFIXES)}), not both.")
    return all(known)


def for_model(
    where: list[str],
    clf: XLDA,
    model: Path,
    name: str | None,
    on_error: OnError,
    choice: Choice | None = None,
) -> Input:
    """Samples for a model that is there: refused where they are of another backbone.

    Without a choice, labels are not looked for.
    """
    if not are_embeddings(where):
        return from_photos(where, own_backbone(clf.backbone_, model, name), on_error, choice, clf)
    if name is not None:
        raise typer.BadParameter("--backbone is for photos; these are embeddings.")
    found = from_files(where, choice, clf)
    check_same_backbone(found.info, clf.backbone_, str(model))
    return found


def from_files(where: list[str], choice: Choice | None, clf: XLDA | None = None) -> Input:
    """Embeddings in files; without a choice, labels are not looked for."""
    if len({os.path.realpath(one) for one in where}) < len(where):
        raise ValueError("One of these files is given twice.")
    with_labels = choice is not None and (choice.label is None or not choice.is_all)
    source = open_source([Path(one) for one in where], labels="label" if with_labels else None)

    def read() -> Iterator[Samples]:
        try:
            for batch in source.batches(BATCH):
                names = [f"{batch.start.file}, row {row}" for row in range(batch.start.row, batch.end.row)]
                labels = list(batch.labels) if with_labels else [None] * len(names)
                yield from _taken(batch.embeddings, labels, names, choice, clf)
        except SourceError as error:
            place = error.position
            raise ValueError(f"{place.file}, row {place.row}: {error.__cause__}") from error

    return Input(_info_of(where), source.n_samples(), read, choice or Choice())


def _taken(
    embeddings: Array, labels: list[Any], names: list[str], choice: Choice | None, clf: XLDA | None
) -> Iterator[Samples]:
    """Those that are chosen, with the labels that they get."""
    finite = np.isfinite(embeddings).all(axis=1)
    if not finite.all():
        raise ValueError(f"{names[int(finite.argmin())]} has NaN or infinity in its embedding.")
    if choice is not None and not choice.is_all:
        kept = [place for place, label in enumerate(labels) if choice.takes(label)]
        embeddings, labels, names = embeddings[kept], [labels[i] for i in kept], [names[i] for i in kept]
    if choice is not None and choice.label is not None:
        labels = [choice.label] * len(names)
    if names:
        yield Samples(embeddings, as_labels(clf, labels), names)


def _info_of(where: list[str]) -> dict[str, Any] | None:
    """Backbone of files of embeddings, which must be the same for all that say."""
    from xlda.photos.parquet import embedding_info

    known = None
    for one in where:
        try:
            found = embedding_info(one) if Path(one).suffix.lower() == ".parquet" else None
        except ValueError:
            found = None  # not written by `xlda embed`
        check_same_backbone(found, known, "The first of these files")
        known = known or found
    return known


def from_photos(
    where: list[str],
    backbone: Backbone,
    on_error: OnError,
    choice: Choice | None = None,
    clf: XLDA | None = None,
) -> Input:
    """Photos, embedded as they come; without a choice, labels do not matter."""
    from xlda.photos.embedding import embed_photos

    photos = found_photos(where, on_error)
    if choice is not None and not choice.is_all:
        photos = [photo for photo in photos if choice.takes(photo.label)]
    label = None if choice is None else choice.label

    def read() -> Iterator[Samples]:
        for batch in embed_photos(photos, backbone, on_error=on_error.value):
            for _, reason in batch.skipped:
                note(f"skipped: {reason}")
            labels = [photo.label if label is None else label for photo in batch.photos]
            if choice is not None:
                labels = as_labels(clf, labels)
            yield Samples(batch.embeddings, labels, [str(photo.path) for photo in batch.photos])

    return Input(backbone.info, len(photos), read, choice or Choice())


def found_photos(where: list[str], on_error: OnError) -> list[Photo]:
    """All photos in these places, in their order; one that comes twice is an error."""
    from xlda.photos.finding import find_photos

    photos = []
    for one in where:
        photos += find_photos(one, missing_ok=on_error is OnError.skip)
        _tell_of_others(Path(one))
    seen: set[str] = set()
    for photo in photos:
        if (place := os.path.realpath(photo.path)) in seen:
            raise ValueError(f"{photo.path} is given twice.")
        seen.add(place)
    return photos


def _tell_of_others(folder: Path) -> None:
    """Say which files in a folder are not taken for photos."""
    from xlda.photos.finding import SUFFIXES

    if not folder.is_dir():
        return
    names = (name for _, _, files in os.walk(folder) for name in files if not name.startswith("."))
    others = Counter(Path(name).suffix.lower() or "other" for name in names)
    ignored = [f"{n:,} {suffix}" for suffix, n in sorted(others.items()) if suffix not in SUFFIXES]
    if ignored:
        note(f"ignored in {folder}: {', '.join(ignored)} files")
