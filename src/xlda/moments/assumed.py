"""Means and covariances that nobody has seen samples of."""

from __future__ import annotations

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.moments.moments import Moments


def trust(moments: Moments, means: Array, rows: Rows, weight: float) -> None:
    """Take class means on trust: each counts as `weight` samples and adds nothing to the scatter."""
    with moments._changing():
        frozen_dof, dof = moments._frozen_dof, moments.dof if moments.n_seen else 0.0
        moments._frozen_dof = dof  # so that only counts and means learn
        moments._absorb_features(means, rows, np.full(len(rows), weight), sign=1)
        moments._frozen_dof = frozen_dof
        moments._n_samples -= len(rows)
        moments._dof_of_dropped = dof - (moments.total - moments.n_seen)


def set_covariance(moments: Moments, covariance: Array, dof: float) -> None:
    """Have this pooled within-class covariance, as if from samples with `dof` degrees of freedom."""
    with moments._changing():
        moments._scatter.replace(covariance * dof)
        moments._dof_of_dropped = dof - (moments.total - moments.n_seen)
