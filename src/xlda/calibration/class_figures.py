"""What to expect of single classes: measured where samples were kept, else told by distances and counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.calibration.evidence import Evidence
from xlda.calibration.share import Share
from xlda.head.head import Head
from xlda.head.nearness import Nearness, nearness
from xlda.labels import Label

MOST_CLASSES = 2048  # that are looked at one by one
ENOUGH = 0.01  # by which a class would be right more often with any number of samples more: no need for them
MOST_NAMED = 10


@dataclass(frozen=True)
class ClassFigure:
    """A class, and what more samples of it would bring."""

    label: Label
    samples: float
    estimate: float  # share of right answers, by how near others are: rather too large than too small
    gain: float  # by which that would grow with any number of samples more
    measured: Share | None  # share of right answers on its samples that were kept, of another visit


@dataclass(frozen=True)
class Confusion:
    """A class that is taken for another."""

    label: Label
    taken_for: Label
    share: float  # of its samples
    samples: int | None  # that this was measured on; None where it is an estimate


@dataclass(frozen=True)
class ClassFigures:
    """What to expect of single classes."""

    estimate: float  # share of right answers over all classes alike, by distances and counts
    confused: tuple[Confusion, ...]  # the most often first
    need_samples: tuple[ClassFigure, ...]  # those first that would gain most
    n_enough: int  # classes that need no more
    n_looked_at: int  # of all classes

    @classmethod
    def of(
        cls, head: Head, rows: Rows, counts: Array, evidence: Evidence, temperature: float
    ) -> ClassFigures:
        """Of classes with so many samples each; `evidence` is what was measured."""
        some = np.argsort(counts, kind="stable")
        if len(some) > MOST_CLASSES:  # of all counts
            some = some[np.linspace(0, len(some) - 1, MOST_CLASSES).round().astype(np.intp)]
        found = nearness(head, rows[some], temperature)
        names = head.table.names
        gains = found.wrong - found.wrong_at_best
        need = np.lexsort((counts[some], -gains))
        figures = [
            ClassFigure(
                names[found.rows[i]],
                float(counts[some][i]),
                float(1.0 - found.wrong[i]),
                float(gains[i]),
                _measured(evidence, int(found.rows[i])),
            )
            for i in need[:MOST_NAMED]
            if gains[i] >= ENOUGH
        ]
        confused = _confusions(evidence, names) or _by_nearness(found, names)
        return cls(
            float(1.0 - found.wrong.mean()),
            tuple(confused[:MOST_NAMED]),
            tuple(figures),
            int((gains < ENOUGH).sum()),
            len(some),
        )


def _measured(evidence: Evidence, row: int) -> Share | None:
    of_class = evidence.truth == row
    return Share.of(evidence.right[of_class], evidence.weights[of_class]) if of_class.any() else None


def _confusions(evidence: Evidence, names: Array) -> list[Confusion]:
    """Those that were measured, the most often first."""
    told = (evidence.truth >= 0) & (evidence.best >= 0) & ~evidence.right
    pairs = np.stack([evidence.truth[told], evidence.best[told]], axis=1)
    pairs, of_pair = np.unique(pairs, axis=0, return_inverse=True)
    weights = np.bincount(of_pair.ravel(), evidence.weights[told], minlength=len(pairs))
    found = []
    for number in np.argsort(-weights, kind="stable")[:MOST_NAMED]:
        truth, best = pairs[number].tolist()
        of_class = evidence.truth == truth
        share = float(weights[number] / evidence.weights[of_class].sum())
        found.append(Confusion(names[truth], names[best], share, int(of_class.sum())))
    return found


def _by_nearness(found: Nearness, names: Array) -> list[Confusion]:
    """Those to be expected."""
    likeliest = [i for i in np.argsort(-found.wrong, kind="stable") if found.neighbour[i] >= 0]
    return [
        Confusion(names[found.rows[i]], names[found.neighbour[i]], float(found.wrong[i]), None)
        for i in likeliest[:MOST_NAMED]
    ]
