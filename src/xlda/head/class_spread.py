"""How class means differ: their covariance T beside the covariance within classes. Float64, pure functions.

Learned means differ by more than the true ones do, since each is off by as much as its few samples scatter.
What is left when that is taken off is noisy in its turn, all the more the fewer classes there are. So means
count by what they are worth, and T is drawn towards a multiple of the covariance within classes.
`docs/math.md` derives it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from threading import Lock
from typing import NamedTuple

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.lapack import eigenvectors
from xlda._internal.threads import in_parallel_with_blas, parts_for
from xlda.head.count_table import groups_of
from xlda.head.covariance import Whitening
from xlda.head.lifted_shrinkage import worth_features
from xlda.moments import Moments
from xlda.moments.kept_spread import KeptSpread

LEAST = 1e-3  # spread of class means, in units of the spread within classes
CLASSES_A_FEATURE = 8.0  # times as many classes as this says: T is half known
MOSTLY_MEASURED = 0.5  # with a smaller share of T assumed, directions that chance may have made are left out
NOTHING, NOTHING_SINGLE = 1e-10, 1e-6  # of the largest eigenvalue: below it there is no direction
MANY_CLASSES = 8  # a feature: the lengths of more are estimated,
N_PROBES = 64  # by so many directions
MOST_SINGLE = 1e4  # of an eigenvalue, as one far class makes it; beside a larger one float32 hides the others
MOST_LOG = 400.0  # of the spread
ROWS_AT_ONCE = 2048  # classes that are whitened at once
COLUMNS_AT_ONCE = 512  # of a whitening, that the covariance is multiplied by at once


@dataclass(frozen=True, eq=False)
class ClassSpread:
    """Directions in which class means differ, in units of the covariance within classes, largest first."""

    centre: Array  # (d,): where class means lie
    basis: Array  # (d, n): orthonormal, of whitened space
    psi: Array  # (n,): variance of the class means along each
    size: float  # t: mean variance over all directions
    share: float  # b: of psi, that is t; the rest was measured
    measured: Array  # (n,): variance along each as it was measured, before it was shrunk
    worth: float  # classes that all the means are worth
    left_out: LeftOut | None  # where the directions are not all in which class means differ
    outside: float  # squared distance of samples from the directions, as it is on average

    @property
    def elsewhere(self) -> float:
        """Variance along a direction in which no class has gone yet."""
        return self.share * self.size

    @property
    def per_square(self) -> float:
        """What is added to that for each unit of squared distance at which a known class is out there."""
        return (1.0 - self.share) / self.worth

    def without_basis(self) -> ClassSpread:
        """The numbers alone."""
        return replace(self, basis=self.basis[:, :0].copy())

    def with_directions(self, products: Array) -> ClassSpread:
        """The same, and the directions of vectors in whitened space whose products v v.T have this sum."""
        rest = products - self.basis @ (self.basis.T @ products)
        rest -= (rest @ self.basis) @ self.basis.T
        values, vectors = eigenvectors(rest)
        more = vectors[:, values > NOTHING * np.trace(products)]
        more = np.linalg.qr(more - self.basis @ (self.basis.T @ more))[0]  # for what rounding left
        n = more.shape[1]
        return replace(
            self,
            basis=np.concatenate([self.basis, more], axis=1),
            psi=np.append(self.psi, np.full(n, self.elsewhere)),
            measured=np.append(self.measured, np.zeros(n)),
        )

    def kept(self, whitening: Whitening) -> KeptSpread:
        """What can be kept for ever: T in the units of the embeddings."""
        raw = whitening.factor @ self.basis
        return KeptSpread((raw * self.measured) @ raw.T, self.size, self.share)


class LeftOut(NamedTuple):
    """How class means lie in the directions that were left out, all of them together."""

    true: float  # sum of the variances of the true means,
    noise: float  # and of those of one sample about its mean


def class_spread(
    moments: Moments, whitening: Whitening, covariance: Array, kept: KeptSpread | None = None
) -> ClassSpread:
    """T of the classes that have samples, two or more; `covariance` is that within classes, not shrunk.

    With `kept`, T is as it was then, and only the directions are those of the classes as they are now.
    Costs O(C d^2 + d^3), and O(C^2 d) where there are fewer classes than features.
    """
    features = None if moments.lift is None else worth_features(covariance, moments.dof)
    means = _Whitened(moments, whitening, covariance)
    return spread_of(means, whitening, covariance, kept, features)


def spread_of(
    means: GroupedMeans,
    whitening: Whitening,
    covariance: Array,
    kept: KeptSpread | None = None,
    features: float | None = None,
) -> ClassSpread:
    """The same of means that may be anywhere; of a lift, so many `features` are to be known."""
    d = len(covariance)
    size = means.spread() if kept is None else kept.size
    weights, bias_factor, worth = means.weights(size)
    per_mean = float((weights * means.classes / means.counts).sum())  # one over the samples of a mean
    centre = means.centre(size)
    if kept is None:
        share = 1.0 / (1.0 + (CLASSES_A_FEATURE * worth / (d if features is None else features)) ** 2)
        measured, basis, noise = means.directions(centre, bias_factor * weights, per_mean)
        outside = means.noise * d - float(noise.sum())
    else:
        share = kept.share
        _, basis, noise = means.directions(centre, weights, 0.0)
        outside = means.noise * d - float(noise.sum())
        raw_basis = whitening.matrix @ basis
        measured, turn = eigenvectors(raw_basis.T @ kept.matrix @ raw_basis)
        measured, basis = measured[::-1], basis @ turn[:, ::-1]
        noise = np.zeros(len(measured))
    left_out = None
    if share < MOSTLY_MEASURED and len(measured):
        features_a_mean = d * float(means.classes @ weights**2)
        true = _along_what_was_measured(measured, per_mean * noise, features_a_mean)
        order = np.argsort(-true, kind="stable")
        told = order[: max(int((true > NOTHING * measured[0]).sum()), 1)]
        left_out = LeftOut(
            float(np.maximum(measured, 0.0).sum() - np.maximum(measured[told], 0.0).sum()),
            float(means.noise * d - noise[told].sum()),
        )
        measured, basis = true[told], basis[:, told]
        outside = left_out.true + left_out.noise
    psi, outside = _psi(measured, size, share), max(outside, 0.0)
    return ClassSpread(centre, basis, psi, size, share, measured, worth, left_out, outside)


def _along_what_was_measured(measured: Array, noise: Array, features_a_mean: float) -> Array:
    """Variance of the true means along directions in which they seemed to vary by `measured`.

    `noise` is what learned means vary by beside that. A direction that was measured is chosen for its noise
    as well and so is off the true one, the more the fewer means there are; none of one is true whose
    variance is no larger than noise alone may have made it.
    """
    seen = measured - features_a_mean * noise
    root = np.sqrt(np.maximum(seen**2 - 4.0 * features_a_mean * noise**2, 0.0))
    signal = 0.5 * (seen + root)  # along the true direction
    told = (seen > 0.0) & (root > 0.0)
    along = np.zeros_like(signal)
    squares = signal**2 - features_a_mean * noise**2
    np.divide(squares, signal + features_a_mean * noise, out=along, where=told)
    return along


def _psi(values: Array, size: float, share: float) -> Array:
    """Variances of class means, shrunk; `values` are what was measured."""
    if size <= LEAST:
        return np.maximum(values, LEAST)
    return (1.0 - share) * np.maximum(values, 0.0) + share * size


def probes(d: int) -> Array:
    """Directions (d, n) along which a point is as long as it is, to some percent; always the same ones."""
    if d <= N_PROBES:
        return np.eye(d)
    return _orthogonal(d, N_PROBES)


@cache
def _orthogonal(d: int, n: int) -> Array:
    normal = np.random.default_rng(0).standard_normal((d, n))
    orthogonal: Array = np.linalg.qr(normal)[0] * (d / n) ** 0.5
    orthogonal.flags.writeable = False  # all who ask get the same
    return orthogonal


class _Weights(NamedTuple):
    each: Array  # of the means in each group, so that all of them add up to 1
    bias_factor: float
    worth: float  # classes that all the means are worth


def lengths_along(whitening: Whitening, n_classes: int) -> Array:
    """What the lengths of whitened means are measured by: of very many, along some directions alone."""
    d = len(whitening.matrix)
    if n_classes > MANY_CLASSES * d:  # the lengths of so many need not be exact: their mean will be
        along: Array = whitening.matrix @ probes(d)
        return along
    return whitening.matrix


def _variance_under(whitening: Array, covariance: Array) -> float:
    """The trace of W' S W, of an upper triangle W; some columns of W at a time, so in little memory."""
    total = 0.0
    for first in range(0, len(whitening), COLUMNS_AT_ONCE):
        stop = first + COLUMNS_AT_ONCE
        some = whitening[:stop, first:stop]
        total += float(np.vdot(some, covariance[:stop, :stop].astype(some.dtype, copy=False) @ some))
    return total


class GroupedMeans(ABC):
    """Class means in the units of the covariance within, by groups of classes with as many samples.

    These units are those of the shrunk covariance, in which samples do not vary by 1 in every direction, and
    by less on the whole: what they do vary by is taken off what the means do. Where the means are, and who
    adds them up, is for those who say how they `scatter`.
    """

    counts: Array  # (n_groups,): samples of each class of a group
    classes: Array  # (n_groups,): classes in it
    _squares: Array  # (n_groups,): sum of the squared lengths of their means, whitened, less the base
    _sums: Array  # (n_groups, d): and of the means themselves

    def __init__(self, base: Array, whitening: Whitening, covariance: Array, single: bool) -> None:
        self._base, self._exact, self._covariance, self._single = base, whitening, covariance, single
        self._whitening = whitening.matrix.astype(np.float32 if single else np.float64, copy=False)
        self.noise = _variance_under(self._whitening, covariance) / len(covariance)

    @abstractmethod
    def scattered(self, centre: Array, weights: Array) -> Array:
        """Products of the means about a centre, in units of embeddings, weighted by group and added up."""

    def spread(self) -> float:
        """t: the mean variance of class means over all directions, where they count by what they are worth.

        That depends on t itself: the one fixed point is found to 1e-9, or the least there may be.
        """
        from scipy.optimize import brentq  # which takes long to import

        low, high = np.log(LEAST), np.log(1e6)
        if self._excess(low) <= 0:
            return LEAST
        while self._excess(high) > 0 and high < MOST_LOG:
            high *= 2.0
        means = [self]  # what SciPy is given refers to itself for a while, and would keep all of this alive
        try:
            root = brentq(lambda log_size: means[0]._excess(log_size), low, high, xtol=1e-12, rtol=1e-12)
        finally:
            means.clear()
        return float(np.exp(root))

    def _excess(self, log_size: float) -> float:
        """By how much the logarithm of the spread that is measured with this one is larger."""
        weights, bias_factor, _ = self.weights(np.exp(log_size))
        centre = self._centre(np.exp(log_size))
        squares = self._squares - 2.0 * self._sums @ centre + self.classes * float(centre @ centre)
        total = bias_factor * float(weights @ squares) / len(centre)
        noise = self.noise * float((weights * self.classes / self.counts).sum())
        return float(np.log(max(total - noise, LEAST)) - log_size)

    def weights(self, size: float) -> _Weights:
        """What the means of each group count, where class means have the spread `size`."""
        worth = self._worth(size)
        squares = float(self.classes @ worth**2)
        share = worth / float(self.classes @ worth)
        left = max(1.0 - float(self.classes @ share**2), np.finfo(np.float64).eps)
        return _Weights(worth**2 / squares, 1.0 / left, squares)

    def centre(self, size: float) -> Array:
        """Where class means lie, in the units of the embeddings."""
        centre: Array = self._base + self._exact.factor @ self._centre(size)
        return centre

    def directions(self, centre: Array, weights: Array, per_mean: float) -> tuple[Array, Array, Array]:
        """Variance of the true means along directions, largest first; the directions; and that of samples.

        They are those in which the means scatter at all: weighted, about the centre, less `per_mean` times
        what samples do.
        """
        scatter = self.scattered(centre, weights)
        scatter -= per_mean * self._covariance
        whitening: Array = self._whitening
        white: Array = whitening.T @ scatter.astype(whitening.dtype, copy=False) @ whitening
        del scatter  # memory
        values, basis = eigenvectors(white)
        if self._single and values[-1] > MOST_SINGLE:
            self._single, self._whitening = False, self._exact.matrix
            return self.directions(centre, weights, per_mean)
        values, basis, noise = self._with_noise(values, basis)
        scattered = values + per_mean * noise
        some = scattered > (NOTHING_SINGLE if self._single else NOTHING) * max(scattered.max(), 0.0)
        return values[some], basis[:, some], noise[some]

    def _with_noise(self, values: Array, basis: Array) -> tuple[Array, Array, Array]:
        """Values and directions, largest first, and what samples vary by along these."""
        values, basis = values[::-1].astype(np.float64), np.ascontiguousarray(basis[:, ::-1])
        within, noise = self._covariance.astype(basis.dtype, copy=False), np.empty_like(values)
        for first in range(0, basis.shape[1], COLUMNS_AT_ONCE):
            some = slice(first, first + COLUMNS_AT_ONCE)
            raw_basis: Array = self._whitening @ basis[:, some]
            noise[some] = np.einsum("ij,ij->j", raw_basis, within @ raw_basis)
        return values, basis, noise

    def _worth(self, size: float) -> Array:
        """Of each group: the share of the variance of its learned means that is that of the true ones."""
        worth: Array = 1.0 / (1.0 + 1.0 / (self.counts * size))
        return worth

    def _centre(self, size: float) -> Array:
        worth = self._worth(size)
        centre: Array = worth @ self._sums / float(self.classes @ worth)
        return centre


class _Whitened(GroupedMeans):
    """Those of moments that are here."""

    def __init__(self, moments: Moments, whitening: Whitening, covariance: Array) -> None:
        rows = np.flatnonzero(moments.counts)
        single = moments.dtype == np.float32 and len(rows) > len(covariance)
        super().__init__(moments.centre(), whitening, covariance, single)
        self._moments = moments
        self.counts, groups = groups_of(moments.counts_of(rows))
        order = np.argsort(groups, kind="stable")  # classes with as many samples together
        self.rows, self._groups = rows[order], groups[order]
        self.classes = np.bincount(self._groups).astype(np.float64)  # in each group
        towards = lengths_along(whitening, len(self.rows)).astype(self._whitening.dtype, copy=False)
        d, n_groups = len(covariance), len(self.counts)
        self._squares, raw_sums = np.zeros(n_groups), np.zeros((n_groups, d))
        self._means = np.empty((len(self.rows), d)) if len(self.rows) <= d else None  # where they are few

        def add(some: slice, raw: Array) -> None:
            white = raw @ towards
            squares = np.einsum("ij,ij->i", white, white, dtype=np.float64)
            groups, first = np.unique(self._groups[some], return_index=True)
            sums = [group.sum(axis=0) for group in np.split(raw, first[1:])]
            with adding:
                self._squares[groups] += np.add.reduceat(squares, first)
                raw_sums[groups] += sums
            if self._means is not None:
                self._means[some] = white

        adding = Lock()
        self._each_block(self._base, add)
        self._sums = raw_sums @ whitening.matrix

    def directions(self, centre: Array, weights: Array, per_mean: float) -> tuple[Array, Array, Array]:
        """The same; where classes are fewer than features, in the space of the classes."""
        if self._means is None:
            return super().directions(centre, weights, per_mean)
        shift = (centre - self._base) @ self._exact.matrix
        white = (self._means - shift) * np.sqrt(weights)[self._groups][:, None]
        values, vectors = eigenvectors(white @ white.T)
        values, vectors = values[1:], vectors[:, 1:]  # the means about their centre are one less
        some = values > NOTHING * max(values[-1], 0.0)
        span = white.T @ (vectors[:, some] / np.sqrt(values[some]))
        del white  # memory
        of_span = self._exact.matrix @ span
        within = np.diag(values[some]) - per_mean * (of_span.T @ self._covariance @ of_span)
        del of_span
        values, turn = eigenvectors(within)
        span = span @ turn
        return self._with_noise(values, span)

    def scattered(self, centre: Array, weights: Array) -> Array:
        """Of all means, on all threads."""
        d = len(self._covariance)
        scatter, adding, scale = np.zeros((d, d)), Lock(), np.sqrt(weights).astype(self._whitening.dtype)

        def add(some: slice, raw: Array) -> None:
            raw *= scale[self._groups[some]][:, None]
            products = raw.T @ raw
            with adding:
                scatter.__iadd__(products)

        self._each_block(centre, add)
        return scatter

    def _each_block(self, point: Array, work: Callable[[slice, Array], None]) -> None:
        """Call `work` with some of the classes and their means less `point`, on all threads."""

        def run(start: int, stop: int, _part: int) -> None:
            for first in range(start, stop, ROWS_AT_ONCE):
                some = slice(first, min(first + ROWS_AT_ONCE, stop))
                raw = self._moments.means_from(point, self.rows[some])
                work(some, raw.astype(self._whitening.dtype, copy=False))

        parts = parts_for(len(self.rows) * len(point) ** 2) if len(self.rows) > ROWS_AT_ONCE else 1
        in_parallel_with_blas(run, len(self.rows), parts)
