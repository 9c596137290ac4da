"""What makes a predictor an estimator of scikit-learn, which is imported here and takes about a second."""

from __future__ import annotations

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if

from xlda.predictor.predictor import Predictor


def _has_unknown(predictor: Predictor) -> bool:
    """Whether it can score samples by how much they are like anything known."""
    return getattr(predictor, "model", "bayes") == "bayes" and getattr(predictor, "rule", "exact") == "exact"


class Estimator(ClassifierMixin, BaseEstimator):
    """To stand before a `Predictor` among the bases of a class: scikit-learn's contract."""

    score_samples = available_if(_has_unknown)(Predictor.score_samples)
