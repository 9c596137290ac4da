"""What two models have learned alike, class by class."""

from __future__ import annotations

import numpy as np

from xlda._internal.arrays import Array
from xlda.moments.moments import PIECE, Moments


def same_rows(moments: Moments, earlier: Moments) -> Array:
    """Whether each class has the count and the mean that the same row of `earlier` has.

    >>> before, after = Moments(1), Moments(1)
    >>> before.update([[1.0], [3.0]], [0, 1])
    >>> after.update([[1.0], [4.0], [5.0]], [0, 1, 2])
    >>> same_rows(after, before)
    array([ True, False, False])
    """
    is_same, n = np.zeros(moments.n_classes, bool), min(moments.n_classes, earlier.n_classes)
    is_same[:n] = moments.counts_of(slice(n)) == earlier.counts_of(slice(n))
    point = np.zeros(moments.n_features)
    for start in range(0, n, PIECE):
        rows = slice(start, min(start + PIECE, n))
        is_same[rows] &= (moments.means_from(point, rows) == earlier.means_from(point, rows)).all(axis=1)
    return is_same
