"""Coordinates in which the best class is the nearest one, those first in which the classes differ most.

With P = L L^T the inverse of the covariance, z = L^T x has unit variance within every class, and the score of
a class is z . m - |m|^2 / 2 with its mean m in the same coordinates: half of |z|^2 less the squared distance.
Turned so that the directions in which the means spread most come first (Fisher's discriminants), a short
prefix of the coordinates already tells most classes apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from xlda._internal.arrays import Array
from xlda.search.class_rows import Columns
from xlda.search.protocol import Classes

SAMPLE = 4096  # classes that the directions are computed from


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The first p of them, as linear maps."""

    of_queries: Array  # (d, p): x @ of_queries
    of_weights: Array  # (d, p): weights @ of_weights are the coordinates of the class mean
    spread: Array  # (p,): mean square of the class means in each, in units of the variance within a class

    def first(self, n: int) -> Coordinates:
        """The first `n` of these."""
        return Coordinates(*(np.ascontiguousarray(part[..., :n]) for part in vars(self).values()))


def fisher_coordinates(classes: Classes, n_coordinates: int, seed: int = 0) -> Coordinates:
    """The `n_coordinates` directions in which the means of `classes` spread most. Costs O(d^3)."""
    from scipy.linalg import solve_triangular

    d, dtype = len(classes.centre), classes.centre.dtype
    factor = _factor(classes.inverse.astype(np.float64))
    rows = np.flatnonzero(classes.rows.live)
    if len(rows) > SAMPLE:
        rows = np.sort(np.random.default_rng(seed).choice(rows, SAMPLE, replace=False))
    white = solve_triangular(factor, classes.rows.weights[rows].T.astype(np.float64), lower=True)
    scatter = white @ white.T / max(len(rows), 1)
    spread, turn = _largest(scatter, min(n_coordinates, d))
    turn, spread = turn[:, ::-1], spread[::-1]
    of_weights = solve_triangular(factor, turn, lower=True, trans="T")
    return Coordinates((factor @ turn).astype(dtype), of_weights.astype(dtype), np.maximum(spread, 0.0))


def nearness(points: Array, priors: Array, edges: Sequence[int]) -> list[Columns]:
    """What columns of `points` say of how near each class is, from each edge to the next."""
    parts = []
    for start, stop in pairwise(edges):
        some = np.ascontiguousarray(points[:, start:stop])
        offsets = -0.5 * np.einsum("ij,ij->i", some, some)
        parts.append(Columns(some, offsets if start else offsets + priors))
    return parts


def _factor(inverse: Array) -> Array:
    """Lower triangle L with L L^T = inverse, or nearly so where rounding has made that impossible."""
    from scipy.linalg import LinAlgError, cholesky

    jitter = 0.0
    mean = float(np.trace(inverse)) / len(inverse)
    while True:
        try:
            lower: Array = cholesky(inverse + jitter * np.eye(len(inverse)), lower=True)
            return lower
        except LinAlgError:
            jitter = max(10 * jitter, 1e-7 * mean)


def _largest(matrix: Array, n: int) -> tuple[Array, Array]:
    """The `n` largest eigenvalues, in ascending order, and their vectors."""
    from scipy.linalg import LinAlgError, eigh

    d = len(matrix)
    try:
        values, vectors = eigh(matrix, subset_by_index=(d - n, d - 1))
    except LinAlgError:  # this way may fail where many values are equal
        values, vectors = eigh(matrix, driver="evd")
    return values[-n:], vectors[:, -n:]
