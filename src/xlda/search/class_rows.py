"""Classes as they are scored: one row each, in as many parts as a search looks at one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.half_precision import times_weights
from xlda.search.short_weights import ShortWeights

MOST_GATHERED = 0.25  # of all rows; with more, scoring all of them is faster


Weights: TypeAlias = Array | ShortWeights  # (n_rows, some columns)


@dataclass(frozen=True, eq=False)
class Squares:
    """What the squares of a query's coordinates add to the score of a class.

    That depends on how many samples the class has, and on nothing else: it is computed for each group of
    classes with as many samples, and looked up for each class.
    """

    curvature: Array  # (n_groups, width): what the square of each coordinate is multiplied by
    groups: Rows  # (n_rows,): which group a class is in
    typical: Array  # (width,): squares as they are on average

    def of(self, queries: Array, start: int = 0) -> Array:
        """What is added for each group, (n, n_groups), by the coordinates from `start` on."""
        some = queries[..., start : start + self.curvature.shape[1]]
        table: Array = (some * some) @ self.curvature.T
        return table

    def looked_up(self, queries: Array, start: int = 0) -> Array:
        """What is added for each class, (n, n_rows) or (n_rows,)."""
        return self.of(queries, start).take(self.groups, axis=-1, mode="clip")  # as all are there: sooner

    def of_rows(self, query: Array, rows: Rows) -> Array:
        """What is added for some classes and one query, (len(rows),)."""
        added: Array = self.of(query).take(self.groups.take(rows))
        return added

    def taken(self, rows: Rows | slice) -> Squares:
        """The same for some rows."""
        return replace(self, groups=self.groups[rows])

    def columns(self, start: int, stop: int) -> Squares:
        """The same for some coordinates."""
        curvature = np.ascontiguousarray(self.curvature[:, start:stop])
        return replace(self, curvature=curvature, typical=self.typical[start:stop])


@dataclass(frozen=True, eq=False)
class ClassRows:
    """The score of a query x is x . weights + bias, and what the squares of x add to that.

    A row with the bias -inf never wins. Queries may have more coordinates than the weights; those are not
    looked at.
    """

    parts: tuple[Weights, ...]  # one after the other
    bias: Array  # (n_rows,)
    squares: Squares | None = None

    def __len__(self) -> int:
        return len(self.bias)

    @property
    def width(self) -> int:
        """Coordinates."""
        return sum(int(part.shape[1]) for part in self.parts)

    @property
    def size(self) -> int:
        """Numbers in the weights."""
        return len(self) * self.width

    @property
    def nbytes(self) -> int:
        """Memory."""
        squares = 0 if self.squares is None else self.squares.groups.nbytes + self.squares.curvature.nbytes
        return sum(part.nbytes for part in self.parts) + self.bias.nbytes + squares

    @property
    def weights(self) -> Array:
        """All columns, (n_rows, width); copied where there is more than one part."""
        parts = [_whole(part) for part in self.parts]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    @property
    def live(self) -> Array:
        """Which rows can win, (n_rows,)."""
        return np.isfinite(self.bias)

    def scores(self, queries: Array) -> Array:
        """Scores of all rows, (n, n_rows) or (n_rows,)."""
        start = self.parts[0].shape[1]
        scores = _products(queries[..., :start], self.parts[0])
        for part in self.parts[1:]:
            stop = start + part.shape[1]
            scores += _products(queries[..., start:stop], part)
            start = stop
        scores += self.bias
        if self.squares is not None:
            scores += self.squares.looked_up(queries)
        return scores

    def scores_of(self, query: Array, rows: Rows) -> Array:
        """Scores of some rows for one query (width,)."""
        if len(rows) > MOST_GATHERED * len(self):
            return self.scores(query)[rows]  # without copying most of the weights
        scores = self.bias[rows] + self.scores_from(0, query, rows)
        if self.squares is not None:
            scores += self.squares.of_rows(query, rows)
        return scores

    def scores_from(self, part: int, query: Array, rows: Rows) -> Array:
        """What some rows score for one query by the weights alone, those of this part and after it."""
        start, scores = sum(some.shape[1] for some in self.parts[:part]), np.zeros(len(rows), query.dtype)
        for some in self.parts[part:]:
            stop = start + some.shape[1]
            scores += _products_of(query[start:stop], some, rows)
            start = stop
        return scores

    def taken(self, rows: Rows | slice) -> ClassRows:
        """Some of the rows."""
        squares = None if self.squares is None else self.squares.taken(rows)
        return ClassRows(tuple(part[rows] for part in self.parts), self.bias[rows], squares)

    def with_rows(self, other: ClassRows, rows: Rows, n_rows: int) -> ClassRows:
        """`n_rows` rows: those that are here, but `rows` from the other, whose weights are one part."""
        parts, start, new = [], 0, other.weights
        for part in self.parts:
            stop = start + part.shape[1]
            parts.append(_with_rows(part, new[:, start:stop], rows, n_rows))
            start = stop
        bias = _patched(self.bias, other.bias, rows, n_rows, empty=-np.inf)
        squares = _patched_squares(self.squares, other.squares, rows, len(self), n_rows)
        return ClassRows(tuple(parts), bias, squares)


@dataclass(frozen=True, eq=False)
class Columns:
    """Some of the coordinates of every class, and what they add to its score."""

    weights: Weights
    offsets: Array  # (n_rows,): beside the product with a query; those of the first part have the priors
    squares: Squares | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def width(self) -> int:
        """Coordinates."""
        return int(self.weights.shape[1])

    @property
    def whole(self) -> Array:
        """The weights as an array."""
        return _whole(self.weights)

    @property
    def nbytes(self) -> int:
        """Memory."""
        return self.weights.nbytes + self.offsets.nbytes

    def scores(self, queries: Array) -> Array:
        """What these coordinates (n, width) or (width,) of queries add to the score of every class."""
        scores = _products(queries, self.weights)
        scores += self.offsets
        if self.squares is not None:
            scores += self.squares.looked_up(queries)
        return scores

    def scores_of(self, query: Array, rows: Rows) -> Array:
        """The same for one query and some classes."""
        scores = _products_of(query, self.weights, rows)
        scores += self.offsets.take(rows)
        if self.squares is not None:
            scores += self.squares.of_rows(query, rows)
        return scores

    def scores_of_each(self, queries: Array, rows: Rows) -> Array:
        """The same for queries (n, width) and some classes (n, m) of each; a row below 0 is taken for any."""
        if len(queries) == 1:
            return self.scores_of(queries[0], np.maximum(rows[0], 0))[None]
        scores = _products_of_each(queries, self.weights, rows)
        scores += self.offsets.take(rows, mode="clip")
        if self.squares is not None:
            groups = self.squares.groups.take(rows, mode="clip")
            scores += np.take_along_axis(self.squares.of(queries), groups, axis=1)
        return scores

    def taken(self, rows: Rows | slice) -> Columns:
        """The same for some classes."""
        squares = None if self.squares is None else self.squares.taken(rows)
        return Columns(self.weights[rows], self.offsets[rows], squares)

    def with_rows(self, other: Columns, rows: Rows, n_rows: int) -> Columns:
        """`n_rows` rows: those that are here, but `rows` from the other."""
        return Columns(
            _with_rows(self.weights, other.whole, rows, n_rows),
            _patched(self.offsets, other.offsets, rows, n_rows, empty=-np.inf),
            _patched_squares(self.squares, other.squares, rows, len(self), n_rows),
        )


def joined(parts: Sequence[Columns]) -> Columns:
    """Parts that follow one another, as one."""
    if len(parts) == 1:
        return parts[0]
    rows = rows_of(parts)
    return Columns(rows.weights, rows.bias, rows.squares)


def rows_of(parts: Sequence[Columns]) -> ClassRows:
    """Classes that have these coordinates, one part after the other, and no others."""
    bias = parts[0].offsets if len(parts) == 1 else np.sum([part.offsets for part in parts], axis=0)
    squares = [part.squares for part in parts if part.squares is not None]
    if len(squares) > 1:
        curvature = np.concatenate([some.curvature for some in squares], axis=1)
        typical = np.concatenate([some.typical for some in squares])
        squares = [Squares(curvature, squares[0].groups, typical)]
    return ClassRows(tuple(part.weights for part in parts), bias, squares[0] if squares else None)


def _whole(weights: Weights) -> Array:
    return weights.whole() if isinstance(weights, ShortWeights) else weights


def _products(queries: Array, weights: Weights) -> Array:
    """Of queries (n, width) or (width,) and all rows."""
    if isinstance(weights, ShortWeights):
        return weights.scores(queries)
    return times_weights(queries, weights)


def _products_of(query: Array, weights: Weights, rows: Rows) -> Array:
    """Of one query (width,) and some rows."""
    if isinstance(weights, ShortWeights):
        return weights.scores_of(query, rows)
    return times_weights(query, weights.take(rows, axis=0))


def _products_of_each(queries: Array, weights: Weights, rows: Rows) -> Array:
    """Of queries (n, width) and some rows (n, m) of each."""
    if isinstance(weights, ShortWeights):
        queries, weights = queries * weights.scale, weights.numbers
    some = weights.take(rows, axis=0, mode="clip").astype(queries.dtype, copy=False)
    products: Array = np.matmul(some, queries[:, :, None])[:, :, 0]
    return products


def _with_rows(weights: Weights, other: Array, rows: Rows, n_rows: int) -> Weights:
    """`n_rows` rows: those that are here, but `rows` from the other; no longer short if these are large."""
    if isinstance(weights, ShortWeights):
        short = weights.with_rows(other, rows, n_rows)
        if short is not None:
            return short
    return _patched(_whole(weights), other, rows, n_rows)


def _patched(array: Array, other: Array, rows: Rows, n_rows: int, empty: float = 0.0) -> Array:
    patched = np.empty((n_rows, *array.shape[1:]), array.dtype)
    patched[: len(array)], patched[len(array) :] = array, empty
    patched[rows] = other
    return patched


def _patched_squares(
    known: Squares | None, other: Squares | None, rows: Rows, n_known: int, n_rows: int
) -> Squares | None:
    """The other's, which has all groups; a class of which nothing was known is in the first."""
    if other is None:
        return known
    groups = np.zeros(n_known, np.intp) if known is None else known.groups
    return replace(other, groups=_patched(groups, other.groups, rows, n_rows))
