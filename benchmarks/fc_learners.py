"""Fully connected layers on a stream of classes."""

from __future__ import annotations

import numpy as np
from cases import Case
from fc_layer import FCLayer, to_convergence
from learners import Learner, best_of

from xlda.demo import fc as stream_fc

# Of rates from 0.0001 to 0.003, 1 to 10 epochs, Adam or SGD, the best but one, at a third of its time.
ON_THE_STREAM = stream_fc.Training(rate=0.001, epochs=3)


class AllAtOnce(Learner):
    """Trained to convergence on everything: what could be had if all data were there at once."""

    joint = True

    def __init__(self, case: Case, seed: int) -> None:
        self._fc = FCLayer(case.n_classes, case.X.shape[1], seed)

    def learn(self, X: np.ndarray, rows: np.ndarray) -> None:
        self._fc.train(X, rows, to_convergence(len(rows)))

    def predict(self, X: np.ndarray, seen: np.ndarray) -> np.ndarray:
        return self._fc.predict(X, seen)

    @property
    def nbytes(self) -> int:
        return self._fc.nbytes


class FineTuned(Learner):
    """Goes on training with what is new, and only that: some epochs over each group of classes.

    Where classes come one by one, over each class; where they come mixed, over each tenth of the samples. SGD
    from zero over standardised embeddings (as in the demo): Adam, better for all at once, forgets far more.
    """

    def __init__(self, case: Case, seed: int) -> None:
        self._fc = stream_fc.SoftmaxLayer(case.n_classes, case.X)
        self._rng = np.random.default_rng(seed)
        self._waiting: list[tuple[np.ndarray, np.ndarray]] = []

    def learn(self, X: np.ndarray, rows: np.ndarray) -> None:
        self._waiting.append((X, rows))
        if len(np.unique(rows)) == 1:
            self.end_of_group()

    def end_of_group(self) -> None:
        if self._waiting:
            X, rows = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
            self._waiting = []
            self._fc.train(X, rows, ON_THE_STREAM, self._rng)

    def predict(self, X: np.ndarray, seen: np.ndarray) -> np.ndarray:
        labels = np.flatnonzero(seen)
        weight, bias = self._fc.linear()
        return labels[best_of(X, weight[labels], bias[labels])]

    @property
    def nbytes(self) -> int:
        return 2 * sum(array.nbytes for array in self._fc.linear())  # and momentum
