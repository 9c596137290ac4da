"""How far the covariance of lifted features is drawn towards a multiple of the identity."""

from __future__ import annotations

import numpy as np

from xlda._internal.arrays import Array
from xlda.head.covariance import Shrinkage, prior_shrinkage
from xlda.moments import Moments

PRIOR_SAMPLES = 20.0  # a direction in which samples vary


def shrinkage_for(shrinkage: Shrinkage, moments: Moments, covariance: Array) -> Shrinkage:
    """The shrinkage that was asked for; "auto" is a number where the moments are of lifted features."""
    if shrinkage != "auto" or moments.lift is None:
        return shrinkage
    return lifted_shrinkage(covariance, moments.dof)


def lifted_shrinkage(covariance: Array, dof: float) -> float:
    """A prior worth 20 samples for each direction in which samples vary, and never more than without a lift.

    Features are many more than such directions. How many these are, the squares of the eigenvalues tell, less
    what so few samples add to them.

    >>> round(lifted_shrinkage(np.diag([1.0] * 5 + [0.0] * 95), dof=1000.0), 3)
    0.091
    """
    trace, squares = float(np.trace(covariance)), float(np.vdot(covariance, covariance))
    return shrinkage_by(trace, squares, len(covariance), dof)


def shrinkage_by(trace: float, squares: float, d: int, dof: float) -> float:
    """The same by the trace of a covariance (d, d) and the sum of its squares."""
    most = prior_shrinkage(d, dof)
    if dof <= 0 or trace <= 0:
        return most
    rest = squares - trace**2 / dof
    worth = PRIOR_SAMPLES * (min(trace**2 / rest, d) if rest > 0 else d)
    return min(worth / (worth + dof), most)
