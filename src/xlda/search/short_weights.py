"""Weights as whole numbers of 16 bits: half the memory, and read nearly as fast as float32.

NumPy takes far longer to make float32 of float16.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.one_thread import times_vector

MOST = 32_767
ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class ShortWeights:
    """Weights (n_rows, width): numbers * scale.

    >>> short = ShortWeights.of(np.array([[1.0, -200.0], [0.5, 100.0]], np.float32))
    >>> short.scores(np.array([2.0, 0.01], np.float32)).round(3)
    array([0., 2.], dtype=float32)
    """

    numbers: Array  # (n_rows, width), int16
    scale: Array  # (width,): of each column, so that its largest entry is the largest number

    @classmethod
    def of(cls, weights: Array) -> ShortWeights:
        """Weights, rounded: each by at most a 65,534th of the largest of its column."""
        largest = np.maximum(weights.max(axis=0, initial=0.0), -weights.min(axis=0, initial=0.0))
        largest = largest.astype(np.float32)
        scale = np.where(largest > 0, largest / MOST, np.float32(1.0))
        return cls(_rounded(weights, scale), scale)

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

    def __getitem__(self, rows: Rows) -> ShortWeights:
        return ShortWeights(self.numbers[rows], self.scale)

    def with_rows(self, other: Array, rows: Rows, n_rows: int) -> ShortWeights | None:
        """`n_rows` rows: those that are here, but `rows` from the other; None where these are too large."""
        if other.size and (np.abs(other) > (MOST + 0.5) * self.scale).any():
            return None
        numbers = np.zeros((n_rows, self.shape[1]), np.int16)
        numbers[: len(self)] = self.numbers
        numbers[rows] = _rounded(other, self.scale)
        return ShortWeights(numbers, self.scale)


def _rounded(weights: Array, scale: Array) -> Array:
    numbers = np.empty(weights.shape, np.int16)
    for start in range(0, len(weights), ROWS_AT_ONCE):
        block = slice(start, start + ROWS_AT_ONCE)
        numbers[block] = np.clip(np.rint(weights[block] / scale), -MOST, MOST)
    return numbers
