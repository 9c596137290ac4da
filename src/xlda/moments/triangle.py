"""A symmetric matrix by its upper triangle, in panels of columns, which take little more than half of it."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from xlda._internal.arrays import Array, mirror

WIDEST = 352  # columns of a panel
ALIGNED = 16  # columns: what begins at a multiple of this is multiplied faster


class Panel(NamedTuple):
    """Columns from `first` on: their rows down to the diagonal, and zeros in what is left of its block."""

    first: int
    values: Array  # (first + width, width), in Fortran order

    @property
    def last(self) -> int:
        """The column after the last one."""
        return len(self.values)

    def split(self, n: int) -> list[Panel]:
        """The same as about n narrower ones, in the same memory."""
        width = -(-self.values.shape[1] // (n * ALIGNED)) * ALIGNED
        starts = range(0, self.values.shape[1], width)
        return [
            Panel(self.first + start, self.values[: self.first + start + width, start : start + width])
            for start in starts
        ]


class Triangle:
    """A symmetric matrix (d, d) of float64.

    >>> triangle = Triangle.of(np.array([[1.0, 2.0], [2.0, 3.0]]))
    >>> triangle += triangle.copy()
    >>> triangle.matrix()
    array([[2., 4.],
           [4., 6.]])
    """

    def __init__(self, d: int) -> None:
        self.d = d
        self.panels = [
            Panel(first, np.zeros((last, last - first), order="F")) for first, last in pairwise(edges(d))
        ]

    @classmethod
    def of(cls, matrix: Array) -> Self:
        """That of a symmetric matrix."""
        triangle = cls(len(matrix))
        for first, values in triangle.panels:
            last = len(values)
            values[:first] = matrix[first:last, :first].T
            values[first:] = np.triu(matrix[first:last, first:last])
        return triangle

    def matrix(self) -> Array:
        """All of it, (d, d), in memory of its own."""
        matrix = np.empty((self.d, self.d))
        for first, values in self.panels:
            matrix[first : len(values), : len(values)] = values.T  # on and below the diagonal
        mirror(matrix)
        return matrix

    @property
    def nbytes(self) -> int:
        """Memory."""
        return sum(panel.values.nbytes for panel in self.panels)

    def copy(self) -> Self:
        """The same in memory of its own."""
        other = type(self).__new__(type(self))
        other.d = self.d
        other.panels = [Panel(panel.first, panel.values.copy(order="F")) for panel in self.panels]
        return other

    def clear(self) -> None:
        """Be zero."""
        for panel in self.panels:
            panel.values[:] = 0.0

    def __iadd__(self, other: Triangle) -> Self:
        for mine, theirs in zip(self.panels, other.panels, strict=True):
            mine.values[:] += theirs.values
        return self

    def __isub__(self, other: Triangle) -> Self:
        for mine, theirs in zip(self.panels, other.panels, strict=True):
            mine.values[:] -= theirs.values
        return self


def edges(d: int) -> list[int]:
    """Where panels of d columns begin, all about as wide, and the end.

    >>> edges(1280)
    [0, 320, 640, 960, 1280]
    """
    n = -(-d // WIDEST)
    width = -(-d // (max(n, 1) * ALIGNED)) * ALIGNED
    return [*range(0, d, width or 1), d]
