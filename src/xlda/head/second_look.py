"""The nearest classes compared once more, by how samples of these very classes vary.

All classes share one covariance, and the coordinates are those in which it is I. But samples of the classes
that a query may belong to vary in ways of their own. A few rows of each (`Sketches`) tell how: those of the
nearest classes together, and those of a candidate once more, give a covariance S (`near_spread`). A candidate
whose distance from the query is u, in standard deviations, then scores by u' S^-1 u in place of u' u: by how
much more or less that is than is to be expected of a sample of that candidate, whose own rows tell. Without
the latter, classes with many samples, whose rows are in S, would take queries from those with few, and from
the unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.one_thread import A_FEW, few_times, inner_products
from xlda._internal.threads import in_parallel_with_blas, parts_for
from xlda.head.bayes_space import BayesSpace
from xlda.head.changed_rows import ClassMeans
from xlda.head.near_spread import PRIOR, near_spread
from xlda.head.plain_space import PlainSpace
from xlda.moments import Moments
from xlda.search.ranking import best_columns

NEAREST = 8  # classes whose samples say how those near a query vary
CANDIDATES = 20  # classes that are compared once more
NOTHING = 1e-4  # of the squares that are usual: rows with less tell nothing
CLASSES_AT_ONCE = 64
A_FEW_CLASSES = 4  # whose rows are made by one thread
NUMBERS_AT_ONCE = 2**21  # of rows that are looked at together: they fit into a cache, or nearly so


class _Class(NamedTuple):
    """What is known of a class, in the coordinates."""

    rows: Array  # (n_rows, width), float32: scaled so that each is worth as many samples as the others
    worth: float  # samples that all of them are worth
    mean: Array  # (width,)
    n_samples: float


@dataclass(frozen=True, eq=False)
class SecondLook:
    """What the nearest classes are compared by; it never changes."""

    psi: Array  # (width,): variances of class means
    n_rows: int  # of each class: no more than there are coordinates
    rows: Sequence[Array]  # of n classes, each (n_rows, width), float32: heads share those that stay the same
    worth: Array  # (n,)
    means: Array  # (n, width)
    counts: Array  # (n,)
    late: Mapping[int, _Class] = field(default_factory=dict)  # of classes that have changed since

    @classmethod
    def where_kept(cls, space: PlainSpace | BayesSpace, moments: Moments) -> SecondLook | None:
        """Of all classes, where rows of them are kept: O(d p) a row."""
        if moments.sketches is None or not isinstance(space, BayesSpace):
            return None
        n, width = moments.n_classes, space.n_coordinates
        n_rows = min(moments.sketches.n_rows, width)
        rows: list[Array] = [np.empty(0)] * n
        worth, means, counts = np.empty(n), np.empty((n, width), space.centre.dtype), moments.counts

        def look(start: int, stop: int, _part: int) -> None:
            for first in range(start, stop, CLASSES_AT_ONCE):
                some = slice(first, min(first + CLASSES_AT_ONCE, stop))
                seen, worth[some], means[some] = _seen(space, moments, np.arange(some.start, some.stop))
                rows[some] = seen.astype(np.float32, copy=False)

        in_parallel_with_blas(look, n, parts_for(n * n_rows * width * len(space.centre)))
        return cls(space.table.psi, n_rows, rows, worth, means, counts)

    @property
    def nbytes(self) -> int:
        """Memory."""
        late = sum(one.rows.nbytes + one.mean.nbytes for one in self.late.values())
        rows = sum(rows.nbytes for rows in self.rows)
        return rows + self.means.nbytes + self.worth.nbytes + self.counts.nbytes + late

    # -- classes

    def updated(self, space: PlainSpace | BayesSpace, moments: Moments, changed: Rows) -> SecondLook:
        """With some classes as they are now, in the same coordinates."""
        assert isinstance(space, BayesSpace)
        late = dict(self.late)
        for start in range(0, len(changed), CLASSES_AT_ONCE):
            some = changed[start : start + CLASSES_AT_ONCE]
            seen = _seen(space, moments, some)
            late |= dict(zip(some.tolist(), _classes(*seen, moments.counts_of(some)), strict=True))
        return self._with(late)

    def without_rows(self, space: BayesSpace, classes: ClassMeans, changed: Rows) -> SecondLook:
        """With the means of some classes as they are now, and without their rows."""
        none = np.zeros((len(changed), self.n_rows, len(self.psi)), np.float32)
        means = _means(space, classes, changed)
        seen = _classes(none, np.zeros(len(changed)), means, classes.counts_of(changed))
        return self._with({**self.late, **dict(zip(changed.tolist(), seen, strict=True))})

    def settled(self) -> SecondLook:
        """The same, all classes in one place: O(C p), since their rows stay where they are."""
        if not self.late:
            return self
        n = max(len(self.counts), max(self.late) + 1)
        return self.taken(np.arange(n))

    def taken(self, classes: Rows) -> SecondLook:
        """Some of the classes, in this order."""
        rows = self._rows_of(classes)
        return SecondLook(
            self.psi, self.n_rows, rows, self._worth_of(classes), *self._means_and_counts(classes)
        )

    def _with(self, late: Mapping[int, _Class]) -> SecondLook:
        return replace(self, late=late)

    # -- queries

    def scores(self, queries: Array, rows: Rows, scores: Array, unknown: Array) -> tuple[Array, Array]:
        """Scores of the best rows for each query, and of a class without samples, once more.

        `queries` (n, p) are in the coordinates, `rows` and `scores` (n, k) those of the best, in order; what
        has no finite score is not there. Rows that are not among the candidates stay in order below these.
        """
        scores, unknown = scores.copy(), unknown.copy()
        best = slice(min(CANDIDATES, rows.shape[1]))
        n_numbers = NEAREST * self.n_rows * len(self.psi)
        at_once = max(1, NUMBERS_AT_ONCE // n_numbers)

        def look(start: int, stop: int, _part: int) -> None:
            for first in range(start, stop, at_once):
                some = slice(first, min(first + at_once, stop))
                is_there = np.isfinite(scores[some, best])
                added = self._added(queries[some, : len(self.psi)], rows[some, best], is_there)
                scores[some, best] += added[:, :-1].astype(scores.dtype)
                unknown[some] += added[:, -1]

        parts = 1 if len(queries) <= A_FEW else parts_for(len(queries) * n_numbers)
        in_parallel_with_blas(look, len(queries), parts, wait=False)
        if best.stop < rows.shape[1]:
            scores[:, best.stop :] = _below(scores[:, best.stop :], scores[:, best])
        return scores, unknown

    def of_all(self, queries: Array, scores: Array) -> Array:
        """Scores of all rows (n, C), those of the best by a second look; NaN stays."""
        ranked = np.where(np.isnan(scores), -np.inf, scores)
        rows, once = best_columns(ranked, min(CANDIDATES, scores.shape[1]))
        twice, _ = self.scores(queries, rows, once, np.zeros(len(queries)))
        query, place = np.isfinite(once).nonzero()
        found = scores.copy()
        found[query, rows[query, place]] = -np.inf
        found = _below(found, twice)
        found[query, rows[query, place]] = twice[query, place]
        return found

    def _added(self, queries: Array, rows: Rows, is_there: Array) -> Array:
        """What candidates score more than they did, (n, k + 1); the last is a class without samples."""
        near = rows[:, :NEAREST]
        Y = np.stack(self._rows_of(near.ravel()), dtype=queries.dtype)
        Y = Y.reshape(*near.shape, self.n_rows, len(self.psi))
        worth = np.zeros((len(rows), rows.shape[1] + 1))
        worth[:, :-1] = self._worth_of(rows.ravel()).reshape(rows.shape)
        if not is_there.all():
            worth[:, :-1][~is_there], Y[~is_there[:, :NEAREST]] = 0.0, 0.0
        u = self._distances(queries, rows)
        squares = np.einsum("nkp,nkp->nk", u, u)
        scale, left, of_rows, of_common = near_spread(Y, u, squares, worth, is_there[:, :NEAREST])
        expected = scale * (of_rows + of_common) / (worth + PRIOR)
        added: Array = -0.5 * ((scale / PRIOR * left - squares) - (expected - len(self.psi)))
        return added

    def _distances(self, queries: Array, rows: Rows) -> Array:
        """Of queries from candidates, and from where nobody knows anything, in standard deviations."""
        means, counts = self._means_and_counts(rows.ravel())
        psi = self.psi.astype(queries.dtype)
        more = counts.astype(queries.dtype)[:, None] * psi
        more += 1.0
        u = np.empty((len(queries), rows.shape[1] + 1, len(psi)), queries.dtype)
        # The mean of a class is a known part of what was measured, and varies by psi over that.
        centres = means - means / more
        np.subtract(queries[:, None], centres.reshape(*rows.shape, len(psi)), out=u[:, :-1])
        u[:, :-1] /= np.sqrt(1.0 + psi / more).reshape(*rows.shape, len(psi))
        u[:, -1] = queries / np.sqrt(1.0 + psi)
        return u

    def _rows_of(self, classes: Rows) -> list[Array]:
        found = [self.rows[one] for one in classes.clip(max=len(self.rows) - 1).tolist()]
        for place, one in self._late_among(classes):
            found[place] = one.rows
        return found

    def _worth_of(self, classes: Rows) -> Array:
        found = self.worth.take(classes, mode="clip")
        for place, one in self._late_among(classes):
            found[place] = one.worth
        return found

    def _means_and_counts(self, classes: Rows) -> tuple[Array, Array]:
        means, counts = self.means.take(classes, axis=0, mode="clip"), self.counts.take(classes, mode="clip")
        for place, one in self._late_among(classes):
            means[place], counts[place] = one.mean, one.n_samples
        return means, counts

    def _late_among(self, classes: Rows) -> list[tuple[int, _Class]]:
        if not self.late:
            return []
        late = self.late
        return [(place, late[row]) for place, row in enumerate(classes.tolist()) if row in late]


def _below(scores: Array, candidates: Array) -> Array:
    """Scores (n, k), moved down so far that each is less than those of all candidates that are there."""
    least = np.where(np.isfinite(candidates), candidates, np.inf).min(axis=1, initial=np.inf)
    most = np.nextafter(least, -np.inf, dtype=scores.dtype)
    down = np.minimum(most - np.fmax.reduce(scores, axis=1), 0.0)
    below: Array = np.minimum(scores + down[:, None], most[:, None])
    return below


def _seen(space: BayesSpace, moments: Moments, classes: Rows) -> tuple[Array, Array, Array]:
    """Rows of classes, what they are worth, and means."""
    residuals, weights = moments.residuals_of(classes)
    n_rows = residuals.shape[1]
    free = np.maximum(weights - 1.0, 0.0)
    rotation = space.rotation[:, : space.n_coordinates]
    flat = residuals.reshape(-1, residuals.shape[2]).astype(rotation.dtype, copy=False)
    few = len(classes) <= A_FEW_CLASSES
    rows = inner_products(flat[None], rotation.T[None]) if few else flat @ rotation
    rows = rows.reshape(len(classes), n_rows, -1)
    # Of n samples, so many rows tell no more than n_rows others would, and no more than n.
    worth = free * n_rows / (free + n_rows)
    rows *= np.sqrt(n_rows / (free + n_rows)).astype(rows.dtype)[:, None, None]
    # Equal samples, or such as all have one hash, leave nothing but rounding.
    tell = np.einsum("crp,crp->c", rows, rows) > NOTHING * worth * space.n_coordinates
    rows[~tell] = 0.0
    if n_rows > rows.shape[2]:  # as many as there are coordinates have the same products
        rows = np.linalg.qr(rows)[1]
    return rows, np.where(tell, worth, 0.0), _means(space, moments, classes)


def _means(space: BayesSpace, classes: ClassMeans, rows: Rows) -> Array:
    means = few_times(classes.means_from(space.centre, rows), space.rotation[:, : space.n_coordinates])
    means[classes.counts_of(rows) == 0] = 0.0
    return means


def _classes(rows: Array, worth: Array, means: Array, counts: Array) -> list[_Class]:
    parts = zip(rows.astype(np.float32), worth.tolist(), means, counts.tolist(), strict=True)
    return [_Class(*part) for part in parts]
