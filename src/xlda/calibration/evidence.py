"""What answers turned out to be worth: scores of samples whose class is known, with a weight each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.calibration.folds import BEST, Scored
from xlda.moments.kept_samples import Kept

NO_CLASS = np.float32(-1e30)  # the score where there are no more classes
MARGIN = 0.25  # by so much the lead of the best class counts beside its own score


@dataclass(frozen=True, eq=False)
class Evidence:
    """Scores of the best classes, and which of them was right."""

    scores: Array  # (n, BEST), float32: best first, less that of a class without samples; or none
    place: Array  # (n,): of the right class among them; -1 where it is not
    counts: Array  # (n,), float32: samples of the best class
    weights: Array  # (n,), float32
    truth: Array  # (n,): row of the right class; -1 where there is none, or none any more
    best: Array  # (n,): row of the best class; the same

    def __len__(self) -> int:
        return len(self.place)

    @property
    def right(self) -> Array:
        """Whether the best class was right, (n,)."""
        right: Array = self.place == 0
        return right

    @property
    def novelty(self) -> Array:
        """How much a sample is like the known classes, (n,)."""
        return novelty(self.scores)

    def taken(self, some: Array) -> Evidence:
        """Some of it."""
        return Evidence(*(getattr(self, name)[some] for name in _FIELDS))

    def with_others(self, *others: Evidence) -> Evidence:
        """All of them."""
        every = (self, *others)
        return Evidence(*(np.concatenate([getattr(one, name) for one in every]) for name in _FIELDS))

    def without(self, others: Evidence) -> Evidence:
        """The same without one for each of these: of the same truth, with the nearest scores."""
        left = self
        for scores, truth in zip(others.scores, others.truth, strict=True):
            same = np.flatnonzero(left.truth == truth)
            if len(same):
                distances = ((left.scores[same].astype(np.float64) - scores) ** 2).sum(axis=1)
                left = left.taken(np.arange(len(left)) != same[distances.argmin()])
        return left

    def weighing(self, total: float) -> Evidence:
        """The same, with so much weight in all."""
        now = float(self.weights.sum())
        weights = self.weights * (total / now) if now else self.weights
        return replace(self, weights=weights.astype(np.float32))

    def in_rows(self, rows: Rows) -> Evidence:
        """The same where row i has become row `rows[i]`, or -1 for none."""
        moved = np.append(rows, -1)  # so that -1 stays what it is
        return replace(self, truth=moved[self.truth], best=moved[self.best])

    def to_arrays(self, prefix: str) -> dict[str, Array]:
        """As tensors of a file."""
        return {f"{prefix}_{name}": getattr(self, name) for name in _FIELDS}


_FIELDS = tuple(Evidence.__dataclass_fields__)


def none() -> Evidence:
    """No evidence yet."""
    nothing = np.empty(0, np.float32)
    no_rows = np.empty(0, np.int64)
    return Evidence(np.empty((0, BEST), np.float32), no_rows, nothing, nothing, no_rows, no_rows)


def gathered(kept: Kept, folds: Iterable[Scored]) -> Evidence:
    """Evidence of samples that were taken out and scored."""
    found = [none()]
    for scored in folds:
        truth = kept.rows[scored.places]
        hit = scored.best == truth[:, None]
        place = np.where(hit.any(axis=1), hit.argmax(axis=1), -1)
        weights = kept.weights[scored.places].astype(np.float32)
        counts = scored.counts.astype(np.float32)
        found.append(Evidence(padded(scored.scores), place, counts, weights, truth, scored.best[:, 0]))
    return found[0].with_others(*found[1:])


def padded(scores: Array) -> Array:
    """Scores (n, k) with as many columns as evidence has."""
    wide = np.full((len(scores), BEST), NO_CLASS, np.float32)
    wide[:, : scores.shape[1]] = np.maximum(scores, NO_CLASS)
    return wide


def novelty(scores: Array) -> Array:
    """How much a sample with these scores (n, k) is like the known classes, (n,).

    The score of the best class beside that of one without samples, and a part of its lead on the second.
    """
    best = scores[:, 0]
    if scores.shape[1] < 2:
        return best
    second = np.where(scores[:, 1] > NO_CLASS, scores[:, 1], best)
    found: Array = best + MARGIN * (best - second)
    return found
