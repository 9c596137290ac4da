"""Queries as they may well come: drawn from a model, or made of samples that were kept."""

from __future__ import annotations

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.lapack import eigenvectors
from xlda.moments import Moments

MOST_MEANS = 8192  # that the spread of the class means is estimated from


class ModelSampler:
    """Where samples of learned classes may lie, relative to `centre`.

    A class mean known from few samples is off by as much as those scatter, and drawing around it would give
    queries that are far too easy. So the true mean is drawn first: with S the covariance within classes, T
    that of the true means and k samples a class, the learned means scatter by B = T + S / k. Given one
    of them, m, the true one is normal with mean T B^-1 m and covariance T - T B^-1 T. To draw from that, a
    true mean t and a learned one l are drawn together as if m were unknown: t + T B^-1 (m - l) is one.
    Costs O(d^3).
    """

    def __init__(self, moments: Moments, centre: Array, rng: np.random.Generator) -> None:
        self._moments, self._centre = moments, centre
        self._seen = np.flatnonzero(moments.counts)
        some = self._seen
        if len(some) > MOST_MEANS:
            some = rng.choice(some, MOST_MEANS, replace=False)
        within = moments.covariance()
        means = moments.means_from(centre, some).astype(np.float64)
        learned = means.T @ means / len(some)
        size = np.trace(learned) + np.trace(within) or float(np.square(centre, dtype=np.float64).sum())
        floor = 1e-6 * size / len(learned) or 1.0
        within[np.diag_indices_from(within)] += floor
        self._within_root = _root(within)
        self._within = self._within_root @ self._within_root
        self._within[np.diag_indices_from(within)] += floor  # so that it can be divided by
        self._true_root = _root(learned - within * self._per_sample(some))
        self._true = self._true_root @ self._true_root

    def queries(self, n: int, rng: np.random.Generator, among: Rows | None = None) -> tuple[Array, Rows]:
        """`n` embeddings less the centre, (n, d), of classes drawn at random, and their rows (n,).

        The classes are all that have samples, or those of the rows `among`.
        """
        among = self._seen if among is None else among
        per_sample = self._per_sample(among)
        chosen = rng.choice(among, n)
        true = rng.standard_normal((n, len(self._true))) @ self._true_root
        learned = true + per_sample**0.5 * self._noise(n, rng)
        off = self._moments.means_from(self._centre, chosen) - learned
        towards = np.linalg.solve(self._true + self._within * per_sample, self._true)
        queries: Array = true + off @ towards + self._noise(n, rng)
        return queries.astype(self._moments.dtype), chosen

    def _noise(self, n: int, rng: np.random.Generator) -> Array:
        """How samples lie around the mean of their class, (n, d)."""
        noise: Array = rng.standard_normal((n, len(self._within))) @ self._within_root
        return noise

    def _per_sample(self, rows: Rows) -> float:
        """1 / k, on average over these rows."""
        return float(np.mean(1.0 / np.maximum(self._moments.counts_of(rows), 1.0)))


def sampled_queries(moments: Moments, centre: Array, n: int, rng: np.random.Generator) -> tuple[Array, Rows]:
    """`n` embeddings less `centre`, (n, d), of learned classes drawn at random, and their rows (n,)."""
    return ModelSampler(moments, centre, rng).queries(n, rng)


def kept_queries(moments: Moments, n: int, rng: np.random.Generator) -> Array:
    """At most `n` of the samples kept for checking, (m, d), as far from the mean of a class as new ones are.

    With a lift, it is features that are given.

    Real samples lie farther out than what is drawn from a model, some of them far farther. One of k that made
    a mean is nearer to it than a new one would be: by sqrt((k - 1) / (k + 1)).
    """
    kept = moments.kept.samples()
    counts = moments.counts_of(kept.rows)
    some = np.flatnonzero(counts >= 2)
    some = np.sort(rng.permutation(some)[:n])
    means = moments.means_from(np.zeros(moments.n_features), kept.rows[some])
    apart = np.sqrt((counts[some] + 1) / (counts[some] - 1))[:, None]
    queries: Array = means + (moments.lifted(kept.embeddings[some]) - means) * apart
    return queries.astype(moments.dtype)


def _root(matrix: Array) -> Array:
    """Symmetric root of the nearest covariance. Unlike eigenvectors it has no sign that rounding may turn."""
    values, vectors = eigenvectors(matrix)
    root: Array = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root
