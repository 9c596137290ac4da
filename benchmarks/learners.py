"""The methods that are compared on a stream of classes. Each learns samples as they come and can be asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from cases import Case
from scipy.linalg import blas, cho_factor, cho_solve
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from xlda import XLDA

BLOCK = 1024  # queries at a time
PLAIN: dict[str, Any] = {"model": "lda", "shrinkage": 0.3, "power": None}  # what the paper's tables are about


class Learner(ABC):
    """One method on one stream. `joint` ones get everything at once: they show what could be had."""

    joint = False

    @abstractmethod
    def learn(self, X: np.ndarray, rows: np.ndarray) -> None:
        """One batch."""

    def end_of_group(self) -> None:
        """Nothing more is coming for now."""
        return

    @abstractmethod
    def predict(self, X: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """The best class of each embedding; `seen` says of each class whether it came already."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """What it keeps, to go on learning and to predict."""


class Streaming(Learner):
    """XLDA."""

    def __init__(self, **parameters: object) -> None:
        self._clf = XLDA(**parameters)

    def learn(self, X: np.ndarray, rows: np.ndarray) -> None:
        self._clf.partial_fit(X, rows)

    def end_of_group(self) -> None:
        self._clf.snapshot()

    def predict(self, X: np.ndarray, seen: np.ndarray) -> np.ndarray:
        return self._clf.predict(X)

    @property
    def nbytes(self) -> int:
        return sum(self._clf.memory().values())


class NearestMean(Learner):
    """The class whose mean is nearest."""

    def __init__(self, case: Case) -> None:
        self._sums = np.zeros((case.n_classes, case.X.shape[1]), np.float32)
        self._counts = np.zeros(case.n_classes, np.float32)

    def learn(self, X: np.ndarray, rows: np.ndarray) -> None:
        np.add.at(self._sums, rows, X)
        np.add.at(self._counts, rows, 1)

    def predict(self, X: np.ndarray, seen: np.ndarray) -> np.ndarray:
        labels = np.flatnonzero(seen)
        means = self._sums[labels] / self._counts[labels, None]
        return labels[best_of(X, means, -0.5 * (means**2).sum(axis=1))]

    @property
    def nbytes(self) -> int:
        return self._sums.nbytes + self._counts.nbytes


class RandomFeatureRidge(Learner):
    """Ridge regression on random features, in the manner of RanPAC (McDonnell et al., NeurIPS 2023).

    Embeddings go through a fixed random matrix and a ReLU; their products with themselves and with the labels
    are added up, which makes the result independent of the order. As there, the ridge is the best, of powers
    of ten, for held-out samples of the first classes. Embeddings are centred by their mean, which is better
    here than as they are.
    """

    WIDTH = 5_000
    RIDGES = 10.0 ** np.arange(-4, 5)
    CHOOSE_BY = 500  # classes, at most

    def __init__(self, case: Case, seed: int) -> None:
        rng = np.random.default_rng(seed)
        first = rng.permutation(case.of(case.groups()[0][: self.CHOOSE_BY]))
        self._centre = case.X[first].mean(axis=0)
        self._scale = np.float32(1 / np.sqrt(self.WIDTH * case.X[first].var(axis=0).sum()))
        self._projection = rng.standard_normal((case.X.shape[1], self.WIDTH), dtype=np.float32)
        self._gram = np.zeros((self.WIDTH, self.WIDTH), np.float32, order="F")
        self._sums = np.zeros((case.n_classes, self.WIDTH), np.float32)
        self._weights: np.ndarray | None = None
        self._ridge = self._chosen_ridge(case.X[first], case.rows[first])

    def learn(self, X: np.ndarray, rows: np.ndarray) -> None:
        features = self._features(X)
        self._gram = blas.ssyrk(1.0, features.T, beta=1.0, c=self._gram, overwrite_c=True)
        np.add.at(self._sums, rows, features)
        self._weights = None

    def end_of_group(self) -> None:
        factor = self._factor(self._gram, self._ridge)
        self._weights = cho_solve(factor, self._sums.T, check_finite=False).T

    def predict(self, X: np.ndarray, seen: np.ndarray) -> np.ndarray:
        assert self._weights is not None
        labels = np.flatnonzero(seen)
        weights = self._weights if len(labels) == len(self._weights) else self._weights[labels]
        found = [best_of(self._features(some), weights) for some in _blocks(X)]
        return labels[np.concatenate(found)]

    @property
    def nbytes(self) -> int:
        arrays = (self._projection, self._gram, self._sums, self._weights)
        return sum(array.nbytes for array in arrays if array is not None)

    def _features(self, X: np.ndarray) -> np.ndarray:
        features = (X - self._centre) @ self._projection
        features *= self._scale
        return np.maximum(features, 0, out=features)

    def _factor(self, gram: np.ndarray, ridge: float) -> tuple[np.ndarray, bool]:
        """The ridge is in units of the mean diagonal element."""
        regular = gram.copy(order="F")
        np.einsum("ii->i", regular)[:] += ridge * np.trace(gram) / len(gram)
        return cho_factor(regular, overwrite_a=True, check_finite=False)

    def _chosen_ridge(self, X: np.ndarray, rows: np.ndarray) -> float:
        features, labels = self._features(X), np.unique(rows)
        n_held = len(X) // 5
        known, held = features[n_held:], features[:n_held]
        targets = (rows[n_held:, None] == labels).astype(np.float32)
        kernel = known @ known.T  # fewer samples than features: solve for the samples
        unit = np.trace(kernel) / self.WIDTH
        right = []
        for ridge in self.RIDGES:
            regular = kernel + ridge * unit * np.eye(len(kernel), dtype=np.float32)
            solved = np.linalg.solve(regular, targets)
            right.append(np.mean(labels[(held @ known.T @ solved).argmax(axis=1)] == rows[:n_held]))
        return float(self.RIDGES[int(np.argmax(right))])


class ScikitLearnLDA(Learner):
    """LinearDiscriminantAnalysis, which wants all data at once."""

    joint = True

    def __init__(self, **parameters: object) -> None:
        self._lda = LinearDiscriminantAnalysis(**parameters)

    def learn(self, X: np.ndarray, rows: np.ndarray) -> None:
        self._lda.fit(X, rows)

    def predict(self, X: np.ndarray, seen: np.ndarray) -> np.ndarray:
        labels = np.flatnonzero(seen)
        coefficients = self._lda.coef_[labels].astype(np.float32)
        return labels[best_of(X, coefficients, self._lda.intercept_[labels].astype(np.float32))]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in vars(self._lda).values() if isinstance(array, np.ndarray))


def best_of(X: np.ndarray, weights: np.ndarray, bias: np.ndarray | float = 0.0) -> np.ndarray:
    """The class with the largest score of each embedding."""
    return np.concatenate([(some @ weights.T + bias).argmax(axis=1) for some in _blocks(X)])


def _blocks(X: np.ndarray) -> list[np.ndarray]:
    return [X[start : start + BLOCK] for start in range(0, len(X), BLOCK)]
