"""A classifier as it was at one moment."""

from __future__ import annotations

from typing import Any

from xlda._internal.arrays import Array
from xlda.calibration.calibration import Calibration
from xlda.calibration.folds import Like
from xlda.head.head import Head
from xlda.predictor.predictor import Predictor


class Snapshot(Predictor):
    """A classifier as it was at one moment: it predicts and never changes.

    Any number of threads may use it, without locks, while the classifier it comes from goes on learning.
    `Learner.snapshot` makes one, without scikit-learn.
    """

    def __init__(
        self,
        head: Head,
        power: float | None,
        feature_names: Array | None = None,
        calibration: Calibration | None = None,
        like: Like = "visit",
    ) -> None:
        self.head = head
        self.calibration, self.like = calibration, like
        self.power = self.power_ = power
        self.feature_names = feature_names
        self.n_features_in_ = head.n_inputs
        self.lift = None if head.space.lift is None else head.space.lift.width
        if feature_names is not None:
            self.feature_names_in_ = feature_names

    @property
    def classes_(self) -> Array:
        """Labels, sorted: the order of the columns of scores."""
        return self.head.table.sorted()

    def _current_head(self) -> Head:
        return self.head

    def _current_calibration(self) -> Calibration | None:
        return self.calibration

    def __sklearn_tags__(self) -> Any:  # what scikit-learn asks of whatever it checks data for
        from xlda.predictor.estimator import Estimator

        return Estimator().__sklearn_tags__()
