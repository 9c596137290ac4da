"""Scores of all classes as of one moment; a head never changes.

The logit of a class is x . w + b with w = P m and b = -1/2 m . w + log prior, where m is the class mean and P
the inverse of the shrunk covariance. Scores are logits with x and m relative to the mean of all samples: the
numbers stay small, and all that is missing is a term common to all classes, which `common_term` gives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.half_precision import times_weights
from xlda._internal.threads import in_parallel_with_blas, parts_for
from xlda.head.changed_rows import ChangedRows
from xlda.head.covariance import Shrinkage, Target, inverse_covariance
from xlda.head.layer_rows import FittedLayerRows, LayerRows
from xlda.head.model_samples import sampled_queries
from xlda.labels import LabelTable
from xlda.moments import Moments
from xlda.search.dense import Dense
from xlda.search.protocol import Classes, Index, Search
from xlda.search.ranking import best_columns, merged

Priors: TypeAlias = Literal["equal", "empirical"]

ROWS_AT_ONCE = 1024  # classes whose weights are computed in one product
QUERIES_AT_ONCE = 64  # whose shortlists are made at once
FEWEST_CHANGED, MOST_CHANGED = 16, 2048  # rows kept beside the others before all are brought together


@dataclass(frozen=True, eq=False)
class Head:
    """Scores for every row of the model.

    Most rows have their weights in `weights` and `bias`, and are found by `index`. A row that changed since
    those were computed has its own in `changed`, so that learning one sample costs O(d^2) whatever the
    number of classes. A row without samples has the bias -inf: it never wins.
    """

    table: LabelTable  # the label of each row
    centre: Array  # (n_features,)
    inverse: Array  # (n_features, n_features), of the shrunk covariance
    centre_weight: Array  # inverse times centre, float64: what `common_term` needs, once a head
    shrinkage: float
    log_total: float | None  # of what counts are divided by to give priors; None for equal priors
    weights: Array  # (n_settled, n_features)
    bias: Array  # (n_settled,)
    half_norms: Array  # (n_settled,): half of mean . weights
    index: Index
    changed: ChangedRows
    n_seen: int  # rows that can win: those that have samples, and those of `layer_rows`
    layer_rows: FittedLayerRows | None = None  # rows of a layer, on the scale of the others

    @property
    def n_rows(self) -> int:
        """Rows of the model, the empty ones included."""
        return len(self.table.names)

    @property
    def nbytes(self) -> dict[str, int]:
        """Memory of each part."""
        return {
            "weights": self.weights.nbytes + self.bias.nbytes + self.changed.log.weights.nbytes,
            "inverse": self.inverse.nbytes,
            "search": self.index.nbytes,
        }

    def scores(self, embeddings: Array) -> Array:
        """Logit of every row for every embedding less the common term, shape (n, n_rows).

        Where the search says so, rows that it did not look at have -inf, or NaN for a logit of 0.
        """
        queries = self._queries(embeddings)
        rows, entries = self.changed.newest()
        n_settled = len(self.weights)
        scores = np.full((len(queries), self.n_rows), -np.inf, queries.dtype)
        found = self.index.scores(queries, rows[rows < n_settled])
        if found is None:
            scores[:, :n_settled] = times_weights(queries, self.weights)
            scores[:, :n_settled] += self.bias
        else:
            scores[:, :n_settled] = found
        if len(rows):
            scores[:, rows] = queries @ self.changed.weights[entries].T + self.changed.bias[entries]
        return scores

    def top(self, embeddings: Array, k: int) -> tuple[Rows, Array]:
        """The `k` best rows and their scores, each (n, k), best first; of equals the lower row first."""
        queries = self._queries(embeddings)
        if not len(self.changed):
            return self.index.top(queries, k, self.changed.rows)
        changed = self.changed.rows[self.changed.rows < len(self.weights)]
        settled, settled_scores = self.index.top(queries, k, changed)
        changed_scores = queries @ self.changed.weights.T
        changed_scores += self.changed.bias
        entries, changed_scores = best_columns(changed_scores, k)
        return merged(settled, settled_scores, self.changed.rows[entries], changed_scores, k)

    def shortlists(self, embeddings: Array, k: int) -> Iterator[Rows]:
        """Rows looked at for the `k` best of each embedding."""
        changed = self.changed.rows[self.changed.rows < len(self.weights)]
        for start in range(0, len(embeddings), QUERIES_AT_ONCE):
            queries = self._queries(embeddings[start : start + QUERIES_AT_ONCE])
            for shortlist in self.index.shortlists(queries, k, changed):
                yield np.union1d(shortlist, self.changed.rows)

    def with_index(self, index: Index) -> Head:
        """The same head, searched in another way."""
        return replace(self, index=index)

    def common_term(self, embeddings: Array) -> Array:
        """What the logits of all rows have in common, shape (n,), float64."""
        weight, bias = self._common()
        term: Array = embeddings.astype(np.float64, copy=False) @ weight + bias
        return term

    def linear(self) -> tuple[Array, Array]:
        """Weights (n_rows, n_features) and bias (n_rows,), float64, that give these logits."""
        settled, biases, _ = self._all_rows()
        weight, bias = self._common()
        weights = settled.astype(np.float64)
        biases = biases - weights @ self.centre.astype(np.float64) + bias
        weights += weight
        return weights, biases

    def updated(
        self, moments: Moments, table: LabelTable, rows: Rows, layer_rows: LayerRows | None = None
    ) -> Head:
        """The next head: `rows` have changed, the covariance is kept. Costs O(d^2) a row."""
        weights, bias, half_norms = _weighed(
            moments, rows, self.centre, self.inverse, self.log_total is not None
        )
        fitted = None
        if self.layer_rows is not None and layer_rows is not None:
            fitted = replace(self.layer_rows, kept=layer_rows)
            weights, bias, half_norms = _with_layer_rows(
                fitted, rows, moments, self.centre, weights, bias, half_norms
            )
        head = replace(
            self,
            table=table,
            changed=self.changed.extended(rows, weights, bias, half_norms),
            n_seen=_n_seen(moments, layer_rows),
            log_total=None if self.log_total is None else _log_total(moments),
            layer_rows=fitted,
        )
        return head if len(head.changed) <= most_changed(head.n_rows) else head._settled(moments)

    # -- how it works

    def _queries(self, embeddings: Array) -> Array:
        queries: Array = embeddings.astype(self.centre.dtype, copy=False) - self.centre
        return queries

    def _common(self) -> tuple[Array, float]:
        weight = self.centre_weight
        return weight, float(-0.5 * self.centre.astype(np.float64) @ weight) - (self.log_total or 0.0)

    def _all_rows(self) -> tuple[Array, Array, Array]:
        """Weights, bias and half norm of all rows, the changed ones among the others: O(C d)."""
        weights = np.empty((self.n_rows, self.weights.shape[1]), self.weights.dtype)
        bias = np.full(self.n_rows, -np.inf, self.bias.dtype)
        half_norms = np.zeros(self.n_rows, self.half_norms.dtype)
        n_settled = len(self.weights)
        weights[:n_settled], weights[n_settled:] = self.weights, 0.0
        bias[:n_settled] = self.bias
        half_norms[:n_settled] = self.half_norms
        rows, entries = self.changed.newest()
        weights[rows], bias[rows] = self.changed.weights[entries], self.changed.bias[entries]
        half_norms[rows] = self.changed.half_norms[entries]
        return weights, bias, half_norms

    def _settled(self, moments: Moments) -> Head:
        """The same head with its changed rows among the others: O(C d), so only now and then."""
        weights, bias, half_norms = self._all_rows()
        classes = _classes(moments, weights, bias, half_norms, self.inverse, self.centre, self.layer_rows)
        changed = np.union1d(self.changed.rows, np.arange(len(self.weights), len(weights)))
        return replace(
            self,
            weights=weights,
            bias=bias,
            half_norms=half_norms,
            index=self.index.updated(classes, changed),
            changed=ChangedRows.none_of(weights.shape[1], self.centre.dtype),
        )


def most_changed(n_rows: int) -> int:
    """Rows to keep beside the others: every query reads each, but bringing them in copies all weights."""
    return min(max(FEWEST_CHANGED, min(round(9 * math.sqrt(n_rows)), n_rows // 4)), MOST_CHANGED)


def new_head(
    moments: Moments,
    table: LabelTable,
    *,
    shrinkage: Shrinkage,
    target: Target,
    priors: Priors,
    search: Search,
    previous: Head | None = None,
    layer_rows: LayerRows | None = None,
) -> Head:
    """Head of all that `moments` has learned so far, and of the rows of a layer where there are some.

    Costs O(d^3 + C d^2), and what the search needs.
    """
    inverse64, used = inverse_covariance(moments.covariance(), moments.dof, shrinkage, target)
    n_rows, dtype = len(table.names), moments.dtype
    inverse, centre = inverse64.astype(dtype), moments.centre().astype(dtype)
    weights = np.empty((n_rows, moments.n_features), np.float16 if moments.half else dtype)
    bias, half_norms = np.empty(n_rows, dtype), np.empty(n_rows, dtype)

    def weigh(start: int, stop: int, _part: int) -> None:
        for first in range(start, stop, ROWS_AT_ONCE):
            block = slice(first, min(first + ROWS_AT_ONCE, stop))
            if not moments.counts_of(block).any():  # as with a layer's rows that have no samples yet
                weights[block], bias[block], half_norms[block] = 0.0, -np.inf, 0.0
                continue
            with np.errstate(over="ignore"):  # it is refused below
                weights[block], bias[block], half_norms[block] = _weighed(
                    moments, block, centre, inverse, priors == "empirical"
                )

    in_parallel_with_blas(weigh, n_rows, parts_for(n_rows * moments.n_features**2))
    if moments.half and not np.isfinite(weights).all():
        raise ValueError(
            "precision='half' cannot hold the weights of classes that differ so little. "
            "Scale the embeddings up, or use precision='full'."
        )
    fitted = None
    if layer_rows is not None:
        if moments.n_seen:
            fitted = layer_rows.fitted(moments, centre, inverse64, weights, bias)
        else:
            fitted = layer_rows.as_they_are()
        rows, searched = np.arange(n_rows), not isinstance(search, Dense)
        weights, bias, half_norms = _with_layer_rows(
            fitted, rows, moments, centre, weights, bias, half_norms, searched
        )
    classes = _classes(moments, weights, bias, half_norms, inverse, centre, fitted)
    return Head(
        table=table,
        centre=centre,
        inverse=inverse,
        centre_weight=inverse64 @ centre,
        shrinkage=used,
        log_total=_log_total(moments) if priors == "empirical" else None,
        weights=weights,
        bias=bias,
        half_norms=half_norms,
        index=search.index(classes, None if previous is None else previous.index),
        changed=ChangedRows.none_of(moments.n_features, dtype),
        n_seen=_n_seen(moments, layer_rows),
        layer_rows=fitted,
    )


def _with_layer_rows(
    fitted: FittedLayerRows,
    rows: Rows,
    moments: Moments,
    centre: Array,
    weights: Array,
    bias: Array,
    half_norms: Array,
    searched: bool = True,
) -> tuple[Array, Array, Array]:
    """Weights, bias and half norms of `rows`, those that a layer has too mixed with its own.

    Half norms cost O(d^2) a row, and only a search needs them.
    """
    weights, bias, half_norms = weights.copy(), bias.copy(), half_norms.copy()
    for start in range(0, len(rows), ROWS_AT_ONCE):
        block = slice(start, start + ROWS_AT_ONCE)
        counts = moments.counts_of(rows[block])
        places, mixed, mixed_bias = fitted.mixed(rows[block], counts, centre, weights[block], bias[block])
        weights[start + places], bias[start + places] = mixed, mixed_bias
        if searched:
            means = mixed @ fitted.covariance
            half_norms[start + places] = 0.5 * np.einsum("ij,ij->i", means, mixed)
    return weights, bias, half_norms


def _n_seen(moments: Moments, layer_rows: LayerRows | None) -> int:
    return moments.n_seen + (0 if layer_rows is None else layer_rows.n_unseen(moments.counts))


def _log_total(moments: Moments) -> float:
    return math.log(moments.total or 1.0)


def _weighed(
    moments: Moments, rows: Rows | slice, centre: Array, inverse: Array, with_priors: bool
) -> tuple[Array, Array, Array]:
    """Weights, bias and half norm of `rows` as `moments` has them now."""
    means = moments.means_from(centre, rows)
    counts = moments.counts_of(rows)
    seen = counts > 0
    means[~seen] = 0.0
    weights = means @ inverse
    half_norms = 0.5 * np.einsum("ij,ij->i", means, weights)
    bias = -half_norms
    if with_priors:  # the total of the counts is in the common term
        bias = bias + np.log(np.where(seen, counts, 1.0))
    return weights, np.where(seen, bias, -np.inf).astype(weights.dtype), half_norms


def _classes(
    moments: Moments,
    weights: Array,
    bias: Array,
    half_norms: Array,
    inverse: Array,
    centre: Array,
    layer_rows: FittedLayerRows | None,
) -> Classes:
    def means(rows: Rows | slice) -> Array:
        if layer_rows is not None:  # the means that LDA would have such weights for
            implied: Array = weights[rows].astype(layer_rows.covariance.dtype) @ layer_rows.covariance
            return implied
        return moments.means_from(centre, rows)

    def draw(n: int, rng: np.random.Generator) -> tuple[Array, Rows]:
        return sampled_queries(moments, centre, n, rng)

    return Classes(weights, bias, half_norms, inverse, centre, means, draw)
