"""Rows of a fully connected layer in the coordinates of the Bayesian head.

The row of a class counts as some samples beside the real ones. A layer is defined up to what its rows have in
common, and up to a scale: these are fitted to the samples of its own classes. Where there are not enough of
them, `xlda.head.layer_rows` guesses. `docs/math.md` says more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.head.class_spread import ClassSpread
from xlda.head.covariance import Whitening
from xlda.head.layer_rows import LayerRows
from xlda.moments import Moments

MOST_CLASSES = 4096  # that the layer is fitted to
ROWS_AT_ONCE = 4096  # of the layer
POWER = 8.0  # of its odds of saying what samples say, by which a row is worth less where these are below 1
ALONE = 2.0  # times what a row is worth, where there are no other classes
LEAST = 1e-9  # samples that a row is worth


@dataclass(frozen=True, eq=False)
class LayerPrior:
    """Rows of a layer on the scale of the others, in their coordinates."""

    kept: LayerRows
    into: Array  # (n_features, n_coordinates): rows @ into are weights in the coordinates
    centre: Array  # (n_features,): where queries are zero
    scale: float
    times: float  # as many samples as it is said to be worth does a row count
    common_weight: Array  # (n_features,): what all rows have in common is taken off,
    common_bias: float
    added_weight: Array  # (n_coordinates,): and this put in its place
    added_bias: float

    def worth(self, rows: Rows) -> Array:
        """Samples that the layer's rows count as, (n,): 0 where a row of the model is none of them."""
        worth = np.zeros(len(rows))
        places = np.flatnonzero(rows < len(self.kept.worth))
        said = self.kept.worth[rows[places]]
        worth[places] = np.where(said > 0, np.maximum(self.times * said, LEAST), 0.0)
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


def with_layer_directions(spread: ClassSpread, whitening: Whitening, kept: LayerRows) -> ClassSpread:
    """The directions in which class means differ, and then those in which only the layer's rows do."""
    rows = np.flatnonzero(kept.worth)
    common = kept.weights[rows].mean(axis=0, dtype=np.float64)
    products = np.zeros_like(whitening.factor)
    for block in _blocks(rows):
        some = (kept.weights[block] - common) @ whitening.factor
        products += some.T @ some
    return spread.with_directions(products)


def fitted_prior(
    kept: LayerRows, moments: Moments, spread: ClassSpread, whitening: Whitening, with_priors: bool
) -> LayerPrior:
    """The layer fitted to the samples of its own classes.

    What the rows of these classes by their samples have in common takes the place of what the layer's have.
    The scale is that of least squares, from the layer's logits to theirs over queries as they are expected.
    Where a class's own logit then falls short of what it has by its samples, all are raised. Float64, and of
    some thousand classes at most.
    """
    imported = np.flatnonzero(kept.worth)
    plain = _as_it_is(kept, imported, moments.dtype, spread, whitening)
    counts = moments.counts
    classes = _classes(imported[counts[imported] > 0], moments, spread, whitening, with_priors)
    weights, means = classes.weights, classes.means
    about = means - means.mean(axis=0)
    queries = about.T @ about / len(means) + np.diag(classes.variances.mean(axis=0))  # their covariance
    of_layer, bias_of_layer = (part.astype(np.float64) for part in plain.of(classes.rows))
    one, other = of_layer - of_layer.mean(axis=0), weights - weights.mean(axis=0)
    products = float(np.vdot(one @ queries, other))
    squares, squares_of_other = float(np.vdot(one @ queries, one)), float(np.vdot(other @ queries, other))
    scale = max(products / squares, 0.0) if squares > 0 else 0.0
    explained = min(scale * products / squares_of_other, 1.0) if squares_of_other > 0 else 0.0
    agrees = min(explained / max(1.0 - explained, np.finfo(np.float64).eps), 1.0)
    added_weight = np.average(weights, axis=0, weights=classes.counts)
    added_bias = float(np.average(classes.bias, weights=classes.counts))
    own = np.einsum("ij,ij->i", weights, means) + classes.bias
    own_of_layer = np.einsum("ij,ij->i", scale * of_layer + added_weight, means) + scale * bias_of_layer
    short = float(np.median(own - own_of_layer - added_bias))
    alone = not kept.n_others(counts)
    return replace(
        plain,
        scale=scale,
        times=(ALONE if alone else 1.0) * agrees**POWER,
        added_weight=added_weight.astype(moments.dtype),
        added_bias=added_bias + agrees * max(short, 0.0),
    )


def _as_it_is(
    kept: LayerRows, imported: Rows, dtype: np.dtype[np.floating], spread: ClassSpread, whitening: Whitening
) -> LayerPrior:
    """The layer in the coordinates, less what its rows have in common."""
    into = whitening.factor @ spread.basis
    return LayerPrior(
        kept=kept,
        into=into.astype(dtype),
        centre=spread.centre.astype(dtype),
        scale=1.0,
        times=1.0,
        common_weight=kept.weights[imported].mean(axis=0, dtype=np.float64).astype(dtype),
        common_bias=float(kept.bias[imported].mean(dtype=np.float64)),
        added_weight=np.zeros(into.shape[1], dtype),
        added_bias=0.0,
    )


class _Classes(NamedTuple):
    """Classes as their samples have them, in the coordinates."""

    rows: Rows
    counts: Array
    means: Array  # (n, n_coordinates): where they are, as far as is known
    variances: Array  # (n, n_coordinates): of their samples about that
    weights: Array
    bias: Array  # (n,): but for the logarithms of the variances


def _classes(
    rows: Rows, moments: Moments, spread: ClassSpread, whitening: Whitening, with_priors: bool
) -> _Classes:
    if len(rows) > MOST_CLASSES:
        rows = np.sort(np.random.default_rng(0).choice(rows, MOST_CLASSES, replace=False))
    counts = moments.counts_of(rows)
    known = counts[:, None] * spread.psi
    variances = 1.0 + spread.psi / (known + 1.0)
    raw = moments.means_from(spread.centre, rows).astype(np.float64)
    means = (raw @ whitening.matrix @ spread.basis) * (known / (known + 1.0))
    weights = means / variances
    bias = -0.5 * np.einsum("ij,ij->i", means, weights)
    if with_priors:
        bias += np.log(counts)
    return _Classes(rows, counts, means, variances, weights, bias)


def _blocks(rows: Rows) -> Iterator[Rows]:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[start : start + ROWS_AT_ONCE]
