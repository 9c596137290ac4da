"""Rows that changed since the others were computed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from xlda._internal.arrays import Array, Rows


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

    @classmethod
    def none_of(cls, d: int, dtype: np.dtype[np.floating]) -> ChangedRows:
        """No rows yet."""
        return cls(
            _Log(np.empty((0, d), dtype)), np.empty(0, np.intp), np.empty(0, dtype), np.empty(0, dtype)
        )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def weights(self) -> Array:
        """Weights of each entry, (n, d)."""
        return self.log.weights[: len(self)]

    def extended(self, rows: Rows, weights: Array, bias: Array, half_norms: Array) -> ChangedRows:
        """These entries, and after them the new ones. Costs O(n + len(rows) d)."""
        kept = np.where(np.isin(self.rows, rows), -np.inf, self.bias).astype(self.bias.dtype)
        return replace(
            self,
            log=self.log.extended(len(self), weights),
            rows=np.concatenate([self.rows, rows]),
            bias=np.concatenate([kept, bias]),
            half_norms=np.concatenate([self.half_norms, half_norms]),
        )

    def newest(self) -> tuple[Rows, Rows]:
        """Each row once, in order, and the entry that holds what it is now."""
        rows, from_the_end = np.unique(self.rows[::-1], return_index=True)
        return rows, len(self) - 1 - from_the_end


@dataclass
class _Log:
    """Memory that is only ever added to, so that all who know its first entries may share it."""

    weights: Array
    n: int = 0

    def extended(self, n_known: int, weights: Array) -> _Log:
        """A log whose first entries are `n_known` of these and then `weights`."""
        n, log = n_known + len(weights), self
        if n_known != self.n or n > len(self.weights):
            log = _Log(np.empty((2 * n, weights.shape[1]), self.weights.dtype))
            log.weights[:n_known] = self.weights[:n_known]
        log.weights[n_known:n] = weights
        log.n = n
        return log
