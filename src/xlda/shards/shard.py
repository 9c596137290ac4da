"""One shard: all samples of some classes. What it gives and takes is small, whatever the number of classes.

With d features and G different counts, a call moves some (d, d) and (G, d) numbers, so that shards may well
be on other machines: `docs/scale.md` counts the bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.classifier import XLDA
from xlda.head.bayes_space import MOST_DIRECTIONS, MOST_OUTSIDE, BayesSpace
from xlda.head.changed_rows import ChangedRows
from xlda.head.class_spread import ROWS_AT_ONCE
from xlda.head.count_table import MOST_EXACT, rounded_counts
from xlda.head.head import Head
from xlda.head.model_samples import kept_queries, sampled_queries
from xlda.head.plain_space import PlainSpace
from xlda.moments import Moments
from xlda.search import Search
from xlda.search.class_rows import ClassRows
from xlda.search.protocol import Classes


class Within(NamedTuple):
    """The first step: what samples of a shard scatter by within classes, and which counts there are."""

    scatter: Array  # (d, d)
    weight: float  # of all samples
    dof: float
    sum: Array  # (d,): of all samples
    counts: Array  # different ones,
    rounded: bool  # and whether they are rounded, as they are where there are many
    n_seen: int


class GroupSums(NamedTuple):
    """The second step, for classes with as many samples as each count says."""

    classes: Array  # (n_groups,)
    squares: Array  # (n_groups,): squared lengths of their means, whitened
    sums: Array  # (n_groups, d): means, in the units of embeddings


class ClassShard:
    """The classes of one shard, and their head."""

    def __init__(self, clf: XLDA) -> None:
        self.clf = clf
        self._head: Head | None = None

    @property
    def _moments(self) -> Moments:
        return self.clf._model.moments

    def within(self) -> Within:
        """The scatter, which gives the whitening."""
        moments = self._moments
        counts = moments.counts
        different = np.unique(counts[counts > 0])
        rounded = len(different) > MOST_EXACT
        if rounded:
            different = np.unique(rounded_counts(different))
        weight, n_seen = moments.total, moments.n_seen
        dof, total = moments.weight_learned - n_seen, moments.centre() * weight
        return Within(moments.scatter, weight, dof, total, different, rounded, n_seen)

    def group_sums(self, base: Array, towards: Array, counts: Array, rounded: bool) -> GroupSums:
        """For each count: classes, sum of k and of |k|^2, which give t and m."""
        classes, squares = np.zeros(len(counts)), np.zeros(len(counts))
        sums = np.zeros((len(counts), len(base)))
        for rows, groups in self._blocks(counts, rounded):
            raw = self._moments.means_from(base, rows).astype(towards.dtype, copy=False)
            white = raw @ towards
            np.add.at(classes, groups, 1.0)
            np.add.at(squares, groups, np.einsum("ij,ij->i", white, white, dtype=np.float64))
            order = np.argsort(groups, kind="stable")
            found, first = np.unique(groups[order], return_index=True)
            sums[found] += np.add.reduceat(raw[order], first, axis=0)
        return GroupSums(classes, squares, sums)

    def products(self, centre: Array, scale: Array, counts: Array, rounded: bool) -> Array:
        """Sum of w D D' over classes, (d, d); `scale` (n_groups,) is the root of w."""
        total = np.zeros((len(centre), len(centre)))
        for rows, groups in self._blocks(counts, rounded):
            raw = self._moments.means_from(centre, rows).astype(scale.dtype, copy=False)
            raw *= scale[groups][:, None]
            total += raw.T @ raw
        return total

    def outside(self, space: BayesSpace) -> Array:
        """How far outside of the coordinates the farthest classes are."""
        return space.excess_outside(self._moments)[1][:MOST_OUTSIDE]

    def make_head(
        self,
        space: BayesSpace | PlainSpace,
        search: Search,
        shrinkage: float,
        log_total: float | None,
        least_outside: float,
    ) -> None:
        """Weights of these classes in a space that all shards have in common."""
        moments, table = self._moments, self.clf._model.labels.table()
        n_rows, outside = len(table.names), np.empty(0, np.intp)
        if isinstance(space, BayesSpace):
            classes = space.classes(moments, n_rows, log_total is not None)
            index, width = search.index(classes, None), space.n_coordinates + MOST_DIRECTIONS
            rows, excess = space.excess_outside(moments)
            outside = np.sort(rows[:MOST_OUTSIDE][excess[:MOST_OUTSIDE] >= least_outside])
        else:
            plain = _plain(space, moments, n_rows, log_total is not None)
            index, width = search.index(plain, None), space.width
        changed = ChangedRows.none_of(width, moments.dtype)
        head = Head(table, space, shrinkage, log_total, index, changed, moments.n_seen)
        self._head = head.updated(moments, table, outside) if len(outside) else head

    def best(self, embeddings: Array, k: int) -> tuple[Array, Array]:
        """Labels and scores of the best classes here, each (n, k or fewer)."""
        assert self._head is not None  # made before anybody asks
        rows, scores = self._head.top(embeddings, min(k, self._head.n_seen))
        return self._head.table.of(rows), scores + self._head.common_term(embeddings)[:, None]

    def _blocks(self, counts: Array, rounded: bool) -> list[tuple[Rows, Rows]]:
        """Some classes at a time, with the place of each one's count among `counts`."""
        rows = np.flatnonzero(self._moments.counts)
        own = self._moments.counts_of(rows)
        groups = np.searchsorted(counts, rounded_counts(own) if rounded else own)
        starts = range(0, len(rows), ROWS_AT_ONCE)
        return [(rows[at : at + ROWS_AT_ONCE], groups[at : at + ROWS_AT_ONCE]) for at in starts]


def _plain(space: PlainSpace, moments: Moments, n_rows: int, with_priors: bool) -> Classes:
    new = space.all_rows(moments, n_rows, with_priors)
    rows = ClassRows((new.weights,), new.bias)

    def means(some: Rows | slice) -> Array:
        return moments.means_from(space.centre, some)

    def draw(n: int, rng: np.random.Generator) -> tuple[Array, Rows]:
        return sampled_queries(moments, space.centre, n, rng)

    def kept(n: int, rng: np.random.Generator) -> Array:
        return space.queries(kept_queries(moments, n, rng))

    return Classes(rows, new.half_norms, space.inverse, space.centre, means, draw, kept, space.queries)
