"""Rows that changed since the others were computed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from xlda._internal.arrays import Array, Rows


class ClassMeans(Protocol):
    """What rows are made from: the moments, or some of them."""

    def counts_of(self, rows: Rows | slice) -> Array:
        """Samples of each class in `rows`."""
        ...

    def means_from(self, point: Array, rows: Rows | slice) -> Array:
        """Their means less `point`, (n, d)."""
        ...


class NewRows(NamedTuple):
    """Rows as they are now."""

    weights: Array  # (n, width)
    bias: Array  # (n,)
    half_norms: Array  # (n,): half of mean . weights, where a search of plain LDA needs it
    groups: Rows | None = None  # (n,): of classes with as many samples
    apart: Array | None = None  # (n,): whether a row needs coordinates that the settled ones do not have


@dataclass(frozen=True, eq=False)
class ChangedRows:
    """Weights and biases of rows, in the order in which they changed.

    Never changes itself: `extended` gives the next one, which shares the memory of this one as long as there
    is room behind it. The bias of an entry that a later one replaces is -inf.
    """

    log: _Log
    bias: Array  # (n,)

    @classmethod
    def none_of(cls, width: int, dtype: np.dtype[np.floating]) -> ChangedRows:
        """No rows yet, of at most so many coordinates."""
        return cls(_Log.of(0, width, dtype), np.empty(0, dtype))

    def __len__(self) -> int:
        return len(self.bias)

    @property
    def rows(self) -> Rows:
        """Row of each entry, (n,)."""
        return self.log.rows[: len(self)]

    @property
    def weights(self) -> Array:
        """Weights of each entry, (n, width)."""
        return self.log.weights[: len(self)]

    @property
    def half_norms(self) -> Array:
        """Half norm of each entry, (n,)."""
        return self.log.half_norms[: len(self)]

    @property
    def groups(self) -> Rows:
        """Group of each entry, (n,)."""
        return self.log.groups[: len(self)]

    @property
    def apart(self) -> Array:
        """Whether an entry needs coordinates that the settled rows do not have, (n,)."""
        return self.log.apart[: len(self)]

    def extended(self, rows: Rows, new: NewRows) -> ChangedRows:
        """These entries, and after them the new ones. Costs O(n + len(rows) width)."""
        bias = np.concatenate([self.bias, new.bias])
        replaced = self.rows == rows if len(rows) == 1 else np.isin(self.rows, rows)
        bias[: len(self)][replaced] = -np.inf
        return ChangedRows(self.log.extended(len(self), rows, new), bias)

    @cached_property
    def newest(self) -> tuple[Rows, Rows]:
        """Each row once, in order, and the entry that holds what it is now."""
        rows, from_the_end = np.unique(self.rows[::-1], return_index=True)
        return rows, len(self) - 1 - from_the_end

    def taken(self, entries: Rows) -> NewRows:
        """Some of the entries."""
        return NewRows(
            self.weights[entries],
            self.bias[entries],
            self.half_norms[entries],
            self.groups[entries],
            self.apart[entries],
        )


@dataclass
class _Log:
    """Memory that is only ever added to, so that all who know its first entries may share it."""

    rows: Rows
    weights: Array
    half_norms: Array
    groups: Rows
    apart: Array
    n: int = 0

    @classmethod
    def of(cls, n: int, width: int, dtype: np.dtype[np.floating]) -> _Log:
        """Room for so many entries."""
        rows, groups, apart = np.zeros(n, np.intp), np.zeros(n, np.intp), np.zeros(n, bool)
        return cls(rows, np.zeros((n, width), dtype), np.zeros(n, dtype), groups, apart)

    def extended(self, n_known: int, rows: Rows, new: NewRows) -> _Log:
        """A log whose first entries are `n_known` of these and then the new, perhaps of fewer columns."""
        n, log = n_known + len(rows), self
        if n_known != self.n or n > len(self.weights):
            log = _Log.of(2 * n, self.weights.shape[1], self.weights.dtype)
            for mine, theirs in zip(self._arrays, log._arrays, strict=True):
                theirs[:n_known] = mine[:n_known]
        log.rows[n_known:n], log.half_norms[n_known:n] = rows, new.half_norms
        log.weights[n_known:n, : new.weights.shape[1]] = new.weights
        log.weights[n_known:n, new.weights.shape[1] :] = 0.0
        log.groups[n_known:n] = 0 if new.groups is None else new.groups
        log.apart[n_known:n] = False if new.apart is None else new.apart
        log.n = n
        return log

    @property
    def _arrays(self) -> tuple[Array, ...]:
        return self.rows, self.weights, self.half_norms, self.groups, self.apart
