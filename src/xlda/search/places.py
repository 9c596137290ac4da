"""How many candidates have to be kept so that the winner is among them: counted for queries, class by class.

Classes are looked at in blocks, all queries at once, so that weights are read twice, however many classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.threads import in_parallel_with_blas, parts_for
from xlda.search.class_rows import Columns
from xlda.search.ranking import best_columns

FIVE = 5  # of the best: what `predict_topk` gives unless told otherwise
SCORES_AT_ONCE = 2**21  # entries of a block of scores, one for each prefix


@dataclass(frozen=True, eq=False)
class Places:
    """The best classes of each query, and how many have to be kept by some of the coordinates."""

    winners: Rows  # (n, FIVE), or as many classes as there are: the best by exact scores, best first
    best: list[Rows]  # for each that was counted, (n,): how many score as high as the winner does
    five: list[Rows]  # the same for all of the winners


def places_of_winners(
    pieces: Sequence[Columns],
    queries: Array,
    counted: Sequence[int],
    exact: Callable[[slice, int], Array] | None = None,
) -> Places:
    """Where winners stand by the coordinates of each of the pieces in `counted` and of those before it.

    `queries` are in the coordinates of the `pieces`, which follow one another. Exact scores are those of all
    pieces; or `exact` gives them, for some of the classes and so many queries, the first of those it has, in
    memory that may be written to.
    """
    n_rows, n_live = len(pieces[0]), int(np.isfinite(pieces[0].offsets).sum())
    step = max(1, SCORES_AT_ONCE // len(queries))
    n_parts = parts_for(n_rows * len(queries) * sum(piece.width for piece in pieces))
    of_parts = [_Best.none(len(queries), len(counted), queries.dtype)] * n_parts
    counts = np.zeros((n_parts, 2, len(counted), len(queries)), np.intp)

    def look(start: int, stop: int, part: int) -> None:
        for first in range(start, stop, step):
            block = slice(first, min(first + step, stop))
            scores = list(accumulate(_by_piece(pieces, queries, block)))
            last = scores[-1].copy() if exact is None else exact(block, len(queries))
            of_parts[part] = of_parts[part].with_block(first, last, [scores[number] for number in counted])

    in_parallel_with_blas(look, n_rows, n_parts)
    found = _Best.of_all(of_parts).first(min(FIVE, n_live))

    def count(start: int, stop: int, part: int) -> None:
        for first in range(start, stop, step):
            block = slice(first, min(first + step, stop))
            scores = list(accumulate(_by_piece(pieces[: max(counted) + 1], queries, block)))
            for number, of_winners in enumerate(found.by_prefix):
                some = scores[counted[number]]
                counts[part, 0, number] += np.count_nonzero(some >= of_winners[:, :1], axis=1)
                least = of_winners.min(axis=1, keepdims=True)
                counts[part, 1, number] += np.count_nonzero(some >= least, axis=1)

    in_parallel_with_blas(count, n_rows, n_parts)
    best, five = np.maximum(counts.sum(axis=0), 1)
    return Places(found.rows, list(best), list(five))


def _by_piece(pieces: Sequence[Columns], queries: Array, block: slice) -> Iterator[Array]:
    start = 0
    for piece in pieces:
        yield piece.taken(block).scores(queries[:, start : start + piece.width])
        start += piece.width


@dataclass(frozen=True, eq=False)
class _Best:
    """The best classes so far, at most FIVE of each query, best first; of equals the lower row first."""

    rows: Rows  # (n, any)
    scores: Array  # (n, any)
    by_prefix: list[Array]  # of each, (n, any): their scores by some of the coordinates

    @classmethod
    def none(cls, n: int, n_prefixes: int, dtype: np.dtype[np.floating]) -> _Best:
        nothing = np.empty((n, 0), dtype)
        return cls(np.empty((n, 0), np.intp), nothing, [nothing] * n_prefixes)

    def with_block(self, first: int, scores: Array, by_prefix: list[Array]) -> _Best:
        """Those of a block of rows too, which come after all that were seen; overwrites `scores`."""
        columns, best = best_columns(scores, min(FIVE, scores.shape[1]))
        by_prefix = [np.take_along_axis(some, columns, axis=1) for some in by_prefix]
        return _Best.of_all([self, _Best(first + columns, best, by_prefix)])

    @classmethod
    def of_all(cls, some: Sequence[_Best]) -> _Best:
        """The best of all of these, whose rows follow one another."""
        rows = np.concatenate([one.rows for one in some], axis=1)
        scores = np.concatenate([one.scores for one in some], axis=1)
        prefixes = zip(*(one.by_prefix for one in some), strict=True)
        by_prefix = [np.concatenate(parts, axis=1) for parts in prefixes]
        order = np.argsort(-scores, axis=1, kind="stable")[:, :FIVE]
        rows, scores, *by_prefix = (
            np.take_along_axis(every, order, axis=1) for every in (rows, scores, *by_prefix)
        )
        return cls(rows, scores, by_prefix)

    def first(self, n: int) -> _Best:
        """The first `n` of them."""
        return _Best(self.rows[:, :n], self.scores[:, :n], [some[:, :n] for some in self.by_prefix])
