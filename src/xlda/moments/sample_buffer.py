"""Samples that come a few at a time, kept until there are enough to be learned as a batch."""

from __future__ import annotations

import numpy as np

from xlda._internal.arrays import Array, Rows

A_FEW = 64  # samples a call; more are a batch of their own
CAPACITY = 256  # samples kept


class SampleBuffer:
    """A buffer of embeddings and their rows, in the order in which they came.

    >>> buffer = SampleBuffer()
    >>> buffer.add(np.array([[1.0, 2.0]]), np.array([7]))
    >>> buffer.has_room_for(np.ones((CAPACITY, 2)))
    False
    >>> buffer.take()
    (array([[1., 2.]]), array([7]))
    >>> len(buffer)
    0
    """

    def __init__(self) -> None:
        self._embeddings: Array = np.empty((0, 0))
        self._rows: Rows = np.empty(CAPACITY, np.intp)
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def has_room_for(self, embeddings: Array) -> bool:
        """Whether these can be added: they are not too many, and of the same type as those that are here."""
        if self._n + len(embeddings) > CAPACITY:
            return False
        return not self._n or embeddings.dtype == self._embeddings.dtype

    def add(self, embeddings: Array, rows: Rows) -> None:
        """Keep these too, for which there is room."""
        start, stop = self._n, self._n + len(rows)
        if embeddings.dtype != self._embeddings.dtype or not len(self._embeddings):
            self._embeddings = np.empty((CAPACITY, embeddings.shape[1]), embeddings.dtype)
        self._embeddings[start:stop] = embeddings
        self._rows[start:stop] = rows
        self._n = stop  # last, so that an interrupt leaves all of them or none

    def take(self) -> tuple[Array, Rows]:
        """All of them, and have none any more. They are good until the next `add`."""
        n, self._n = self._n, 0
        return self._embeddings[:n], self._rows[:n]
