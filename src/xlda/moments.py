"""Counts, class means and the pooled within-class scatter: exact algebra, no shrinkage, no prior.

Everything here is a sum over samples, so any order, batching or split gives the same moments, and what
was added can be taken away again. `docs/math.md` derives the formulas.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from xlda.arrays import Array, Rows, mirrored
from xlda.interrupts import interrupt_afterwards
from xlda.parallel import in_parallel, in_parallel_with_blas, n_threads
from xlda.rank_k import sum_of_outer_products

PENDING_BYTES = 32 * 2**20  # of residual rows kept before one rank-k product folds them in
MAX_PENDING = 8192  # rows: a longer float32 sum gains no speed and loses accuracy
HANDFUL = 16  # samples that are learned sooner one by one than as a batch
BLOCK = 128  # rows worked on at once: few enough to stay in the cache
PIECE = 1024  # rows shared out among threads
WORTH_THREADS = 2**17  # numbers to work on; fewer are done sooner than a thread wakes up
CROWD = 16  # more samples than this of one class in a batch are taken together
EMPTY = 1e-12  # a class left with less than this share of its count is empty


class Moments:
    """Running sums of a stream of (embedding, row) pairs, one row a class.

    Learning one sample costs O(d), and its share of a symmetric rank-k product every few thousand samples.
    Means are kept in the precision of the widest embeddings seen (float32 or float64), relative to one of the
    first, so that an offset common to all embeddings costs no accuracy; the scatter is always float64.

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

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features
        self.n_classes = 0
        self.n_samples = 0
        self._counts = np.zeros(0)
        self._origin = np.zeros(n_features, np.float32)
        self._has_origin = False
        self._offsets = np.zeros((0, n_features), np.float32)  # class means less the origin
        self._scatter = np.zeros((n_features, n_features), order="F")  # upper triangle, zeros below
        self._dof_of_dropped = 0.0
        self._frozen_dof: float | None = None
        self._pending: Array | None = None  # rows r whose r r^T is not in the scatter yet
        self._n_pending = 0
        self._pending_sign = 1
        self._products: list[Array] = []  # of the last fold, one a thread: memory used over and over
        self._work: Array | None = None

    # -- reading

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the means: float32, or float64 once a float64 embedding was seen."""
        return self._offsets.dtype

    @property
    def counts(self) -> Array:
        """Total weight of each class, shape (n_classes,)."""
        return self._counts[: self.n_classes].copy()

    def counts_of(self, rows: Rows) -> Array:
        """Total weight of each class in `rows`."""
        return self._counts[rows]

    @property
    def means(self) -> Array:
        """Class means, shape (n_classes, n_features); NaN for a class without samples."""
        means = self.means_from(np.zeros(self.n_features))
        means[self._counts[: self.n_classes] == 0] = np.nan
        return means

    def means_from(self, point: Array, rows: Rows | slice | None = None) -> Array:
        """Class means less `point`, shape (n_rows, n_features), without the rounding of a large offset."""
        offsets: Array = self._offsets[: self.n_classes]
        offsets = offsets if rows is None else offsets[rows]
        shift: Array = self._origin.astype(np.float64) - point
        means: Array = offsets + shift.astype(self.dtype)
        return means

    def centre(self) -> Array:
        """Mean of all samples, shape (n_features,), float64."""
        share = self._counts[: self.n_classes] / (self.total or 1.0)
        centre: Array = share.astype(self.dtype) @ self._offsets[: self.n_classes]
        return self._origin.astype(np.float64) + centre

    @property
    def scatter(self) -> Array:
        """Pooled within-class scatter, shape (n_features, n_features), float64."""
        self.fold()
        return mirrored(self._scatter)

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
        return self.scatter / (self.dof or 1.0)

    @property
    def total(self) -> float:
        """Total weight of all classes."""
        return float(self._counts[: self.n_classes].sum())

    @property
    def weight_learned(self) -> float:
        """Total weight that the covariance stands for, dropped classes included."""
        return self.total + self._dof_of_dropped

    @property
    def n_seen(self) -> int:
        """Classes that have samples."""
        return int(np.count_nonzero(self._counts[: self.n_classes]))

    # -- learning

    def update(self, embeddings: ArrayLike, rows: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Add samples: `embeddings` (n, n_features), `rows` (n,), `weights` (n,), positive."""
        self._absorb(embeddings, rows, weights, sign=1)

    def forget(self, embeddings: ArrayLike, rows: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Take samples away again, exactly; more than a class has is an error and changes nothing."""
        rows = np.asarray(rows, np.intp)
        taken = np.bincount(rows, weights=None if weights is None else np.asarray(weights, np.float64))
        have = np.zeros(len(taken))
        have[: self.n_classes] = self._counts[: min(len(taken), self.n_classes)]
        short = np.flatnonzero(taken > have * (1 + EMPTY))
        if short.size:
            raise ForgetError(int(short[0]), float(taken[short[0]]), float(have[short[0]]))
        self._absorb(embeddings, rows, weights, sign=-1)

    def merge(self, other: Moments, rows: Rows | None = None) -> None:
        """Add all that `other` has learned; its class i goes to row `rows[i]` here (default i).

        Another stream's class is one heavy sample at its mean, and the scatter within it.
        """
        rows = np.arange(other.n_classes) if rows is None else rows
        other = copy.deepcopy(other) if other is self else other
        self._widen(other.dtype)
        self.grow(int(rows.max(initial=-1)) + 1)
        if other._has_origin and not self._has_origin:
            self._set_origin(other._origin)
        if not self.frozen:
            self._merge_scatter(other)
        seen = np.flatnonzero(other._counts[: other.n_classes])
        shift: Array = self._origin.astype(np.float64) - other._origin  # from their origin to this one
        for some in _cut(seen, PIECE):
            offsets, counts = other._offsets, other._counts[some]
            self._absorb_distinct(offsets, some, shift.astype(self.dtype), rows[some], counts, sign=1)
        self.n_samples += other.n_samples

    def _merge_scatter(self, other: Moments) -> None:
        other.fold()
        if other._frozen_dof is not None:  # so is the sum
            self._frozen_dof = other._frozen_dof + (self.dof if self.n_samples else 0.0)
        self._scatter += other._scatter
        self._dof_of_dropped += other._dof_of_dropped

    def __add__(self, other: Moments) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        both = copy.deepcopy(self)
        both.merge(other)
        return both

    def join(self, into: int, other: int) -> None:
        """Make class `other` a part of class `into`; its row is left empty. Costs O(d)."""
        count = self._counts[other : other + 1].copy()
        if count[0] > 0:
            nothing = np.zeros_like(self._origin)
            self._absorb_distinct(self._offsets, np.array([other]), nothing, np.array([into]), count, sign=1)
        self._clear(other)

    def drop(self, row: int) -> None:
        """Let the class go. What it taught about the common covariance stays."""
        if self._counts[row] > 0:
            self._dof_of_dropped += float(self._counts[row]) - 1.0
        self._clear(row)

    def freeze(self) -> None:
        """Keep the covariance as it is now, if not kept already; counts and means go on learning."""
        self._frozen_dof = self.dof

    @property
    def frozen(self) -> bool:
        """Whether the covariance has stopped learning."""
        return self._frozen_dof is not None

    def reserve(self, n_classes: int) -> None:
        """Have memory for `n_classes`. It doubles, so that a new class costs O(d) in the long run."""
        if n_classes > len(self._counts):
            capacity = max(n_classes, 2 * len(self._counts), 8)
            self._offsets = _lengthened(self._offsets, capacity)
            self._counts = _lengthened(self._counts, capacity)

    def grow(self, n_classes: int) -> None:
        """Have at least `n_classes` rows."""
        self.reserve(n_classes)
        self.n_classes = max(self.n_classes, n_classes)

    def fold(self) -> None:
        """Bring the waiting rows into the scatter: one symmetric rank-k product, shared out among threads."""
        if self._pending is None or not self._n_pending:
            return
        rows, sign = self._pending[: self._n_pending], self._pending_sign
        parts = n_threads() if rows.size * self.n_features > WORTH_THREADS else 1
        while len(self._products) < parts:
            self._products.append(np.zeros(self._scatter.shape, self.dtype, order="F"))

        def multiply(start: int, stop: int, part: int) -> None:
            sum_of_outer_products(rows[start:stop], sign, self._products[part])

        def add(start: int, stop: int, part: int) -> None:
            for product in self._products[:parts]:
                self._scatter[:, start:stop] += product[:, start:stop]

        with interrupt_afterwards():  # or the rows would count twice
            in_parallel_with_blas(multiply, len(rows), parts)
            in_parallel(add, self.n_features, parts)
            self._n_pending = 0

    # -- how samples come in

    def _absorb(self, embeddings: ArrayLike, rows: ArrayLike, weights: ArrayLike | None, sign: int) -> None:
        embeddings, rows = np.asarray(embeddings), np.asarray(rows, np.intp)
        weights = None if weights is None else np.asarray(weights, np.float64)
        if not len(rows):
            return
        self._widen(embeddings.dtype)
        if not self._has_origin:
            self._set_origin(np.median(embeddings[:BLOCK], axis=0))  # far from no sample but outliers
        if len(rows) <= HANDFUL:
            for number, row in enumerate(rows.tolist()):
                self._absorb_one(embeddings[number], row, 1.0 if weights is None else weights[number], sign)
        else:
            self._absorb_many(embeddings, rows, np.ones(len(rows)) if weights is None else weights, sign)
        self.n_samples = max(self.n_samples + sign * len(rows), 0)
        if sign < 0 and not self._counts.any() and not self._dof_of_dropped and not self.frozen:
            self._scatter[:] = 0.0  # nothing is left, not even rounding
            self._n_pending = 0

    def _absorb_one(self, embedding: Array, row: int, weight: float, sign: int) -> None:
        """One sample: the formula of one row, without the cost of a batch."""
        self.grow(row + 1)
        before = float(self._counts[row])
        after = _left(before, before + sign * weight)
        offset = self._offsets[row]
        residual = embedding - self._origin
        residual -= offset
        if not self.frozen:
            scale = (weight * (before / after if after else 1.0)) ** 0.5
            np.multiply(residual, scale, out=self._waiting(1, sign)[0])
        residual *= sign * weight / after if after else 0.0
        offset += residual
        if not after:
            offset[:] = 0.0
        self._counts[row] = after

    def _absorb_many(self, embeddings: Array, rows: Rows, weights: Array, sign: int) -> None:
        """A batch, in portions of one class or of different ones."""
        self.grow(int(rows.max()) + 1)
        for samples, one_class in _portions(rows):
            if one_class:
                for some in _cut(samples, BLOCK):
                    self._absorb_class(embeddings, some, int(rows[some[0]]), weights[some], sign)
            else:
                for some in _cut(samples, PIECE):
                    self._absorb_distinct(embeddings, some, self._origin, rows[some], weights[some], sign)

    def _absorb_class(self, embeddings: Array, samples: Rows, row: int, weights: Array, sign: int) -> None:
        """Samples of one class."""
        weight = float(weights.sum())
        before = float(self._counts[row])
        after = _left(before, before + sign * weight)
        residuals = _taken(embeddings, samples, self._working_memory(1)[0])
        residuals -= self._origin
        if not before:
            self._offsets[row] = residuals[0]  # any start will do; a near one keeps the residuals small
        residuals -= self._offsets[row]
        one_each = bool((weights == 1.0).all())
        each = weights.astype(self.dtype)[:, None]
        shift = (residuals if one_each else residuals * each).sum(axis=0)
        self._counts[row] = after
        self._offsets[row] = self._offsets[row] + shift * (sign / after) if after else 0.0
        if self.frozen:
            return
        shift *= (1.0 - (before / after) ** 0.5) / weight if after else 0.0
        waiting = np.subtract(residuals, shift, out=self._waiting(len(residuals), sign))
        if not one_each:
            waiting *= np.sqrt(each)

    def _absorb_distinct(
        self, embeddings: Array, samples: Rows, origin: Array, rows: Rows, weights: Array, sign: int
    ) -> None:
        """Samples of different classes: `embeddings[samples] - origin` go to the classes `rows`."""
        before = self._counts[rows]
        after = before + sign * weights
        after[after < EMPTY * before] = 0.0
        left = after > 0
        divisor = np.where(left, after, 1.0)
        scale = np.sqrt(weights * np.where(left, before, 1.0) / divisor).astype(self.dtype)[:, None]
        step = (sign * weights / divisor).astype(self.dtype)[:, None]
        waiting = None if self.frozen else self._waiting(len(rows), sign)
        parts = n_threads() if len(rows) >= BLOCK and len(rows) * self.n_features > WORTH_THREADS else 1
        work = self._working_memory(2 * parts)

        def absorb(start: int, stop: int, part: int) -> None:
            for first in range(start, stop, BLOCK):
                block = slice(first, min(first + BLOCK, stop))
                residuals = _taken(embeddings, samples[block], work[2 * part])
                offsets = _taken(self._offsets, rows[block], work[2 * part + 1])
                residuals -= origin
                residuals -= offsets
                if waiting is not None:
                    np.multiply(residuals, scale[block], out=waiting[block])
                residuals *= step[block]
                offsets += residuals
                if sign < 0:
                    offsets[~left[block]] = 0.0
                self._offsets[rows[block]] = offsets

        in_parallel(absorb, len(rows), parts)
        self._counts[rows] = after

    def _working_memory(self, n_blocks: int) -> Array:
        """Blocks to work in, used over and over: fresh pages cost more than what is done in them."""
        work = self._work
        if work is None or len(work) < n_blocks or work.dtype != self.dtype:
            self._work = work = np.empty((n_blocks, BLOCK, self.n_features), self.dtype)
        return work

    def _waiting(self, n_rows: int, sign: int) -> Array:
        """Room for the next rows waiting to be folded in."""
        if self._pending is None:
            capacity = PENDING_BYTES // (self.n_features * self.dtype.itemsize)
            self._pending = np.empty((min(max(capacity, PIECE), MAX_PENDING), self.n_features), self.dtype)
        if self._n_pending + n_rows > len(self._pending) or sign != self._pending_sign:
            self.fold()
        self._pending_sign = sign
        start = self._n_pending
        self._n_pending += n_rows
        return self._pending[start : self._n_pending]

    def _set_origin(self, origin: Array) -> None:
        self._origin = origin.astype(self.dtype)
        self._has_origin = True

    def _widen(self, dtype: DTypeLike) -> None:
        if dtype != self.dtype and self.dtype == np.float32 and not np.can_cast(dtype, np.float32):
            self.fold()
            self._pending, self._products = None, []
            self._origin = self._origin.astype(np.float64)
            self._offsets = self._offsets.astype(np.float64)

    def _clear(self, row: int) -> None:
        self._counts[row] = 0.0
        self._offsets[row] = 0.0

    # -- leaving and coming back

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """All there is to know, as tensors (not copied where that can be) and as numbers."""
        tensors: dict[str, Array] = {
            "counts": self._counts[: self.n_classes],
            "origin": self._origin,
            "offsets": self._offsets[: self.n_classes],
            "scatter": self.scatter,
        }
        numbers = {
            "n_samples": self.n_samples,
            "dof_of_dropped": self._dof_of_dropped,
            "frozen_dof": self._frozen_dof,
        }
        return tensors, numbers

    @classmethod
    def from_arrays(cls, tensors: dict[str, Array], numbers: dict[str, Any]) -> Moments:
        """What `to_arrays` gave, as moments again."""
        offsets = tensors["offsets"]
        moments = cls(offsets.shape[1])
        moments.n_classes = len(offsets)
        moments._counts, moments._origin, moments._offsets = tensors["counts"], tensors["origin"], offsets
        moments._scatter = np.asfortranarray(np.triu(tensors["scatter"]))
        moments._has_origin = bool(moments._counts.any())
        moments.n_samples = numbers["n_samples"]
        moments._dof_of_dropped = numbers["dof_of_dropped"]
        moments._frozen_dof = numbers["frozen_dof"]
        return moments

    def __getstate__(self) -> dict[str, Any]:
        self.fold()
        return {**self.__dict__, "_pending": None, "_products": [], "_work": None}


class PublishedMoments(Moments):
    """The update as published (Hayes & Kanan 2020), sample by sample, for comparison with it.

    It differs from the pooled covariance in two ways: the first sample of a class is measured against a mean
    of zero, and the weight of a residual comes from the count of all samples instead of its class's. So the
    result depends on the order, and cannot be merged or undone.
    """

    @property
    def dof(self) -> float:
        """What the scatter is divided by: the number of samples."""
        return float(self.n_samples) if self._frozen_dof is None else self._frozen_dof

    def update(self, embeddings: ArrayLike, rows: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Add samples in the order given. With S = t Sigma, the rule reads S += t/(t+1) r r^T."""
        if weights is not None:
            raise ValueError("The published rule has no sample weights. Use rule='exact'.")
        embeddings = np.asarray(embeddings)
        rows = np.asarray(rows, np.intp)
        self._widen(embeddings.dtype)
        self.grow(int(rows.max(initial=-1)) + 1)
        for embedding, row in zip(embeddings, rows, strict=True):
            residual = embedding.astype(self.dtype) - self._offsets[row]
            if not self.frozen:
                scale = (self.n_samples / (self.n_samples + 1)) ** 0.5
                self._waiting(1, 1)[0] = residual * self.dtype.type(scale)
            self._counts[row] += 1
            self._offsets[row] += residual / self.dtype.type(self._counts[row])
            self.n_samples += 1

    def forget(self, embeddings: ArrayLike, rows: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Refuse: see the class."""
        raise ValueError("The published rule cannot be undone. Use rule='exact'.")

    def merge(self, other: Moments, rows: Rows | None = None) -> None:
        """Refuse: see the class."""
        raise ValueError("The published rule depends on the order, so it cannot be merged. Use rule='exact'.")

    def join(self, into: int, other: int) -> None:
        """Refuse: see the class."""
        raise ValueError("The published rule cannot join two classes. Use rule='exact'.")


class ForgetError(ValueError):
    """More of a class was to be forgotten than it has."""

    def __init__(self, row: int, taken: float, have: float) -> None:
        super().__init__(f"Cannot forget {taken:g} of row {row}: it has {have:g}.")
        self.row, self.taken, self.have = row, taken, have


def _portions(rows: Rows) -> Iterator[tuple[Rows, bool]]:
    """Cut a batch into samples that are all of one class (True) or all of different ones (False)."""
    n = len(rows)
    order = np.argsort(rows, kind="stable")
    is_first = np.diff(rows[order], prepend=-1) != 0
    starts = np.flatnonzero(is_first)
    sizes = np.diff(starts, append=n)
    crowded = sizes > CROWD
    for start, size in zip(starts[crowded], sizes[crowded], strict=True):
        yield order[start : start + size], True
    sparse = np.repeat(~crowded, sizes)
    turn = (np.arange(n) - np.repeat(starts, sizes))[sparse]  # which of its class's samples each one is
    in_turn = order[sparse][np.argsort(turn, kind="stable")]
    for same_turn in np.split(in_turn, np.cumsum(np.bincount(turn))[:-1]):
        yield same_turn, False


def _cut(indices: Rows, size: int) -> Iterator[Rows]:
    for start in range(0, len(indices), size):
        yield indices[start : start + size]


def _taken(array: Array, rows: Rows, block: Array) -> Array:
    """Copy some rows of `array` into `block`."""
    copied = block[: len(rows)]
    if array.dtype == block.dtype and array.flags.c_contiguous:
        return np.take(array, rows, axis=0, out=copied, mode="clip")
    copied[:] = array[rows]
    return copied


def _lengthened(array: Array, length: int) -> Array:
    longer = np.zeros((length, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def _left(before: float, after: float) -> float:
    """`after`, or 0 where that is all but rounding."""
    return after if after > EMPTY * before else 0.0
