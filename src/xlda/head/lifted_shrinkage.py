"""How far the covariance of lifted features is drawn towards a multiple of the identity."""

from __future__ import annotations

from xlda._internal.arrays import Array
from xlda.head.covariance import Shrinkage
from xlda.moments import Moments

PRIOR_SAMPLES = 0.1  # a feature


def shrinkage_for(shrinkage: Shrinkage, moments: Moments, covariance: Array) -> Shrinkage:
    """The shrinkage that was asked for; "auto" is a number where the moments are of lifted features."""
    if shrinkage != "auto" or moments.lift is None:
        return shrinkage
    return lifted_shrinkage(covariance, moments.dof)


def lifted_shrinkage(covariance: Array, dof: float) -> float:
    """A prior worth a tenth of a sample a feature: random features vary alike, and far from apart.

    >>> import numpy as np
    >>> lifted_shrinkage(np.eye(10), dof=9)
    0.1
    """
    worth = PRIOR_SAMPLES * len(covariance)
    return worth / (worth + max(dof, 0.0))
