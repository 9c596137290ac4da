"""The best of many scores."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.search.class_rows import ClassRows

FEW = 32  # up to this many of the best are picked one after the other
SAMPLE_EVERY = 16  # scores are sampled to find out how large the best are


def best_columns(scores: Array, k: int) -> tuple[Rows, Array]:
    """Columns of the `k` largest entries of each row, and the entries, best first; overwrites `scores`.

    Of equals the lower column comes first. Where there are fewer columns, the rest is 0 and -inf.

    >>> best_columns(np.array([[3.0, 9.0, 5.0]]), 2)
    (array([[1, 2]]), array([[9., 5.]]))
    """
    n, width = scores.shape
    if k == 1 and width:
        return scores.argmax(axis=1, keepdims=True), scores.max(axis=1, keepdims=True)
    columns = np.zeros((n, k), np.intp)
    best = np.full((n, k), -np.inf, scores.dtype)
    if k > FEW:
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        columns[:, :width], best[:, :width] = order, np.take_along_axis(scores, order, axis=1)
        return columns, best
    every = np.arange(n)
    for place in range(min(k, width)):
        columns[:, place] = scores.argmax(axis=1)
        best[:, place] = scores[every, columns[:, place]]
        scores[every, columns[:, place]] = -np.inf
    return columns, best


def top_of_shortlists(
    rows: ClassRows, queries: Array, shortlists: Iterable[Rows], k: int
) -> tuple[Rows, Array]:
    """The `k` best of the rows in each query's shortlist by their exact scores; as `best_columns`."""
    found, best = np.zeros((len(queries), k), np.intp), np.full((len(queries), k), -np.inf, queries.dtype)
    for number, shortlist in enumerate(shortlists):
        scores = rows.scores_of(queries[number], shortlist)
        if k == 1 and len(scores):
            place = scores.argmax()
            found[number], best[number] = shortlist[place], scores[place]
        else:
            order = np.lexsort((shortlist, -scores))[:k]
            found[number, : len(order)], best[number, : len(order)] = shortlist[order], scores[order]
    return found, best


def merged(rows: Rows, scores: Array, more_rows: Rows, more_scores: Array, k: int) -> tuple[Rows, Array]:
    """The `k` best of two rankings, each (n, any), best first; of equals the lower row first."""
    rows = np.concatenate([rows, more_rows], axis=1)
    scores = np.concatenate([scores, more_scores], axis=1)
    order = np.lexsort((rows, -scores), axis=1)[:, :k]
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)


def best_places(scores: Array, n: int) -> Rows:
    """Places of the `n` largest of `scores` (m,), in order of place; a few more where the last are equals.

    A sample tells how large a score has to be to come into question, which saves ordering all of them.

    >>> best_places(np.array([3.0, 9.0, 5.0]), 2)
    array([1, 2])
    """
    if n >= len(scores):
        return np.arange(len(scores))
    if len(scores) > SAMPLE_EVERY * FEW:
        sample = scores[::SAMPLE_EVERY]
        in_sample = n // SAMPLE_EVERY + 4 * int((n / SAMPLE_EVERY) ** 0.5) + 4
        if in_sample < len(sample):
            floor = np.partition(sample, len(sample) - in_sample)[len(sample) - in_sample]
            places = np.flatnonzero(scores >= floor)
            if len(places) >= n:
                return _largest(scores[places], places, n)
    return _largest(scores, np.arange(len(scores)), n)


def _largest(scores: Array, places: Rows, n: int) -> Rows:
    if n >= len(scores):
        return places
    floor = np.partition(scores, len(scores) - n)[len(scores) - n]
    largest: Rows = places[scores >= floor]
    return largest
