"""Photos as a source of embeddings: embedded as they are asked for, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

from xlda._internal.arrays import Array
from xlda.errors import BadSampleError
from xlda.photos.decoding import MAX_PIXELS, BadImage, open_photo
from xlda.photos.embedding import BATCH, Embedder, OnError, check_on_error, embed_photos
from xlda.photos.finding import Photo
from xlda.sources.formats import Shard
from xlda.sources.source import Source

OnSkipped = Callable[[Photo, str], object]


def photo_source(
    photos: Sequence[Photo],
    backbone: Embedder,
    *,
    on_error: OnError = "stop",
    labels: bool = True,
    on_skipped: OnSkipped | None = None,
    max_pixels: int = MAX_PIXELS,
) -> Source:
    """Photos for `XLDA.fit_source`; and with `labels=False`, those of no label too, for `XLDA.from_linear`.

        XLDA().fit_source(photo_source(find_photos("shop"), backbones.load()))

    A photo that cannot be opened is an error, or with `on_error="skip"` left out and told to `on_skipped`,
    with why. Rows are counted without those left out. Each time it is read, photos are embedded anew.
    """
    check_on_error(on_error)
    return Source([PhotoShard(photos, backbone, on_error, labels, on_skipped, max_pixels)])


class PhotoShard(Shard):
    """Embeddings of photos, in their order."""

    def __init__(
        self,
        photos: Sequence[Photo],
        backbone: Embedder,
        on_error: OnError,
        labels: bool,
        on_skipped: OnSkipped | None,
        max_pixels: int,
    ) -> None:
        self.name = "photos"
        self._photos, self._backbone, self._labels = photos, backbone, labels
        self._on_error, self._on_skipped, self._max_pixels = on_error, on_skipped, max_pixels

    def n_samples(self) -> int:
        """Number of photos, those included that will turn out to be bad."""
        return len(self._photos)

    def batches(self, start: int, size: int) -> Iterator[tuple[Array, Any]]:
        """Embeddings and labels as the network gives them, a few photos at a time."""
        first = self._place_of(start)
        rest = (self._photos[place] for place in range(first, len(self._photos)))
        found = embed_photos(
            rest,
            self._backbone,
            on_error=self._on_error,
            batch_size=min(size, BATCH),
            max_pixels=self._max_pixels,
        )
        with closing(found):
            for batch in found:
                for photo, reason in batch.skipped:
                    if self._on_skipped is not None:
                        self._on_skipped(photo, reason)
                if batch.photos:
                    yield batch.embeddings, _labels(batch.photos) if self._labels else None

    def _place_of(self, row: int) -> int:
        """The photo after the first `row` of them that can be opened."""
        if self._on_error == "stop" or not row:
            return row
        n_rows = 0
        for place in range(len(self._photos)):
            if n_rows == row:
                return place
            n_rows += self._opens(self._photos[place])
        return len(self._photos)

    def _opens(self, photo: Photo) -> bool:
        try:
            open_photo(photo.path, self._max_pixels)
        except (BadImage, OSError):
            return False
        return True


def _labels(photos: list[Photo]) -> list[str]:
    labels = []
    for photo in photos:
        if photo.label is None:
            raise BadSampleError(f"{photo.path} has no label. A photo has that of its folder, or of a list.")
        labels.append(photo.label)
    return labels
