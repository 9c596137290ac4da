"""Search by looking at every class: one matrix product."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.search.class_rows import ClassRows, Columns
from xlda.search.protocol import AnyClasses, Changed, Index
from xlda.search.ranking import best_columns

SCORES_AT_ONCE = 2**23  # entries of the largest block of scores


@dataclass(frozen=True)
class Dense:
    """Score every class: exact, and the fastest way where they are few."""

    def index(self, classes: AnyClasses, previous: Index | None = None) -> DenseIndex:
        """Nothing is to be done."""
        return DenseIndex(classes.rows)


@dataclass(frozen=True, eq=False)
class DenseIndex:
    """The classes as they are."""

    rows: ClassRows
    nbytes = 0

    def top(self, queries: Array, k: int, without: Rows) -> tuple[Rows, Array]:
        """See `Index`. Works in blocks, so that memory does not grow with queries times classes."""
        found = np.empty((len(queries), k), np.intp)
        best = np.empty((len(queries), k), queries.dtype)
        step = max(1, SCORES_AT_ONCE // max(len(self.rows), 1))
        for start in range(0, len(queries), step):
            block = slice(start, start + step)
            scores = self.rows.scores(queries[block])
            if len(without):
                scores[:, without] = -np.inf
            found[block], best[block] = best_columns(scores, k)
        return found, best

    def shortlists(self, queries: Array, k: int, without: Rows) -> Iterable[Rows]:
        """See `Index`."""
        every = np.setdiff1d(np.arange(len(self.rows)), without)
        return (every for _ in queries)

    def scores(self, queries: Array, without: Rows) -> None:
        """See `Index`."""

    def updated(self, changed: Changed) -> DenseIndex:
        """See `Index`."""
        return DenseIndex(self.rows.with_rows(changed.as_scored, changed.rows, changed.n_rows))

    def columns(self) -> list[Columns] | None:
        """See `InColumns`."""
        parts = self.rows.parts
        return [Columns(parts[0], self.rows.bias, self.rows.squares)] if len(parts) == 1 else None

    def describe(self) -> dict[str, Any]:
        """See `Index`."""
        return {"search": "dense"}
