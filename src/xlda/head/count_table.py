"""What a class is worth that has so many samples: computed once for each count, not for each class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from xlda._internal.arrays import Array, Rows

MOST_EXACT = 256  # different counts; with more, near ones are taken for the same
FEW = 16  # samples; up to so many, whole counts are always exact
STEPS = 32  # to twice the count: a count is taken for one that is at most 1.1 % off


def rounded_counts(counts: Array) -> Array:
    """Counts, near ones taken for the same.

    >>> rounded_counts(np.array([3.0, 999.0, 1000.0]))
    array([   3.        , 1002.05779158, 1002.05779158])
    """
    whole = (counts <= FEW) & (counts == np.round(counts))
    steps = np.round(np.log2(np.maximum(counts, np.finfo(np.float64).tiny)) * STEPS) / STEPS
    rounded: Array = np.where(whole, counts, np.round(2.0**steps, 9))
    return rounded


def groups_of(counts: Array) -> tuple[Array, Rows]:
    """Different counts, in order, and which of them each entry of `counts` is; rounded if they are many."""
    values, groups = np.unique(counts, return_inverse=True)
    if len(values) > MOST_EXACT:
        values, groups = np.unique(rounded_counts(counts), return_inverse=True)
    return values, groups.ravel()


@dataclass(frozen=True, eq=False)
class CountTable:
    """Posterior means and predictive variances by count, in coordinates in which samples have variance 1.

    With class means of variance psi, a class whose n samples have the mean k has its true mean at a k, where
    a = n psi / (n psi + 1), and its next sample has the variance v = 1 + psi / (n psi + 1) about that.
    """

    psi: Array  # (width,), float64
    counts: Array  # (n_groups,), float64
    variance: Array  # (n_groups, width), float64: v
    gain: Array  # (n_groups, width): a / v, which turns a mean into weights
    curvature: Array  # (n_groups, width): half of 1 / v, less that of the first group
    reference: Array  # (width,): half of 1 / v of the first group

    @classmethod
    def of(cls, psi: Array, counts: Array, dtype: np.dtype[np.floating]) -> CountTable:
        """A table of these counts, at least one; that of the most samples comes first."""
        return cls.in_order(psi, np.sort(counts)[::-1], dtype)

    @classmethod
    def in_order(cls, psi: Array, counts: Array, dtype: np.dtype[np.floating]) -> CountTable:
        """A table of these counts, in the order in which they are given."""
        reference = 0.5 / _variance(psi, counts[:1])[0]
        nothing = np.empty((0, len(psi)))
        empty = cls(psi, counts[:0], nothing, nothing.astype(dtype), nothing.astype(dtype), reference)
        return empty._with(counts)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def nbytes(self) -> int:
        """Memory."""
        return self.variance.nbytes + self.gain.nbytes + self.curvature.nbytes

    def extended(self, counts: Array) -> tuple[CountTable, Rows]:
        """A table that has these counts too, and the group of each; where it has many, near ones will do."""
        found = self._found(counts)
        if found is not None:
            return self, found
        wanted = counts
        if len(np.union1d(self.counts, counts)) > MOST_EXACT:
            wanted = np.where(np.isin(counts, self.counts), counts, rounded_counts(counts))
        new = np.setdiff1d(wanted, self.counts)
        table = self._with(new) if len(new) else self
        groups = table._found(wanted)
        assert groups is not None  # all of them are there by now
        return table, groups

    def _found(self, counts: Array) -> Rows | None:
        """The group of each of these, if there is one for all."""
        order, ordered = self._in_order
        places = ordered.searchsorted(counts).clip(max=len(ordered) - 1)
        found: Rows = order[places]
        return found if (ordered[places] == counts).all() else None

    @cached_property
    def _in_order(self) -> tuple[Rows, Array]:
        order = np.argsort(self.counts)
        return order, self.counts[order]

    def offsets(self, weights: Array, groups: Rows, start: int = 0) -> Array:
        """What is added to the score whatever the query, (n,): by the coordinates that `weights` (n, p) has.

        Less what all classes have in common.
        """
        stop = start + weights.shape[1]
        offsets: Array = self.of_means(weights, groups, start) + self.of_variances(groups, start, stop)
        return offsets.astype(weights.dtype)

    def of_means(self, weights: Array, groups: Rows, start: int = 0) -> Array:
        """What the means add to that, (n,)."""
        products = weights * weights
        products *= self._half_variance[:, start : start + weights.shape[1]].take(groups, axis=0)
        added: Array = -products.sum(axis=1)
        return added

    def of_variances(self, groups: Rows, start: int, stop: int) -> Array:
        """What the variances add to that, (n,), less what those of the first group do."""
        logs = self._half_logs_up_to[:, stop] - self._half_logs_up_to[:, start]
        added: Array = logs[0] - logs[groups]
        return added

    def of_no_samples(self, queries: Array) -> Array:
        """What a class without samples scores for queries (n, width), (n,), as others are scored."""
        curvature, offset = self._of_nothing
        added: Array = np.square(queries, dtype=np.float64) @ curvature + offset
        return added

    @cached_property
    def _of_nothing(self) -> tuple[Array, float]:
        """Curvature and offset of a class without samples."""
        variance = 1.0 + self.psi
        offset = float(self._half_logs[0].sum() - 0.5 * np.log(variance).sum())
        return self.reference - 0.5 / variance, offset

    @cached_property
    def typical(self) -> Array:
        """Squares of the coordinates of samples of any class, on average."""
        typical: Array = (1.0 + self.psi).astype(self.gain.dtype)
        return typical

    @cached_property
    def _half_variance(self) -> Array:
        return (0.5 * self.variance).astype(self.gain.dtype)

    @cached_property
    def _half_logs_up_to(self) -> Array:
        """Sums of the coordinates before each, (n_groups, width + 1)."""
        sums = np.zeros((len(self), len(self.psi) + 1))
        np.cumsum(self._half_logs, axis=1, out=sums[:, 1:])
        return sums

    @cached_property
    def _half_logs(self) -> Array:
        logs: Array = 0.5 * np.log(self.variance)
        return logs

    def _with(self, counts: Array) -> CountTable:
        variance = _variance(self.psi, counts)
        known = counts[:, None] * self.psi
        gain = known / (known + 1) / variance
        curvature = self.reference - 0.5 / variance
        return replace(
            self,
            counts=np.concatenate([self.counts, counts]),
            variance=np.vstack([self.variance, variance]),
            gain=np.vstack([self.gain, gain.astype(self.gain.dtype)]),
            curvature=np.vstack([self.curvature, curvature.astype(self.curvature.dtype)]),
        )


def _variance(psi: Array, counts: Array) -> Array:
    variance: Array = 1.0 + psi / (counts[:, None] * psi + 1.0)
    return variance
