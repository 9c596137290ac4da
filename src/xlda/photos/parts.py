"""Photos embedded into many files, a part of them in each: any number of processes may share the work.

A part is written whole or not at all, and says of which photos and by which backbone it is. Whoever finds it
there, and no photo newer, need not make it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from xlda.identity import BackboneIdentity
from xlda.photos.decoding import PhotoContent
from xlda.photos.embedding import Embedder, OnError, embed_named
from xlda.photos.finding import Photo
from xlda.photos.parquet import DType, EmbeddingKind, newer_than, rows_in, skipped_in

FEWEST, MOST, PARTS = 128, 4096, 64  # photos of a part, and parts of all of them where that can be
CURE = "Choose another folder, or replace what is there with overwrite=True."


class PartSummary(NamedTuple):
    """A part that is there: its embeddings, whether it was there before, and photos without, with why.

    >>> PartSummary(Path("part-0.parquet"), n_embedded=3, was_there=False, skipped=[]).n_embedded
    3
    """

    file: Path
    n_embedded: int
    was_there: bool
    skipped: list[tuple[Photo, str]]


class PartContents(NamedTuple):
    """Photos of one part, what is opened of each, and the files that it is in: those tell how old it is."""

    photos: Sequence[Photo]
    content: Callable[[Photo], PhotoContent]
    files: Sequence[Path]

    @classmethod
    def of_files(cls, photos: Sequence[Photo]) -> PartContents:
        """Photos, each of which is a file."""
        return cls(photos, lambda photo: photo.path, [photo.path for photo in photos])


def photos_of_a_part(n_photos: int) -> int:
    """How many photos a part should have, by the number of all of them and nothing else.

    >>> photos_of_a_part(2000), photos_of_a_part(100_000), photos_of_a_part(10**8)
    (128, 1563, 4096)
    """
    return min(max(-(-n_photos // PARTS), FEWEST), MOST)


def embed_part(
    part: PartContents,
    embedder: Embedder,
    file: Path,
    *,
    backbone: BackboneIdentity,
    on_error: OnError = "stop",
    decoders: int | None = None,
    dtype: DType = "float32",
    overwrite: bool = False,
) -> PartSummary:
    """Embed some photos into a Parquet file of their own, unless that is there.

    A file of other photos or of another backbone is an error, or with `overwrite` made anew.
    """
    kind = EmbeddingKind.of(part.photos, backbone, embedder.n_features, dtype)
    if file.exists() and _is_current(part, kind, file, overwrite):
        return PartSummary(file, rows_in([file]), True, skipped_in([file], on_error))
    batches = embed_named(
        part.photos,
        part.content,
        embedder,
        name=lambda photo: str(photo.path),
        on_error=on_error,
        decoders=decoders,
    )
    with closing(batches):
        done = list(batches)
    skipped = [one for batch in done for one in batch.skipped]
    photos = [photo for batch in done for photo in batch.photos]
    with kind.writer(file, skipped) as writer:
        writer.write(np.concatenate([batch.embeddings for batch in done]), photos)
    return PartSummary(file, len(photos), False, skipped)


def _is_current(part: PartContents, kind: EmbeddingKind, file: Path, overwrite: bool) -> bool:
    try:
        kind.check(file, CURE)
    except ValueError:
        if not overwrite:
            raise
        return False
    return newer_than([Photo(path, None) for path in part.files], file) is None
