"""Factors, inverses and eigenvectors by SciPy's LAPACK, without the interpreter's lock.

`scipy.linalg` has them too, but keeps all other threads waiting for as long as they take. NumPy's are no
choice either: SciPy brings a BLAS of its own, so that products of NumPy do not run in the same one as an
eigenvalue problem of another thread, which some versions of OpenBLAS do not bear (its issue 5825).
"""

from __future__ import annotations

import ctypes
from functools import cache, partial

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.fortran import routine

_LETTERS = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}


def eigenvectors(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues of a symmetric matrix, the smallest first, and its eigenvectors, as columns.

    >>> values, vectors = eigenvectors(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> values.round(6), abs(vectors).round(6)
    (array([1., 3.]), array([[0.707107, 0.707107],
           [0.707107, 0.707107]]))
    """
    vectors, n = _copied(matrix), len(matrix)
    values = np.empty(n, matrix.dtype)
    work, whole = np.empty(1 + 6 * n + 2 * n * n, matrix.dtype), np.empty(3 + 5 * n, np.intc)
    letter, lines = _LETTERS[matrix.dtype], max(n, 1)
    _call(f"{letter}syevd", "VL", n, vectors, lines, values, work, len(work), whole, len(whole))
    return values, vectors


def lower_factor(matrix: Array) -> Array | None:
    """The lower triangle L of L L^T = `matrix`, float64, in its own memory; None where there is none.

    The matrix is symmetric and in C order, and lost.

    >>> lower_factor(np.array([[4.0, 2.0], [2.0, 2.0]]))
    array([[2., 0.],
           [1., 1.]])
    """
    rows_as_columns = _checked(matrix.T)
    failed = _call("dpotrf", "L", len(matrix), rows_as_columns, len(matrix))
    return None if failed else _with_zeros_above(rows_as_columns)


def inverse_of_lower(factor: Array) -> Array:
    """The inverse of a lower triangle, float64.

    >>> inverse_of_lower(np.array([[2.0, 0.0], [1.0, 1.0]]))
    array([[ 0.5,  0. ],
           [-0.5,  1. ]])
    """
    inverse = _copied(factor)
    _call("dtrtri", "LN", len(factor), inverse, len(factor))
    return _with_zeros_above(inverse)


def inverse_by_factor(factor: Array) -> Array:
    """The lower triangle of the inverse of L L^T by its factor L, float64, in whose memory it is.

    >>> np.tril(inverse_by_factor(np.array([[2.0, 0.0], [1.0, 1.0]], order="F")))
    array([[ 0.5,  0. ],
           [-0.5,  1. ]])
    """
    _call("dpotri", "L", len(factor), _checked(factor), len(factor))
    return factor


def _with_zeros_above(matrix: Array) -> Array:
    """The matrix, in its own memory, with nothing but zeros above its diagonal."""
    for column in range(1, len(matrix)):
        matrix[:column, column] = 0.0
    return matrix


def _copied(matrix: Array) -> Array:
    return _checked(np.array(matrix, order="F", copy=True))


def _checked(matrix: Array) -> Array:
    """Refuse what LAPACK would read or write beyond: it is given addresses, and asks no questions."""
    n = len(matrix)
    fits = matrix.shape == (n, n) and matrix.dtype in _LETTERS
    if not (fits and matrix.flags.f_contiguous and matrix.flags.writeable):
        raise ValueError(f"LAPACK needs a square matrix; got {matrix.dtype} {matrix.shape}.")
    return matrix


def _call(name: str, letters: str, *arguments: int | Array) -> int:
    """Call a routine with letters, numbers and arrays; what it reports, 0 where all went well."""
    failed = ctypes.c_int(0)
    kept = [arg if isinstance(arg, np.ndarray) else ctypes.c_int(arg) for arg in arguments]
    passed = [arg.ctypes.data if isinstance(arg, np.ndarray) else ctypes.byref(arg) for arg in kept]
    texts = [letter.encode() for letter in letters]
    _routine(name, len(texts), len(passed) + 1)(*texts, *passed, ctypes.byref(failed))
    if failed.value < 0:
        raise ValueError(f"{name} refuses argument {-failed.value}.")
    return failed.value


_routine = cache(partial(routine, "cython_lapack"))
