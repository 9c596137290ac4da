"""The point that class means are kept relative to."""

from __future__ import annotations

import numpy as np

from xlda._internal.arrays import Array

FIRST = 128  # embeddings that it is chosen from
OFFSET = 8  # times its spread: a feature further from zero needs an origin


def origin_for(embeddings: Array) -> Array:
    """Zero; where some feature is far from it for its spread, a point far from no sample but outliers."""
    some = embeddings[:FIRST]
    median: Array = np.median(some, axis=0)
    spread = np.abs(some - median).mean(axis=0)
    return median if (np.abs(median) > OFFSET * spread).any() else np.zeros_like(median)
