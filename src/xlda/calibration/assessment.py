"""How good a classifier is, as far as it can tell itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.calibration import evidence as evidences
from xlda.calibration.calibration import Calibrated, Calibration
from xlda.calibration.class_figures import ClassFigures
from xlda.calibration.figures import TEMPERATURE
from xlda.calibration.parameter_trial import ParameterTrial
from xlda.calibration.share import Share
from xlda.head.head import Head

FIVE = 5
REJECTED = 0.05  # of the known, for the share of the unknown that is caught
FEW = 10  # samples a class; with fewer, those left out are missed, and it is better than it seems
WIDE = 64  # features, from which on samples are taken to scatter as those of networks' embeddings do
SHOWN = 3  # of the classes that are named


@dataclass(frozen=True)
class Expected:
    """What to expect of one kind of samples."""

    accuracy: Share
    top_five: Share
    calibration_error: float
    unknown_caught: Share  # where 5 % of the known are rejected

    @classmethod
    def of(cls, calibrated: Calibrated) -> Expected:
        """From what was measured."""
        known, unknown = calibrated.known, calibrated.unknown
        among = (known.place >= 0) & (known.place < FIVE)
        weights, of_unknown = known.weights.astype(np.float64), unknown.weights.astype(np.float64)
        caught = calibrated.is_unknown(unknown.scores, lambda: unknown.counts, REJECTED)
        return cls(
            Share.of(known.right, weights),
            Share.of(among, weights),
            calibrated.error,
            Share.of(caught, of_unknown),
        )


@dataclass(frozen=True)
class Assessment:
    """How good a classifier is; `print` it.

    `same` and `visit` are measured on samples that were kept, and asked for as if never learned. Where none
    were, they are None, and `classes.estimate` is what distances between class means and their counts of
    samples tell: a rough estimate, mostly too large.
    """

    same: Expected | None  # for samples like those learned
    visit: Expected | None  # for those of another day or place
    classes: ClassFigures  # what to expect of single classes
    n_classes: int
    n_samples: int  # that were asked for
    n_confirmed: int  # and answers that people have confirmed
    per_class: float  # samples a class has
    learned_since: float  # as a share of all that was learned when this was measured
    lift: ParameterTrial | None = None  # what it would bring, if that was asked for and can be told
    second_look: ParameterTrial | None = None  # the same
    not_tried: tuple[str, ...] = ()  # what was asked for and cannot be told, a sentence each

    @classmethod
    def of(
        cls, head: Head, calibration: Calibration | None, rows: Rows, counts: Array, learned: float
    ) -> Assessment:
        """Of a classifier of such rows, with so many samples each, that has learned so much in all."""
        n = len(rows)
        if calibration is None:
            usual = TEMPERATURE if len(head.centre) >= WIDE else 1.0
            figures = ClassFigures.of(head, rows, counts, evidences.none(), usual)
            return cls(None, None, figures, n, 0, 0, learned / max(n, 1), 0.0)
        visit = calibration.of("visit")
        return cls(
            Expected.of(calibration.of("same")),
            Expected.of(visit),
            ClassFigures.of(head, rows, counts, visit.known, visit.temperature),
            n,
            len(calibration.same),
            len(calibration.confirmed) + len(calibration.confirmed_unknown),
            learned / max(n, 1),
            learned / calibration.learned - 1.0 if calibration.learned else 0.0,
        )

    def __str__(self) -> str:
        tried = [str(trial) for trial in (self.second_look, self.lift) if trial is not None]
        return "\n".join([*self._overall(), *self._of_classes(), *tried, *self.not_tried])

    def _overall(self) -> list[str]:
        if self.same is None or self.visit is None:
            return [
                f"about {self.classes.estimate:.0%} right or less: estimated from distances between class "
                "means and from counts, since no samples or too few are kept for checking"
            ]
        lines = []
        for name, found in (("samples like these", self.same), ("another visit", self.visit)):
            least = "at least " if self.per_class < FEW else ""
            lines += [
                f"{name}: {least}{found.accuracy} right, {found.top_five.value:.1%} among the five best",
                f"    probabilities are off by {found.calibration_error:.1%} on average; of the unknown, "
                f"{found.unknown_caught.value:.0%} are caught where 5% of the known are rejected",
            ]
        measured = f"measured on {self.n_samples:,} samples kept for checking"
        confirmed = f" and {self.n_confirmed:,} confirmed answers" if self.n_confirmed else ""
        since = f"; {self.learned_since:.0%} more was learned since" if self.learned_since > 0.005 else ""
        return [*lines, measured + confirmed + since]

    def _of_classes(self) -> list[str]:
        figures, lines = self.classes, []
        if figures.confused:
            named = [f"{one.label} for {one.taken_for} ({one.share:.0%})" for one in figures.confused[:SHOWN]]
            lines.append(f"most often taken for another: {', '.join(named)}")
        if figures.need_samples:
            named = [f"{one.label} (has {one.samples:g})" for one in figures.need_samples[:SHOWN]]
            lines.append(f"more samples would help most: {', '.join(named)}")
        looked_at = f"{figures.n_looked_at:,}"
        if figures.n_looked_at < self.n_classes:
            looked_at += f" of {self.n_classes:,}"
        lines.append(f"no more samples needed: {figures.n_enough:,} of {looked_at} classes looked at")
        return lines
