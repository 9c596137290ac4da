"""The Bayesian head: class means are known as far as their samples tell.

In coordinates in which samples of a class have the covariance I and class means the variances psi, a class
whose n samples have the mean k has its true mean at a k, and its next sample varies by v about that; see
`CountTable`. So the score of a query z is, but for what all classes have in common,

    z . (a k / v)  -  1/2 sum (a k)^2 / v  -  1/2 sum log v  -  1/2 sum z^2 / v

Only the last term is not linear, and it depends on the class by n alone. Coordinates are ordered by psi.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.one_thread import few_times
from xlda._internal.threads import in_parallel_with_blas, parts_for
from xlda.head.changed_rows import ClassMeans, NewRows
from xlda.head.class_spread import ClassSpread, probes
from xlda.head.count_table import CountTable, groups_of
from xlda.head.covariance import Whitening
from xlda.head.layer_prior import LayerPrior
from xlda.head.model_samples import kept_queries
from xlda.head.plain_space import check_half
from xlda.head.upper_triangle import UpperTriangle
from xlda.lifting import Lift
from xlda.moments import Moments
from xlda.search.class_rows import Columns, Squares
from xlda.search.protocol import OrderedClasses

ROWS_AT_ONCE = 256  # classes whose weights are made at once: they fit into a cache
MOST_DIRECTIONS = 64  # added for classes that lie outside of the coordinates, before these are made anew
MOST_OUTSIDE = MOST_DIRECTIONS // 2  # of them, that a new head has
WORTH_A_DIRECTION = 1.0  # by so much the logarithm of the probability of its samples must grow
UNSURE = 0.5  # times that distance, by the probe: looked at more closely
UNUSUAL = 4.0  # times the usual squared distance from the coordinates, where directions were left out
FAR_OUTSIDE = 6.0  # times the usual squared distance of samples from them: not of a known class
EMPTY = 1e-9  # samples; fewer are none


@dataclass(frozen=True, eq=False)
class BayesSpace:
    """Coordinates of queries, and what makes rows of class means.

    (x - centre) @ whitening has the covariance I within classes. Where there is a lift, and so many features,
    half of that matrix is kept and no basis, which the rotation tells.
    """

    centre: Array  # (n_features,): where class means lie
    whitening: Array | UpperTriangle  # (n_features, n_features), nothing but zeros below its diagonal
    basis: Array | None  # (n_features, n_coordinates): orthonormal, of whitened space
    directions: Array  # (n_features, n_directions): the same, added for classes that lie outside of the basis
    rotation: Array  # (n_features, width): whitening @ (basis, directions)
    probe: Array  # (n_features, some): (x - centre) @ probe is about as long as x is outside of the basis
    table: CountTable
    spread: ClassSpread  # without its matrices
    crowded: bool = False  # whether there was no room for another direction
    layer: LayerPrior | None = None  # rows of a layer, which count as samples beside the real ones
    lift: Lift | None = None  # what makes of embeddings the features that have these coordinates

    @classmethod
    def of(
        cls, whitening: Whitening, spread: ClassSpread, moments: Moments, layer: LayerPrior | None = None
    ) -> BayesSpace:
        """All coordinates there are."""
        counts = moments.counts
        space = cls.by(whitening, spread, groups_of(counts[counts > 0])[0], moments.dtype, moments.lift)
        space = replace(space, layer=layer)
        return space._rated(np.arange(len(counts)), counts)[0]  # whose table has all counts that there are

    @classmethod
    def by(
        cls,
        whitening: Whitening,
        spread: ClassSpread,
        counts: Array,
        dtype: np.dtype[np.floating],
        lift: Lift | None = None,
    ) -> BayesSpace:
        """The same for classes with these counts, at least one."""
        d, basis = len(spread.centre), spread.basis
        towards = probes(d)
        towards = towards - basis @ (basis.T @ towards)
        return cls(
            spread.centre.astype(dtype),
            whitening.matrix.astype(dtype) if lift is None else UpperTriangle.of(whitening.matrix, dtype),
            basis.astype(dtype) if lift is None else None,
            np.empty((d, 0), dtype),
            np.asfortranarray(whitening.matrix @ basis, dtype),  # so that one query takes less time
            np.asfortranarray(whitening.matrix @ towards, dtype),
            CountTable.of(spread.psi, counts, dtype),
            spread.without_basis(),
            lift=lift,
        )

    @property
    def n_coordinates(self) -> int:
        """Coordinates that all rows have."""
        return len(self.table.psi)

    @property
    def width(self) -> int:
        """Coordinates of a query, the directions among them."""
        return int(self.rotation.shape[1])

    @property
    def nbytes(self) -> int:
        """Memory."""
        into = None if self.layer is None else self.layer.into
        arrays = [self.basis, self.directions, self.rotation, self.probe, into]
        held = sum(array.nbytes for array in arrays if array is not None)
        return held + self.whitening.nbytes + self.table.nbytes

    def made_basis(self) -> Array:
        """The basis, made anew where none is kept."""
        if isinstance(self.whitening, UpperTriangle):
            return np.ascontiguousarray(self.whitening.solved(self.rotation[:, : self.n_coordinates].T).T)
        assert self.basis is not None  # where the whitening is whole
        return self.basis

    def queries(self, embeddings: Array) -> Array:
        """Embeddings in these coordinates."""
        return self.rotated(self.centred(embeddings))

    def centred(self, embeddings: Array) -> Array:
        """Embeddings, or their features, relative to the centre."""
        features = embeddings if self.lift is None else self.lift.features(embeddings)
        centred: Array = features.astype(self.centre.dtype, copy=False) - self.centre
        return centred

    def of_features(self, features: Array) -> Array:
        """In these coordinates what is learned of embeddings."""
        return self.rotated(features.astype(self.centre.dtype, copy=False) - self.centre)

    def rotated(self, centred: Array) -> Array:
        """In these coordinates what is relative to the centre."""
        return few_times(centred, self.rotation)

    def common_term(self, embeddings: Array) -> Array:
        """Scores have nothing in common that would be worth adding."""
        return np.zeros(len(embeddings))

    def unknown_scores(self, centred: Array, queries: Array) -> Array:
        """Score of a class that has no samples, (n,), float64: as far as classes differ, it may be anywhere.

        `centred` and `queries` are the same embeddings, these in these coordinates. What lies far outside of
        them, where no known class is, is likelier to be of such a one.
        """
        within, beside = queries[:, : self.n_coordinates], queries[:, self.n_coordinates :]
        out = few_times(centred, self.probe)
        squares = np.einsum("ij,ij->i", out, out)
        if beside.size:
            squares -= np.einsum("ij,ij->i", beside, beside)
        far = squares - FAR_OUTSIDE * self.spread.outside
        scores = self.table.of_no_samples(within)
        scores += 0.5 * far.clip(min=0.0)
        return scores

    def squared_lengths(self, differences: Array) -> Array:
        """Of differences between embeddings (n, n_features), in standard deviations within classes."""
        lengths: Array = np.square(differences @ self.rotation).sum(axis=1)
        return lengths

    # -- rows

    def with_rows(self, moments: ClassMeans, rows: Rows, with_priors: bool) -> tuple[BayesSpace, NewRows]:
        """Rows as `moments` has them now, and the space that they are in: it may have grown by directions."""
        counts = moments.counts_of(rows)
        raw = moments.means_from(self.centre, rows)
        if np.count_nonzero(counts) < len(counts):
            raw[counts == 0] = 0.0
        means = few_times(raw, self.rotation[:, : self.n_coordinates])
        space, rated = self._rated(rows, counts)
        space, added = space._with_directions(raw, means, counts)
        weights, beyond = means * space.table.gain[rated.made_from], np.zeros(len(rows), means.dtype)
        apart: Array = np.zeros(len(rows), bool)
        if np.count_nonzero(added):
            apart = np.asarray(added.any(axis=1))
            beyond -= 0.5 * np.einsum("ij,ij->i", added, added)
            weights = np.concatenate([weights, added], axis=1)
        weights, beyond = space._with_layer(rows, rated, weights, beyond, with_priors)
        bias = space.table.offsets(weights[:, : self.n_coordinates], rated.groups) + beyond
        return space, NewRows(weights, bias, np.zeros_like(bias), rated.groups, apart)

    def _rated(self, rows: Rows, counts: Array) -> tuple[BayesSpace, _Rated]:
        """What so many samples of these rows are worth, and the space whose table has all these counts."""
        seen = counts > 0
        some = counts if np.count_nonzero(seen) == len(seen) else np.where(seen, counts, self.table.counts[0])
        table, made_from = self.table.extended(some)
        if self.layer is None:
            space = self if table is self.table else replace(self, table=table)
            return space, _Rated(counts, made_from, made_from, seen)
        total = counts + self.layer.worth(rows)
        table, groups = table.extended(np.where(total > 0, total, self.table.counts[0]))
        return replace(self, table=table), _Rated(counts, made_from, groups, total > 0)

    def _with_layer(
        self, rows: Rows, rated: _Rated, weights: Array, beyond: Array, with_priors: bool
    ) -> tuple[Array, Array]:
        """Weights of rows that have these by their samples, and what comes to their bias beyond the offsets.

        Those are what `CountTable` says of the weights.
        """
        if with_priors:
            beyond = beyond + np.log(np.where(rated.counts > 0, rated.counts, 1.0))
        if self.layer is not None:
            n = self.n_coordinates
            bias = self.table.of_means(weights[:, :n], rated.made_from) + beyond
            weights, bias = self.layer.mixed(rows, rated.counts, weights, bias)
            beyond = bias - self.table.of_means(weights[:, :n], rated.groups)
        return weights, np.where(rated.live, beyond, -np.inf).astype(weights.dtype)

    def _with_directions(self, raw: Array, means: Array, counts: Array) -> tuple[BayesSpace, Array]:
        """Room for classes that lie outside of the coordinates, and their posterior means out there.

        That they vary there by more than others do is left to the next renewal.
        """
        about = few_times(raw, self.probe)
        about = np.einsum("ij,ij->i", about, about)
        n_unsure = np.count_nonzero(about > UNSURE * self._least_far(counts))
        if not n_unsure or not (about > UNSURE * self._far(counts, about)).any():
            return self, np.zeros((len(raw), self.directions.shape[1]), raw.dtype)
        outside = self._outside(raw, means)
        squares = np.square(outside).sum(axis=1)
        share, least = self._share(counts, squares), self._far(counts, squares)
        directions, crowded = self.directions, self.crowded
        for row in np.flatnonzero(squares > least):
            rest = outside[row] - directions @ (directions.T @ outside[row])
            rest -= directions @ (directions.T @ rest)  # once more, for what rounding left
            length = float(np.linalg.norm(rest))
            if length**2 <= least[row]:
                continue
            if directions.shape[1] == MOST_DIRECTIONS:
                crowded = True
                break
            directions = np.column_stack([directions, rest / length])
        along = outside @ directions
        along[np.square(along).sum(axis=1) <= least] = 0.0
        along *= share[:, None].astype(along.dtype)
        if directions is self.directions:
            return replace(self, crowded=crowded), along
        added = self.whitening @ directions[:, self.directions.shape[1] :]
        rotation = np.asfortranarray(np.column_stack([self.rotation, added]))
        return replace(self, directions=directions, rotation=rotation, crowded=crowded), along

    def _outside(self, raw: Array, means: Array) -> Array:
        """Whitened rows, less what of them is in the coordinates, which is `means`."""
        if isinstance(self.whitening, UpperTriangle):
            within = few_times(means, self.rotation[:, : self.n_coordinates].T)
            return self.whitening.under(raw) - self.whitening.solved(within)
        assert self.basis is not None  # where the whitening is whole
        return few_times(raw, self.whitening) - few_times(means, self.basis.T)

    def _share(self, counts: Array, squares: Array) -> Array:
        """Of what is seen of class means at these squared distances from the coordinates, how much is true.

        By how much class means vary out there, these say themselves, as they will when T is measured anew.
        """
        known = counts * self.spread.size
        worth = known / (known + 1.0)
        psi = self.spread.elsewhere + self.spread.per_square * worth**2 * squares
        known = np.maximum(counts * psi, np.finfo(np.float64).tiny)
        share: Array = known / (known + 1.0)
        return share

    def _far(self, counts: Array, squares: Array) -> Array:
        """Squared distance from the coordinates at which a class with so many samples needs a direction.

        So far that its samples become likelier by it, and farther than is usual where directions were left
        out.
        """
        share = self._share(counts, squares)
        far: Array = np.maximum(WORTH_A_DIRECTION / (share * (1.0 - 0.5 * share)), self._least_far(counts))
        return far

    def _least_far(self, counts: Array) -> Array:
        """That distance is never less, whatever the class means say; it takes less time to know."""
        least = 2.0 * WORTH_A_DIRECTION  # by a share of 1
        if self.spread.left_out is None:
            return np.full(len(counts), least)
        usual = self.spread.left_out.true + self.spread.left_out.noise / np.maximum(counts, EMPTY)
        return np.maximum(least, UNUSUAL * usual)

    def lying_outside(self, moments: Moments) -> Rows:
        """Classes that lie so far outside of the coordinates that each may need a direction, the farthest."""
        rows, excess = self.excess_outside(moments)
        return np.sort(rows[:MOST_OUTSIDE][excess[:MOST_OUTSIDE] > 1.0])

    def excess_outside(self, moments: Moments) -> tuple[Rows, Array]:
        """Classes, the farthest outside first, and how many times as far each is as needs a direction."""
        rows = np.flatnonzero(moments.counts)
        if self.spread.left_out is None:
            return rows[:0], np.empty(0)
        squares = np.empty(len(rows))

        def measure(start: int, stop: int, _part: int) -> None:
            for first in range(start, stop, ROWS_AT_ONCE):
                some = slice(first, min(first + ROWS_AT_ONCE, stop))
                outside = moments.means_from(self.centre, rows[some]) @ self.probe
                squares[some] = np.einsum("ij,ij->i", outside, outside)

        in_parallel_with_blas(measure, len(rows), parts_for(len(rows) * self.probe.size))
        excess = squares / self._far(moments.counts_of(rows), squares)
        far = np.argsort(-excess, kind="stable")
        return rows[far], excess[far]

    def posterior_means(self, weights: Array, groups: Rows) -> Array:
        """Where classes with these weights are, in these coordinates."""
        means: Array = weights * self.table.variance[groups].astype(weights.dtype)
        return means

    def offsets_of(self, weights: Array, groups: Rows) -> Callable[[int, int], Array]:
        """What some of the coordinates add to the bias of classes with these weights."""
        return lambda start, stop: self.table.offsets(weights[:, start:stop], groups, start)

    def squares(self, groups: Rows) -> Squares | None:
        """What the squares of a query add to the scores of rows in these groups."""
        if len(self.table) == 1:
            return None
        return Squares(self.table.curvature, groups, self.table.typical)

    def classes(self, moments: Moments, n_rows: int, with_priors: bool) -> OrderedClasses:
        """All rows as `moments` has them now, to be searched."""
        every = np.arange(n_rows)
        space, rated = self._rated(every, moments.counts)
        table, groups = space.table, rated.groups

        def means(rows: Rows | slice) -> Array:
            weights, _ = space._weighed(moments, every[rows], rated.taken(rows), with_priors)
            return space.posterior_means(weights, groups[rows])

        def draw(n: int, rng: np.random.Generator) -> tuple[Array, Rows]:
            rows = rng.choice(np.flatnonzero(rated.live), n)
            noise = rng.standard_normal((n, space.n_coordinates), dtype=np.float32)
            spread = np.sqrt(table.variance[groups[rows]])
            queries: Array = means(rows) + noise * spread.astype(self.centre.dtype)
            return queries, rows

        def kept(n: int, rng: np.random.Generator) -> Array:
            return self.of_features(kept_queries(moments, n, rng))

        def parts(edges: Sequence[int]) -> list[Columns]:
            return space._parts(moments, rated, edges, with_priors)

        return OrderedClasses(
            rated.live,
            parts,
            table.reference,
            self.n_coordinates,
            self.centre.dtype,
            means,
            draw,
            kept,
            self.queries,
        )

    def _weighed(
        self, moments: Moments, rows: Rows, rated: _Rated, with_priors: bool, width: int | None = None
    ) -> tuple[Array, Array]:
        """Weights of rows, at least in the first coordinates, and what comes to their bias; O(d p) a row."""
        width = width if width is not None and self.layer is None else self.n_coordinates
        weights = moments.means_from(self.centre, rows) @ self.rotation[:, :width]
        weights *= self.table.gain[:, :width][rated.made_from]
        weights[rated.counts == 0] = 0.0
        return self._with_layer(rows, rated, weights, np.zeros(len(rows), weights.dtype), with_priors)

    def _parts(
        self, moments: Moments, rated: _Rated, edges: Sequence[int], with_priors: bool
    ) -> list[Columns]:
        """Weights of all rows in the coordinates from each edge to the next, and what they add: O(C d p)."""
        n_rows, dtype = len(rated.groups), self.centre.dtype
        kind = np.float16 if moments.half else dtype
        weights = [np.empty((n_rows, stop - start), kind) for start, stop in pairwise(edges)]
        offsets = [np.empty(n_rows, dtype) for _ in weights]

        def weigh(start: int, stop: int, _part: int) -> None:
            for first in range(start, stop, ROWS_AT_ONCE):
                block = slice(first, min(first + ROWS_AT_ONCE, stop))
                rows = np.arange(block.start, block.stop)
                new, beyond = self._weighed(moments, rows, rated.taken(block), with_priors, edges[-1])
                groups = rated.groups[block]
                for number, (left, right) in enumerate(pairwise(edges)):
                    with np.errstate(over="ignore"):  # it is refused below
                        weights[number][block] = new[:, left:right]
                    offsets[number][block] = self.table.offsets(new[:, left:right], groups, left)
                offsets[0][block] += beyond

        in_parallel_with_blas(weigh, n_rows, parts_for(n_rows * len(self.centre) * edges[-1]))
        for some in weights:
            check_half(some)
        squares = self.squares(rated.groups)
        return [
            Columns(some, offset, None if squares is None else squares.columns(start, stop))
            for some, offset, (start, stop) in zip(weights, offsets, pairwise(edges), strict=True)
        ]


class _Rated(NamedTuple):
    """What the samples of some rows are worth."""

    counts: Array  # (n,): samples
    made_from: Rows  # (n,): group of as many samples
    groups: Rows  # (n,): of as many samples, those among them that a layer's row counts as
    live: Array  # (n,): whether there are any

    def taken(self, rows: Rows | slice) -> _Rated:
        """Some of the rows."""
        return _Rated(*(part[rows] for part in self))
