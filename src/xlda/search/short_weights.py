"""Weights as whole numbers of 16 bits or of 8: less memory, and read nearly as fast as float32.

NumPy takes far longer to make float32 of float16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from xlda._internal.arrays import Array, Rows
from xlda._internal.one_thread import times_vector

FAR_LARGER = 4.0  # times the largest entry of a column: one that would cost the others too many digits
ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class ShortWeights:
    """Weights (n_rows, width): numbers * scale.

    >>> short = ShortWeights.of(np.array([[1.0, -200.0], [0.5, 100.0]], np.float32))
    >>> short.scores(np.array([2.0, 0.01], np.float32)).round(3)
    array([0., 2.], dtype=float32)
    """

    numbers: Array  # (n_rows, width), int16 or int8
    scale: Array  # (width,): of each column, so that its largest entry is the largest number

    @classmethod
    def of(cls, weights: Array, kind: DTypeLike = np.int16) -> ShortWeights:
        """Weights, rounded: each by at most a 65,534th of the largest of its column; a 254th, as int8."""
        largest = np.maximum(weights.max(axis=0, initial=0.0), -weights.min(axis=0, initial=0.0))
        largest = largest.astype(np.float32)
        scale = np.where(largest > 0, largest / np.iinfo(kind).max, np.float32(1.0))
        return cls(_rounded(weights, scale, np.dtype(kind)), scale)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n_rows, n_columns = self.numbers.shape
        return n_rows, n_columns

    @property
    def nbytes(self) -> int:
        """Memory."""
        return self.numbers.nbytes + self.scale.nbytes

    def whole(self) -> Array:
        """As they were, but for the rounding."""
        weights: Array = self.numbers * self.scale
        return weights

    def scores(self, queries: Array) -> Array:
        """Products of queries (n, width) or (width,) and all rows, (n, n_rows) or (n_rows,)."""
        scaled = queries * self.scale
        products = np.empty((*queries.shape[:-1], len(self)), scaled.dtype)
        for start in range(0, len(self), ROWS_AT_ONCE):
            block = slice(start, start + ROWS_AT_ONCE)
            products[..., block] = scaled @ self.numbers[block].astype(scaled.dtype).T
        return products

    def scores_of(self, query: Array, rows: Rows) -> Array:
        """Products of one query (width,) and some rows."""
        scaled = query * self.scale
        return times_vector(self.numbers.take(rows, axis=0).astype(scaled.dtype), scaled)

    def __getitem__(self, rows: Rows | slice) -> ShortWeights:
        return ShortWeights(self.numbers[rows], self.scale)

    def with_rows(self, other: Array, rows: Rows, n_rows: int) -> ShortWeights | None:
        """`n_rows` rows: those that are here, but `rows` from the other; None where these are far larger.

        A column with a larger entry than it had is rounded anew, with room for twice that.
        """
        needed = np.abs(other).max(axis=0, initial=0.0) / np.iinfo(self.numbers.dtype).max
        if (needed > FAR_LARGER * self.scale).any():
            return None
        wider = np.flatnonzero(needed > self.scale)
        scale = self.scale.copy()
        scale[wider] = 2 * needed[wider]
        numbers = np.zeros((n_rows, self.shape[1]), self.numbers.dtype)
        numbers[: len(self)] = self.numbers
        if len(wider):
            numbers[: len(self), wider] = np.rint(self.numbers[:, wider] * (self.scale / scale)[wider])
        numbers[rows] = _rounded(other, scale, numbers.dtype)
        return ShortWeights(numbers, scale)


def _rounded(weights: Array, scale: Array, kind: np.dtype[Any]) -> Array:
    numbers, most = np.empty(weights.shape, kind), np.iinfo(kind).max
    for start in range(0, len(weights), ROWS_AT_ONCE):
        block = slice(start, start + ROWS_AT_ONCE)
        numbers[block] = np.clip(np.rint(weights[block] / scale), -most, most)
    return numbers
