"""What answers turned out to be worth: scores of samples whose class is known, with a weight each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from xlda._internal.arrays import Array
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

    def weighing(self, total: float) -> Evidence:
        """The same, with so much weight in all."""
        now = float(self.weights.sum())
        weights = self.weights * (total / now) if now else self.weights
        return Evidence(self.scores, self.place, self.counts, weights.astype(np.float32))

    def to_arrays(self, prefix: str) -> dict[str, Array]:
        """As tensors of a file."""
        return {f"{prefix}_{name}": getattr(self, name) for name in _FIELDS}


_FIELDS = tuple(Evidence.__dataclass_fields__)


def none() -> Evidence:
    """No evidence yet."""
    nothing = np.empty(0, np.float32)
    return Evidence(np.empty((0, BEST), np.float32), np.empty(0, np.int64), nothing, nothing)


def gathered(kept: Kept, folds: Iterable[Scored]) -> Evidence:
    """Evidence of samples that were taken out and scored."""
    found = [none()]
    for scored in folds:
        hit = scored.best == kept.rows[scored.places][:, None]
        place = np.where(hit.any(axis=1), hit.argmax(axis=1), -1)
        weights = kept.weights[scored.places].astype(np.float32)
        found.append(Evidence(padded(scored.scores), place, scored.counts.astype(np.float32), weights))
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
