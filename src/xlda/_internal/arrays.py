"""What arrays are called in signatures, and what LAPACK leaves to be done on them."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Rows: TypeAlias = NDArray[np.intp]  # indices of classes, or of samples


SIDE = 512  # of the blocks in which a large matrix is worked on in place


def mirror(triangle: Array) -> None:
    """Make a square matrix symmetric, in place, by what is on and below its diagonal.

    >>> matrix = np.array([[1.0, 9.0], [2.0, 3.0]])
    >>> mirror(matrix)
    >>> matrix
    array([[1., 2.],
           [2., 3.]])
    """
    d = len(triangle)
    for start in range(0, d, SIDE):
        stop = min(start + SIDE, d)
        block = triangle[start:stop, start:stop]
        block[...] = np.tril(block) + np.tril(block, -1).T
        triangle[start:stop, stop:] = triangle[stop:, start:stop].T
