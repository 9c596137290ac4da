"""The streaming update as published, for comparison with it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from xlda._internal.arrays import Array, Rows
from xlda.moments import Moments


class PublishedMoments(Moments):
    """The update as published (Hayes & Kanan 2020), sample by sample, for comparison with it.

    It differs from the pooled covariance in two ways: the first sample of a class is measured against a mean
    of zero, and the weight of a residual comes from the count of all samples instead of its class's. So the
    result depends on the order, and cannot be merged or undone.
    """

    @property
    def dof(self) -> float:
        """What the scatter is divided by: the number of samples."""
        return float(self.n_samples) if self._frozen_dof is None else self._frozen_dof

    def update(
        self,
        embeddings: ArrayLike,
        rows: ArrayLike,
        weights: ArrayLike | None = None,
        groups: Array | None = None,
    ) -> None:
        """Add samples, whose order matters; they have no weights."""
        if weights is not None:
            raise ValueError("The published rule has no sample weights. Use rule='exact'.")
        super().update(embeddings, rows, groups=groups)

    def _absorb_features(self, features: Array, rows: Rows, weights: ArrayLike | None, sign: int) -> None:
        """Add samples in the order given. With S = t Sigma, the rule reads S += t/(t+1) r r^T."""
        self.widen(features.dtype)
        self.grow(int(rows.max(initial=-1)) + 1)
        self._keep_for_views(rows)
        self._n_seen = None
        for embedding, row in zip(features, rows, strict=True):
            residual = embedding.astype(self.dtype) - self._offsets[row]
            if not self.frozen:
                scale = (self._n_samples / (self._n_samples + 1)) ** 0.5
                self._scatter.waiting(1, 1)[0] = residual * self.dtype.type(scale)
            self._counts[row] += 1
            self._offsets[row] += residual / self.dtype.type(self._counts[row])
            self._n_samples += 1

    def _set_origin(self, origin: Array) -> None:
        """Means are relative to zero, as published."""
        super()._set_origin(np.zeros_like(origin))

    def forget(self, embeddings: ArrayLike, rows: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Refuse: see the class."""
        raise ValueError("The published rule cannot be undone. Use rule='exact'.")

    def merge(self, other: Moments, rows: Rows | None = None, new: Array | None = None) -> None:
        """Refuse: see the class."""
        raise ValueError("The published rule depends on the order, so it cannot be merged. Use rule='exact'.")

    def join(self, into: int, other: int) -> None:
        """Refuse: see the class."""
        raise ValueError("The published rule cannot join two classes. Use rule='exact'.")
