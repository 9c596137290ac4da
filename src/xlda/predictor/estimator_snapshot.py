"""A snapshot with scikit-learn's contract."""

from __future__ import annotations

from xlda.predictor.estimator import Estimator
from xlda.predictor.snapshot import Snapshot


class EstimatorSnapshot(Estimator, Snapshot):
    """A `Snapshot` that is an estimator; `XLDA.snapshot` makes one."""
