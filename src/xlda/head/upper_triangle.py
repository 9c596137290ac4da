"""An upper triangle in panels of columns, which take little more than half of what the whole matrix does."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.one_thread import few_times
from xlda.moments.triangle import Panel, edges

AT_ONCE = 32  # columns that are solved at once


@dataclass(frozen=True, eq=False)
class UpperTriangle:
    """A matrix U (d, d) of which nothing but zeros is below the diagonal, and none of these is on it.

    >>> upper = UpperTriangle.of(np.array([[2.0, 1.0], [0.0, 4.0]]))
    >>> upper.under(np.array([[1.0, 1.0]]))
    array([[2., 5.]])
    >>> upper @ np.array([[1.0], [1.0]])
    array([[3.],
           [4.]])
    >>> upper.solved(np.array([[3.0, 4.0]]))
    array([[1., 1.]])
    """

    d: int
    panels: tuple[Panel, ...]
    inverses: Array  # (d, AT_ONCE): of the small blocks on the diagonal, transposed, one below the other

    @classmethod
    def of(cls, matrix: Array, dtype: np.dtype[Any] | None = None) -> UpperTriangle:
        """That of a square matrix, in memory of its own."""
        panels, inverses = [], np.zeros((len(matrix), AT_ONCE), dtype or matrix.dtype)
        for first, last in pairwise(edges(len(matrix))):
            values = np.array(matrix[:last, first:last], dtype, order="F")
            values[first:] = np.triu(values[first:])
            panels.append(Panel(first, values))
            for some in _pieces(last - first):
                inverse = np.linalg.inv(values[first:][some, some])
                inverses[first:last][some, : len(inverse)] = inverse.T
        return cls(len(matrix), tuple(panels), inverses)

    def matrix(self) -> Array:
        """All of it, (d, d)."""
        matrix = np.zeros((self.d, self.d), self.dtype)
        for panel in self.panels:
            matrix[: panel.last, panel.first : panel.last] = panel.values
        return matrix

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its numbers."""
        return self.inverses.dtype

    @property
    def nbytes(self) -> int:
        """Memory."""
        return self.inverses.nbytes + sum(panel.values.nbytes for panel in self.panels)

    def under(self, rows: Array) -> Array:
        """`rows` @ U, (n, d), by one thread where there are but a few of them."""
        product = np.empty((len(rows), self.d), self.dtype)
        for panel in self.panels:
            product[:, panel.first : panel.last] = few_times(rows[:, : panel.last], panel.values)
        return product

    def __matmul__(self, columns: Array) -> Array:
        product = np.zeros(columns.shape, self.dtype)
        for panel in self.panels:
            product[: panel.last] += few_times(columns[panel.first : panel.last].T, panel.values.T).T
        return product

    def solved(self, rows: Array) -> Array:
        """The rows (n, d) that `@ U.T` turns into these, from the last panel to the first."""
        solved = np.array(rows, self.dtype, order="C")
        for first, values in reversed(self.panels):
            here = solved[:, first : len(values)]
            _solve(here, values[first:], self.inverses[first : len(values)])
            solved[:, :first] -= few_times(here, values[:first].T)
        return solved


def _solve(rows: Array, block: Array, inverses: Array) -> None:
    """The same by a block on the diagonal, in the memory of `rows`, some columns at a time."""
    for some in reversed(_pieces(len(block))):
        rows[:, some] = rows[:, some] @ inverses[some, : some.stop - some.start]
        rows[:, : some.start] -= rows[:, some] @ block[: some.start, some].T


def _pieces(width: int) -> list[slice]:
    """Columns of a panel that are solved at once, from the first to the last."""
    return [slice(start, min(start + AT_ONCE, width)) for start in range(0, width, AT_ONCE)]
