"""From photos to embeddings: decoding in threads beside the network."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np

from xlda._internal.arrays import Array
from xlda.photos.decoding import MAX_PIXELS, BadImage, open_photo
from xlda.photos.finding import Photo

if TYPE_CHECKING:
    from PIL.Image import Image

OnError = Literal["stop", "skip"]

MOST_DECODERS = 8


class Embedder(Protocol):
    """What is needed of a network: `prepare` a photo, from any thread, and `embed` a stack of them."""

    @property
    def n_features(self) -> int:
        """Length of an embedding."""

    def prepare(self, image: Image, /) -> Array:
        """Pixels (H, W, 3) of uint8, H and W the same for all photos."""

    def embed(self, pixels: Array, /) -> Array:
        """Embeddings (n, n_features) of pixels (n, H, W, 3)."""


class EmbeddedBatch(NamedTuple):
    """Some consecutive photos: `embeddings` (n, d) of float32 beside their `photos`, and what was skipped."""

    embeddings: Array
    photos: list[Photo]
    skipped: list[tuple[Photo, str]]


def embed_photos(
    photos: Iterable[Photo],
    backbone: Embedder,
    *,
    on_error: OnError = "stop",
    batch_size: int = 32,
    decoders: int | None = None,
    max_pixels: int = MAX_PIXELS,
) -> Generator[EmbeddedBatch, None, None]:
    """Embeddings of `photos`, `batch_size` photos at a time, in their order.

    `decoders` threads, one for each core unless told otherwise, open and prepare photos while the network is
    at work; they are at most a batch ahead. With `on_error="skip"`, a photo that cannot be opened is left out
    and reported; with "stop" it is an error. The threads end with the iterator, however that ends.
    """
    if on_error not in ("stop", "skip"):
        raise ValueError(f'on_error={on_error!r}; expected "stop" or "skip".')
    if batch_size < 1 or (decoders is not None and decoders < 1):
        raise ValueError(f"batch_size={batch_size}, decoders={decoders}; expected at least 1.")
    return _batches(photos, backbone, on_error, batch_size, decoders or _n_decoders(), max_pixels)


def _batches(
    photos: Iterable[Photo],
    backbone: Embedder,
    on_error: OnError,
    batch_size: int,
    decoders: int,
    max_pixels: int,
) -> Generator[EmbeddedBatch, None, None]:
    def pixels(photo: Photo) -> Array | str:
        try:
            return backbone.prepare(open_photo(photo.path, max_pixels))
        except (BadImage, OSError) as error:
            if on_error == "stop":
                raise
            return str(error)

    pool = ThreadPoolExecutor(decoders, thread_name_prefix="xlda-decoder")
    try:
        ahead = _ahead(pool, pixels, photos, batch_size + decoders)
        while batch := list(itertools.islice(ahead, batch_size)):
            yield _embedded(batch, backbone)
    finally:
        pool.shutdown(cancel_futures=True)


def _ahead(
    pool: ThreadPoolExecutor,
    work: Callable[[Photo], Array | str],
    photos: Iterable[Photo],
    n_ahead: int,
) -> Iterator[tuple[Photo, Array | str]]:
    """Photos with the results of `work`, in order, with `n_ahead` of them under way."""
    waiting: deque[tuple[Photo, Future[Array | str]]] = deque()
    for photo in photos:
        waiting.append((photo, pool.submit(work, photo)))
        if len(waiting) > n_ahead:
            first, result = waiting.popleft()
            yield first, result.result()
    for photo, result in waiting:
        yield photo, result.result()


def _embedded(batch: list[tuple[Photo, Array | str]], backbone: Embedder) -> EmbeddedBatch:
    skipped = [(photo, result) for photo, result in batch if isinstance(result, str)]
    pixels = [result for _, result in batch if not isinstance(result, str)]
    photos = [photo for photo, result in batch if not isinstance(result, str)]
    if not pixels:
        return EmbeddedBatch(np.empty((0, backbone.n_features), np.float32), [], skipped)
    embeddings = np.asarray(backbone.embed(np.stack(pixels)), np.float32)
    if embeddings.shape != (len(pixels), backbone.n_features):
        raise ValueError(
            f"The backbone gave embeddings of shape {embeddings.shape} for {len(pixels)} photos; "
            f"expected {(len(pixels), backbone.n_features)}."
        )
    return EmbeddedBatch(embeddings, photos, skipped)


def _n_decoders() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_DECODERS)
