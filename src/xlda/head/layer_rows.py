"""Rows of a fully connected layer, beside what was learned from samples.

A layer is defined up to a shift common to its rows, and its scale is arbitrary, so its logits cannot stand
beside those of LDA as they are. What is fitted is one scale and one offset for all of its rows: to samples of
its own classes where there are enough, else to those of other classes, for which every logit of the layer is
one of a wrong class. As samples of a class come, its row fades. `docs/math.md` says more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.section import Section
from xlda.head.model_samples import MOST_MEANS, ModelSampler
from xlda.moments import Moments

N_QUERIES = 512  # drawn from some classes, to fit the layer to
ENOUGH = 1.25  # samples of each of the layer's classes, on average, to say where they are,
AT_MOST = 2  # with no more of one class counted
EVEN = 0.7  # of the way to where neither the layer's classes nor the others win more from each other
ALONE = 2.0  # times the scale, where there are no others
LEAST_CORRELATION = 0.01  # of the layer's logits with LDA's: with less, its scale would be nothing
SPREAD = 0.7  # without such samples, of the layer's logits, as a share of that of the others,
LOST = 0.1  # and share of the queries that the layer may win
FARTHEST = 4.0  # squared: times the spread of samples, that zero may be away
ROWS_AT_ONCE = 4096  # classes that are scored at once

SECTION, SECTION_VERSION = "layer", 1  # of a file
TENSORS = ("weights", "bias", "worth")
FLOATS = (np.float32, np.float64)


@dataclass(frozen=True, eq=False)
class LayerRows:
    """Weights and biases of a layer; row i is that of the model's row i. Never changes."""

    weights: Array  # (n, d)
    bias: Array  # (n,)
    worth: Array  # (n,): samples that a row is worth beside real ones; 0 where the class is gone

    def __len__(self) -> int:
        """Classes that are imported."""
        return int(np.count_nonzero(self.worth))

    @property
    def nbytes(self) -> int:
        """Memory."""
        return self.weights.nbytes + self.bias.nbytes + self.worth.nbytes

    def has(self, row: int) -> bool:
        """Whether this row of the model is one of them."""
        return row < len(self.worth) and self.worth[row] > 0

    def without(self, row: int) -> LayerRows:
        """The others."""
        if not self.has(row):
            return self
        worth = self.worth.copy()
        worth[row] = 0.0
        return replace(self, worth=worth)

    def n_unseen(self, counts: Array) -> int:
        """How many have no sample yet, where the model's rows have `counts`."""
        return int(np.count_nonzero((self.worth > 0) & (counts[: len(self.worth)] == 0)))

    def n_others(self, counts: Array) -> int:
        """How many rows of the model have samples and are not among these."""
        others = counts > 0
        others[: len(self.worth)] &= self.worth == 0
        return int(np.count_nonzero(others))

    def covered_by(self, counts: Array) -> bool:
        """Whether so many samples of the model's rows say where these are; those of a few classes do not."""
        counted = np.minimum(counts[: len(self.worth)], AT_MOST)[self.worth > 0]
        return bool(counted.sum() >= ENOUGH * len(self))

    def to_section(self) -> Section:
        """As a section of a file."""
        return Section(SECTION, SECTION_VERSION, {name: getattr(self, name) for name in TENSORS})

    @classmethod
    def from_section(cls, section: Section, names: Sequence[object], n_features: int) -> LayerRows:
        """What `to_section` gave, for a model whose rows have these labels, None where there is none.

        Anything else is a ValueError that says what is wrong, as a part of a sentence.
        """
        section.check_tensors(*TENSORS)
        weights = section.tensor("weights", FLOATS, (None, n_features))
        bias = section.tensor("bias", FLOATS, (len(weights),))
        worth = section.tensor("worth", (np.float64,), (len(weights),))
        if len(weights) > len(names):
            raise ValueError(f"it has {len(weights)} rows of a layer for {len(names)} labels")
        if (worth < 0).any() or not worth.any():
            raise ValueError("its rows of a layer are worth less than nothing, or nothing at all")
        if any(names[row] is None for row in np.flatnonzero(worth).tolist()):
            raise ValueError("it has rows of a layer for classes without a label")
        return cls(weights, bias, worth)

    def as_they_are(self) -> FittedLayerRows:
        """The layer itself: where nothing was learned beside it, nothing is to be fitted."""
        nothing = np.zeros_like(self.weights[0])
        return FittedLayerRows(
            self, 1.0, 0.0, np.inf, nothing, 0.0, nothing, np.eye(len(nothing), dtype=nothing.dtype)
        )

    def fitted(
        self, moments: Moments, centre: Array, inverse: Array, weights: Array, bias: Array
    ) -> FittedLayerRows:
        """Scale and offset beside the classes in `moments`.

        `weights` and `bias` are LDA's, for all rows, with queries relative to `centre`; without samples, the
        bias is -inf. Costs O(n_queries C d + d^3).
        """
        kept, learned = np.flatnonzero(self.worth), np.flatnonzero(np.isfinite(bias))
        others, covered = np.setdiff1d(learned, kept), np.intersect1d(learned, kept)
        rows = FittedLayerRows(
            kept=self,
            scale=1.0,
            offset=0.0,
            odds=np.inf,
            common_weight=self.weights[kept].mean(axis=0, dtype=np.float64).astype(self.weights.dtype),
            common_bias=float(self.bias[kept].mean()),
            added_weight=np.zeros(len(centre), moments.dtype),
            covariance=np.linalg.inv(inverse).astype(moments.dtype),
        )
        if len(others) and not self.covered_by(moments.counts):
            away = inverse @ _away(moments, centre) / (len(learned) + 1)
            rows = replace(rows, added_weight=-away.astype(moments.dtype))
            return _guessed(rows, others, moments, centre, weights, bias)
        return _beside_samples(rows, covered, others, moments, centre, weights, bias)


@dataclass(frozen=True, eq=False)
class FittedLayerRows:
    """Imported rows on the scale of the others."""

    kept: LayerRows
    scale: float
    offset: float
    odds: float  # that the layer is right, against wrong: more samples than that it is not worth
    common_weight: Array  # (d,): what all rows have in common is taken off,
    common_bias: float
    added_weight: Array  # (d,): and this put in its place
    covariance: Array  # (d, d): as LDA uses it, shrunk

    def of(self, rows: Rows, centre: Array) -> tuple[Array, Array]:
        """Weights and bias of these rows, with queries relative to `centre`."""
        weights = self.kept.weights[rows] - self.common_weight
        bias = self.kept.bias[rows] - self.common_bias + weights @ centre.astype(weights.dtype)
        return self.scale * weights + self.added_weight, self.scale * bias + self.offset

    def mixed(
        self, rows: Rows, counts: Array, centre: Array, weights: Array, bias: Array
    ) -> tuple[Rows, Array, Array]:
        """LDA's `weights` and `bias` of the model's `rows`, from `counts` samples, mixed with the layer's.

        Gives the places among `rows` that are imported, and their weights and bias.
        """
        places = np.flatnonzero(rows < len(self.kept.worth))
        places = places[self.kept.worth[rows[places]] > 0]
        worth = np.minimum(self.kept.worth[rows[places]], self.odds)
        share = (worth / (worth + counts[places]))[:, None].astype(self.kept.weights.dtype)
        layer_weights, layer_bias = self.of(rows[places], centre)
        seen_bias = np.where(np.isfinite(bias[places]), bias[places], 0.0)
        return (
            places,
            share * layer_weights + (1 - share) * weights[places],
            share[:, 0] * layer_bias + (1 - share[:, 0]) * seen_bias,
        )


def _guessed(
    rows: FittedLayerRows, others: Rows, moments: Moments, centre: Array, weights: Array, bias: Array
) -> FittedLayerRows:
    """Fitted where nothing says where the layer's classes are, but that it is not among the `others`.

    For queries of these, the layer's logits are given the spread of LDA's wrong ones, and win now and then.
    """
    kept = np.flatnonzero(rows.kept.worth)
    plain = replace(rows, added_weight=np.zeros_like(rows.added_weight))
    rng = np.random.default_rng(0)
    queries, own = ModelSampler(moments, centre, rng).queries(N_QUERIES, rng, others)
    right, best = np.empty(N_QUERIES), np.full(N_QUERIES, -np.inf)
    wrong, wrong_of_layer = _Spread(), _Spread()
    for block in _blocks(others):
        scores = queries @ (weights[block] - rows.added_weight).T + bias[block]
        is_own = own[:, None] == block
        right[is_own.any(axis=1)] = scores[is_own]
        wrong.add(scores, is_own)
    for block in _blocks(kept):
        layer_weights, layer_bias = plain.of(block, centre)
        scores = queries @ layer_weights.T + layer_bias
        best = np.maximum(best, scores.max(axis=1))
        wrong_of_layer.add(scores, np.zeros(scores.shape, bool))
    spread, of_layer = wrong.value or float(right.std()), wrong_of_layer.value
    scale = SPREAD * (spread / of_layer if spread and of_layer else 1.0)
    return replace(rows, scale=scale, offset=float(np.quantile(right - scale * best, LOST)))


def _beside_samples(
    rows: FittedLayerRows,
    covered: Rows,
    others: Rows,
    moments: Moments,
    centre: Array,
    weights: Array,
    bias: Array,
) -> FittedLayerRows:
    """Fitted to samples of the layer's own classes, `covered`.

    What their LDA rows have in common takes the place of what the layer's have. The scale is that of least
    squares, from the layer's logits to LDA's; the offset puts the one of the own class where LDA has it.
    """
    kept, counts = np.flatnonzero(rows.kept.worth), moments.counts_of(covered)
    rng = np.random.default_rng(0)
    sampler = ModelSampler(moments, centre, rng)
    queries, own = sampler.queries(N_QUERIES, rng, covered)
    added = np.average(weights[covered], axis=0, weights=counts).astype(moments.dtype)
    scale = _slope(queries, rows.kept.weights, weights, covered) * (1.0 if len(others) else ALONE)
    rows = replace(rows, scale=scale, added_weight=added)
    layer_own, best = np.empty(N_QUERIES), np.full(N_QUERIES, -np.inf)
    for block in _blocks(kept):
        layer_weights, layer_bias = rows.of(block, centre)
        scores = queries @ layer_weights.T + layer_bias
        best = np.maximum(best, scores.max(axis=1))
        is_own = own[:, None] == block
        layer_own[is_own.any(axis=1)] = scores[is_own]
    n_right = np.count_nonzero(layer_own >= best)
    right = np.einsum("ij,ij->i", queries, weights[own]) + bias[own]
    rows = replace(
        rows,
        odds=(n_right + 0.5) / (N_QUERIES - n_right + 0.5),
        offset=float(np.median(right - layer_own)),
    )
    if not len(others):
        return rows
    lead = _lead(rows, queries, kept, others, moments, centre, weights, bias)
    elsewhere, _ = sampler.queries(N_QUERIES, rng, others)
    behind = _lead(rows, elsewhere, kept, others, moments, centre, weights, bias)
    # At this shift of all the layer's rows, as many of its queries are lost to the others as of theirs to it.
    even = float(np.median(np.concatenate([-lead, -behind])))
    return replace(rows, offset=rows.offset + EVEN * even)


def _lead(
    rows: FittedLayerRows,
    queries: Array,
    kept: Rows,
    others: Rows,
    moments: Moments,
    centre: Array,
    weights: Array,
    bias: Array,
) -> Array:
    """By how much the best of the layer's classes, as they are mixed, is ahead of the best of the others."""
    best, best_other = np.full(len(queries), -np.inf), np.full(len(queries), -np.inf)
    for block in _blocks(kept):
        counts = moments.counts_of(block)
        _, mixed, mixed_bias = rows.mixed(block, counts, centre, weights[block], bias[block])
        best = np.maximum(best, (queries @ mixed.T + mixed_bias).max(axis=1))
    for block in _blocks(others):
        best_other = np.maximum(best_other, (queries @ weights[block].T + bias[block]).max(axis=1))
    lead: Array = best - best_other
    return lead


def _slope(queries: Array, layer_weights: Array, weights: Array, classes: Rows) -> float:
    """LDA's logits of these classes as a multiple of the layer's, by least squares over queries.

    Whatever is common to all classes, or to all queries, is taken off both.
    """
    queries = queries - queries.mean(axis=0)
    means = layer_weights[classes].mean(axis=0), weights[classes].mean(axis=0)
    products = squares = squares_of_lda = 0.0
    for block in _blocks(classes):
        of_layer = (queries @ (layer_weights[block] - means[0]).T).ravel().astype(np.float64)
        of_lda = (queries @ (weights[block] - means[1]).T).ravel().astype(np.float64)
        products += float(of_layer @ of_lda)
        squares += float(of_layer @ of_layer)
        squares_of_lda += float(of_lda @ of_lda)
    if not squares or not squares_of_lda:
        return 1.0
    return float(max(products / squares, LEAST_CORRELATION * (squares_of_lda / squares) ** 0.5))


def _blocks(rows: Rows) -> Iterator[Rows]:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[start : start + ROWS_AT_ONCE]


class _Spread:
    """Standard deviation of numbers that come in blocks."""

    def __init__(self) -> None:
        self._n, self._sum, self._squares = 0, 0.0, 0.0

    def add(self, numbers: Array, but: Array) -> None:
        """Add all but those where `but` is set: few, so that no copy of the others is made."""
        left_out = numbers[but].astype(np.float64)
        self._n += numbers.size - left_out.size
        self._sum += float(numbers.sum(dtype=np.float64) - left_out.sum())
        squares = np.einsum("ij,ij->i", numbers, numbers).sum(dtype=np.float64)
        self._squares += float(squares - left_out @ left_out)

    @property
    def value(self) -> float:
        if not self._n:
            return 0.0
        variance = self._squares / self._n - (self._sum / self._n) ** 2
        return float(max(variance, 0.0) ** 0.5)


def _away(moments: Moments, centre: Array) -> Array:
    """From zero to the centre of what was learned, (d,), float64, but no further than samples are apart."""
    centre64: Array = centre.astype(np.float64)
    seen = np.flatnonzero(moments.counts)
    means = moments.means_from(centre, seen[:MOST_MEANS]).astype(np.float64)
    spread = float(np.trace(moments.covariance()) + np.square(means).sum(axis=1).mean())
    length = float(centre64 @ centre64)
    return centre64 * min(1.0, (FARTHEST * spread / length) ** 0.5) if spread and length else centre64
