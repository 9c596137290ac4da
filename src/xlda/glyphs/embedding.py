"""Embeddings of characters: drawn in one thread while the network is at work in others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from xlda._internal.arrays import Array
from xlda.glyphs.glyph_set import GlyphSet, Sample
from xlda.photos.embedding import Embedder

BATCH = 32  # images drawn while as many are embedded


def embed_glyphs(
    glyphs: GlyphSet,
    samples: list[Sample],
    backbone: Embedder,
    *,
    size: int = 96,
    progress: Callable[[int], object] | None = None,
) -> Array:
    """Embeddings (n, d), float32, of the samples, drawn `size` pixels wide.

    `progress` is called with the number of images done since its last call.
    """
    embeddings = np.empty((len(samples), backbone.n_features), np.float32)
    start = 0
    for pixels in _drawn(glyphs, samples, backbone, size):
        embeddings[start : start + len(pixels)] = backbone.embed(pixels)
        start += len(pixels)
        if progress is not None:
            progress(len(pixels))
    return embeddings


def _drawn(glyphs: GlyphSet, samples: list[Sample], backbone: Embedder, size: int) -> Iterator[Array]:
    """Pixels of the samples, batch after batch; the next one is being drawn meanwhile."""

    def draw(start: int) -> Array:
        some = samples[start : start + BATCH]
        return np.stack([backbone.prepare(glyphs.render(sample, size)) for sample in some])

    if not samples:
        return
    pool = ThreadPoolExecutor(1, thread_name_prefix="xlda-drawing")
    try:
        coming = pool.submit(draw, 0)
        for start in range(BATCH, len(samples), BATCH):
            pixels, coming = coming.result(), pool.submit(draw, start)
            yield pixels
        yield coming.result()
    finally:
        pool.shutdown(cancel_futures=True)
