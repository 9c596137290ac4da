"""How many features those of a lift are worth, and how far their covariance is drawn towards the identity."""

from __future__ import annotations

import numpy as np

from xlda._internal.arrays import Array
from xlda.head.covariance import Shrinkage, prior_shrinkage
from xlda.moments import Moments

FEATURES = 20.0  # that a direction is worth in which samples vary


def shrinkage_for(shrinkage: Shrinkage, moments: Moments, covariance: Array) -> Shrinkage:
    """The shrinkage that was asked for; "auto" is a number where the moments are of lifted features."""
    if shrinkage != "auto" or moments.lift is None:
        return shrinkage
    return lifted_shrinkage(covariance, moments.dof)


def lifted_shrinkage(covariance: Array, dof: float) -> float:
    """A prior worth 40 samples for each direction in which samples vary, and never more than without a lift.

    >>> round(lifted_shrinkage(np.diag([1.0] * 5 + [0.0] * 95), dof=1000.0), 3)
    0.167
    """
    return prior_shrinkage(worth_features(covariance, dof), dof)


def worth_features(covariance: Array, dof: float) -> float:
    """Features without a lift that those of one, with this covariance, are worth: 20 for each direction.

    Features are many more than directions in which samples vary. How many these are, the squares of the
    eigenvalues tell, less what so few samples add to them.

    >>> round(worth_features(np.diag([1.0] * 5 + [0.0] * 195), dof=1000.0), 1)
    100.5
    """
    trace, squares = float(np.trace(covariance)), float(np.vdot(covariance, covariance))
    rest = squares - trace**2 / dof if dof > 0 and trace > 0 else 0.0
    return min(FEATURES * trace**2 / rest, len(covariance)) if rest > 0 else len(covariance)
