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


def in_order(rows: Rows, scores: Array, k: int) -> tuple[Rows, Array]:
    """The `k` best of rows and scores (n, some), best first; of equals the lower row first.

    >>> in_order(np.array([[4, 7, 2]]), np.array([[1.0, 5.0, 5.0]]), 2)
    (array([[2, 7]]), array([[5., 5.]]))
    """
    order = np.lexsort((rows, -scores), axis=1)[:, :k]
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)


def top_of_shortlists(
    rows: ClassRows, queries: Array, shortlists: Iterable[Rows], k: int
) -> tuple[Rows, Array]:
    """The `k` best of the rows in each query's shortlist by their exact scores; as `best_columns`."""
    found, best = np.zeros((len(queries), k), np.intp), np.full((len(queries), k), -np.inf, queries.dtype)
    for number, shortlist in enumerate(shortlists):
        scores = rows.scores_of(queries[number], shortlist)
        found[number], best[number] = best_of(scores, shortlist, k)
    return found, best


def best_of(scores: Array, rows: Rows, k: int) -> tuple[Rows, Array]:
    """The `k` best of rows that have these scores, and the scores; 0 and -inf for what is missing.

    >>> best_of(np.array([3.0, 9.0, 5.0]), np.array([10, 20, 30]), 2)
    (array([20, 30]), array([9., 5.]))
    """
    if k == 1 and len(scores):
        place = scores.argmax(axis=0, keepdims=True)
        return rows[place], scores[place]
    if 4 * k < len(scores):  # so that only those are ordered which may be among the best
        floor = np.partition(scores, len(scores) - k)[len(scores) - k]
        rows, scores = rows[scores >= floor], scores[scores >= floor]
    order = np.lexsort((rows, -scores))[:k]
    found, best = np.zeros(k, np.intp), np.full(k, -np.inf, scores.dtype)
    found[: len(order)], best[: len(order)] = rows[order], scores[order]
    return found, best


def merged(rows: Rows, scores: Array, more_rows: Rows, more_scores: Array, k: int) -> tuple[Rows, Array]:
    """The `k` best of two rankings, each (n, any), best first; of equals the lower row first."""
    if k == 1:
        better = (more_scores > scores) | ((more_scores == scores) & (more_rows < rows))
        return np.where(better, more_rows, rows), np.where(better, more_scores, scores)
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
    places = about_the_best(scores, n, deviations=4.0)
    return _largest(scores[places], places, n)


def about_the_best(scores: Array, n: int, deviations: float = 2.0) -> Rows:
    """Places of the `n` largest of `scores` (m,), and of some that follow them, in order of place.

    The sample misjudges how many by so many standard deviations, or else all are counted.
    """
    if n >= len(scores):
        return np.arange(len(scores))
    if len(scores) > SAMPLE_EVERY * FEW:
        sample = scores[::SAMPLE_EVERY]
        in_sample = int(n / SAMPLE_EVERY + deviations * ((n / SAMPLE_EVERY) ** 0.5 + 1))
        if in_sample < len(sample):
            floor = np.partition(sample, len(sample) - in_sample)[len(sample) - in_sample]
            places: Rows = (scores >= floor).nonzero()[0]
            if len(places) >= n:
                return places
    return _largest(scores, np.arange(len(scores)), n)


def _largest(scores: Array, places: Rows, n: int) -> Rows:
    if n >= len(scores):
        return places
    floor = np.partition(scores, len(scores) - n)[len(scores) - n]
    largest: Rows = places[scores >= floor]
    return largest
