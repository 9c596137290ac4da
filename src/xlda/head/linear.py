"""A head for those who cannot run it: as arrays that give its scores, and as the linear layer nearest to it.

With plain LDA, and where all classes have as many samples, a head is a linear layer. Otherwise the squares of
a query's coordinates count for more in classes that have fewer samples. About the mean of a class, z^2 is
2 z mu - mu^2 + (z - mu)^2; the first two are linear, and for the third a layer can have one number for each
count. How far queries are from the means of classes that contend for them, s, says which; `docs/math.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.head.bayes_space import BayesSpace
from xlda.head.head import Head
from xlda.head.plain_space import PlainSpace
from xlda.search.class_rows import ClassRows

N_DRAWN = 1024  # queries
N_CANDIDATES = 4  # a query is drawn between a class and the nearest of so many others
FARTHEST = 100.0  # that s may be
QUERIES_AT_ONCE = 64


class ScoringArrays(NamedTuple):
    """Logits are q @ weights.T + bias, and ((q * q) @ curvature)[:, groups], where q is made of embeddings x.

    q = (x - centre) @ rotation. All float64, rows as the model has them.
    """

    centre: Array  # (d,)
    rotation: Array | None  # (d, width); None stands for the identity
    weights: Array  # (n_rows, width)
    bias: Array  # (n_rows,)
    curvature: Array | None  # (width, n_groups); None where squares add the same to all classes
    groups: Rows | None  # (n_rows,)

    def taken(self, rows: Rows) -> ScoringArrays:
        """Some of the rows."""
        groups = None if self.groups is None else self.groups[rows]
        return self._replace(weights=self.weights[rows], bias=self.bias[rows], groups=groups)


class LinearLayer(NamedTuple):
    """Weights (n_rows, n_features) and bias (n_rows,), float64, and how often their best class is another."""

    weights: Array
    bias: Array
    differs: float  # share of queries; 0 where the layer is exact
    n_queries: int


def scoring_arrays(head: Head) -> ScoringArrays:
    """All that is needed to compute the logits of a head, up to what squares add to all of them alike."""
    rows, centre = head.all_rows(), head.centre.astype(np.float64)
    weights, bias = rows.weights.astype(np.float64), rows.bias.astype(np.float64)
    bias -= head.log_total or 0.0
    if isinstance(head.space, PlainSpace):
        common, _ = head.space.common
        bias = bias + 0.5 * float(centre @ common)  # at the centre, what is common to all rows is this
        return ScoringArrays(centre, None, weights + common, bias, None, None)
    rotation, live = head.space.rotation.astype(np.float64), np.isfinite(bias)
    if rows.squares is None or len(np.unique(rows.squares.groups[live])) == 1:
        return ScoringArrays(centre, None, weights @ rotation.T, bias, None, None)
    curvature = np.zeros((len(rows.squares.curvature), weights.shape[1]))
    curvature[:, : head.space.n_coordinates] = rows.squares.curvature
    return ScoringArrays(centre, rotation, weights, bias, curvature.T, rows.squares.groups)


def linear_layer(head: Head, embeddings: Array | None = None) -> LinearLayer:
    """The layer that gives the logits of a head, or comes nearest to it on embeddings, or on drawn ones."""
    arrays = scoring_arrays(head)
    differs, n_queries = 0.0, 0
    if arrays.curvature is not None:
        assert isinstance(head.space, BayesSpace)
        exact = head.all_rows()
        fitted = _Fitted(head.space, exact)
        queries = fitted.drawn() if embeddings is None else head.space.queries(embeddings)
        nearest = fitted.fitted_to(queries, exact)
        differs, n_queries = _difference(nearest, exact, queries), len(queries)
        bias = nearest.bias - (head.log_total or 0.0)
        arrays = arrays._replace(weights=nearest.weights.astype(np.float64), bias=bias)
    weights = arrays.weights if arrays.rotation is None else arrays.weights @ arrays.rotation.T
    return LinearLayer(weights, arrays.bias - weights @ arrays.centre, differs, n_queries)


def not_linear(layer: LinearLayer, given: bool) -> str:
    """What to say of a layer that is not exact."""
    drawn = "drawn from the model, which are easier than real ones; it takes yours as X"
    return (
        "Classes have different numbers of samples, so no layer gives the same scores. The nearest one has "
        f"another best class for {layer.differs:.1%} of {layer.n_queries:,} queries "
        f"{'given' if given else drawn}. An ONNX graph is exact."
    )


class _Fitted:
    """Rows without squares, but for one number s."""

    def __init__(self, space: BayesSpace, rows: ClassRows) -> None:
        assert rows.squares is not None
        self._live, self._groups = np.flatnonzero(rows.live), rows.squares.groups
        n, width = space.n_coordinates, rows.width
        variance = np.ones((len(space.table), width))
        variance[:, :n] = space.table.variance
        sizes = np.bincount(self._groups[self._live], minlength=len(variance))
        shared = sizes @ variance / sizes.sum()
        self._variance = variance
        self._means = rows.weights * variance[self._groups]
        weights = self._means / shared
        squares = (rows.weights * self._means).sum(axis=1) - (self._means * weights).sum(axis=1)
        self._rows = ClassRows((weights,), rows.bias + 0.5 * squares)
        self._gain = 0.5 * (1.0 - shared / variance).sum(axis=1)  # of each group, for each unit of s

    def drawn(self) -> Array:
        """Queries on the way from a class to another that is rather near: for others no class contends."""
        rng = np.random.default_rng(0)
        one = rng.choice(self._live, N_DRAWN)
        others = rng.choice(self._live, (N_CANDIDATES, N_DRAWN))
        distances = [np.square(self._means[one] - self._means[each]).sum(axis=1) for each in others]
        distances = [
            np.where(one == each, np.inf, distance) for each, distance in zip(others, distances, strict=True)
        ]
        other = others[np.argmin(distances, axis=0), np.arange(N_DRAWN)]
        way = rng.random((N_DRAWN, 1))
        mean = way * self._means[one] + (1 - way) * self._means[other]
        spread = way * self._variance[self._groups[one]] + (1 - way) * self._variance[self._groups[other]]
        queries: Array = mean + np.sqrt(spread) * rng.standard_normal(mean.shape)
        return queries.astype(self._rows.bias.dtype)

    def fitted_to(self, queries: Array, exact: ClassRows) -> ClassRows:
        """The rows whose probabilities are nearest to the exact ones on these queries."""
        order = self._live[np.argsort(self._groups[self._live], kind="stable")]
        from scipy.optimize import minimize_scalar
        from scipy.special import logsumexp

        groups, first = np.unique(self._groups[order], return_index=True)

        def by_group(rows: ClassRows) -> Array:
            """Logarithm of the sum over the classes of a group, (n, n_groups)."""
            sums = []
            for scores in _blocks(rows.scores, queries):
                some = scores[:, order].astype(np.float64)
                top = some.max(axis=1, keepdims=True)
                with np.errstate(divide="ignore"):
                    sums.append(np.log(np.add.reduceat(np.exp(some - top), first, axis=1)) + top)
            return np.concatenate(sums)

        linear, wanted, gain = by_group(self._rows), by_group(exact), self._gain[groups]
        share = np.exp(wanted - logsumexp(wanted, axis=1, keepdims=True)).mean(axis=0)

        def cost(s: float) -> float:
            return float(logsumexp(linear + s * gain, axis=1).mean() - s * (share @ gain))

        s = minimize_scalar(cost, bounds=(0.0, FARTHEST), method="bounded").x
        return replace(self._rows, bias=self._rows.bias + s * self._gain[self._groups])


def _difference(one: ClassRows, two: ClassRows, queries: Array) -> float:
    best = [
        np.concatenate([scores.argmax(axis=1) for scores in _blocks(rows.scores, queries)])
        for rows in (one, two)
    ]
    return float(np.mean(best[0] != best[1]))


def _blocks(scores: Callable[[Array], Array], queries: Array) -> Iterator[Array]:
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        yield scores(queries[start : start + QUERIES_AT_ONCE])
