"""What the imbalanced benchmark compares XLDA with, beside the methods of learners.py."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from cases import Case
from learners import Learner, Streaming, best_of
from scipy.linalg import solve_triangular

BLOCK = 1024  # queries at a time


class NearestMeanByCosine(Learner):
    """The class whose mean has the smallest angle to the embedding."""

    def __init__(self, case: Case) -> None:
        self._sums = np.zeros((case.n_classes, case.X.shape[1]), np.float32)

    def learn(self, X: np.ndarray, rows: np.ndarray) -> None:
        np.add.at(self._sums, rows, X)

    def predict(self, X: np.ndarray, seen: np.ndarray) -> np.ndarray:
        labels = np.flatnonzero(seen)
        return labels[best_of(X, of_length_one(self._sums[labels]))]

    @property
    def nbytes(self) -> int:
        return self._sums.nbytes


class NearestSampleByCosine(Learner):
    """The class of the sample with the smallest angle to the embedding: keeps every sample."""

    def __init__(self) -> None:
        self._samples: list[np.ndarray] = []
        self._rows: list[np.ndarray] = []

    def learn(self, X: np.ndarray, rows: np.ndarray) -> None:
        self._samples.append(of_length_one(X))
        self._rows.append(rows)

    def predict(self, X: np.ndarray, seen: np.ndarray) -> np.ndarray:
        return np.concatenate(self._rows)[best_of(X, np.concatenate(self._samples))]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self._samples, *self._rows))


class TextbookBayes(Streaming):
    """The model of XLDA with the textbook's estimate of how class means differ.

    That is the covariance of the class means less what is noise in them, every mean counting the same,
    whatever it was learned from. Means, covariance, power and shrinkage are those of XLDA.
    """

    def __init__(self) -> None:
        super().__init__(model="lda")

    def predict(self, X: np.ndarray, seen: np.ndarray) -> np.ndarray:
        clf, power = self._clf, self._clf.power_
        changed = X if power is None else np.sign(X) * np.abs(X) ** power
        d = X.shape[1]
        sigma = (1 - clf.shrinkage_) * clf.covariance_.astype(np.float64)
        sigma += clf.shrinkage_ * np.trace(clf.covariance_) / d * np.eye(d)
        found = textbook_answers(clf.class_count_, clf.means_.astype(np.float64), sigma, changed)
        return clf.classes_[found]


def textbook_answers(n: np.ndarray, means: np.ndarray, sigma: np.ndarray, X: np.ndarray) -> np.ndarray:
    """The most likely class of each embedding, in float64; `n` are counts, all of them above zero.

    In coordinates where samples of a class vary by 1 and class means by psi, a class with n samples and mean
    k has the mean n psi / (n psi + 1) k, and a new sample of it varies by 1 + psi / (n psi + 1) around that.
    """
    return np.concatenate([ratios.argmax(axis=1) for ratios in textbook_ratios(n, means, sigma, X)])


def textbook_ratios(
    n: np.ndarray, means: np.ndarray, sigma: np.ndarray, X: np.ndarray
) -> Iterator[np.ndarray]:
    """For each block of embeddings, how much likelier each class is than one without samples, logarithms."""
    factor = np.linalg.cholesky(sigma)
    centre = means.mean(axis=0)
    whitened = solve_triangular(factor, (means - centre).T, lower=True).T
    psi, axes = spread_of_means(whitened, n)
    k = whitened @ axes
    for start in range(0, len(X), BLOCK):
        some = X[start : start + BLOCK].astype(np.float64) - centre
        z = solve_triangular(factor, some.T, lower=True).T @ axes
        scores = np.empty((len(z), len(n)))
        for count in np.unique(n):
            of = n == count
            variance = 1 + psi / (count * psi + 1)
            mean = k[of] * (count * psi / (count * psi + 1))
            squares = (z**2 @ (1 / variance))[:, None] + mean**2 @ (1 / variance)
            scores[:, of] = (z / variance) @ mean.T - 0.5 * (squares + np.log(variance).sum())
        unknown = -0.5 * (z**2 @ (1 / (1 + psi)) + np.log1p(psi).sum())
        yield scores - unknown[:, None]


def spread_of_means(whitened: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where class means differ by more than noise: by how much (their variance), and along which axes.

    Elsewhere every class has the mean 0 and the variance 1, which changes no answer.
    """
    n_classes, d = whitened.shape
    centred = (whitened - whitened.mean(axis=0)) / np.sqrt(max(n_classes - 1, 1))
    if n_classes > d:
        values, axes = np.linalg.eigh(centred.T @ centred)
    else:
        values, left = np.linalg.eigh(centred @ centred.T)
        axes = centred.T @ left / np.sqrt(np.maximum(values, 1e-12))
    psi = values - np.mean(1 / n)
    return psi[psi > 0], axes[:, psi > 0]


def of_length_one(X: np.ndarray) -> np.ndarray:
    """Rows divided by their lengths."""
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), np.float32(1e-12))
