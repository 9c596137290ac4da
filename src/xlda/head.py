"""An immutable snapshot of a classifier: it scores, and never changes.

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

from xlda.arrays import Array, Rows
from xlda.covariance import Shrinkage, Target, precision_matrix
from xlda.labels import Labels
from xlda.moments import Moments

Priors: TypeAlias = Literal["equal", "empirical"]

SCORES_AT_ONCE = 2**23  # entries of the largest block of scores that `top` holds
ROWS_AT_ONCE = 4096  # classes whose weights are computed in one product
MOST_LATE = 512  # rows kept beside the others before all are brought together
FEW = 32  # up to this many of the best are picked one after the other


@dataclass(frozen=True, eq=False)
class Head:
    """Scores for every row of the model.

    Most rows have their weights in `weights` and `bias`. A row that changed since those were computed has its
    own in `late`, so that learning one sample costs O(d^2) whatever the number of classes. A row without
    samples has the bias -inf: it never wins.
    """

    names: Array  # label of each row, None where there is none
    label_dtype: type
    centre: Array  # (n_features,)
    precision: Array  # (n_features, n_features)
    centre_weight: Array  # precision times centre, float64: what `common_term` needs, once a head
    shrinkage: float
    log_total: float | None  # of what counts are divided by to give priors; None for equal priors
    weights: Array  # (n_settled, n_features)
    bias: Array  # (n_settled,)
    late: LateRows
    n_late: int
    n_seen: int  # rows that have samples

    @property
    def n_rows(self) -> int:
        """Rows of the model, the empty ones included."""
        return len(self.names)

    @property
    def live_rows(self) -> Rows:
        """Rows that have a label."""
        return np.array([row for row, name in enumerate(self.names) if name is not None], dtype=np.intp)

    def labels(self, rows: Rows) -> Array:
        """Labels of `rows`, in the same shape."""
        return self.names[rows].astype(self.label_dtype)

    def scores(self, embeddings: Array) -> Array:
        """Logit of every row for every embedding less the common term, shape (n, n_rows)."""
        centred = embeddings.astype(self.weights.dtype, copy=False) - self.centre
        n_settled = len(self.weights)
        scores = np.empty((len(centred), self.n_rows), self.weights.dtype)
        np.matmul(centred, self.weights.T, out=scores[:, :n_settled])
        scores[:, :n_settled] += self.bias
        scores[:, n_settled:] = -np.inf
        if self.n_late:
            rows, weights, bias = self.late.newest(self.n_late)
            scores[:, rows] = centred @ weights.T + bias
        return scores

    def top(self, embeddings: Array, k: int) -> tuple[Rows, Array]:
        """The `k` best rows and their scores, each (n, k), best first; of equals the lower row first."""
        rows = np.empty((len(embeddings), k), np.intp)
        scores = np.empty((len(embeddings), k), self.weights.dtype)
        for block in _slices(len(embeddings), max(1, SCORES_AT_ONCE // self.n_rows)):
            rows[block], scores[block] = _best(self.scores(embeddings[block]), k)
        return rows, scores

    def common_term(self, embeddings: Array) -> Array:
        """What the logits of all rows have in common, shape (n,), float64."""
        weight, bias = self._common()
        term: Array = embeddings.astype(np.float64, copy=False) @ weight + bias
        return term

    def linear(self) -> tuple[Array, Array]:
        """Weights (n_rows, n_features) and bias (n_rows,), float64, that give these logits."""
        settled = self._settled()
        weight, bias = self._common()
        weights = settled.weights.astype(np.float64)
        biases = settled.bias - weights @ self.centre.astype(np.float64) + bias
        weights += weight
        return weights, biases

    def _common(self) -> tuple[Array, float]:
        weight = self.centre_weight
        return weight, float(-0.5 * self.centre.astype(np.float64) @ weight) - (self.log_total or 0.0)

    def updated(self, moments: Moments, labels: Labels, rows: Rows) -> Head:
        """The next head: `rows` have changed, the covariance is kept. Costs O(d^2) a row."""
        weights, bias = self._weigh(moments, rows)
        late = self.late.extended(self.n_late, rows, weights, bias)
        head = replace(
            self,
            names=labels.names,
            label_dtype=labels.dtype,
            late=late,
            n_late=self.n_late + len(rows),
            n_seen=moments.n_seen,
            log_total=None if self.log_total is None else math.log(moments.total),
        )
        return head if head.n_late <= min(MOST_LATE, head.n_rows // 8) else head._settled()

    def _weigh(self, moments: Moments, rows: Rows) -> tuple[Array, Array]:
        """Weights and bias of `rows` as `moments` has them now."""
        means = moments.means_from(self.centre, rows)
        counts = moments.counts_of(rows)
        seen = counts > 0
        means[~seen] = 0.0
        weights = means @ self.precision
        bias = -0.5 * np.einsum("ij,ij->i", means, weights)
        if self.log_total is not None:  # the total itself is in the common term
            bias = bias + np.log(np.where(seen, counts, 1.0))
        return weights, np.where(seen, bias, -np.inf).astype(weights.dtype)

    def _settled(self) -> Head:
        """The same head with its late rows among the others: O(C d), so only now and then."""
        weights = np.zeros((self.n_rows, self.weights.shape[1]), self.weights.dtype)
        bias = np.full(self.n_rows, -np.inf, self.weights.dtype)
        weights[: len(self.weights)], bias[: len(self.bias)] = self.weights, self.bias
        rows, late_weights, late_bias = self.late.newest(self.n_late)
        weights[rows], bias[rows] = late_weights, late_bias
        return replace(self, weights=weights, bias=bias, late=LateRows.none_of(weights), n_late=0)


def new_head(
    moments: Moments, labels: Labels, *, shrinkage: Shrinkage, target: Target, priors: Priors
) -> Head:
    """Head of all that `moments` has learned so far. Costs O(d^3 + C d^2)."""
    precision, used = precision_matrix(moments.covariance(), moments.dof, shrinkage, target)
    n_rows, dtype = labels.n_rows, moments.dtype
    centre = moments.centre().astype(dtype)
    weights = np.empty((n_rows, moments.n_features), dtype)
    bias = np.empty(n_rows, dtype)
    head = Head(
        names=labels.names,
        label_dtype=labels.dtype,
        centre=centre,
        precision=precision.astype(dtype),
        centre_weight=precision @ centre,
        shrinkage=used,
        log_total=math.log(moments.total) if priors == "empirical" else None,
        weights=weights,
        bias=bias,
        late=LateRows.none_of(weights),
        n_late=0,
        n_seen=moments.n_seen,
    )
    for block in _slices(n_rows, ROWS_AT_ONCE):
        weights[block], bias[block] = head._weigh(moments, np.arange(n_rows)[block])
    return head


@dataclass
class LateRows:
    """Rows with their weights, in the order in which they changed.

    It is only ever added to, and a head looks at the first `n` entries it knew of, so many heads share one.
    """

    rows: Rows
    weights: Array
    bias: Array
    n: int = 0

    @classmethod
    def none_of(cls, weights: Array, capacity: int = 0) -> LateRows:
        """No rows yet, in the shape and precision of `weights`."""
        empty = np.empty((capacity, weights.shape[1]), weights.dtype)
        return cls(np.empty(capacity, np.intp), empty, np.empty(capacity, weights.dtype))

    def extended(self, n_known: int, rows: Rows, weights: Array, bias: Array) -> LateRows:
        """The first `n_known` entries and the new ones: in place where that changes no other head's."""
        n = n_known + len(rows)
        longer = self
        if n_known != self.n or n > len(self.rows):
            longer = self.none_of(self.weights, capacity=2 * n)
            for mine, old in zip(longer._arrays(), self._arrays(), strict=True):
                mine[:n_known] = old[:n_known]
        for mine, new in zip(longer._arrays(), (rows, weights, bias), strict=True):
            mine[n_known:n] = new
        longer.n = n
        return longer

    def newest(self, n: int) -> tuple[Rows, Array, Array]:
        """Of the first `n` entries, the last one of each row."""
        rows, from_the_end = np.unique(self.rows[:n][::-1], return_index=True)
        last = n - 1 - from_the_end
        return rows, self.weights[last], self.bias[last]

    def _arrays(self) -> tuple[Array, Array, Array]:
        return self.rows, self.weights, self.bias


def _best(scores: Array, k: int) -> tuple[Rows, Array]:
    """Columns of the `k` largest entries of each row and the entries, best first; overwrites `scores`."""
    if k > FEW:
        columns = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return columns, np.take_along_axis(scores, columns, axis=1)
    columns = np.empty((len(scores), k), np.intp)
    best = np.empty((len(scores), k), scores.dtype)
    every = np.arange(len(scores))
    for place in range(k):
        columns[:, place] = scores.argmax(axis=1)
        best[:, place] = scores[every, columns[:, place]]
        scores[every, columns[:, place]] = -np.inf
    return columns, best


def _slices(n: int, step: int) -> Iterator[slice]:
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
