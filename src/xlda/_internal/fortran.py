"""Routines of SciPy's BLAS and LAPACK by name, called without the interpreter's lock.

SciPy hands their addresses to Cython code; ctypes calls them there and lets go of the lock.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib import import_module
from typing import Any


def routine(module: str, name: str, n_texts: int, n_pointers: int) -> Callable[..., None]:
    """A routine of `scipy.linalg.cython_blas` or `cython_lapack`, which takes letters and then addresses.

    SciPy is imported here, when it is first needed: a model that was loaded answers without it.
    """
    found: Any = import_module(f"scipy.linalg.{module}")
    capsule = found.__pyx_capi__[name]
    get_name, get_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    types = [ctypes.c_char_p] * n_texts + [ctypes.c_void_p] * n_pointers
    function: Callable[..., None] = ctypes.CFUNCTYPE(None, *types)(get_pointer(capsule, get_name(capsule)))
    return function
