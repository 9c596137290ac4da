"""Samples that come a few at a time, kept until there are enough to be learned as a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlda._internal.arrays import Array

A_FEW = 64  # samples a call; more are a batch of their own
CAPACITY = 256  # samples kept


class SampleBuffer:
    """A buffer of embeddings and their labels, in the order in which they came.

    >>> buffer = SampleBuffer()
    >>> buffer.add(np.array([[1.0, 2.0]]), ["pear"])
    >>> buffer.has_room_for(np.ones((CAPACITY, 2)))
    False
    >>> buffer.samples()
    (array([[1., 2.]]), ['pear'])
    """

    def __init__(self) -> None:
        self._embeddings: Array = np.empty((0, 0))
        self._labels: list[Any] = []
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def has_room_for(self, embeddings: Array) -> bool:
        """Whether these can be added: they are not too many, and of the same type as those that are here."""
        if self._n + len(embeddings) > CAPACITY:
            return False
        return not self._n or embeddings.dtype == self._embeddings.dtype

    def add(self, embeddings: Array, labels: Sequence[Any]) -> None:
        """Keep these too, for which there is room."""
        start, stop = self._n, self._n + len(labels)
        if embeddings.dtype != self._embeddings.dtype or not len(self._embeddings):
            self._embeddings = np.empty((CAPACITY, embeddings.shape[1]), embeddings.dtype)
        self._embeddings[start:stop] = embeddings
        self._labels[start:] = labels
        self._n = stop  # last, so that an interrupt leaves all of them or none

    def samples(self) -> tuple[Array, list[Any]]:
        """All of them. The embeddings are good until the next `add`."""
        return self._embeddings[: self._n], self._labels[: self._n]

    def clear(self) -> None:
        """Have none any more."""
        self._n = 0
