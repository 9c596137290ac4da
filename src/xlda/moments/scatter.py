"""A sum of outer products of rows that come a few at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.interrupts import interrupt_afterwards
from xlda.moments.batch_update import shape_of_work
from xlda.moments.rank_k import add_outer_products, shape_of_room
from xlda.moments.triangle import Triangle

WAITING_BYTES = 20 * 2**20  # of rows kept before one rank-k product folds them in
MOST_WAITING = 8192  # rows: a longer float32 sum gains no speed and loses accuracy
LEAST_WAITING = 512  # rows that there is always room for
SOME = 384  # rows that a call with a few samples folds: enough to be worth it, few enough to be short


class Scatter:
    """The sum, (d, d) of float64, and the rows waiting to be folded into it by one symmetric product.

    These take `waiting_bytes` at most, but for some that there is always room for.

    >>> scatter = Scatter(2, np.dtype(np.float64))
    >>> scatter.waiting(1, sign=1)[:] = [1.0, 2.0]
    >>> scatter.matrix()
    array([[1., 2.],
           [2., 4.]])
    """

    def __init__(self, n_features: int, dtype: np.dtype[Any], waiting_bytes: int = WAITING_BYTES) -> None:
        self._dtype = dtype  # of the rows
        self._waiting_bytes = waiting_bytes
        self._total = Triangle(n_features)
        self._rows: Array | None = None
        self._n_rows = 0
        self._sign = 1  # whether the waiting rows are to be added or taken away
        self._memory: Array | None = None  # to work in: fresh pages cost more than what is done in them

    @property
    def nbytes(self) -> tuple[int, int]:
        """Memory of the sum, and of the rows waiting with what making and folding them needs."""
        waiting = sum(part.nbytes for part in (self._rows, self._memory) if part is not None)
        return self._total.nbytes, waiting

    @property
    def most_waiting(self) -> int:
        """Rows that there is room for."""
        capacity = self._waiting_bytes // (self._total.d * self._dtype.itemsize)
        return min(max(capacity, LEAST_WAITING), MOST_WAITING)

    def waiting(self, n_rows: int, sign: int) -> Array:
        """Room for the next rows, (n_rows, d), whose outer products are added (`sign` 1) or taken away (-1).

        `n_rows` is at most `most_waiting`.
        """
        if self._rows is None:
            self._rows = np.empty((self.most_waiting, self._total.d), self._dtype)
        if self._n_rows + n_rows > len(self._rows) or sign != self._sign:
            self.fold()
        self._sign = sign
        start = self._n_rows
        self._n_rows += n_rows
        return self._rows[start : self._n_rows]

    def work(self) -> Array:
        """Memory that a batch is made into rows in, until rows are folded."""
        return self._lent(shape_of_work(self._total.d))

    def fold_some(self) -> None:
        """Bring some of the waiting rows into the sum, if there are that many."""
        if self._n_rows >= SOME:
            self.fold(SOME)

    def fold(self, most: int = MOST_WAITING) -> None:
        """Bring the last `most` waiting rows into the sum, or all of them.

        That is one symmetric rank-k product, shared out among threads.
        """
        if self._rows is None or not self._n_rows:
            return
        first = max(self._n_rows - most, 0)
        room = self._lent(shape_of_room(self._total.d))
        with interrupt_afterwards():  # or the rows would count twice
            add_outer_products(self._rows[first : self._n_rows], self._sign, room, self._total)
            self._n_rows = first

    def matrix(self) -> Array:
        """The sum as a symmetric matrix, (d, d).

        All else is given back first where the matrix takes more: to have it again costs less than that.
        """
        self.fold()
        if self.nbytes[1] < self._total.d**2 * np.dtype(np.float64).itemsize:
            self._let_go()
        return self._total.matrix()

    def copied(self) -> Scatter:
        """The same apart from this one; what waits waits there too, so that it takes little time."""
        other = Scatter.__new__(Scatter)
        other.__dict__.update(self.__dict__, _total=self._total.copy(), _memory=None)
        other._rows = None if self._rows is None else self._rows[: self._n_rows].copy()
        return other

    def saved(self) -> Triangle:
        """A copy of the sum, for `put_back`."""
        self.fold()
        return self._total.copy()

    def put_back(self, saved: Triangle) -> None:
        """Have the sum that was saved; its memory is taken over."""
        self._total, self._n_rows = saved, 0

    def add(self, other: Scatter) -> None:
        """Add all of another sum."""
        other.fold()
        self._total += other._total

    def take_away(self, other: Scatter) -> None:
        """Take all of another sum away."""
        self.fold()
        other.fold()
        self._total -= other._total

    def replace(self, matrix: Array) -> None:
        """Have this symmetric matrix for the sum, and no rows waiting."""
        self._total, self._n_rows = Triangle.of(matrix), 0

    def clear(self) -> None:
        """Be nothing again."""
        self._total.clear()
        self._n_rows = 0

    def widen(self, dtype: np.dtype[Any]) -> None:
        """Take rows of this type from now on."""
        self.fold()
        self._dtype = dtype
        self._let_go()

    def _let_go(self) -> None:
        """Give back the memory of rows, none of which waits, and of working on them."""
        self._rows = self._memory = None

    def _lent(self, shape: tuple[int, ...]) -> Array:
        """Memory for batches or for products, of which there is only one at a time: the same for both."""
        size = math.prod(shape)
        if self._memory is None or self._memory.size < size:
            self._memory = np.empty(size, self._dtype)
        return self._memory[:size].reshape(shape)

    def __getstate__(self) -> dict[str, Any]:
        self.fold()
        return {**self.__dict__, "_rows": None, "_memory": None}
