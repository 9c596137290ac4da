"""How sure answers are: measured once, on samples taken out again, and moved by what people confirm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.calibration import evidence as evidences
from xlda.calibration.evidence import Evidence, gathered, novelty
from xlda.calibration.figures import (
    FittedFigures,
    Line,
    Thresholds,
    calibration_error,
    corrected,
    correction,
    known_line,
    shares,
    temperature,
)
from xlda.calibration.folds import (
    Like,
    NewHead,
    Scored,
    random_folds,
    visit_folds,
    without_classes,
    without_samples,
)
from xlda.moments import Moments

FEWEST = 48  # samples that were scored: from fewer nothing is said of the unknown
GROWN = 1.2  # times as much learned as when it was measured: then it is worth measuring again
KINDS = ("same", "visit", "unknown", "confirmed", "confirmed_unknown")  # of evidence
KEPT_WEIGH = 20.0  # all kept samples together, beside one for each answer that was confirmed


@dataclass(frozen=True, eq=False)
class Calibration:
    """Evidence by what is asked for: samples like those learned, or of another visit; and of the unknown."""

    same: Evidence
    visit: Evidence
    unknown: Evidence
    learned: float  # weight of all samples then
    confirmed: Evidence
    confirmed_unknown: Evidence
    given: Mapping[Like, FittedFigures] = field(
        default_factory=dict
    )  # that were fitted before, as a file has them

    @classmethod
    def measured(
        cls,
        moments: Moments,
        head_of: NewHead,
        progress: Callable[[int], object] = lambda _: None,
    ) -> Calibration:
        """Take out, score, and put nothing back: `moments` stay as they are."""
        kept = moments.kept.samples()

        def gather(folds: Iterator[Scored]) -> Evidence:
            found = []
            for scored in folds:
                found.append(scored)
                progress(len(scored.places))
            return gathered(kept, found)

        random = random_folds(kept, moments.total, moments.n_seen)
        same = gather(without_samples(moments, kept, random, head_of))
        visit = gather(without_samples(moments, kept, visit_folds(kept), head_of))
        unknown = gather(without_classes(moments, kept, head_of))
        nothing = evidences.none()
        return cls(same, visit, unknown, moments.weight_learned, nothing, nothing)

    def in_rows(self, rows: Rows) -> Calibration:
        """The same where class i has become row `rows[i]`, or -1 where it is gone."""
        return replace(self, **{kind: getattr(self, kind).in_rows(rows) for kind in KINDS})

    def with_confirmed(self, known: Evidence, unknown: Evidence) -> Calibration:
        """The same, and answers that somebody has confirmed or corrected."""
        return replace(
            self,
            confirmed=self.confirmed.with_others(known),
            confirmed_unknown=self.confirmed_unknown.with_others(unknown),
            given={},
        )

    def without_confirmed(self, known: Evidence, unknown: Evidence) -> Calibration:
        """The same without one answer for each of these: that which is most like it."""
        return replace(
            self,
            confirmed=self.confirmed.without(known),
            confirmed_unknown=self.confirmed_unknown.without(unknown),
            given={},
        )

    @classmethod
    def none(cls) -> Calibration:
        """Where nothing could be measured."""
        nothing = evidences.none()
        return cls(nothing, nothing, nothing, 0.0, nothing, nothing)

    @property
    def can_tell(self) -> bool:
        """Whether there is enough to say how sure an answer is."""
        return len(self.same) + len(self.confirmed) >= FEWEST

    def of(self, like: Like) -> Calibrated:
        """The figures for samples of this kind."""
        return self._same if like == "same" else self._visit

    @cached_property
    def _same(self) -> Calibrated:
        return Calibrated(*self._with_confirmed(self.same), self.given.get("same"))

    @cached_property
    def _visit(self) -> Calibrated:
        return Calibrated(*self._with_confirmed(self.visit), self.given.get("visit"))

    def _with_confirmed(self, known: Evidence) -> tuple[Evidence, Evidence]:
        unknown = self.unknown
        if len(self.confirmed):
            known = known.weighing(KEPT_WEIGH).with_others(self.confirmed)
        if len(self.confirmed_unknown):
            unknown = unknown.weighing(KEPT_WEIGH).with_others(self.confirmed_unknown)
        return known, unknown


@dataclass(frozen=True, eq=False)
class Calibrated:
    """From scores to probabilities."""

    known: Evidence
    unknown: Evidence
    given: FittedFigures | None = None  # that were fitted to just this before

    @property
    def figures(self) -> FittedFigures:
        """Temperature, correction and odds, each fitted where it was not yet."""
        return FittedFigures(self.temperature, self.correction, self.known_line)

    @cached_property
    def temperature(self) -> float:
        """What scores are divided by."""
        return temperature(self.known) if self.given is None else self.given.temperature

    @cached_property
    def correction(self) -> Line:
        """Of the probability of the best."""
        return correction(self.known, self.temperature) if self.given is None else self.given.correction

    @cached_property
    def known_line(self) -> Line:
        """The odds of being known, by novelty."""
        return known_line(self.known, self.unknown) if self.given is None else self.given.known_line

    def probabilities(self, scores: Array) -> Array:
        """Of the best classes, given that it is a known one: scores (n, k), best first; rows add up to 1."""
        return corrected(shares(scores, self.temperature), self.correction)

    def p_known(self, scores: Array, unknown_prior: float) -> Array:
        """Probability of being of a known class, (n,), where unknown ones have this prior probability."""
        line = self.known_line
        shift = np.log1p(-unknown_prior) - np.log(unknown_prior)
        return Line(line.at_zero + shift, line.slope).of(novelty(scores).astype(np.float64))

    def is_unknown(self, scores: Array, counts: Callable[[], Array], share: float) -> Array:
        """Which of these to reject, so that at most this share of the known is, (n,).

        `counts` gives how many samples their best classes have.
        """
        if share not in self._thresholds:  # which every query would have to sort all evidence for
            self._thresholds[share] = Thresholds.of(self.known, share)
        thresholds = self._thresholds[share]
        least = thresholds.common if thresholds.is_common else thresholds.at(counts())
        rejected: Array = novelty(scores) < least
        return rejected

    @cached_property
    def _thresholds(self) -> dict[float, Thresholds]:
        return {}

    @property
    def accuracy(self) -> float:
        """Share of right answers to be expected."""
        return float(np.average(self.known.right, weights=self.known.weights)) if len(self.known) else np.nan

    @cached_property
    def error(self) -> float:
        """Expected calibration error: half of the evidence by what the other half tells, and the reverse."""
        halves = [self.known.taken(np.arange(start, len(self.known), 2)) for start in (0, 1)]
        best = [
            Calibrated(other, self.unknown).probabilities(half.scores)[:, 0]
            for half, other in zip(halves, halves[::-1], strict=True)
        ]
        both = halves[0].with_others(halves[1])
        return calibration_error(np.concatenate(best), both.right, both.weights)
