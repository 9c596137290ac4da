"""Samples for a command: photos, embedded as they come, or files of embeddings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import typer

from xlda._internal.arrays import Array
from xlda.cli.choice import Choice
from xlda.cli.console import note, progress_bar
from xlda.cli.labels import tell_of_meant
from xlda.cli.places import found_photos, without_copies
from xlda.errors import BadSampleError
from xlda.sources import FORMATS, Batch, Position, Source, SourceError, open_source

if TYPE_CHECKING:
    from xlda.backbones import Backbone
    from xlda.identity import BackboneIdentity
    from xlda.photos.embedding import OnError
    from xlda.photos.finding import Photo
    from xlda.photos.recognizer import Recognizer

BATCH = 4096  # embeddings of files read at once
SUFFIXES = (*FORMATS, ".npy")  # of embeddings


class Samples(NamedTuple):
    """Some of them: embeddings (n, d), what each shows if that is known, and its name."""

    embeddings: Array
    labels: list[Any]
    names: list[str]


class Input:
    """All samples of one command, batch after batch, with a bar. `identity` is their backbone, if known."""

    def __init__(
        self,
        identity: BackboneIdentity | None,
        n: int,
        read: Callable[[], Iterator[Samples]],
        choice: Choice | None,
    ) -> None:
        self.identity, self._n, self._read, self._choice = identity, n, read, choice or Choice()

    def batches(self, what: str) -> Iterator[Samples]:
        """Read them; `what` stands before the bar. None at all is an error."""
        n = 0
        with progress_bar(what, self._n) as advance:
            for samples in self._read():
                n += len(samples.names)
                yield samples
                advance(len(samples.names))
        self._choice.check()
        tell_of_meant(self._choice.resolver)
        if not n:
            raise BadSampleError("There is no sample left: all of them were skipped or left out.")

    def labelled(self, what: str) -> Iterator[Samples]:
        """The same; one without a label is an error that names it."""
        for samples in self.batches(what):
            for name, label in zip(samples.names, samples.labels, strict=True):
                if label is None:
                    raise without_label(name)
            yield samples


def without_label(name: object) -> BadSampleError:
    """The error for a sample that cannot be learned, since nobody says what it shows."""
    return BadSampleError(
        f"{name} has no label. A photo has that of its folder, or of a list, or of --label where a command "
        "has it."
    )


class InputSource(Source):
    """Samples of a command as a source without labels, for what reads one itself."""

    def __init__(self, samples: Input, what: str) -> None:
        super().__init__([])
        self._samples, self._what = samples, what

    def batches(self, size: int, resume: tuple[str, int] | None = None) -> Iterator[Batch]:
        """All of them, as they come."""
        start = Position("", 0)
        for some in self._samples.batches(self._what):
            end = Position("", start.row + len(some.names))
            yield Batch(some.embeddings, None, start, end)
            start = end


def are_embeddings(where: list[str]) -> bool:
    """Whether these are files of embeddings, and not photos."""
    known = [Path(one).suffix.lower() in SUFFIXES for one in where]
    if any(known) and not all(known):
        raise ValueError(f"Give either photos or files of embeddings ({', '.join(SUFFIXES)}), not both.")
    return all(known)


def with_files_of_folders(where: list[str]) -> list[str]:
    """The places, with the files in the place of a folder of embeddings, as `xlda embed --ray` writes it."""
    return [
        file
        for one in where
        for file in (open_source(one).files if _is_folder_of_embeddings(Path(one)) else [one])
    ]


def _is_folder_of_embeddings(place: Path) -> bool:
    """Whether files of embeddings are right in this folder, and no photos are in it."""
    from xlda.photos.finding import find_photos

    if not place.is_dir() or not any(file.suffix.lower() in FORMATS for file in place.iterdir()):
        return False
    try:
        find_photos(place)
    except FileNotFoundError:
        return True
    return False


def for_model(
    where: list[str],
    recognizer: Recognizer,
    name: str | None,
    on_error: OnError,
    choice: Choice | None = None,
) -> Input:
    """Samples for a model that is there: refused where they are of another backbone.

    Without a choice, labels are not looked for.
    """
    where = with_files_of_folders(where)
    if not are_embeddings(where):
        return from_photos(where, recognizer.backbone, on_error, choice)
    if name is not None:
        raise typer.BadParameter("--backbone is for photos; these are embeddings.")
    found = from_files(where, choice)
    if recognizer.identity is not None:
        recognizer.identity.check_same(found.identity, recognizer.path.name)
    return found


def from_files(where: list[str], choice: Choice | None) -> Input:
    """Embeddings in files; without a choice, labels are not looked for."""
    from xlda.photos.parquet import common_backbone

    where = _each_file_once(where)
    with_labels = choice is not None and (choice.label is None or not choice.is_all)
    source = open_source([Path(one) for one in where], labels="label" if with_labels else None)

    def read() -> Iterator[Samples]:
        try:
            for batch in source.batches(BATCH):
                names = [f"{batch.start.file}, row {row}" for row in range(batch.start.row, batch.end.row)]
                labels = list(batch.labels) if with_labels else [None] * len(names)
                yield from _taken(batch.embeddings, labels, names, choice)
        except SourceError as error:
            place = error.position
            raise ValueError(f"{place.file}, row {place.row}: {error.__cause__}") from error

    return Input(common_backbone(where), source.n_samples(), read, choice)


def _each_file_once(where: list[str]) -> list[str]:
    first: dict[str, str] = {}
    for one in where:
        if first.setdefault(os.path.realpath(one), one) is not one:
            note(f"{one} is given twice, and taken once")
    return list(first.values())


def _taken(
    embeddings: Array, labels: list[Any], names: list[str], choice: Choice | None
) -> Iterator[Samples]:
    """Those that are chosen, with the labels that they get."""
    finite = np.isfinite(embeddings).all(axis=1)
    if not finite.all():
        raise BadSampleError(f"{names[int(finite.argmin())]} has NaN or infinity in its embedding.")
    if choice is not None and not choice.is_all:
        kept = [place for place, label in enumerate(labels) if choice.takes(label)]
        embeddings, labels, names = embeddings[kept], [labels[i] for i in kept], [names[i] for i in kept]
    if names:
        yield Samples(embeddings, labels if choice is None else choice.labels(labels), names)


def from_photos(
    where: list[str], backbone: Backbone, on_error: OnError, choice: Choice | None = None
) -> Input:
    """Photos, embedded as they come; without a choice, labels do not matter."""
    from xlda.photos.embedding import embed_photos

    photos = chosen_photos(where, on_error, choice)
    if choice is not None:
        choice.labels([photo.label for photo in photos])  # in doubt, asked about before the work begins

    def read() -> Iterator[Samples]:
        for batch in embed_photos(photos, backbone, on_error=on_error):
            for _, reason in batch.skipped:
                note(f"skipped: {reason}")
            labels: list[Any] = [photo.label for photo in batch.photos]
            if choice is not None:
                labels = choice.labels(labels)
            yield Samples(batch.embeddings, labels, [str(photo.path) for photo in batch.photos])

    return Input(backbone.identity, len(photos), read, choice)


def chosen_photos(where: list[str], on_error: OnError, choice: Choice | None) -> list[Photo]:
    """The photos in these places that are taken, with the labels that they have there, or that all have."""
    photos = found_photos(where, on_error, choice is not None and choice.label is None and choice.of_folders)
    if choice is None:
        return photos
    photos = [photo for photo in photos if choice.is_all or choice.takes(photo.label)]
    if choice.label is not None:
        photos = [photo._replace(label=choice.label) for photo in photos]
    return without_copies(photos) if choice.each_once else photos
