"""The symmetric rank-k product, `?syrk` of SciPy's BLAS, without the interpreter's lock.

`scipy.linalg.blas` has the routine too, but keeps all other threads waiting for as long as it takes. SciPy
hands its address to Cython code; ctypes calls it there and lets go of the lock.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
from scipy.linalg import cython_blas

from xlda.arrays import Array


def sum_of_outer_products(rows: Array, sign: int, upper: Array) -> None:
    """Set the upper triangle of `upper` to the sum of the outer products of `rows`, times `sign`.

    `rows` (n, d) is in C order, `upper` (d, d) in Fortran order, both float32 or both float64.

    >>> upper = np.zeros((2, 2), order="F")
    >>> sum_of_outer_products(np.array([[1.0, 2.0], [3.0, 4.0]]), 1, upper)
    >>> upper
    array([[10., 14.],
           [ 0., 20.]])
    """
    number, syrk = _SYRK[rows.dtype]
    n, d = (ctypes.byref(ctypes.c_int(size)) for size in rows.shape)
    factor, nothing = ctypes.byref(number(sign)), ctypes.byref(number(0))
    syrk(b"U", b"N", d, n, factor, rows.ctypes.data, d, nothing, upper.ctypes.data, d)


def _routine(name: str) -> Callable[..., None]:
    capsule = cython_blas.__pyx_capi__[name]
    get_name, get_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    text, size, scalar, array = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
    prototype = ctypes.CFUNCTYPE(None, text, text, size, size, scalar, array, size, scalar, array, size)
    routine: Callable[..., None] = prototype(get_pointer(capsule, get_name(capsule)))
    return routine


_SYRK = {
    np.dtype(np.float32): (ctypes.c_float, _routine("ssyrk")),
    np.dtype(np.float64): (ctypes.c_double, _routine("dsyrk")),
}
