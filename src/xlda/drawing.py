"""Queries drawn from a model, as they may well come."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, eigh, solve

from xlda.arrays import Array, Rows
from xlda.moments import Moments

MOST_MEANS = 8192  # that the spread of the class means is estimated from


def drawn_queries(
    moments: Moments, centre: Array, n: int, rng: np.random.Generator, among: Rows | None = None
) -> tuple[Array, Rows]:
    """`n` embeddings less `centre`, (n, d), of classes drawn at random, and their rows (n,).

    The classes are all that have samples, or those of the rows `among`.

    A class mean known from few samples is off by as much as those scatter, and drawing around it would give
    queries that are far too easy. So the true mean is drawn first: with S the covariance within classes, T
    that of the true means and k samples a class, the learned means scatter by B = T + S / k. Given one
    of them, m, a new sample is normal with mean T B^-1 m and covariance T - T B^-1 T + S. Costs O(d^3).
    """
    counts = moments.counts
    seen = np.flatnonzero(counts)
    within = moments.covariance()
    some = seen if len(seen) <= MOST_MEANS else rng.choice(seen, MOST_MEANS, replace=False)
    means = moments.means_from(centre, some).astype(np.float64)
    learned = means.T @ means / len(some)
    size = np.trace(learned) + np.trace(within) or float(np.square(centre, dtype=np.float64).sum())
    floor = 1e-6 * size / len(learned) or 1.0
    learned[np.diag_indices_from(learned)] += floor
    true = _without_negative(learned - within * np.mean(1.0 / np.maximum(counts[some], 1.0)))
    towards: Array = solve(learned, true, assume_a="pos")
    spread = _without_negative(true - true @ towards + within)
    spread[np.diag_indices_from(spread)] += floor
    chosen = rng.choice(seen if among is None else among, n)
    noise = rng.standard_normal((n, len(learned))) @ cholesky(spread)
    queries: Array = moments.means_from(centre, chosen) @ towards + noise
    return queries.astype(moments.dtype), chosen


def _without_negative(matrix: Array) -> Array:
    """The nearest matrix that is a covariance."""
    values, vectors = eigh((matrix + matrix.T) / 2)
    nearest: Array = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return nearest
