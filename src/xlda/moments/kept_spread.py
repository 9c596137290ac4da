"""How class means differed when the covariance was frozen."""

from __future__ import annotations

from typing import NamedTuple

from xlda._internal.arrays import Array


class KeptSpread(NamedTuple):
    """How class means differed when the covariance was frozen; see `xlda.head.class_spread`."""

    matrix: Array  # (d, d): the covariance of class means, as it was measured
    size: float
    share: float
