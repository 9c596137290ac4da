"""Factors of many small matrices at once, and inverses of these, by products that NumPy makes of all of them.

LAPACK shares out larger ones, and waits for another core, so these are made of halves, by one thread.
"""

from __future__ import annotations

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.one_thread import inner_products

SMALL = 20  # rows of what is inverted as it is
ALONE = 64  # rows of what LAPACK factors by one thread


def inverse_factors(matrices: Array) -> Array:
    """For symmetric matrices (n, m, m) above nothing: lower triangles J with J' J the inverse of each.

    >>> J = inverse_factors(np.array([[[4.0, 2.0], [2.0, 2.0]]]))
    >>> J[0].T @ J[0]
    array([[ 0.5, -0.5],
           [-0.5,  1. ]])
    """
    m = matrices.shape[1]
    if m <= ALONE:
        return _inverted(np.linalg.cholesky(matrices))
    half = m // 2
    inverse = np.zeros_like(matrices)
    inverse[:, :half, :half] = first = inverse_factors(matrices[:, :half, :half])
    below = inner_products(matrices[:, half:, :half], first)
    rest = matrices[:, half:, half:] - inner_products(below, below)
    inverse[:, half:, half:] = second = inverse_factors(rest)
    across = inner_products(below, first.transpose(0, 2, 1)).transpose(0, 2, 1)
    np.negative(inner_products(second, across), out=inverse[:, half:, :half])
    return inverse


def _inverted(lower: Array) -> Array:
    """Inverses of lower triangles: those of the two halves, and what is between them."""
    n = lower.shape[1]
    if n <= SMALL:
        inverse: Array = np.linalg.inv(lower)
        return inverse
    half = n // 2
    inverse = np.zeros_like(lower)
    inverse[:, :half, :half] = first = _inverted(lower[:, :half, :half])
    inverse[:, half:, half:] = second = _inverted(lower[:, half:, half:])
    np.matmul(second @ lower[:, half:, :half], -first, out=inverse[:, half:, :half])
    return inverse
