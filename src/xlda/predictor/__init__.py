"""Predicting from a head, how sure that is, and snapshots."""

from xlda.predictor.calibrating import Calibrating
from xlda.predictor.predictor import Predictor, Snapshot

__all__ = ["Calibrating", "Predictor", "Snapshot"]
