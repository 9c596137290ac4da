"""Moments as they were at one moment, while learning goes on."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.moments.moments import Moments
from xlda.moments.restored import arrays_of, restored
from xlda.moments.sketches import Sketches, SketchesView


class MomentsView(Moments):
    """What some moments were when it was made; they may learn on, in another thread too.

    It shares the memory of their means. Before a mean changes, whoever changes it puts the old one here
    (`keep`), so that reading needs no lock: what was read while it was being changed is replaced afterwards
    by what was put here before. Only to be read.
    """

    def __init__(self, moments: Moments, with_covariance: bool) -> None:
        moments.check_whole()
        super().__init__(moments.n_features, moments.half, lift=moments.lift)
        self._n_classes, self._n_samples = moments.n_classes, moments.n_samples
        self._counts, self._n_seen = moments.counts, moments.n_seen
        self._origin, self._has_origin = moments._origin, moments._has_origin
        self._offsets = moments._offsets
        self._frozen_dof, self._dof_of_dropped = moments._frozen_dof, moments._dof_of_dropped
        self._dof, self.kept_spread = moments.dof, moments.kept_spread
        self._with_covariance = with_covariance
        if with_covariance:
            self._scatter = moments._scatter.copied()  # what waits there is folded in when it is read
            self.kept = copy.deepcopy(moments.kept)
        self.sketches: SketchesView | None = None
        if moments.sketches is not None:
            self.sketches = SketchesView(moments.sketches)
        self._is_kept = np.zeros(self._n_classes, bool)
        self._kept: dict[int, Array] = {}  # means that have changed since, as they were
        moments.views.add(self)

    def keep(self, rows: Rows) -> None:
        """Put the means of these rows aside, which are about to change."""
        rows = rows[rows < self._n_classes]
        for row in np.unique(rows[~self._is_kept[rows]]).tolist():
            self._kept[row] = self._offsets[row].copy()
            if self.sketches is not None:
                self.sketches.keep(row)
            self._is_kept[row] = True  # only now: who sees this finds the mean

    def check_whole(self) -> None:
        """It always is."""

    @property
    def dof(self) -> float:
        """Degrees of freedom of the scatter, as they were."""
        return self._dof

    @property
    def scatter(self) -> Array:
        """Pooled within-class scatter, as it was."""
        if not self._with_covariance:
            raise ValueError("This view of the moments was made without the covariance.")
        return self._scatter.matrix()

    def copied(self) -> Moments:
        """Moments that can learn and forget, apart from those that this is a view of."""
        moments = restored(Moments, *arrays_of(self), self.lift)
        moments.kept = self.kept
        if self.sketches is not None:
            moments.sketches = Sketches.from_arrays(self.sketches.to_arrays(self._n_classes))
        return moments

    def _offsets_of(self, rows: Rows | slice) -> Array:
        offsets = self._offsets[: self._n_classes][rows].copy()
        changed = self._is_kept[rows].copy()  # read after them, once: what changes later was copied before
        if changed.any():
            numbers = np.arange(self._n_classes)[rows][changed].tolist()
            offsets[changed] = [self._kept[number] for number in numbers]
        return offsets

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("A view of moments cannot be copied.")
