"""The data: characters, drawn in one thread while the network embeds them in others."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from xlda import backbones
from xlda.arrays import Array
from xlda.backbones import Backbone
from xlda.glyphs import GlyphSet, Sample, find_glyphs
from xlda.progress import Progress

SIZE = 96  # pixels a side
BATCH = 32  # images drawn while as many are embedded


class Part(NamedTuple):
    """Some images: what each was drawn from, embeddings (n, d), and labels (n,)."""

    samples: list[Sample]
    embeddings: Array
    labels: Array

    def of(self, labels: Array) -> Part:
        """Those of some classes."""
        rows = np.flatnonzero(np.isin(self.labels, labels))
        return Part([self.samples[row] for row in rows], self.embeddings[rows], self.labels[rows])


class Characters(NamedTuple):
    """All images, to learn and to test; `order` is that in which the classes come."""

    glyphs: GlyphSet
    backbone: Backbone
    order: Array
    train: Part
    test: Part


def draw_and_embed(n_classes: int, per_class: tuple[int, int], seed: int, progress: bool) -> Characters:
    """Draw so many classes, and of each so many images to learn and to test, and embed them all."""
    glyphs = find_glyphs(n_classes=n_classes, seed=seed)
    # The network shall see the whole image, up to its edges.
    backbone = backbones.load("efficientnet-lite0", size=SIZE, resize=SIZE)
    train = glyphs.samples("train", per_class[0], seed=seed)
    test = glyphs.samples("test", per_class[1], seed=seed)
    with Progress(lambda: len(train) + len(test), progress) as bar:
        parts = [_embedded(glyphs, backbone, samples, bar) for samples in (train, test)]
    order = np.random.default_rng(seed).permutation(glyphs.labels)
    return Characters(glyphs, backbone, order, *parts)


def _embedded(glyphs: GlyphSet, backbone: Backbone, samples: list[Sample], bar: Progress) -> Part:
    found = []
    for pixels in _drawn(glyphs, backbone, samples):
        found.append(backbone.embed(pixels))
        bar.advance(len(pixels))
    return Part(samples, np.concatenate(found), np.array([sample.label for sample in samples]))


def _drawn(glyphs: GlyphSet, backbone: Backbone, samples: list[Sample]) -> Iterator[Array]:
    """Pixels of the samples, batch after batch; the next one is being drawn meanwhile."""

    def draw(start: int) -> Array:
        some = samples[start : start + BATCH]
        return np.stack([backbone.prepare(glyphs.render(sample, SIZE)) for sample in some])

    pool = ThreadPoolExecutor(1, thread_name_prefix="xlda-drawing")
    try:
        coming = pool.submit(draw, 0)
        for start in range(BATCH, len(samples), BATCH):
            pixels, coming = coming.result(), pool.submit(draw, start)
            yield pixels
        yield coming.result()
    finally:
        pool.shutdown(cancel_futures=True)
