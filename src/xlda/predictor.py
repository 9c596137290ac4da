"""Predicting from a head: what `XLDA` and its snapshots have in common."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from xlda._internal.arrays import Array
from xlda.head.head import Head
from xlda.inputs import checked_embeddings


class Predictor(ClassifierMixin, BaseEstimator):
    """Methods that predict; who has them says which head they use, and which power it is for."""

    power_: float | None

    def _current_head(self) -> Head:
        raise NotImplementedError

    def predict(self, X: ArrayLike) -> Array:
        """Label of the best class for each sample, shape (n_samples,). Works in blocks, as `predict_topk`."""
        head = self._current_head()
        return head.table.of(head.top(checked_embeddings(self, X, self.power_), 1)[0][:, 0])

    def predict_topk(self, X: ArrayLike, k: int = 5) -> tuple[Array, Array]:
        """Labels and logits of the `k` best classes, each (n_samples, k), best first.

        Fewer columns where fewer classes have samples. Works in blocks, so memory does not grow with
        n_samples times the number of classes.
        """
        if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
            raise ValueError(f"k is a whole number of at least 1; got {k!r}.")
        head = self._current_head()
        embeddings = checked_embeddings(self, X, self.power_)
        rows, scores = head.top(embeddings, min(int(k), head.n_seen))
        return head.table.of(rows), scores + head.common_term(embeddings)[:, None]

    def decision_function(self, X: ArrayLike) -> Array:
        """Logit of each class, shape (n_samples, n_classes): its log posterior up to a term common to all.

        As scikit-learn has it, with two classes the logit of the second less that of the first, (n_samples,).
        A class without samples has -inf. Every class is scored, whatever the search; with `LSH`, as
        published, only the active ones are.
        """
        head, embeddings, scores = self._scored(X)
        logits: Array = scores + head.common_term(embeddings)[:, None]
        logits[np.isnan(scores)] = 0.0
        if scores.shape[1] == 2:
            return scores[:, 1] - scores[:, 0] if np.isfinite(scores).all() else logits[:, 1] - logits[:, 0]
        return logits

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Logarithm of the posterior probability of each class, shape (n_samples, n_classes)."""
        head, embeddings, scores = self._scored(X)
        inactive = np.isnan(scores)
        if inactive.any():
            scores = np.where(inactive, -head.common_term(embeddings)[:, None], scores)
        logs: Array = log_softmax(scores, axis=1)
        return logs

    def predict_proba(self, X: ArrayLike) -> Array:
        """Posterior probability of each class, shape (n_samples, n_classes)."""
        probabilities: Array = np.exp(self.predict_log_proba(X))
        return probabilities

    def _scored(self, X: ArrayLike) -> tuple[Head, Array, Array]:
        """Head, checked embeddings, and the score of each known class, shape (n_samples, n_classes)."""
        head = self._current_head()
        embeddings = checked_embeddings(self, X, self.power_)
        scores = head.scores(embeddings)
        return head, embeddings, scores if head.table.is_sorted else scores[:, head.table.sorted_rows]


class Snapshot(Predictor):
    """A classifier as it was at one moment: it predicts and never changes.

    Any number of threads may use it, without locks, while the classifier it comes from goes on learning.
    `XLDA.snapshot` makes one.
    """

    def __init__(self, head: Head, power: float | None, feature_names: Array | None = None) -> None:
        self.head = head
        self.power = self.power_ = power
        self.feature_names = feature_names
        self.n_features_in_ = len(head.centre)
        if feature_names is not None:
            self.feature_names_in_ = feature_names

    @property
    def classes_(self) -> Array:
        """Labels, sorted: the order of the columns of scores."""
        return self.head.table.sorted()

    def _current_head(self) -> Head:
        return self.head
