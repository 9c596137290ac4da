"""Rows of a fully connected layer, beside what was learned from samples.

A layer is defined up to a shift common to its rows, and its scale is arbitrary, so its logits cannot stand
beside those of LDA as they are. Among its own classes the layer goes on deciding as it did; what is fitted is
one scale and one offset for all of its rows, from classes that are not the layer's: for samples of these,
every logit of the layer is one of a wrong class. `docs/math.md` says more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from xlda.arrays import Array, Rows
from xlda.drawing import MOST_MEANS, drawn_queries
from xlda.moments import Moments

N_QUERIES = 512  # drawn from the classes that are not the layer's
SPREAD = 0.7  # of the layer's logits, as a share of that of the others,
ALONE = 1.5  # and where there are no others
LOST = 0.1  # share of the queries that the layer may win
ENOUGH = 2  # samples of each of the layer's classes, on average, for these to say where they are
FARTHEST = 4.0  # squared: times the spread of samples, that zero may be away
SCORES_AT_ONCE = 2**22  # entries of the largest block of scores


@dataclass(frozen=True, eq=False)
class ImportedRows:
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

    def without(self, row: int) -> ImportedRows:
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

    def to_arrays(self) -> dict[str, Array]:
        """As named tensors."""
        return {f"layer_{name}": getattr(self, name) for name in ("weights", "bias", "worth")}

    @classmethod
    def from_arrays(cls, tensors: dict[str, Array]) -> ImportedRows | None:
        """What `to_arrays` gave; None where there is none among `tensors`."""
        if "layer_weights" not in tensors:
            return None
        return cls(*(tensors[f"layer_{name}"] for name in ("weights", "bias", "worth")))

    def as_they_are(self) -> FittedRows:
        """The layer itself: where nothing was learned beside it, nothing is to be fitted."""
        nothing = np.zeros_like(self.weights[0])
        return FittedRows(self, 1.0, 0.0, nothing, 0.0, nothing, np.eye(len(nothing), dtype=nothing.dtype))

    def fitted(
        self, moments: Moments, centre: Array, precision: Array, weights: Array, bias: Array
    ) -> FittedRows:
        """Scale and offset beside the classes in `moments`.

        `weights` and `bias` are LDA's, for all rows, with queries relative to `centre`; without samples, the
        bias is -inf. Costs O(n_queries C d + d^3).
        """
        kept, learned = np.flatnonzero(self.worth), np.flatnonzero(np.isfinite(bias))
        others, covered = np.setdiff1d(learned, kept), np.intersect1d(learned, kept)
        fitted = FittedRows(
            imported=self,
            scale=1.0,
            offset=0.0,
            common_weight=self.weights[kept].mean(axis=0, dtype=np.float64).astype(self.weights.dtype),
            common_bias=float(self.bias[kept].mean()),
            reference_weight=np.zeros(len(centre), moments.dtype),
            covariance=np.linalg.inv(precision).astype(moments.dtype),
        )
        known = moments.counts_of(kept).sum() >= ENOUGH * len(kept)
        if not known:  # nothing says where the layer's classes are, but that it is not here
            reference = precision @ _away(moments, centre) / (len(learned) + 1)
            fitted = replace(fitted, reference_weight=reference.astype(moments.dtype))
        logits = _Logits(fitted, moments, centre, weights, bias)
        guessed = len(others) > 0 and not known
        for_offset = logits.of(others if guessed else covered)
        for_scale = logits.of(others) if not guessed and len(others) > 1 else for_offset
        scale = (SPREAD if len(others) else ALONE) * for_scale.spread_against_layer()
        if guessed:
            offset = np.quantile(for_offset.right - scale * for_offset.best_of_layer, LOST)
        else:
            offset = np.median(for_offset.right - scale * for_offset.own)
        return replace(fitted, scale=scale, offset=float(offset))


@dataclass(frozen=True, eq=False)
class FittedRows:
    """Imported rows on the scale of the others."""

    imported: ImportedRows
    scale: float
    offset: float
    common_weight: Array  # (d,): what all rows have in common is taken off
    common_bias: float
    reference_weight: Array  # (d,): LDA's logits are too large by this, where the layer is compared with them
    covariance: Array  # (d, d): as LDA uses it, shrunk

    def of(self, rows: Rows, centre: Array) -> tuple[Array, Array]:
        """Weights and bias of these rows, with queries relative to `centre`."""
        weights = self.imported.weights[rows] - self.common_weight
        bias = self.imported.bias[rows] - self.common_bias + weights @ centre.astype(weights.dtype)
        return self.scale * weights - self.reference_weight, self.scale * bias + self.offset

    def mixed(
        self, rows: Rows, counts: Array, centre: Array, weights: Array, bias: Array
    ) -> tuple[Rows, Array, Array]:
        """LDA's `weights` and `bias` of the model's `rows`, from `counts` samples, mixed with the layer's.

        Gives the places among `rows` that are imported, and their weights and bias.
        """
        places = np.flatnonzero(rows < len(self.imported.worth))
        places = places[self.imported.worth[rows[places]] > 0]
        worth = self.imported.worth[rows[places]]
        share = (worth / (worth + counts[places]))[:, None].astype(self.imported.weights.dtype)
        layer_weights, layer_bias = self.of(rows[places], centre)
        seen_bias = np.where(np.isfinite(bias[places]), bias[places], 0.0)
        return (
            places,
            share * layer_weights + (1 - share) * weights[places],
            share[:, 0] * layer_bias + (1 - share[:, 0]) * seen_bias,
        )


class _Logits:
    """Logits of LDA and of a layer for queries drawn from what was learned."""

    def __init__(
        self, rows: FittedRows, moments: Moments, centre: Array, weights: Array, bias: Array
    ) -> None:
        self._moments, self._centre, self._weights, self._bias = moments, centre, weights, bias
        self._kept = np.flatnonzero(rows.imported.worth)
        plain = replace(rows, reference_weight=np.zeros_like(rows.reference_weight))
        self._layer_weights, self._layer_bias = plain.of(self._kept, centre)
        self._reference_weight = rows.reference_weight

    def of(self, classes: Rows) -> _Queries:
        """Logits for queries of these classes."""
        queries, own = drawn_queries(
            self._moments, self._centre, N_QUERIES, np.random.default_rng(0), classes
        )
        weights = self._weights[classes].astype(queries.dtype) + self._reference_weight
        found = _Queries(len(queries))
        step = max(1, SCORES_AT_ONCE // (len(self._kept) + len(classes)))
        for start in range(0, len(queries), step):
            block = slice(start, start + step)
            scores = queries[block] @ weights.T + self._bias[classes]
            is_own = own[block, None] == classes
            found.right[block] = scores[is_own]
            found.wrong.add(scores, is_own)
            scores = queries[block] @ self._layer_weights.T + self._layer_bias
            is_own = own[block, None] == self._kept
            found.own[block] = np.where(is_own, scores, 0.0).sum(axis=1)
            found.wrong_of_layer.add(scores, is_own)
            scores[is_own] = -np.inf
            found.best_of_layer[block] = scores.max(axis=1)
        return found


class _Queries:
    """What was found for queries of some classes."""

    def __init__(self, n: int) -> None:
        self.right = np.empty(n)  # LDA's logit of their own class
        self.own = np.empty(n)  # the layer's, where it has that class
        self.best_of_layer = np.empty(n)  # the layer's largest for another class
        self.wrong, self.wrong_of_layer = _Spread(), _Spread()  # of the logits of other classes

    def spread_against_layer(self) -> float:
        """Spread of LDA's wrong logits, as a multiple of that of the layer's."""
        spread, of_layer = self.wrong.value or float(self.right.std()), self.wrong_of_layer.value
        return spread / of_layer if spread and of_layer else 1.0


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
