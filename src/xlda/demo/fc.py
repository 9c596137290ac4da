"""What XLDA is compared with: a fully connected (FC) layer, trained by gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from xlda._internal.arrays import Array, Rows

BATCH, MOMENTUM = 32, 0.9


@dataclass(frozen=True)
class Training:
    """How to train: the rate, whether it falls to 0 along a line, weight decay, epochs.

    >>> Training(rate=0.1, epochs=2, falling=True).rate_at(0.5)
    0.05
    """

    rate: float
    epochs: int
    decay: float = 0.0
    falling: bool = False

    def rate_at(self, done: float) -> float:
        """The rate when a share of the work is done."""
        return self.rate * (1 - done) if self.falling else self.rate

    def __str__(self) -> str:
        rate = f"rate {self.rate:g}{' falling to 0' if self.falling else ''}"
        return f"{rate}, weight decay {self.decay:g}, {self.epochs} epochs"


# The best of rates from 0.0001 to 0.01 and 1 to 40 epochs, by the accuracy at the end of the stream.
FINE_TUNING = Training(rate=0.0003, epochs=10)
# The best of rates from 0.001 to 0.03 and decays from 0 to 0.1; more epochs change nothing.
JOINT = Training(rate=0.03, epochs=60, decay=0.01, falling=True)


class SoftmaxLayer:
    """Softmax regression over standardised embeddings; it starts at zero. Classes are 0, 1, ...

    >>> embeddings = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> layer = SoftmaxLayer(2, embeddings)
    >>> layer.train(embeddings, np.array([0, 1]), JOINT, np.random.default_rng(0)).predict(embeddings)
    array([0, 1])
    """

    def __init__(self, n_classes: int, like: Array) -> None:
        """`like` (n, d) are embeddings to standardise by."""
        std = like.std(axis=0)
        self._mean = like.mean(axis=0)
        self._std = np.maximum(std, 0.1 * std.mean())  # a feature that hardly moves is no reason to shout
        self._weight = np.zeros((n_classes, like.shape[1]), np.float32)
        self._bias = np.zeros(n_classes, np.float32)

    def train(self, embeddings: Array, rows: Rows, how: Training, rng: np.random.Generator) -> Self:
        """Some epochs over these samples, from where the layer is."""
        inputs = self._standardised(embeddings)
        steps = [np.zeros_like(self._weight), np.zeros_like(self._bias)]
        starts = range(0, len(rows), BATCH)
        for epoch in range(how.epochs):
            shuffled = rng.permutation(len(rows))
            for done, start in enumerate(starts, epoch * len(starts)):
                some = shuffled[start : start + BATCH]
                rate = how.rate_at(done / (how.epochs * len(starts)))
                self._step(inputs[some], rows[some], rate, how.decay, steps)
        return self

    def predict(self, embeddings: Array, n_classes: int | None = None) -> Rows:
        """The best class of each embedding; only the first `n_classes` count, where given."""
        weight, bias = self._weight[:n_classes], self._bias[:n_classes]
        best: Rows = np.argmax(self._standardised(embeddings) @ weight.T + bias, axis=1)
        return best

    def linear(self) -> tuple[Array, Array]:
        """Weight (n_classes, d) and bias (n_classes,) of the equal layer over embeddings as they are."""
        weight = self._weight / self._std
        return weight, self._bias - weight @ self._mean

    def _standardised(self, embeddings: Array) -> Array:
        inputs: Array = ((embeddings - self._mean) / self._std).astype(np.float32)
        return inputs

    def _step(self, inputs: Array, rows: Rows, rate: float, decay: float, steps: list[Array]) -> None:
        """One step of gradient descent with momentum; `steps` are the last ones."""
        errors = inputs @ self._weight.T + self._bias
        errors -= errors.max(axis=1, keepdims=True)
        np.exp(errors, out=errors)
        errors /= errors.sum(axis=1, keepdims=True)
        errors[np.arange(len(rows)), rows] -= 1
        errors /= len(rows)
        gradients = errors.T @ inputs + np.float32(decay) * self._weight, errors.sum(axis=0)
        for values, step, gradient in zip((self._weight, self._bias), steps, gradients, strict=True):
            step *= np.float32(MOMENTUM)
            step -= np.float32(rate) * gradient
            values += step
