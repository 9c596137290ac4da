"""What arrays are called in signatures, and what LAPACK leaves to be done on them."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Rows: TypeAlias = NDArray[np.intp]  # indices of classes, or of samples


def mirrored(triangle: Array) -> Array:
    """The symmetric matrix of which one triangle is given, with zeros in the other."""
    matrix: Array = triangle + triangle.T
    matrix[np.diag_indices_from(matrix)] *= 0.5
    return matrix
