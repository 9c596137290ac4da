"""The data: characters, drawn and embedded."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xlda import backbones
from xlda._internal.arrays import Array
from xlda._internal.progress import Progress
from xlda.backbones import Backbone
from xlda.glyphs import GlyphSet, Sample, embed_glyphs, find_glyphs

SIZE = 96  # pixels a side


class Part(NamedTuple):
    """Some images: what each was drawn from, embeddings (n, d), and labels (n,)."""

    samples: list[Sample]
    embeddings: Array
    labels: Array

    def of(self, labels: Array) -> Part:
        """Those of some classes."""
        rows = np.flatnonzero(np.isin(self.labels, labels))
        return Part([self.samples[row] for row in rows], self.embeddings[rows], self.labels[rows])


class DrawnCharacters(NamedTuple):
    """All images, to learn and to test; `order` is that in which the classes come."""

    glyphs: GlyphSet
    backbone: Backbone
    order: Array
    train: Part
    test: Part


def draw_and_embed(n_classes: int, per_class: tuple[int, int], seed: int, progress: bool) -> DrawnCharacters:
    """Draw so many classes, and of each so many images to learn and to test, and embed them all."""
    glyphs = find_glyphs(n_classes=n_classes, seed=seed)
    # The network shall see the whole image, up to its edges.
    backbone = backbones.load("efficientnet-lite0", size=SIZE, resize=SIZE, views=1)
    train = glyphs.samples("train", per_class[0], seed=seed)
    test = glyphs.samples("test", per_class[1], seed=seed)
    with Progress(lambda: len(train) + len(test), progress) as bar:
        parts = [_embedded(glyphs, backbone, samples, bar) for samples in (train, test)]
    order = np.random.default_rng(seed).permutation(glyphs.labels)
    return DrawnCharacters(glyphs, backbone, order, *parts)


def _embedded(glyphs: GlyphSet, backbone: Backbone, samples: list[Sample], bar: Progress) -> Part:
    embeddings = embed_glyphs(glyphs, samples, backbone, size=SIZE, progress=bar.advance)
    return Part(samples, embeddings, np.array([sample.label for sample in samples]))
