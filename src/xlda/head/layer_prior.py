"""Rows of a fully connected layer in the coordinates of the Bayesian head.

The row of a class counts as some samples beside the real ones. A layer is defined up to what its rows have in
common, and up to a scale: these are fitted to the samples of its own classes where there are enough, else to
those of other classes. `docs/math.md` derives it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from xlda._internal.arrays import Array, Rows
from xlda.head.class_spread import ClassSpread
from xlda.head.layer_rows import LayerRows, away_from_zero
from xlda.moments import Moments

MOST_CLASSES = 4096  # that the layer is fitted to
ROWS_AT_ONCE = 4096  # of the layer
POWER = 8.0  # of its odds of saying what samples say, by which a row is worth less where these are below 1
ALONE = 2.0  # times what a row is worth, where there are no other classes
LEAST = 1e-6  # times what a row is worth
N_QUERIES = 512  # drawn from other classes where the layer's have no samples,
LOST = 0.05  # and share of them that the layer may win


@dataclass(frozen=True, eq=False)
class LayerPrior:
    """Rows of a layer on the scale of the others, in their coordinates."""

    kept: LayerRows
    into: Array  # (n_features, n_coordinates): rows @ into are weights in the coordinates
    scale: float
    times: float  # as many samples as it is said to be worth does a row count
    common_weight: Array  # (n_features,): what all rows have in common is taken off,
    common_bias: float
    added_weight: Array  # (n_coordinates,): and this put in its place
    added_bias: float
    centre: Array  # (n_features,): where queries are zero

    def worth(self, rows: Rows) -> Array:
        """Samples that the layer's rows count as, (n,): 0 where a row of the model is none of them."""
        worth = np.zeros(len(rows))
        places = np.flatnonzero(rows < len(self.kept.worth))
        worth[places] = self.times * self.kept.worth[rows[places]]
        return worth

    def of(self, rows: Rows) -> tuple[Array, Array]:
        """Weights and bias of some of the layer's rows, in the coordinates."""
        plain = self.kept.weights[rows] - self.common_weight
        bias = self.kept.bias[rows] - self.common_bias + plain @ self.centre
        return self.scale * (plain @ self.into) + self.added_weight, self.scale * bias + self.added_bias

    def mixed(self, rows: Rows, counts: Array, weights: Array, bias: Array) -> tuple[Array, Array]:
        """Weights and bias of the model's `rows`, from `counts` samples, with the layer's rows among them.

        There may be more columns than coordinates, in which the layer's rows are 0.
        """
        worth = self.worth(rows)
        places = np.flatnonzero(worth)
        share = (worth[places] / (worth[places] + counts[places])).astype(weights.dtype)
        of_layer, bias_of_layer = self.of(rows[places])
        weights, bias = weights.copy(), bias.copy()
        weights[places] *= (1 - share)[:, None]
        weights[places, : of_layer.shape[1]] += share[:, None] * of_layer
        bias[places] = share * bias_of_layer + (1 - share) * bias[places]
        return weights, bias


def with_layer_directions(spread: ClassSpread, factor: Array, kept: LayerRows) -> ClassSpread:
    """The directions in which class means differ, and then those in which only the layer's rows do."""
    rows = np.flatnonzero(kept.worth)
    common = kept.weights[rows].mean(axis=0, dtype=np.float64)
    products = np.zeros_like(factor)
    for block in _blocks(rows):
        some = (kept.weights[block] - common) @ factor
        products += some.T @ some
    return spread.with_directions(products)


def with_zero(moments: Moments) -> Moments:
    """What was learned, and one class more at zero, where none is: what the layer's classes are apart from.

    About a single class nothing could be said of how classes differ.
    """
    more, row = copy.deepcopy(moments), moments.n_classes
    centre = moments.centre()
    point = (centre - away_from_zero(moments, centre)).astype(moments.dtype)
    more.grow(row + 1)
    more.trust(point[None], np.array([row]), float(moments.counts.max()))
    return more


@dataclass(frozen=True, eq=False)
class LayerFit:
    """Fits a layer to the classes that have samples; float64, of no more than some thousand of them."""

    kept: LayerRows
    moments: Moments
    spread: ClassSpread
    factor: Array  # (n_features, n_features): times its transpose, the covariance within classes
    with_priors: bool

    def prior(self) -> LayerPrior:
        """The layer on the scale of the others."""
        counts, worth = self.moments.counts, self.kept.worth
        imported = np.flatnonzero(worth)
        others = np.setdiff1d(np.flatnonzero(counts), imported)
        if len(others) and not self.kept.covered_by(counts):
            return self._beside_others(others)
        return self._beside_samples(imported[counts[imported] > 0], 1.0 if len(others) else ALONE)

    def _beside_samples(self, covered: Rows, times: float) -> LayerPrior:
        """Fitted to samples of the layer's own classes.

        What their rows have in common takes the place of what the layer's have. The scale is that of least
        squares, from the layer's logits to theirs over queries as they are expected. Where a class's own
        logit falls short of what it has by its samples, all are raised.
        """
        plain, classes = self._plain(), self._classes(covered)
        weights, means, counts = classes.weights, classes.means, classes.counts
        about = means - means.mean(axis=0)
        queries = about.T @ about / len(means) + np.diag(classes.variances.mean(axis=0))
        of_layer, bias_of_layer = (part.astype(np.float64) for part in plain.of(classes.rows))
        one, other = of_layer - of_layer.mean(axis=0), weights - weights.mean(axis=0)
        products = float(np.vdot(one @ queries, other))
        squares, squares_of_other = np.vdot(one @ queries, one), np.vdot(other @ queries, other)
        scale = max(products / float(squares), 0.0) if squares > 0 else 0.0
        explained = min(scale * products / float(squares_of_other), 1.0) if squares_of_other > 0 else 0.0
        odds = explained / max(1.0 - explained, np.finfo(np.float64).eps)
        added_weight = np.average(weights, axis=0, weights=counts)
        added_bias = float(np.average(classes.bias, weights=counts))
        own = np.einsum("ij,ij->i", weights, means) + classes.bias
        own_of_layer = np.einsum("ij,ij->i", scale * of_layer + added_weight, means)
        short = float(np.median(own - own_of_layer - scale * bias_of_layer - added_bias))
        return replace(
            plain,
            scale=scale,
            times=times * max(min(odds, 1.0) ** POWER, LEAST),
            added_weight=added_weight.astype(plain.added_weight.dtype),
            added_bias=added_bias + max(short, 0.0),
        )

    def _beside_others(self, others: Rows) -> LayerPrior:
        """Fitted where nothing says where the layer's classes are, but that they are not among the `others`.

        For queries of these, the layer's logits are given the spread of wrong ones, and win now and then.
        """
        plain, classes = self._plain(), self._classes(others)
        weights, means, noise = classes.weights, classes.means, classes.variances.mean(axis=0)
        n = len(means)
        queries = means.T @ means / n  # about zero, which counts as one more class
        right = np.einsum("ij,ij->i", weights, means)
        wrong = (np.vdot(weights @ queries, weights) - right @ right / n) / n + (weights**2 @ noise).mean()
        imported, wrong_of_layer = np.flatnonzero(self.kept.worth), 0.0
        for block in _blocks(imported):
            of_layer = plain.of(block)[0].astype(np.float64)
            wrong_of_layer += float(np.vdot(of_layer @ queries, of_layer) + (of_layer**2 @ noise).sum())
        scale = float(wrong * len(imported) / wrong_of_layer) ** 0.5 if wrong_of_layer > 0 else 1.0
        scaled = replace(plain, scale=scale)
        rng = np.random.default_rng(0)
        own = rng.integers(n, size=N_QUERIES)
        drawn = rng.standard_normal((N_QUERIES, len(noise)))
        drawn = means[own] + drawn * np.sqrt(classes.variances[own])
        best = np.full(N_QUERIES, -np.inf)
        for block in _blocks(imported):
            layer_weights, layer_bias = scaled.of(block)
            scores = drawn @ layer_weights.T + layer_bias
            for count in np.unique(scaled.worth(block)):
                of_count = scaled.worth(block) == count
                squares = _squares(drawn, self.spread.psi, np.full(N_QUERIES, count))
                best = np.maximum(best, scores[:, of_count].max(axis=1) + squares)
        scores = np.einsum("ij,ij->i", drawn, weights[own]) + classes.bias[own]
        scores += _squares(drawn, self.spread.psi, classes.counts[own])
        return replace(scaled, added_bias=float(np.quantile(scores - best, LOST)))

    def _plain(self) -> LayerPrior:
        """The layer as it is, less what its rows have in common."""
        kept, dtype = self.kept, self.moments.dtype
        rows, centre = np.flatnonzero(kept.worth), self.spread.centre
        common = kept.weights[rows].mean(axis=0, dtype=np.float64)
        into = self.factor @ self.spread.basis
        return LayerPrior(
            kept=kept,
            into=into.astype(dtype),
            scale=1.0,
            times=1.0,
            common_weight=common.astype(dtype),
            common_bias=float(kept.bias[rows].mean(dtype=np.float64)),
            added_weight=np.zeros(into.shape[1], dtype),
            added_bias=0.0,
            centre=centre.astype(dtype),
        )

    def _classes(self, rows: Rows) -> _Classes:
        """Classes as their samples have them, in the coordinates."""
        if len(rows) > MOST_CLASSES:
            rows = np.sort(np.random.default_rng(0).choice(rows, MOST_CLASSES, replace=False))
        counts = self.moments.counts_of(rows)
        known = counts[:, None] * self.spread.psi
        variances = 1.0 + self.spread.psi / (known + 1.0)
        raw = self.moments.means_from(self.spread.centre, rows).astype(np.float64)
        white = solve_triangular(self.factor, raw.T, lower=True).T @ self.spread.basis
        means = white * (known / (known + 1.0))
        weights = means / variances
        bias = -0.5 * np.einsum("ij,ij->i", means, weights)
        if self.with_priors:
            bias += np.log(counts)
        return _Classes(rows, counts, means, variances, weights, bias)


class _Classes(NamedTuple):
    rows: Rows
    counts: Array
    means: Array  # (n, n_coordinates): where they are, as far as is known
    variances: Array  # (n, n_coordinates): of their samples about that
    weights: Array
    bias: Array  # (n,): but for the logarithms of the variances


def _squares(queries: Array, psi: Array, counts: Array) -> Array:
    """What the squares of each query add to the score of a class with so many samples, (n,)."""
    variances = 1.0 + psi / (counts[:, None] * psi + 1.0)
    added: Array = -0.5 * (queries**2 / variances + np.log(variances)).sum(axis=1)
    return added


def _blocks(rows: Rows) -> Iterator[Rows]:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[start : start + ROWS_AT_ONCE]
