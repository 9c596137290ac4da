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
    half_variance: Array  # (n_groups, width)
    half_logs: Array  # (n_groups, width + 1), float64: of v, summed over the coordinates before each
    reference: Array  # (width,): half of 1 / v of the first group

    @classmethod
    def of(cls, psi: Array, counts: Array, dtype: np.dtype[np.floating]) -> CountTable:
        """A table of these counts, at least one; that of the most samples comes first."""
        return cls.in_order(psi, np.sort(counts)[::-1], dtype)

    @classmethod
    def in_order(cls, psi: Array, counts: Array, dtype: np.dtype[np.floating]) -> CountTable:
        """A table of these counts, in the order in which they are given."""
        reference = 0.5 / _variance(psi, counts[:1])[0]
        exact, nothing = np.empty((0, len(psi))), np.empty((0, len(psi)), dtype)
        sums = np.empty((0, len(psi) + 1))
        return cls(psi, counts[:0], exact, nothing, nothing, nothing, sums, reference)._with(counts)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def nbytes(self) -> int:
        """Memory."""
        tables = [self.variance, self.gain, self.curvature, self.half_variance, self.half_logs]
        return sum(table.nbytes for table in tables)

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
        places = ordered.searchsorted(counts)
        found: Rows = order.take(places, mode="clip")
        n_same = np.count_nonzero(ordered.take(places, mode="clip") == counts)
        return found if n_same == len(counts) else None

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
        products *= self.half_variance[:, start : start + weights.shape[1]].take(groups, axis=0)
        added: Array = -products.sum(axis=1)
        return added

    def of_variances(self, groups: Rows, start: int, stop: int) -> Array:
        """What the variances add to that, (n,), less what those of the first group do."""
        last, first = self.half_logs[:, stop], self.half_logs[:, start]
        added: Array = (last[0] - first[0]) - (last[groups] - first[groups])
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
        offset = float(self.half_logs[0, -1] - 0.5 * np.log(variance).sum())
        return self.reference - 0.5 / variance, offset

    @cached_property
    def typical(self) -> Array:
        """Squares of the coordinates of samples of any class, on average."""
        typical: Array = (1.0 + self.psi).astype(self.gain.dtype)
        return typical

    def _with(self, counts: Array) -> CountTable:
        variance = _variance(self.psi, counts)
        known = counts[:, None] * self.psi
        logs = np.zeros((len(counts), len(self.psi) + 1))
        np.cumsum(0.5 * np.log(variance), axis=1, out=logs[:, 1:])
        return replace(
            self,
            counts=np.concatenate([self.counts, counts]),
            variance=_followed_by(self.variance, variance),
            gain=_followed_by(self.gain, known / (known + 1) / variance),
            curvature=_followed_by(self.curvature, self.reference - 0.5 / variance),
            half_variance=_followed_by(self.half_variance, 0.5 * variance),
            half_logs=_followed_by(self.half_logs, logs),
        )


def _followed_by(table: Array, more: Array) -> Array:
    return np.concatenate([table, more.astype(table.dtype)])


def _variance(psi: Array, counts: Array) -> Array:
    variance: Array = 1.0 + psi / (counts[:, None] * psi + 1.0)
    return variance
