"""Half of a square matrix, where the other half says nothing new: as it is in a file."""

from __future__ import annotations

import numpy as np

from xlda._internal.arrays import Array


def n_packed(d: int) -> int:
    """Numbers of a triangle with its diagonal."""
    return d * (d + 1) // 2


def packed(matrix: Array) -> Array:
    """What is on and above the diagonal of a matrix (d, d), row after row.

    >>> packed(np.array([[1, 2], [9, 3]]))
    array([1, 2, 3])
    """
    return np.concatenate([row[number:] for number, row in enumerate(matrix)])


def unpacked(triangle: Array, d: int, symmetric: bool) -> Array:
    """The matrix (d, d) again; what was below the diagonal is what is above it, or zero.

    >>> unpacked(np.array([1, 2, 3]), 2, symmetric=True)
    array([[1, 2],
           [2, 3]])
    """
    matrix, start = np.zeros((d, d), triangle.dtype), 0
    for number in range(d):
        row = triangle[start : start + d - number]
        matrix[number, number:] = row
        if symmetric:
            matrix[number:, number] = row
        start += d - number
    return matrix
