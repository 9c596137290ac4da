"""The symmetric rank-k product on a few threads, by SciPy's BLAS, without the interpreter's lock.

`scipy.linalg.blas` has `?syrk` too, but keeps all other threads waiting for as long as it takes.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.fortran import routine
from xlda._internal.threads import in_parallel, in_parallel_with_blas, parts_for

COLUMNS = 128  # added up at once
ALIGNED = 16  # columns: panels that begin at a multiple of this are multiplied faster


def add_outer_products(rows: Array, sign: int, product: Array, total: Array) -> None:
    """Add `sign` times the outer products of `rows` (n, d) to the upper triangle of `total` (d, d).

    `rows` is in C order; `product` is memory to work in, of the shape of `total` and the type of `rows`; both
    are in Fortran order. Every thread has a panel of columns, the later the narrower, so that all have the
    same number of multiplications to do.

    >>> total = np.zeros((2, 2), order="F")
    >>> add_outer_products(np.array([[1.0, 2.0], [3.0, 4.0]]), 1, np.empty_like(total), total)
    >>> total
    array([[10., 14.],
           [ 0., 20.]])
    """
    _check(rows, product, total)
    blas, d = _blas(rows.dtype), rows.shape[1]
    parts = parts_for(rows.size * d)
    edges = [min(round(d * (part / parts) ** 0.5 / ALIGNED) * ALIGNED, d) for part in range(parts)] + [d]

    def multiply(first: int, last: int, _part: int) -> None:
        for panel in range(first, last):
            _multiply_panel(blas, rows, sign, edges[panel], edges[panel + 1], product)

    def add(_start: int, _stop: int, part: int) -> None:
        for first in range(part * COLUMNS, d, parts * COLUMNS):
            last = min(first + COLUMNS, d)
            total[:last, first:last] += product[:last, first:last]

    in_parallel_with_blas(multiply, parts, parts)
    in_parallel(add, parts, parts)


def _check(rows: Array, product: Array, total: Array) -> None:
    """Refuse what BLAS would read or write beyond: it is given addresses, and asks no questions."""
    square = rows.shape[1:] * 2
    fits = rows.ndim == 2 and rows.dtype in _KINDS and rows.flags.c_contiguous
    fits = fits and product.dtype == rows.dtype and total.dtype == np.float64
    for array in (product, total):
        fits = fits and array.shape == square and array.flags.f_contiguous and array.flags.writeable
    if not fits:
        raise ValueError(
            "add_outer_products needs rows (n, d) in C order, and a product and a total (d, d) in Fortran "
            f"order, float64 or all but the total float32; got {rows.dtype} {rows.shape}, {product.dtype} "
            f"{product.shape} and {total.dtype} {total.shape}."
        )


def _multiply_panel(blas: _Blas, rows: Array, sign: int, first: int, last: int, product: Array) -> None:
    """Columns `first` to `last` of the product: what is above the diagonal block, and its upper triangle."""
    if first == last:
        return
    n, d = _int(rows.shape[0]), _int(rows.shape[1])
    above, width = _int(first), _int(last - first)
    factor, nothing = ctypes.byref(blas.number(sign)), ctypes.byref(blas.number(0))
    here = rows.ctypes.data
    there = here + first * rows.itemsize
    column = product.ctypes.data + first * product.strides[1]
    block = column + first * product.itemsize
    if first:
        blas.gemm(b"N", b"T", above, width, n, factor, here, d, there, d, nothing, column, d)
    blas.syrk(b"U", b"N", width, n, factor, there, d, nothing, block, d)


def _int(value: int) -> Any:
    return ctypes.byref(ctypes.c_int(value))


class _Blas:
    """The routines for one type of numbers."""

    def __init__(self, letter: str, number: type[ctypes.c_float | ctypes.c_double]) -> None:
        self.number = number
        self.gemm = routine("cython_blas", f"{letter}gemm", 2, 11)
        self.syrk = routine("cython_blas", f"{letter}syrk", 2, 8)


_KINDS: dict[Any, tuple[str, type[ctypes.c_float | ctypes.c_double]]] = {
    np.dtype(np.float32): ("s", ctypes.c_float),
    np.dtype(np.float64): ("d", ctypes.c_double),
}


@cache
def _blas(kind: Any) -> _Blas:
    return _Blas(*_KINDS[kind])
