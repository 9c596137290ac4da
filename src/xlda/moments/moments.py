"""Counts, class means and the pooled within-class scatter: exact algebra, no shrinkage, no prior.

Everything here is a sum over samples, so any order, batching or split gives the same moments, and what
was added can be taken away again. `docs/math.md` derives the formulas.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, Self
from weakref import WeakSet

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from xlda._internal.arrays import Array, Rows
from xlda._internal.growing import copied, lengthened
from xlda._internal.interrupts import interrupt_afterwards
from xlda.lifting.lift import AT_ONCE, Lift
from xlda.moments.batch_update import EMPTY, BatchUpdate, first_samples, left
from xlda.moments.forgetting import ForgetError
from xlda.moments.kept_samples import KeptSamples
from xlda.moments.kept_spread import KeptSpread
from xlda.moments.origin import origin_for
from xlda.moments.sample_buffer import CAPACITY
from xlda.moments.scatter import WAITING_BYTES, Scatter
from xlda.moments.sketches import Sketches
from xlda.moments.viewer import Viewer

ONE_BY_ONE = 16  # samples that are learned sooner one by one than as a batch
PIECE = 2048  # samples of a batch absorbed at once, or classes looked at


class Moments:
    """Running sums of a stream of (embedding, row) pairs, one row a class.

    Learning one sample costs O(d), and its share of a symmetric rank-k product every few thousand samples.
    Means are kept in the precision of the widest embeddings seen (float32 or float64), or as float16 on
    request, relative to a point near the first of them, so that an offset common to all embeddings costs no
    accuracy; the scatter is always float64. With a `lift`, samples come as embeddings and are learned as its
    features, which `n_features` counts; embeddings are kept for checking.

    Arguments are trusted to be finite and of the right shape; `XLDA` checks them.

    >>> moments = Moments(n_features=2)
    >>> moments.update([[0.0, 0.0], [2.0, 0.0], [5.0, 5.0]], rows=[0, 0, 1])
    >>> moments.counts
    array([2., 1.])
    >>> moments.means
    array([[1., 0.],
           [5., 5.]])
    >>> moments.scatter
    array([[2., 0.],
           [0., 0.]])
    """

    def __init__(
        self,
        n_features: int,
        half: bool = False,
        check_samples: int = 0,
        lift: Lift | None = None,
        sketch_rows: int | None = None,
    ) -> None:
        self.n_features, self.lift = n_features, lift
        self.sketches = None if sketch_rows is None else Sketches(sketch_rows, n_features)  # of each class
        self.kept = KeptSamples(self.n_inputs, check_samples)  # to check with, never to learn from
        self._n_classes = 0
        self._n_samples = 0
        self._counts = np.zeros(0)
        self._n_seen: int | None = 0  # classes that have samples; None where nobody has counted them
        self._origin = np.zeros(n_features, np.float32)
        self._shift: Array | None = None  # the origin where it is not zero
        self._has_origin = False
        self._offsets = np.zeros((0, n_features), np.float16 if half else np.float32)  # means less the origin
        # Of features, a quarter of what the scatter takes: `lift` says how much memory there may be.
        waiting = WAITING_BYTES if lift is None else min(n_features**2, WAITING_BYTES)
        self._scatter = Scatter(n_features, self._origin.dtype, waiting)
        self._dof_of_dropped = 0.0
        self._frozen_dof: float | None = None
        self.kept_spread: KeptSpread | None = None  # frozen with the covariance
        self._change: Literal["done", "under way", "failed"] = "done"
        self.views: WeakSet[Viewer] = WeakSet()  # of what this was at some moment

    # -- reading

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of all arithmetic: float32, or float64 once a float64 embedding was seen."""
        self.check_whole()
        return self._origin.dtype

    @property
    def n_inputs(self) -> int:
        """Numbers in an embedding."""
        return self.n_features if self.lift is None else self.lift.n_inputs

    def lifted(self, embeddings: Array) -> Array:
        """What is learned of embeddings: they themselves, or their features."""
        return embeddings if self.lift is None else self.lift.features(embeddings)

    @property
    def n_classes(self) -> int:
        """Rows, those without samples included."""
        self.check_whole()
        return self._n_classes

    @property
    def n_samples(self) -> int:
        """Samples learned less those forgotten."""
        self.check_whole()
        return self._n_samples

    @property
    def half(self) -> bool:
        """Whether means are kept as float16."""
        return self._offsets.dtype == np.float16

    @property
    def counts(self) -> Array:
        """Total weight of each class, shape (n_classes,)."""
        self.check_whole()
        return self._counts[: self._n_classes].copy()

    def counts_of(self, rows: Rows | slice) -> Array:
        """Total weight of each class in `rows`."""
        self.check_whole()
        return self._counts[rows]

    @property
    def means(self) -> Array:
        """Class means, shape (n_classes, n_features); NaN for a class without samples."""
        means = self.means_from(np.zeros(self.n_features))
        means[self._counts[: self._n_classes] == 0] = np.nan
        return means

    def means_from(self, point: Array, rows: Rows | slice | None = None) -> Array:
        """Class means less `point`, shape (n_rows, n_features), without the rounding of a large offset."""
        self.check_whole()
        offsets = self._offsets_of(slice(None) if rows is None else rows)
        shift: Array = self._origin.astype(np.float64) - point
        means: Array = offsets + shift.astype(self.dtype)
        return means

    def _offsets_of(self, rows: Rows | slice) -> Array:
        """Class means less the origin, which may be the memory that they are kept in."""
        offsets: Array = self._offsets[: self._n_classes][rows]
        return offsets

    def residuals_of(self, rows: Rows) -> tuple[Array, Array]:
        """A few random sums of how samples of each class differ from its mean, (n, sketch_rows, n_features).

        And how many samples are in them, (n,): 0 where those of a class are not known.
        """
        self.check_whole()
        assert self.sketches is not None
        return self.sketches.residuals(rows, self._offsets_of(rows), self._counts[rows])

    def centre(self) -> Array:
        """Mean of all samples, shape (n_features,), float64."""
        self.check_whole()
        share = self._counts[: self._n_classes] / (self.total or 1.0)
        centre: Array = self._origin.astype(np.float64)
        for start in range(0, self._n_classes, PIECE):
            rows = slice(start, min(start + PIECE, self._n_classes))
            offsets = self._offsets_of(rows).astype(self.dtype, copy=False)
            centre += share[rows].astype(self.dtype) @ offsets
        return centre

    @property
    def scatter(self) -> Array:
        """Pooled within-class scatter, shape (n_features, n_features), float64."""
        self.check_whole()
        return self._scatter.matrix()

    @property
    def dof(self) -> float:
        """Degrees of freedom of the scatter: the total weight less one for each class.

        Weights count as repetitions, so whole ones give at least 1 wherever there is any scatter. Small
        fractions could give next to nothing, and a covariance out of all proportion: they give 1, or their
        sum if that is less.
        """
        if self._frozen_dof is not None:
            return self._frozen_dof
        return max(self.total - self.n_seen + self._dof_of_dropped, min(self.total, 1.0))

    def covariance(self) -> Array:
        """Unbiased pooled within-class covariance; zero where no class has a second sample."""
        covariance = self.scatter
        covariance /= self.dof or 1.0  # in place: the largest arrays that there are
        return covariance

    @property
    def total(self) -> float:
        """Total weight of all classes."""
        self.check_whole()
        return float(self._counts[: self._n_classes].sum())

    @property
    def weight_learned(self) -> float:
        """Total weight that the covariance stands for, dropped classes included."""
        return self.total + self._dof_of_dropped

    @property
    def nbytes(self) -> dict[str, int]:
        """Memory of each part."""
        scatter, waiting = self._scatter.nbytes
        sketches = None if self.sketches is None else self.sketches.first(self._n_classes)
        return {
            "class means": self._offsets[: self._n_classes].nbytes + self._counts.nbytes,
            "covariance": scatter,
            "rows waiting": waiting,
            "samples kept for checking": self.kept.nbytes,
            **({} if sketches is None else {"rows for a second look": sketches.nbytes}),
        }

    @property
    def n_seen(self) -> int:
        """Classes that have samples."""
        self.check_whole()
        if self._n_seen is None:
            self._n_seen = int(np.count_nonzero(self._counts[: self._n_classes]))
        return self._n_seen

    # -- learning

    def update(
        self,
        embeddings: ArrayLike,
        rows: ArrayLike,
        weights: ArrayLike | None = None,
        groups: Array | None = None,
    ) -> None:
        """Add samples: `embeddings` (n, n_inputs), `rows` (n,), `weights` (n,), positive.

        `groups` (n,), whole numbers, say which of them belong together; they are kept for checking.
        """
        embeddings, rows = np.asarray(embeddings), np.asarray(rows, np.intp)
        with self._changing():
            self._absorb(embeddings, rows, weights, sign=1)
            self.kept.add(embeddings, rows, weights, groups)

    def check_whole(self) -> None:
        """Refuse what a failed change has left."""
        if self._change == "failed":
            raise RuntimeError(
                "A change of this classifier failed in the middle, and what it left makes no sense. "
                "Load the classifier from its file, or fit it anew."
            )

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """All that changes counts, means or scatter stands in such a block.

        Signals wait for its end. Where it fails all the same, as for lack of memory, nothing can be read.
        """
        self.check_whole()
        with interrupt_afterwards():
            try:
                self._change = "under way"
                yield
                self._change = "done"
            finally:
                self._change = "done" if self._change == "done" else "failed"

    def forget(self, embeddings: ArrayLike, rows: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Take samples away again, exactly; more than a class has is an error and changes nothing."""
        embeddings, rows = np.asarray(embeddings), np.asarray(rows, np.intp)
        self.check_whole()
        taken = np.bincount(rows, weights=None if weights is None else np.asarray(weights, np.float64))
        have = np.zeros(len(taken))
        have[: self._n_classes] = self._counts[: min(len(taken), self._n_classes)]
        short = np.flatnonzero(taken > have * (1 + EMPTY))
        if short.size:
            raise ForgetError(int(short[0]), float(taken[short[0]]), float(have[short[0]]))
        with self._changing():
            self._absorb(embeddings, rows, weights, sign=-1)
            self.kept.remove(embeddings, rows, weights)

    def merge(self, other: Moments, rows: Rows | None = None, new: Array | None = None) -> None:
        """Add all that `other` has learned; its class i goes to row `rows[i]` here (default i).

        `new` (n_classes,) says which of these rows have no label before, for the samples kept for checking.

        Another stream's class is one heavy sample at its mean, and the scatter within it.
        """
        rows = np.arange(other.n_classes) if rows is None else rows
        other = copy.deepcopy(other) if other is self else other
        other.check_whole()
        with self._changing():
            self.widen(other.dtype)
            self.grow(int(rows.max(initial=-1)) + 1)
            if other._has_origin and not self._has_origin:
                self._set_origin(other._origin)
            if not self.frozen:
                self._merge_scatter(other)
            seen = np.flatnonzero(other._counts[: other.n_classes])
            shift: Array = self._origin.astype(np.float64) - other._origin  # from their origin to this one
            for start in range(0, len(seen), PIECE):
                some = seen[start : start + PIECE]
                offsets, counts = other._offsets[some], other._counts[some]
                self._absorb_many(offsets, shift.astype(self.dtype), rows[some], counts, sign=1)
            if self.sketches is not None and other.sketches is not None:
                self.sketches.merge(other.sketches, rows, -shift)
            self._n_samples += other._n_samples
            if new is not None:
                self.kept.merge(other.kept, rows, new)

    def _merge_scatter(self, other: Moments) -> None:
        if other._frozen_dof is not None:  # so is the sum
            self._frozen_dof = other._frozen_dof + (self.dof if self._n_samples else 0.0)
            self.kept_spread = other.kept_spread
        self._scatter.add(other._scatter)
        self._dof_of_dropped += other._dof_of_dropped

    def __add__(self, other: Moments) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        both = copy.deepcopy(self)
        both.merge(other)
        return both

    def join(self, into: int, other: int) -> None:
        """Make class `other` a part of class `into`; its row is left empty. Costs O(d)."""
        with self._changing():
            count = self._counts[other : other + 1].copy()
            if count[0] > 0:
                offset = self._offsets[other : other + 1].copy()
                self._absorb_many(offset, None, np.array([into]), count, sign=1)
                self.kept.join(into, other)
                if self.sketches is not None:
                    self.sketches.join(into, other)
            self._clear(other)

    def drop(self, row: int) -> None:
        """Let the class go. What it taught about the common covariance stays."""
        with self._changing():
            if self._counts[row] > 0:
                self._dof_of_dropped += float(self._counts[row]) - 1.0
            self.kept.drop(row)
            self._clear(row)

    def freeze(self, spread: KeptSpread | None = None) -> None:
        """Keep the covariance as it is now, if not kept already, and how class means differ, if known.

        Counts and means go on learning.
        """
        self._frozen_dof, self.kept_spread = self.dof, spread

    @property
    def frozen(self) -> bool:
        """Whether the covariance has stopped learning."""
        return self._frozen_dof is not None

    def reserve(self, n_classes: int) -> None:
        """Have memory for `n_classes`, without a long wait for a copy of all that there are."""
        if n_classes > min(len(self._offsets), len(self._counts)):
            offsets, counts = lengthened(self._offsets, n_classes), lengthened(self._counts, n_classes)
            if self.sketches is not None:
                self.sketches.reserve(n_classes)
            self._offsets, self._counts = offsets, counts  # both or none

    def grow(self, n_classes: int) -> None:
        """Have at least `n_classes` rows."""
        self.reserve(n_classes)
        self._n_classes = max(self._n_classes, n_classes)

    def fold(self) -> None:
        """Bring all that waits into the scatter, so that the next to read it need not."""
        self.check_whole()
        self._scatter.fold()

    # -- how samples come in

    def _absorb(self, embeddings: Array, rows: Rows, weights: ArrayLike | None, sign: int) -> None:
        weights = None if weights is None else np.asarray(weights, np.float64)
        if not len(rows):
            return
        if len(rows) <= CAPACITY:
            self._scatter.fold_some()
        at_once = len(rows) if self.lift is None else AT_ONCE
        for start in range(0, len(rows), at_once):
            some = slice(start, start + at_once)
            features = self.lifted(embeddings[some])
            self._absorb_features(features, rows[some], None if weights is None else weights[some], sign)
        if self.sketches is not None:
            self.sketches.add(embeddings, self._origin, rows, weights, sign)
            if sign < 0:
                self.sketches.clear(rows[self._counts[rows] == 0])
        if sign < 0 and not self._counts.any() and not self._dof_of_dropped and not self.frozen:
            self._scatter.clear()  # nothing is left, not even rounding

    def _absorb_features(self, features: Array, rows: Rows, weights: Array | None, sign: int) -> None:
        self.widen(features.dtype)
        if not self._has_origin:
            self._set_origin(origin_for(features))
        if len(rows) <= ONE_BY_ONE:
            for number, row in enumerate(rows.tolist()):
                self._absorb_one(features[number], row, 1.0 if weights is None else weights[number], sign)
        else:
            each = np.ones(len(rows)) if weights is None else weights
            self._absorb_many(features, self._shift, rows, each, sign)
        self._n_samples = max(self._n_samples + sign * len(rows), 0)

    def _absorb_one(self, embedding: Array, row: int, weight: float, sign: int) -> None:
        """One sample: the formula of one row, without the cost of a batch."""
        self.grow(row + 1)
        if self.views:
            self._keep_for_views(np.array([row]))
        before = float(self._counts[row])
        after = left(before, before + sign * weight)
        offset = self._offsets[row]
        if self._shift is not None:
            embedding = embedding - self._shift
        residual = embedding - offset
        if not self.frozen and (before or sign < 0):  # the first of a class leaves nothing to the scatter
            scale = (weight * (before / after if after else 1.0)) ** 0.5
            np.multiply(residual, scale, out=self._scatter.waiting(1, sign)[0])
        residual *= sign * weight / after if after else 0.0
        offset += residual
        if not after:
            offset[:] = 0.0
        self._counts[row] = after
        if self._n_seen is not None:
            self._n_seen += bool(after) - bool(before)

    def _absorb_many(
        self, embeddings: Array, origin: Array | None, rows: Rows, weights: Array, sign: int
    ) -> None:
        """A batch, piece by piece; `embeddings - origin` are offsets."""
        self._n_seen = None
        self.grow(int(rows.max(initial=-1)) + 1)
        self._keep_for_views(rows)
        at_once = min(PIECE, self._scatter.most_waiting)
        for start in range(0, len(rows), at_once):
            piece = slice(start, start + at_once)
            some: Array = np.ascontiguousarray(embeddings[piece], self.dtype)
            firsts = first_samples(self._counts, rows[piece]) if sign > 0 else rows[:0]
            waiting = None if self.frozen else self._scatter.waiting(len(some) - len(firsts), sign)
            batch = some, origin, rows[piece], weights[piece], sign, firsts
            BatchUpdate(*batch, self._counts, self._offsets, waiting, self._scatter.work()).absorb()

    def _set_origin(self, origin: Array) -> None:
        self._origin = origin.astype(self.dtype)
        self._shift = self._origin if self._origin.any() else None
        self._has_origin = True

    def widen(self, dtype: DTypeLike) -> None:
        """Go on in float64 where `dtype` asks for that."""
        if dtype != self.dtype and self.dtype == np.float32 and not np.can_cast(dtype, np.float32):
            self._origin = self._origin.astype(np.float64)
            self._scatter.widen(self._origin.dtype)
            self._shift = None if self._shift is None else self._origin
            if not self.half:
                self._offsets = copied(self._offsets[: self._n_classes], dtype=np.float64)

    def _keep_for_views(self, rows: Rows) -> None:
        """Tell those who look at these moments that means are about to change."""
        for view in tuple(self.views):
            view.keep(rows)

    def _clear(self, row: int) -> None:
        self._keep_for_views(np.array([row]))
        self._counts[row] = 0.0
        self._offsets[row] = 0.0
        self._n_seen = None
        if self.sketches is not None:
            self.sketches.clear(np.array([row]))

    # -- leaving and coming back

    def __getstate__(self) -> dict[str, Any]:
        self.check_whole()
        used = slice(self._n_classes)
        arrays = {"_offsets": self._offsets[used], "_counts": self._counts[used]}
        state = {**self.__dict__, **arrays}
        if self.sketches is not None:
            state["sketches"] = self.sketches.first(self._n_classes)
        del state["views"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        offsets = copied(state["_offsets"])  # with room for more
        self.__dict__.update(state, _offsets=offsets, views=WeakSet())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        state = self.__getstate__()
        offsets, other = state.pop("_offsets"), type(self).__new__(type(self))
        other.__setstate__({**copy.deepcopy(state, memo), "_offsets": offsets})
        return other
