"""From photos to embeddings, by several threads: each opens and embeds some, or all open for the network."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from xlda._internal.arrays import Array
from xlda.photos.decoding import MAX_PIXELS, BadImage, PhotoContent, open_photo
from xlda.photos.finding import Photo

if TYPE_CHECKING:
    from PIL.Image import Image

OnError = Literal["stop", "skip"]

T = TypeVar("T")
R = TypeVar("R")

MOST_DECODERS = 8
BATCH = 32  # photos decoded while as many are embedded
EACH = 4  # photos that a thread opens and embeds at a time


class Embedder(Protocol):
    """What is needed of a network: `prepare` a photo, from any thread, and `embed` a stack of them.

    It may also have a `least_side`, of pixels: a photo's short side need not be longer, see `open_photo`. And
    `embed_here`, which embeds as `embed` does, but any thread may call it, and is kept busy by it alone.
    """

    @property
    def n_features(self) -> int:
        """Length of an embedding."""

    def prepare(self, image: Image, /) -> Array:
        """Pixels of uint8, their shape the same for all photos."""

    def embed(self, pixels: Array, /) -> Array:
        """Embeddings (n, n_features) of the pixels of n photos."""


class EmbeddedBatch(NamedTuple, Generic[T]):
    """Some consecutive photos: `embeddings` (n, d) of float32 beside their `photos`, and what was skipped."""

    embeddings: Array
    photos: list[T]
    skipped: list[tuple[T, str]]


def opened(
    photo: PhotoContent, backbone: Embedder, max_pixels: int = MAX_PIXELS, name: str | None = None
) -> Image:
    """The photo opened, no larger than the backbone needs it."""
    return open_photo(photo, max_pixels, name=name, least_side=getattr(backbone, "least_side", None))


def prepared(
    photo: PhotoContent, backbone: Embedder, max_pixels: int = MAX_PIXELS, name: str | None = None
) -> Array:
    """The photo opened and prepared for the backbone."""
    return backbone.prepare(opened(photo, backbone, max_pixels, name))


def embed_photos(
    photos: Iterable[Photo],
    backbone: Embedder,
    *,
    on_error: OnError = "stop",
    batch_size: int = BATCH,
    decoders: int | None = None,
    max_pixels: int = MAX_PIXELS,
) -> Generator[EmbeddedBatch[Photo], None, None]:
    """Embeddings of `photos`, `batch_size` photos at a time, in their order.

    `decoders` threads, one for each core unless told otherwise, open photos and embed them, or only open them
    where the network is left to one thread; they are at most a batch ahead. With `on_error="skip"`, a photo
    that cannot be opened is left out and reported; with "stop" it is an error. The threads end with the
    iterator, however that ends.
    """

    def content(photo: Photo) -> PhotoContent:
        return photo.path

    return embed_named(
        photos,
        content,
        backbone,
        on_error=on_error,
        batch_size=batch_size,
        decoders=decoders,
        max_pixels=max_pixels,
    )


def embed_named(
    photos: Iterable[T],
    content: Callable[[T], PhotoContent],
    backbone: Embedder,
    *,
    name: Callable[[T], str | None] = lambda photo: None,
    on_error: OnError = "stop",
    batch_size: int = BATCH,
    decoders: int | None = None,
    max_pixels: int = MAX_PIXELS,
) -> Generator[EmbeddedBatch[T], None, None]:
    """The same for photos of any kind: `content` is what is opened, `name` what it is called in errors."""
    check_on_error(on_error)
    if batch_size < 1 or (decoders is not None and decoders < 1):
        raise ValueError(f"batch_size={batch_size}, decoders={decoders}; expected at least 1.")

    def pixels(photo: T) -> Array | str:
        try:
            return prepared(content(photo), backbone, max_pixels, name(photo))
        except (BadImage, OSError) as error:
            if on_error == "stop":
                raise
            return str(error)

    return _batches(photos, pixels, backbone, batch_size, decoders or _n_decoders())


def embed_contents(photos: Iterable[PhotoContent], backbone: Embedder) -> Array:
    """Embeddings (n, n_features) of photos of any kind, in their order; a bad one is an error that names it.

    Memory holds a batch of photos, and all embeddings.
    """

    def pixels(numbered: tuple[str, Any]) -> Array | str:
        return prepared(numbered[1], backbone, name=numbered[0])

    batches = _batches(_named(photos), pixels, backbone, BATCH, _n_decoders())
    with closing(batches):
        found = [batch.embeddings for batch in batches]
    return np.concatenate([np.empty((0, backbone.n_features), np.float32), *found])


def _named(photos: Iterable[PhotoContent]) -> Iterator[tuple[str, PhotoContent]]:
    """Photos with what they are called in errors."""
    for number, photo in enumerate(photos, 1):
        if isinstance(photo, str | os.PathLike):
            yield os.fspath(photo), photo
        elif isinstance(photo, bytes | bytearray | memoryview | np.ndarray):
            yield f"Photo {number}", photo
        else:  # a PIL image is decoded here: it may come twice, and two threads cannot share one
            yield f"Photo {number}", open_photo(photo, name=f"Photo {number}")


def check_on_error(on_error: str) -> None:
    """Refuse what is no way to go on."""
    if on_error not in ("stop", "skip"):
        raise ValueError(f'on_error={on_error!r}; expected "stop" or "skip".')


def _batches(
    photos: Iterable[T],
    pixels: Callable[[T], Array | str],
    backbone: Embedder,
    batch_size: int,
    decoders: int,
) -> Generator[EmbeddedBatch[T], None, None]:
    """Photos embedded in batches; `pixels` gives those of one, or says why there are none."""
    pool = ThreadPoolExecutor(decoders, thread_name_prefix="xlda-decoder")
    try:
        if (embed_here := getattr(backbone, "embed_here", None)) is not None:
            yield from _by_each_thread(
                pool, photos, pixels, embed_here, backbone.n_features, batch_size, decoders
            )
            return
        ahead = _ahead(pool, pixels, photos, batch_size + decoders)
        while batch := list(itertools.islice(ahead, batch_size)):
            yield _embedded(batch, backbone.embed, backbone.n_features)
    finally:
        pool.shutdown(cancel_futures=True)


def _by_each_thread(
    pool: ThreadPoolExecutor,
    photos: Iterable[T],
    pixels: Callable[[T], Array | str],
    embed_here: Callable[[Array], Array],
    n_features: int,
    batch_size: int,
    threads: int,
) -> Iterator[EmbeddedBatch[T]]:
    """Batches of photos, a few of which each thread opens and embeds: none waits for another."""

    def work(some: list[T]) -> EmbeddedBatch[T]:
        return _embedded([(photo, pixels(photo)) for photo in some], embed_here, n_features)

    few = min(EACH, batch_size)
    ahead = _ahead(pool, work, _in_lists(photos, few, batch_size), threads + batch_size // few)
    parts: list[EmbeddedBatch[T]] = []
    n_photos = 0
    for some, found in ahead:
        parts.append(found)
        n_photos += len(some)
        if n_photos == batch_size:
            yield _joined(parts)
            parts, n_photos = [], 0
    if parts:
        yield _joined(parts)


def _in_lists(photos: Iterable[T], few: int, batch_size: int) -> Iterator[list[T]]:
    """Lists of so few photos; none is part of two batches."""
    rest = iter(photos)
    while batch := list(itertools.islice(rest, batch_size)):
        for start in range(0, len(batch), few):
            yield batch[start : start + few]


def _joined(parts: list[EmbeddedBatch[T]]) -> EmbeddedBatch[T]:
    return EmbeddedBatch(
        np.concatenate([part.embeddings for part in parts]),
        [photo for part in parts for photo in part.photos],
        [skipped for part in parts for skipped in part.skipped],
    )


def _ahead(
    pool: ThreadPoolExecutor,
    work: Callable[[T], R],
    items: Iterable[T],
    n_ahead: int,
) -> Iterator[tuple[T, R]]:
    """Items with the results of `work`, in order, with `n_ahead` of them under way."""
    waiting: deque[tuple[T, Future[R]]] = deque()
    for item in items:
        waiting.append((item, pool.submit(work, item)))
        if len(waiting) > n_ahead:
            first, result = waiting.popleft()
            yield first, result.result()
    for item, result in waiting:
        yield item, result.result()


def _embedded(
    batch: list[tuple[T, Array | str]], embed: Callable[[Array], Array], n_features: int
) -> EmbeddedBatch[T]:
    skipped = [(photo, result) for photo, result in batch if isinstance(result, str)]
    pixels = [result for _, result in batch if not isinstance(result, str)]
    photos = [photo for photo, result in batch if not isinstance(result, str)]
    if not pixels:
        return EmbeddedBatch(np.empty((0, n_features), np.float32), [], skipped)
    embeddings = np.asarray(embed(np.stack(pixels)), np.float32)
    if embeddings.shape != (len(pixels), n_features):
        raise ValueError(
            f"The backbone gave embeddings of shape {embeddings.shape} for {len(pixels)} photos; "
            f"expected {(len(pixels), n_features)}."
        )
    return EmbeddedBatch(embeddings, photos, skipped)


def _n_decoders() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_DECODERS)
