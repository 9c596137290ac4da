"""Rows that changed since the others were computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from xlda._internal.arrays import Array, Rows

A_FEW = 8  # rows, sought one by one among those there are


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
    rows: Rows  # (n,)
    bias: Array  # (n,)
    half_norms: Array  # (n,)
    groups: Rows  # (n,)
    apart: Array  # (n,)

    @classmethod
    def none_of(cls, width: int, dtype: np.dtype[np.floating]) -> ChangedRows:
        """No rows yet, of at most so many coordinates."""
        numbers, rows = np.empty(0, dtype), np.empty(0, np.intp)
        return cls(_Log(np.empty((0, width), dtype)), rows, numbers, numbers, rows, np.empty(0, bool))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def weights(self) -> Array:
        """Weights of each entry, (n, width)."""
        return self.log.weights[: len(self)]

    def extended(self, rows: Rows, new: NewRows) -> ChangedRows:
        """These entries, and after them the new ones. Costs O(n + len(rows) width)."""
        kept = self.bias.copy()
        if len(rows) <= A_FEW:
            kept[(self.rows[:, None] == rows).any(axis=1)] = -np.inf
        else:
            kept[np.isin(self.rows, rows)] = -np.inf
        groups = np.zeros(len(rows), np.intp) if new.groups is None else new.groups
        apart = np.zeros(len(rows), bool) if new.apart is None else new.apart
        return replace(
            self,
            log=self.log.extended(len(self), new.weights),
            rows=np.concatenate([self.rows, rows]),
            bias=np.concatenate([kept, new.bias]),
            half_norms=np.concatenate([self.half_norms, new.half_norms]),
            groups=np.concatenate([self.groups, groups]),
            apart=np.concatenate([self.apart, apart]),
        )

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

    weights: Array
    n: int = 0

    def extended(self, n_known: int, weights: Array) -> _Log:
        """A log whose first entries are `n_known` of these and then `weights`, perhaps of fewer columns."""
        n, log = n_known + len(weights), self
        if n_known != self.n or n > len(self.weights):
            log = _Log(np.empty((2 * n, self.weights.shape[1]), self.weights.dtype))
            log.weights[:n_known] = self.weights[:n_known]
        log.weights[n_known:n, : weights.shape[1]] = weights
        log.weights[n_known:n, weights.shape[1] :] = 0.0
        log.n = n
        return log
