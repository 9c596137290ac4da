"""How samples near a query vary, by rows of the nearest classes, and what that makes of its distances.

For a candidate k, S is (Y' Y + a Y_k' Y_k + m I) / (r + a r_k + m): of Y, the rows of all the nearest, which
are worth r samples, of its own once more, and of a prior worth m samples that they vary as all others do. All
of the nearest have as much once more, which is what the poorest of them is worth: so nobody is favoured.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.one_thread import inner_products
from xlda._internal.small_factors import inverse_factors

PRIOR = 200.0  # samples that the common covariance is worth
ROUNDING = 1e-6  # of all squares of some rows: what products of these may be off


class NearSpread(NamedTuple):
    """By S of each candidate, (n, k)."""

    scale: Array  # samples that S tells of
    squares: Array  # u' S^-1 u, times m over the scale
    of_rows: Array  # the trace of S^-1 Y_k' Y_k, over the scale
    of_common: Array  # that of m S^-1, over the scale


def near_spread(Y: Array, u: Array, squares: Array, worth: Array, is_there: Array) -> NearSpread:
    """Of rows Y (n, nearest, n_rows, p), zero where none are known, and distances u (n, k, p).

    `squares` are those of the distances, `worth` (n, k) what rows of each candidate are worth, of which the
    nearest come first; `is_there` (n, nearest) says which of these there are.
    """
    n, nearest, n_rows, width = Y.shape
    rows, near = Y.reshape(n, -1, width), slice(nearest)
    products = inner_products(rows, u)
    factor = inverse_factors(_inner(rows))
    across = factor.transpose(0, 2, 1)
    inverse = inner_products(across, across)
    of_each = 1.0 - PRIOR * np.einsum("nrr->nr", inverse).astype(np.float64)
    of_each = of_each.reshape(n, nearest, n_rows).sum(axis=2)
    of_all, total = of_each.sum(axis=1, keepdims=True), worth[:, near].sum(axis=1, keepdims=True)
    # Rows of those that are not among the nearest are taken for such as these have, on average.
    of_rows = of_all / np.maximum(total, 1.0) * worth
    of_rows[:, near] = of_each
    found = NearSpread(
        np.repeat(total + PRIOR, worth.shape[1], axis=1),
        squares - np.square(inner_products(factor, products.transpose(0, 2, 1))).sum(axis=1),
        of_rows,
        np.repeat(width - of_all, worth.shape[1], axis=1),
    )
    least = np.where(is_there, worth[:, near], np.inf).min(axis=1, keepdims=True)
    least[~np.isfinite(least)] = 0.0
    if least.any():
        share = np.divide(least, worth[:, near], out=np.zeros_like(worth[:, near]), where=worth[:, near] > 0)
        less = _once_more(inverse, products[:, :, near], share)
        found.scale[:, near] += least
        for whole, part in zip(found[1:], less, strict=True):
            whole[:, near] -= part
    return found


def _once_more(inverse: Array, products: Array, share: Array) -> tuple[Array, Array, Array]:
    """How much less squares and both traces are with so much of the own rows once more, (n, nearest) each.

    `inverse` (n, rows, rows) is that of Y Y' + m I, and `products` (n, rows, nearest) are Y u.
    """
    n, nearest = share.shape
    by_class = inverse.reshape(n, nearest, -1, inverse.shape[1])
    n_rows = by_class.shape[2]
    mine = np.stack([by_class[:, k, :, k * n_rows : (k + 1) * n_rows] for k in range(nearest)], axis=1)
    squared = by_class @ by_class.transpose(0, 1, 3, 2)
    pull = by_class @ products.transpose(0, 2, 1)[:, :, :, None]
    identity, part = np.eye(n_rows, dtype=mine.dtype), share[:, :, None, None].astype(mine.dtype)
    told = identity - mine.dtype.type(PRIOR) * mine  # Y_k (Y' Y + m I)^-1 Y_k'
    turned = part * np.linalg.inv(identity + part * told)
    return (
        PRIOR * (pull * (turned @ pull)).sum(axis=(2, 3)),
        (told * (turned @ told)).sum(axis=(2, 3)),
        PRIOR * (turned * (mine - mine.dtype.type(PRIOR) * squared)).sum(axis=(2, 3)),
    )


def _inner(Y: Array) -> Array:
    """Y Y' + m I of each; a little more than m where rows are so long that rounding would hide it."""
    inner = inner_products(Y, Y)
    added = PRIOR + ROUNDING * np.einsum("nrr->n", inner)
    inner += added[:, None, None] * np.eye(Y.shape[1], dtype=Y.dtype)
    return inner
