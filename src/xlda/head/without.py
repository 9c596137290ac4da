"""A head as it would be without some samples, but for what all classes have in common."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.head.bayes_space import BayesSpace
from xlda.head.changed_rows import ChangedRows, ClassMeans
from xlda.head.head import Head


@dataclass(frozen=True, eq=False)
class FewClasses:
    """Counts and means of some classes of many."""

    rows: Rows  # (n,), in order
    counts: Array  # (n,)
    means: Array  # (n, d), float64, less the centre of the head

    @classmethod
    def of(cls, moments: ClassMeans, rows: Rows, centre: Array) -> FewClasses:
        """As they are now: a copy of these alone."""
        return cls(rows, moments.counts_of(rows).copy(), moments.means_from(centre, rows).astype(np.float64))

    def counts_of(self, rows: Rows | slice) -> Array:
        """Samples of these classes."""
        counts: Array = self.counts[self._places(rows)]
        return counts

    def means_from(self, point: Array, rows: Rows | slice) -> Array:
        """Their means less the centre, which `point` is."""
        means: Array = self.means[self._places(rows)].astype(point.dtype)
        return means

    def _places(self, rows: Rows | slice) -> Rows:
        assert not isinstance(rows, slice)  # of some classes alone
        places: Rows = self.rows.searchsorted(rows)
        return places

    def without(self, samples: Array, rows: Rows) -> FewClasses:
        """The same without samples (n, d), less the centre, of these rows (n,)."""
        places = self._places(rows)
        counts, sums = self.counts.astype(np.float64), self.means * self.counts[:, None]
        np.subtract.at(counts, places, 1.0)
        np.subtract.at(sums, places, samples)
        counts = np.where(counts > 0.5, counts, 0.0)
        return FewClasses(self.rows, counts, sums / np.maximum(counts, 1.0)[:, None])


def head_without(head: Head, classes: FewClasses, rows: Rows) -> Head:
    """The head with these `rows` as `classes` has them: O(d^2) a row. `head` itself stays as it is."""
    space, new = head.space.with_rows(classes, rows, head.log_total is not None)
    known, entries = head.changed.newest
    apart = ChangedRows.none_of(
        head.changed.log.weights.shape[1], head.centre.dtype
    )  # whose memory nobody shares
    changed = apart.extended(known, head.changed.taken(entries)).extended(rows, new)
    second_look = head.second_look
    if second_look is not None and isinstance(space, BayesSpace):
        second_look = second_look.without_rows(
            space, classes, rows
        )  # samples would be compared with themselves
    return replace(head, space=space, changed=changed, second_look=second_look)
