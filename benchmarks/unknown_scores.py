"""Scores that say how much a sample is like the known classes: XLDA's and those that others use.

All are of the same embeddings, after XLDA's power, and all but k-NN go by the same covariance and shrinkage;
higher is more like a known class.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from imbalanced_learners import textbook_ratios
from scipy.linalg import cho_factor, cho_solve
from scipy.special import logsumexp, softmax

from xlda import XLDA

NEIGHBOURS = 10
MARGIN = 0.25  # as XLDA has it
BLOCK = 512

Scores = dict[str, np.ndarray]


def all_scores(X: np.ndarray, y: np.ndarray, queries: np.ndarray, few: bool = False) -> Scores:
    """Scores of queries by every method; `few` leaves out those that take long with many classes."""
    clf = XLDA(check_samples=0).fit(X, y)
    power = 1.0 if clf.power_ is None else clf.power_
    learned, asked = (np.sign(some) * np.abs(some) ** power for some in (X, queries))
    found: Scores = {}
    for name, change in (("", lambda some: some), (", L2-normalised", of_length_one)):
        found |= {
            f"{method}{name}": values for method, values in _scores(change, learned, y, asked, few).items()
        }
    return found


def of_length_one(X: np.ndarray) -> np.ndarray:
    """Rows divided by their lengths."""
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), np.float32(1e-12))


def _scores(
    change: Callable[[np.ndarray], np.ndarray], X: np.ndarray, y: np.ndarray, queries: np.ndarray, few: bool
) -> Scores:
    X, queries = change(X).astype(np.float32), change(queries).astype(np.float32)
    bayes = XLDA(power=None, check_samples=0).fit(X, y)
    plain = XLDA(power=None, model="lda", check_samples=0).fit(X, y)
    judged = bayes.score_samples(queries)
    best = np.sort(bayes.predict_topk(queries, 2)[1], axis=1)[:, ::-1]
    found = {"XLDA": judged, "likelihood ratio alone": judged - MARGIN * (best[:, 0] - best[:, 1])}
    found |= in_blocks(lambda some: _of_logits(plain.decision_function(some)), queries)
    found |= in_blocks(Mahalanobis(plain, X).of, queries)
    found |= in_blocks(lambda some: {f"{NEIGHBOURS}-NN": _nearest(X, some)}, queries)
    if not few:
        ratios = textbook_ratios(plain.class_count_, plain.means_.astype(np.float64), _shrunk(plain), queries)
        ordered = [np.sort(some, axis=1)[:, ::-1] for some in ratios]
        two = np.concatenate([some[:, :2] for some in ordered])
        found["XLDA, textbook psi"] = two[:, 0] + MARGIN * (two[:, 0] - two[:, 1])
    return found


def in_blocks(work: Callable[[np.ndarray], Scores], queries: np.ndarray) -> Scores:
    """Scores of some queries at a time, put together."""
    parts = [work(queries[start : start + BLOCK]) for start in range(0, len(queries), BLOCK)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _of_logits(logits: np.ndarray) -> Scores:
    best = -np.partition(-logits, 1, axis=1)[:, :2]
    return {
        "max softmax": softmax(logits, axis=1).max(axis=1),
        "energy": logsumexp(logits, axis=1),
        "max logit": logits.max(axis=1),
        "margin": best[:, 0] - best[:, 1],
    }


def _shrunk(clf: XLDA) -> np.ndarray:
    covariance = clf.covariance_.astype(np.float64)
    d = len(covariance)
    return (1 - clf.shrinkage_) * covariance + clf.shrinkage_ * np.trace(covariance) / d * np.eye(d)


class Mahalanobis:
    """The squared distance to the nearest class mean, and that less the one to the mean of all samples.

    The first by the covariance within classes (Lee et al., 2018), the second by that of all samples (relative
    Mahalanobis distance, Ren et al., 2021).
    """

    def __init__(self, clf: XLDA, X: np.ndarray) -> None:
        self._means = clf.means_.astype(np.float64)
        self._within = cho_factor(_shrunk(clf))
        self._centre = X.mean(axis=0, dtype=np.float64)
        total = np.cov(X.T, dtype=np.float64)
        total = (1 - clf.shrinkage_) * total + clf.shrinkage_ * np.trace(total) / len(total) * np.eye(
            len(total)
        )
        self._total = cho_factor(total)
        self._weights = cho_solve(self._within, self._means.T)
        self._norms = np.einsum("ij,ji->i", self._means, self._weights)

    def of(self, queries: np.ndarray) -> Scores:
        """Both, negative."""
        some = queries.astype(np.float64)
        own = np.einsum("ij,ji->i", some, cho_solve(self._within, some.T))
        nearest = own - (2 * some @ self._weights - self._norms).max(axis=1)
        off = some - self._centre
        background = np.einsum("ij,ji->i", off, cho_solve(self._total, off.T))
        return {"Mahalanobis": -nearest, "relative Mahalanobis": background - nearest}


def _nearest(X: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The squared distance to the tenth nearest sample, negative (Sun et al., 2022)."""
    nearness = 2 * queries @ X.T - np.einsum("ij,ij->i", X, X)
    k = min(NEIGHBOURS, len(X))
    tenth = -np.partition(-nearness, k - 1, axis=1)[:, k - 1]
    return tenth - np.einsum("ij,ij->i", queries, queries)
