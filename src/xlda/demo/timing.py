"""Where the time goes: drawing an image, embedding it, predicting what it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from xlda.classifier import XLDA
from xlda.demo.characters import SIZE, DrawnCharacters

CALLS = {"draw": 100, "embed": 60, "predict": 300}  # of which the median counts
BATCH = 128  # images
REPEATS = 5  # of a batch


def time_steps(model: XLDA, data: DrawnCharacters) -> dict[str, float]:
    """Seconds for one image: each step by itself, and as one of a batch."""
    samples = [data.test.samples[n % len(data.test.samples)] for n in range(BATCH)]
    rows = [n % len(data.test.labels) for n in range(CALLS["predict"])]
    some = data.test.embeddings[np.arange(BATCH) % len(data.test.embeddings)]
    images = np.stack([np.asarray(data.glyphs.render(sample, SIZE)) for sample in samples])
    ones = [data.test.embeddings[row : row + 1] for row in rows]

    def draw(number: int) -> None:
        data.glyphs.render(samples[number], SIZE)

    seconds = {"draw": _median(draw, range(CALLS["draw"]))}
    embed = data.backbone.embed
    seconds["embed"] = _median(embed, (images[n : n + 1] for n in range(CALLS["embed"])))
    seconds["embed_in_batch"] = _median(embed, [images] * REPEATS) / BATCH
    seconds["predict"] = _median(model.predict, ones)
    seconds["predict_in_batch"] = _median(model.predict, [some] * REPEATS) / BATCH
    return seconds


def _median(work: Callable[[Any], object], inputs: Iterable[Any]) -> float:
    """Of the seconds that calls take, the first left out: it warms up."""
    seconds = []
    for value in inputs:
        start = time.perf_counter()
        work(value)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds[1:]))
