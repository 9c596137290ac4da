"""How much two photos look alike: the cosine of their embeddings, after a square root where that is possible."""

from __future__ import annotations

import numpy as np

from xlda._internal.arrays import Array

ALIKE = 0.8  # of two that are of one thing, as far as a person would look at them together


def directions(embeddings: Array) -> Array:
    """Embeddings (n, d) as directions of length 1, whose products say how much they are alike.

    >>> directions(np.array([[4.0, 0.0], [1.0, 1.0]])).round(3).tolist()
    [[1.0, 0.0], [0.707, 0.707]]
    """
    embeddings = np.asarray(embeddings, np.float32)
    is_positive = (embeddings >= 0).all(axis=1, keepdims=True)
    found = np.where(is_positive, np.sqrt(np.maximum(embeddings, 0.0)), embeddings)
    lengths: Array = np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
    return found / lengths
