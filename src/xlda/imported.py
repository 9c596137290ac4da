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
from xlda.drawing import drawn_queries
from xlda.moments import Moments

N_QUERIES = 512  # drawn from the classes that are not the layer's
SPREAD = 0.7  # of the layer's logits, as a share of that of the others,
ALONE = 1.5  # and where there are no others
LOST = 0.1  # share of the queries that the layer may win
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
        bias is -inf. The scale makes the spread of the layer's logits, for queries drawn from the
        classes that are not its own, a share of the spread that the logits of these classes have for queries
        of each other. The offset lets the layer win a small share of the queries. Where there are no other
        classes, its own stand for them. Costs O(n_queries C d + d^3).
        """
        kept, learned = np.flatnonzero(self.worth), np.flatnonzero(np.isfinite(bias))
        others = np.setdiff1d(learned, kept)
        share, others = (SPREAD, others) if len(others) else (ALONE, learned)
        queries, own = drawn_queries(moments, centre, N_QUERIES, np.random.default_rng(0), others)
        reference = centre.astype(np.float64) / (len(learned) + 1)
        reference_weight = (precision @ reference).astype(queries.dtype)
        rows = FittedRows(
            imported=self,
            scale=1.0,
            offset=0.0,
            common_weight=self.weights[kept].mean(axis=0, dtype=np.float64).astype(self.weights.dtype),
            common_bias=float(self.bias[kept].mean()),
            reference_weight=np.zeros_like(reference_weight),
            covariance=np.linalg.inv(precision).astype(queries.dtype),
        )
        layer_weights, layer_bias = rows.of(kept, centre)
        other_weights = weights[others].astype(queries.dtype) + reference_weight
        wrong, wrong_of_layer = _Spread(), _Spread()
        right, best_of_layer = np.empty(len(queries)), np.empty(len(queries))
        step = max(1, SCORES_AT_ONCE // (len(kept) + len(others)))
        for start in range(0, len(queries), step):
            block = slice(start, start + step)
            scores, is_own = queries[block] @ other_weights.T + bias[others], own[block, None] == others
            right[block] = scores[is_own]
            wrong.add(scores, is_own)
            scores, is_own = queries[block] @ layer_weights.T + layer_bias, own[block, None] == kept
            wrong_of_layer.add(scores, is_own)
            scores[is_own] = -np.inf
            best_of_layer[block] = scores.max(axis=1)
        spread = wrong.value or float(right.std())
        scale = share * spread / wrong_of_layer.value if spread and wrong_of_layer.value else 1.0
        margins = right - scale * np.where(np.isfinite(best_of_layer), best_of_layer, 0.0)
        offset = float(np.quantile(margins, LOST))
        return replace(rows, scale=scale, offset=offset, reference_weight=reference_weight)


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
