"""From a covariance to the inverse of a well-conditioned one. Pure functions, float64."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np

from xlda._internal.arrays import Array, mirror
from xlda._internal.lapack import inverse_by_factor, inverse_of_lower, lower_factor

Shrinkage: TypeAlias = float | Literal["auto", "oas", "ledoit-wolf"]
Target: TypeAlias = Literal["trace", "identity"]

ESTIMATES = ("auto", "oas", "ledoit-wolf")
PRIOR_SAMPLES = 2.0  # a feature


def check_shrinkage(shrinkage: Any, target: Any) -> None:
    """Refuse a shrinkage or a target that is not one."""
    number = type(shrinkage) is float or (isinstance(shrinkage, Real) and not isinstance(shrinkage, bool))
    if not (shrinkage in ESTIMATES if isinstance(shrinkage, str) else number):
        raise ValueError(
            f"shrinkage is a number in [0, 1], 'auto', 'oas' or 'ledoit-wolf'; got {shrinkage!r}."
        )
    if number and not 0 <= shrinkage <= 1:
        raise ValueError(f"shrinkage is in [0, 1]; got {shrinkage!r}.")
    if target not in ("trace", "identity"):
        raise ValueError(f"shrinkage_target is 'trace' or 'identity'; got {target!r}.")


def oas_shrinkage(covariance: Array, dof: float) -> float:
    """Oracle approximating shrinkage (Chen et al. 2010), in the form scikit-learn uses.

    >>> round(oas_shrinkage(np.diag([1.0, 2.0, 30.0]), dof=20), 3)
    0.175
    """
    mean_square = float(np.vdot(covariance, covariance)) / covariance.size
    squared_mean = float(np.trace(covariance) / len(covariance)) ** 2
    return _ratio(mean_square + squared_mean, (dof + 1.0) * (mean_square - squared_mean / len(covariance)))


def ledoit_wolf_shrinkage(covariance: Array, dof: float) -> float:
    """Ledoit and Wolf's shrinkage, Rao-Blackwellised (Chen et al. 2010, eq. 17).

    The original needs the fourth moments of the residuals, which depend on means that one pass does not have
    yet. This is its expectation given the covariance when the residuals are Gaussian, LDA's own assumption;
    it needs the covariance alone, so it depends neither on the order nor on the batches.

    >>> round(ledoit_wolf_shrinkage(np.diag([1.0, 2.0, 30.0]), dof=20), 3)
    0.16
    """
    n, trace = dof, float(np.trace(covariance))
    squares = float(np.vdot(covariance, covariance))
    return _ratio((n - 2.0) / n * squares + trace**2, (n + 2.0) * (squares - trace**2 / len(covariance)))


def _ratio(numerator: float, denominator: float) -> float:
    return min(max(numerator / denominator, 0.0), 1.0) if denominator > 0 else 1.0


def shrunk_covariance(covariance: Array, shrinkage: float, target: Target) -> Array:
    """(1 - shrinkage) covariance + shrinkage t I, with t the mean variance ("trace") or 1 ("identity").

    >>> shrunk_covariance(np.diag([1.0, 3.0]), 0.5, "trace")
    array([[1.5, 0. ],
           [0. , 2.5]])
    """
    variance = np.trace(covariance) / len(covariance) if target == "trace" else 1.0
    shrunk = (1.0 - shrinkage) * covariance
    shrunk[np.diag_indices_from(shrunk)] += shrinkage * variance
    return shrunk


def covariance_factor(
    covariance: Array, dof: float, shrinkage: Shrinkage = "auto", target: Target = "trace"
) -> tuple[Array | None, float]:
    """Lower triangle L, L L^T being the shrunk covariance, and the shrinkage that was used.

    Where the shrunk covariance is not positive definite, more shrinkage is used, with a warning.
    Without any variance to go by, there is none. Beside the covariance, one matrix of its size is made.

    >>> covariance_factor(np.diag([1.0, 7.0]), dof=10, shrinkage=0.5)[0].round(3)
    array([[1.581, 0.   ],
           [0.   , 2.345]])
    """
    if not all(np.isfinite(row).all() for row in covariance):
        raise ValueError("The covariance is not finite: embeddings or weights are too large.")
    asked = shrinkage_number(covariance, dof, shrinkage)
    if target == "trace" and not has_variance(covariance):
        return None, asked
    used = asked
    factor = _factor(shrunk_covariance(covariance, used, target))
    while factor is None:
        used = min(max(10.0 * used, 1e-8), 1.0)
        factor = _factor(shrunk_covariance(covariance, used, target))
    if used != asked:
        warnings.warn(
            f"The covariance of {len(covariance)} features, from {dof:g} degrees of freedom, is not positive "
            f"definite with shrinkage {asked:g}; {used:g} is used. Choose a larger one to silence this.",
            stacklevel=2,
        )
    return factor, used


@dataclass(frozen=True, eq=False)
class Whitening:
    """Units in which samples of a class have the covariance I, float64."""

    factor: Array  # (d, d), lower triangle L: L @ L.T is the shrunk covariance
    matrix: Array  # (d, d): x @ matrix is in these units

    @classmethod
    def by(cls, factor: Array) -> Whitening:
        """The units of a factor of the covariance.

        >>> np.diag(Whitening.by(np.diag([2.0, 4.0])).matrix)
        array([0.5 , 0.25])
        """
        return cls(factor, inverse_of_lower(factor).T)


def has_variance(covariance: Array) -> bool:
    """Whether there is any variance to go by."""
    return bool(np.trace(covariance) > len(covariance) * np.finfo(np.float64).tiny)


def inverse_covariance(
    covariance: Array, dof: float, shrinkage: Shrinkage = "auto", target: Target = "trace"
) -> tuple[Array, float]:
    """Inverse of the shrunk covariance, and the shrinkage that was used; see `covariance_factor`.

    Without any variance to go by, the inverse is I: the nearest mean wins.

    >>> inverse_covariance(np.diag([1.0, 3.0]), dof=10, shrinkage=0.5)[0].round(3)
    array([[0.667, 0.   ],
           [0.   , 0.4  ]])
    """
    factor, used = covariance_factor(covariance, dof, shrinkage, target)
    if factor is None:
        return np.eye(len(covariance)), used
    inverse = inverse_by_factor(factor).T
    mirror(inverse.T)
    return inverse, used


def shrinkage_number(covariance: Array, dof: float, shrinkage: Shrinkage) -> float:
    """The shrinkage as a number, estimated where it is the name of an estimate."""
    if not isinstance(shrinkage, str):
        return float(shrinkage)
    if shrinkage == "auto":
        return prior_shrinkage(len(covariance), dof)
    estimate = oas_shrinkage if shrinkage == "oas" else ledoit_wolf_shrinkage
    variance = np.trace(covariance) / len(covariance)
    return estimate(covariance / variance, dof) if variance > 0 else 1.0  # the scale must not overflow


def prior_shrinkage(n_features: float, dof: float) -> float:
    """A prior worth two samples a feature, that features vary alike and apart, beside `dof` real ones.

    >>> prior_shrinkage(64, dof=128)
    0.5
    """
    worth = PRIOR_SAMPLES * n_features
    return worth / (worth + max(dof, 0.0))


def _factor(matrix: Array) -> Array | None:
    """Lower Cholesky factor, or None where the matrix is not positive definite to working precision.

    Works in the memory of `matrix`, which is symmetric: as LAPACK has it, rows are columns.
    """
    factor = lower_factor(matrix)
    if factor is None:
        return None
    pivots = np.diag(factor) ** 2
    return factor if pivots.min() > len(matrix) * np.finfo(np.float64).eps * pivots.max() else None
