"""A share that was measured on some samples, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xlda._internal.arrays import Array

DEVIATIONS = 1.96  # to either side: 95 %


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
