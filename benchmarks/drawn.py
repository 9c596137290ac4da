"""Classes drawn at random, as many as wanted, with counts from a power law.

Their spectrum is that of real embeddings (benchmarks/embeddings.py), and they come in families, so that some
are hard to tell apart. Nothing is kept: a class is drawn anew whenever it is wanted, always the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import embeddings
import numpy as np

FAMILY = 8  # classes
IN_COMMON = 0.8  # of the variance of class means, within a family
MOST = 1000  # samples of a class


class Drawn:
    """Classes 0, 1, 2, ...; the counts of the first `n_classes` follow a power law."""

    def __init__(self, n_classes: int, seed: int = 0) -> None:
        with np.load(embeddings.SPECTRUM) as file:
            self._within, self._between = file["within"] ** 0.5, file["between"] ** 0.5
        self._seed = seed
        self.rng = np.random.default_rng(seed)
        self.counts = np.clip(np.floor(self.rng.pareto(1.0, n_classes) + 1), 1, MOST).astype(int)

    @property
    def n_features(self) -> int:
        """Width of the embeddings."""
        return len(self._within)

    def samples(self, rows: np.ndarray) -> np.ndarray:
        """One sample of each of these classes, (n, d), float32."""
        every, places = np.unique(rows, return_inverse=True)
        means = np.stack([self._mean(row) for row in every.tolist()])
        noise = self.rng.standard_normal((len(rows), self.n_features), dtype=np.float32)
        return (means[places] + noise * self._within).astype(np.float32)

    def batches(self, size: int = 4096) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """All samples of the classes with their rows; classes follow one another, so that few are new."""
        rows = np.repeat(np.arange(len(self.counts)), self.counts)
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            yield self.samples(some), some

    def _mean(self, row: int) -> np.ndarray:
        family = np.random.default_rng([self._seed, 1, row // FAMILY])
        own = np.random.default_rng([self._seed, 2, row])
        drawn = [rng.standard_normal(self.n_features, dtype=np.float32) for rng in (family, own)]
        return (IN_COMMON**0.5 * drawn[0] + (1 - IN_COMMON) ** 0.5 * drawn[1]) * self._between
