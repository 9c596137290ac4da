"""Products with weights that may be kept as float16, which no BLAS multiplies."""

from __future__ import annotations

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.one_thread import times_vector

ROWS_AT_ONCE = 4096


def times_weights(points: Array, weights: Array) -> Array:
    """`points @ weights.T` for points (n, d) or (d,) and weights (m, d), in the precision of the points.

    >>> times_weights(np.array([1.0, 2.0]), np.array([[3.0, 4.0], [5.0, 6.0]], np.float16))
    array([11., 17.])
    """
    if weights.dtype == points.dtype:
        product: Array = times_vector(weights, points) if points.ndim == 1 else points @ weights.T
        return product
    product = np.empty((*points.shape[:-1], len(weights)), points.dtype)
    for start in range(0, len(weights), ROWS_AT_ONCE):
        block = slice(start, start + ROWS_AT_ONCE)
        product[..., block] = points @ weights[block].astype(points.dtype).T
    return product
