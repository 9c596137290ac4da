"""Samples that were kept, scored by the classifier as it would be without them.

A fold is taken out of counts, means and scatter, exactly, and all that is derived from these is derived
again: as if those samples had never been learned. Answers about samples that were learned say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.calibration.clusters import clusters
from xlda.head.head import Head
from xlda.moments import Moments
from xlda.moments.kept_samples import Kept
from xlda.moments.trial import undone_afterwards

Like: TypeAlias = Literal["same", "visit"]
LIKES: tuple[str, ...] = get_args(Like)

BEST = 20  # classes that share the probability of an answer
N_FOLDS = 10  # of samples, at least
CLASSES_SCORED = 150_000  # by all folds of samples together: where classes are many, there are fewer folds
FEWEST_FOLDS = 3  # of samples, however many classes there are
SHARE_OF_CLASSES = 0.2  # that may be taken out at once
N_VISITS = 4  # folds of groups, or of clusters inside each class
LARGEST_FOLD = 0.1  # of all samples
QUERIES_AT_ONCE = 256

NewHead: TypeAlias = Callable[[Moments], Head]  # that looks at all classes


class Scored(NamedTuple):
    """Samples as they are scored by a classifier that has not learned them."""

    places: Rows  # (n,): which of the kept samples
    best: Rows  # (n, up to BEST): rows, best first
    scores: Array  # the same shape: less what a class without samples scores
    counts: Array  # (n,): samples of the best class


@dataclass(frozen=True)
class Folds:
    """Which fold each of the kept samples is in."""

    of_sample: Array  # (n,)
    n: int


def random_folds(kept: Kept, total: float, n_classes: int) -> Folds:
    """Samples of every class spread over the folds: what is left is like what is asked for."""
    largest = int(np.bincount(kept.rows).max(initial=2))  # with more folds than that, most are alike
    affordable = max(CLASSES_SCORED // max(n_classes, 1), FEWEST_FOLDS)
    needed = int(np.ceil(kept.weights.sum() / max(LARGEST_FOLD * total, 1.0)))
    n = max(min(N_FOLDS, largest, affordable), needed)
    return Folds(np.arange(len(kept.rows)) % n, n)  # they are in the order of their classes


def visit_folds(kept: Kept) -> Folds:
    """Groups of samples, and where there are none clusters inside each class, are left out together."""
    folds = np.zeros(len(kept.rows), np.intp)
    for row in np.unique(kept.rows):
        of_class = np.flatnonzero(kept.rows == row)
        groups = kept.groups[of_class]
        if (groups >= 0).all() and len(np.unique(groups)) > 1:
            folds[of_class] = np.unique(groups, return_inverse=True)[1] % N_VISITS
        elif len(of_class) > 1:
            n = min(N_VISITS, len(of_class))
            folds[of_class] = clusters(kept.embeddings[of_class].astype(np.float32), n)
    return Folds(folds, N_VISITS)


def without_samples(moments: Moments, kept: Kept, folds: Folds, head_of: NewHead) -> Iterator[Scored]:
    """Each fold scored by the classifier without it; not those samples whose class then has none.

    Between two folds, and after them, the moments are as they were.
    """
    for number in range(folds.n):
        out = np.flatnonzero(folds.of_sample == number)
        if not len(out):
            continue
        with undone_afterwards(moments, kept.rows[out]):
            moments.forget(kept.embeddings[out].astype(moments.dtype), kept.rows[out], kept.weights[out])
            asked = out[moments.counts_of(kept.rows[out]) > 0]
            scored = _scored(head_of(moments), moments, kept, asked) if len(asked) else None
        if scored is not None:
            yield scored


def without_classes(moments: Moments, kept: Kept, head_of: NewHead) -> Iterator[Scored]:
    """Samples scored by the classifier that does not have their classes, some of these at a time."""
    rows = kept.rows[np.sort(np.unique(kept.rows, return_index=True)[1])]  # not in the order of arrival
    n_folds = max(1, int(np.ceil(len(rows) / (SHARE_OF_CLASSES * max(moments.n_seen, 1)))))
    for number in range(n_folds):
        gone = rows[number::n_folds]
        asked = np.flatnonzero(np.isin(kept.rows, gone))
        with undone_afterwards(moments, gone):
            for row in gone.tolist():
                moments.drop(row)
            is_enough = moments.n_seen > 1 and len(asked)
            scored = _scored(head_of(moments), moments, kept, asked) if is_enough else None
        if scored is not None:
            yield scored


def _scored(head: Head, moments: Moments, kept: Kept, asked: Rows) -> Scored:
    k = min(BEST, head.n_seen)
    best, scores = np.empty((len(asked), k), np.intp), np.empty((len(asked), k))
    for start in range(0, len(asked), QUERIES_AT_ONCE):
        some = slice(start, start + QUERIES_AT_ONCE)
        embeddings = kept.embeddings[asked[some]].astype(moments.dtype)
        best[some], found, unknown = head.top_and_unknown(embeddings, k)
        scores[some] = found - unknown[:, None]
    return Scored(asked, best, scores, moments.counts_of(best[:, 0]))
