"""How good a classifier is, as far as the samples that it kept can tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xlda._internal.arrays import Array
from xlda.calibration.calibration import Calibrated, Calibration

FIVE = 5
REJECTED = 0.05  # of the known, for the share of the unknown that is caught
DEVIATIONS = 1.96  # to either side: 95 %
FEW = 10  # samples a class; with fewer, those left out are missed, and it is better than it seems


@dataclass(frozen=True)
class Share:
    """A share that was measured, and between which it probably is."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, hits: Array, weights: Array) -> Share:
        """The share of `hits`, with Wilson's interval; weights count as in a sample of the same precision.

        >>> Share.of(np.array([True, False, True, True]), np.ones(4)).value
        0.75
        """
        if not len(hits):
            return cls(np.nan, 0.0, 1.0)
        value = float(np.average(hits, weights=weights))
        n = float(weights.sum()) ** 2 / float(weights @ weights)
        shrunk = DEVIATIONS**2 / n
        middle = (value + shrunk / 2) / (1 + shrunk)
        half = DEVIATIONS / (1 + shrunk) * (value * (1 - value) / n + shrunk / (4 * n)) ** 0.5
        return cls(value, max(middle - half, 0.0), min(middle + half, 1.0))

    def __str__(self) -> str:
        return f"{self.value:.1%} ({self.low:.1%} to {self.high:.1%})"


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
        caught = calibrated.is_unknown(unknown.scores, unknown.counts, REJECTED)
        return cls(
            Share.of(known.right, weights),
            Share.of(among, weights),
            calibrated.error,
            Share.of(caught, of_unknown),
        )


@dataclass(frozen=True)
class Assessment:
    """How good a classifier is; `print` it. From samples that were kept and asked for as if never learned."""

    same: Expected  # for samples like those learned
    visit: Expected  # for those of another day or place
    n_samples: int  # that were asked for
    n_confirmed: int  # and answers that people have confirmed
    per_class: float  # samples a class has
    learned_since: float  # as a share of all that was learned when this was measured

    @classmethod
    def of(cls, calibration: Calibration, total: float, n_classes: int) -> Assessment:
        """From what was measured, of a classifier that has learned so much since."""
        since = total / calibration.learned - 1.0 if calibration.learned else 0.0
        return cls(
            Expected.of(calibration.of("same")),
            Expected.of(calibration.of("visit")),
            len(calibration.same),
            len(calibration.confirmed) + len(calibration.confirmed_unknown),
            total / max(n_classes, 1),
            since,
        )

    def __str__(self) -> str:
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
        return "\n".join([*lines, measured + confirmed + since])
