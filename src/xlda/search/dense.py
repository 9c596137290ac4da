"""Search by looking at every class: one matrix product."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.half_precision import times_weights
from xlda.search.protocol import Classes, Index
from xlda.search.ranking import best_columns

SCORES_AT_ONCE = 2**23  # entries of the largest block of scores


@dataclass(frozen=True)
class Dense:
    """Score every class: exact, and the fastest way where they are few."""

    def index(self, classes: Classes, previous: Index | None = None) -> DenseIndex:
        """Nothing is to be done."""
        return DenseIndex(classes.weights, classes.bias)


@dataclass(frozen=True, eq=False)
class DenseIndex:
    """The weights as they are."""

    weights: Array
    bias: Array
    nbytes = 0

    def top(self, queries: Array, k: int, without: Rows) -> tuple[Rows, Array]:
        """See `Index`. Works in blocks, so that memory does not grow with queries times classes."""
        rows = np.empty((len(queries), k), np.intp)
        best = np.empty((len(queries), k), queries.dtype)
        step = max(1, SCORES_AT_ONCE // max(len(self.weights), 1))
        for start in range(0, len(queries), step):
            block = slice(start, start + step)
            scores = times_weights(queries[block], self.weights)
            scores += self.bias
            if len(without):
                scores[:, without] = -np.inf
            rows[block], best[block] = best_columns(scores, k)
        return rows, best

    def shortlists(self, queries: Array, k: int, without: Rows) -> Iterable[Rows]:
        """See `Index`."""
        every = np.setdiff1d(np.arange(len(self.weights)), without)
        return (every for _ in queries)

    def scores(self, queries: Array, without: Rows) -> None:
        """See `Index`."""

    def updated(self, classes: Classes, rows: Rows) -> DenseIndex:
        """See `Index`."""
        return DenseIndex(classes.weights, classes.bias)

    def describe(self) -> dict[str, Any]:
        """See `Index`."""
        return {"search": "dense"}
