"""LDA as a layer to train on from: as sure of itself as it may be.

With few samples a class, LDA has no doubt left about those that it has seen: their loss is 0, and the
gradient has little to do with what is wrong. So the layer's logits are scaled by one number: XLDA forgets a
sample of each class, the scale is that at which it is least surprised by them, and it learns them again.
"""

from __future__ import annotations

import numpy as np
from learners import PLAIN
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from xlda import XLDA

MOST_CLASSES = 1_000  # whose samples are forgotten and asked: more would not change the scale


def surprise(logits: np.ndarray, rows: np.ndarray) -> float:
    """Mean cross-entropy."""
    return float(-log_softmax(logits, axis=1)[np.arange(len(rows)), rows].mean())


def plain_lda() -> XLDA:
    """What is a layer exactly, over embeddings as they are, also while counts differ."""
    return XLDA(**PLAIN)


def layer_of(clf: XLDA) -> tuple[np.ndarray, np.ndarray]:
    """Weight and bias, class 0 first, in whatever order classes came."""
    order = np.argsort(clf.classes_)
    weight, bias = clf.to_linear()
    return weight[order], bias[order]


def tempered(clf: XLDA, X: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same, scaled. `clf` learned these samples, of classes 0, 1, ..., at least two of each."""
    _, first = np.unique(rows, return_index=True)
    some = np.random.default_rng(0).permutation(first)[:MOST_CLASSES]
    clf.forget(X[some], rows[some])
    weight, bias = layer_of(clf)
    logits = X[some] @ weight.T + bias
    found = minimize_scalar(lambda log: surprise(np.exp(log) * logits, rows[some]), bounds=(-7, 0))
    weight, bias = layer_of(clf.partial_fit(X[some], rows[some]))
    return np.exp(found.x) * weight, np.exp(found.x) * bias
