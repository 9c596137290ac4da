"""How much two photos look alike: the cosine of their embeddings, after a square root where there is one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlda._internal.arrays import Array

SAME = 0.95  # of two that are nearly the same picture
ALIKE = 0.8  # of two that are of one thing, as far as a person would look at them together


def directions(embeddings: Array) -> Array:
    """Embeddings (n, d) as directions of length 1, whose products say how much they are alike.

    >>> (directions(np.array([[4.0, 0.0], [9.0, 16.0]])) @ np.array([5.0, 0.0])).round(3)
    array([5., 3.])
    """
    embeddings = np.asarray(embeddings, np.float32)
    is_positive = (embeddings >= 0).all(axis=1, keepdims=True)
    found = np.where(is_positive, np.sqrt(np.maximum(embeddings, 0.0)), embeddings)
    lengths: Array = np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
    return found / lengths


def unlike(embeddings: Sequence[Array]) -> list[int]:
    """Places of embeddings such that each of the others is nearly the same as one of these.

    >>> unlike([np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([1.0, 0.01])])
    [0, 1]
    """
    found: list[int] = []
    known = directions(np.stack(embeddings))
    for place, direction in enumerate(known):
        if not found or float((known[found] @ direction).max()) < SAME:
            found.append(place)
    return found
