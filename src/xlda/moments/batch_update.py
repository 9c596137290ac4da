"""How a batch changes counts and means, and the rows it leaves to be folded into the scatter.

The samples are taken in portions: crowds, many of one class, and turns, one each of different classes, whose
means can be changed all at once. Threads share them by class, so no two of them change the same mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.threads import in_parallel, parts_for

BLOCK = 128  # samples worked on at once: few enough to stay in the cache
CROWD = 16  # more samples than this of one class in a batch are taken together
EMPTY = 1e-12  # a class left with less than this share of its count is empty


def shape_of_work(d: int) -> tuple[int, int, int, int]:
    """Of the memory that a batch is worked on in: two blocks a thread."""
    return parts_for(BLOCK * d), 2, BLOCK, d


@dataclass(frozen=True, eq=False)
class BatchUpdate:
    """Samples on their way into `counts` (C,) and `offsets` (C, d), the class means less an origin.

    `embeddings - origin` (n, d) of the classes `rows` (n,) are added (`sign` 1) or taken away (-1). `firsts`
    are those that begin a class (`first_samples`), which leave nothing to the scatter. `waiting`, if any, has
    room for the rows that the others leave. All are in C order and of one type; offsets may be float16.
    """

    embeddings: Array
    origin: Array | None
    rows: Rows
    weights: Array
    sign: int
    firsts: Rows
    counts: Array
    offsets: Array
    waiting: Array | None
    work: Array

    def absorb(self) -> None:
        """Change counts and means, and set `waiting`. Costs O(n d), whatever the number of classes."""
        if not len(self.firsts):
            self._absorb_all(*crowds_and_turns(self.rows))
            return
        self._begin(self.firsts)
        others = np.delete(np.arange(len(self.rows)), self.firsts)
        if len(others):
            crowds, turns = crowds_and_turns(self.rows[others])
            self._absorb_all([others[crowd] for crowd in crowds], [others[turn] for turn in turns])

    def _begin(self, samples: Rows) -> None:
        """The first samples of classes: the means of these, as yet."""
        rows = self.rows[samples]
        self.counts[rows] = self.weights[samples]

        def begin(start: int, stop: int, part: int) -> None:
            for first in range(start, stop, BLOCK):
                block = slice(first, min(first + BLOCK, stop))
                room = self.work[part, 0, : block.stop - first]
                self.offsets[rows[block]] = self._taken(samples[block], room)

        in_parallel(begin, len(samples), self._parts(len(samples)) if len(samples) >= BLOCK else 1)

    def _absorb_all(self, crowds: list[Rows], turns: list[Rows]) -> None:
        self._absorb_crowds(crowds)
        first = sum(map(len, crowds))
        for turn in turns:
            self._absorb_turn(turn, first)
            first += len(turn)

    def _parts(self, n_samples: int) -> int:
        return min(parts_for(n_samples * self.offsets.shape[1]), len(self.work))

    # -- many samples of one class

    def _absorb_crowds(self, crowds: list[Rows]) -> None:
        ends = np.cumsum([len(crowd) for crowd in crowds], dtype=np.intp)

        def absorb(start: int, stop: int, part: int) -> None:
            for number in range(start, stop):
                samples, first = crowds[number], int(ends[number]) - len(crowds[number])
                for block in range(0, len(samples), BLOCK):
                    self._absorb_crowd(samples[block : block + BLOCK], first + block, self.work[part, 0])

        in_parallel(absorb, len(crowds), self._parts(int(ends[-1]) if crowds else 0))

    def _absorb_crowd(self, samples: Rows, first: int, block: Array) -> None:
        row, weights = int(self.rows[samples[0]]), self.weights[samples]
        weight, before = float(weights.sum()), float(self.counts[row])
        self.counts[row] = after = left(before, before + self.sign * weight)
        offset = self.offsets[row]
        residuals = block[: len(samples)]
        embeddings = self._taken(samples, residuals)
        if not before:
            offset[:] = embeddings[0]  # any start will do; a near one keeps the residuals small
        np.subtract(embeddings, offset, out=residuals)
        one_each = bool((weights == 1.0).all())
        each = weights.astype(residuals.dtype)[:, None]
        shift = (residuals if one_each else residuals * each).sum(axis=0)
        offset[:] = offset + shift * (self.sign / after) if after else 0.0
        if self.waiting is None:
            return
        shift *= (1.0 - (before / after) ** 0.5) / weight if after else 0.0
        waiting = np.subtract(residuals, shift, out=self.waiting[first : first + len(samples)])
        if not one_each:
            waiting *= np.sqrt(each)

    # -- samples of different classes

    def _absorb_turn(self, samples: Rows, first: int) -> None:
        rows, weights, dtype = self.rows[samples], self.weights[samples], self.work.dtype
        before = self.counts[rows]
        after = before + self.sign * weights
        after[after < EMPTY * before] = 0.0
        self.counts[rows] = after
        empty = after == 0
        divisor = np.where(empty, 1.0, after)
        scale = np.sqrt(weights * np.where(empty, 1.0, before) / divisor).astype(dtype)[:, None]
        step = (self.sign * weights / divisor).astype(dtype)[:, None]
        any_empty = bool(empty.any())

        def absorb(start: int, stop: int, part: int) -> None:
            for begin in range(start, stop, BLOCK):
                block = slice(begin, min(begin + BLOCK, stop))
                residuals, offsets = self.work[part, :, : block.stop - begin]
                embeddings = self._taken(samples[block], residuals)
                if self.offsets.dtype == dtype:
                    self.offsets.take(rows[block], axis=0, out=offsets, mode="clip")
                else:  # float16
                    offsets[:] = self.offsets[rows[block]]
                np.subtract(embeddings, offsets, out=residuals)
                if self.waiting is not None:
                    np.multiply(residuals, scale[block], out=self.waiting[first + begin : first + block.stop])
                residuals *= step[block]
                offsets += residuals
                if any_empty:
                    offsets[empty[block]] = 0.0
                self.offsets[rows[block]] = offsets

        in_parallel(absorb, len(samples), self._parts(len(samples)) if len(samples) >= BLOCK else 1)

    def _taken(self, samples: Rows, block: Array) -> Array:
        """Embeddings of `samples`, which are in order, less the origin: in `block`, or a view of them."""
        first, last = int(samples[0]), int(samples[-1])
        if last - first == len(samples) - 1:
            taken = self.embeddings[first : last + 1]
        else:
            taken = self.embeddings.take(samples, axis=0, out=block, mode="clip")
        if self.origin is None:
            return taken
        return np.subtract(taken, self.origin, out=block)  # before the offset: that is small, this may not be


def first_samples(counts: Array, rows: Rows) -> Rows:
    """Which samples are the first of classes that have none, in order.

    >>> first_samples(np.array([0.0, 5.0, 0.0]), np.array([2, 1, 0, 2]))
    array([0, 2])
    """
    begun = np.flatnonzero(counts[rows] == 0)
    if not len(begun):
        return begun
    return np.sort(begun[np.unique(rows[begun], return_index=True)[1]])


def crowds_and_turns(rows: Rows) -> tuple[list[Rows], list[Rows]]:
    """Samples by class where a class has many; the others in turns in which every class comes at most once.

    The samples of each are in the order in which they came.

    >>> crowds_and_turns(np.array([7, 8, 7, 9]))
    ([], [array([0, 1, 3]), array([2])])
    """
    order = np.argsort(rows, kind="stable")
    in_order = rows[order]
    is_first = np.empty(len(rows), bool)
    is_first[0], is_first[1:] = True, in_order[1:] != in_order[:-1]
    starts = np.flatnonzero(is_first)
    if len(starts) == len(rows):
        return [], [np.arange(len(rows))]
    return _by_size(order, starts)


def _by_size(order: Rows, starts: Rows) -> tuple[list[Rows], list[Rows]]:
    n = len(order)
    sizes = np.diff(starts, append=n)
    turn = np.empty(n, np.intp)  # which of its class's samples each one is
    turn[order] = np.arange(n) - np.repeat(starts, sizes)
    crowds: list[Rows] = []
    if sizes.max() > CROWD:
        crowded = sizes > CROWD
        ends = starts + sizes
        crowds = [order[start:end] for start, end in zip(starts[crowded], ends[crowded], strict=True)]
        turn[order[np.repeat(crowded, sizes)]] = -1
    in_turn = np.argsort(turn, kind="stable")
    ends = np.cumsum(np.bincount(turn + 1))
    return crowds, [in_turn[start:end] for start, end in pairwise(ends)]


def left(before: float, after: float) -> float:
    """`after`, or 0 where that is all but rounding."""
    return after if after > EMPTY * before else 0.0
