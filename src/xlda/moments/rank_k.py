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
from xlda._internal.threads import in_parallel_with_blas, n_threads, parts_for
from xlda.moments.triangle import ALIGNED, WIDEST, Panel, Triangle

COLUMNS = 32  # added up at once


def shape_of_room(d: int) -> tuple[int, int]:
    """Of the memory to multiply in: for each thread, as much as the widest panel of a triangle has."""
    return n_threads(), d * min(WIDEST, max(d, ALIGNED))


def add_outer_products(rows: Array, sign: int, room: Array, total: Triangle) -> None:
    """Add `sign` times the outer products of `rows` (n, d) to `total` (d, d).

    `rows` is in C order; `room` is memory to work in, of the same type (`shape_of_room`). Threads
    share out the panels of the total.

    >>> total = Triangle(2)
    >>> rows = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> add_outer_products(rows, 1, np.empty(shape_of_room(2)), total)
    >>> total.matrix()
    array([[10., 14.],
           [14., 20.]])
    """
    _check(rows, room, total)
    blas = _blas(rows.dtype)
    parts = min(parts_for(rows.size * total.d), len(room))
    shares = _shared_out(total, parts)

    def add(start: int, stop: int, part: int) -> None:
        for first, values in (piece for share in shares[start:stop] for piece in share):
            product = room[part, : values.size].reshape(values.shape, order="F")
            _multiply(blas, rows, sign, first, product)
            _add_triangle(product, first, values)

    in_parallel_with_blas(add, parts, parts)


def _shared_out(total: Triangle, parts: int) -> list[list[Panel]]:
    """Panels of each thread, narrower ones where there are too few, so that all have about as much to do."""
    n_pieces = max(2 * parts // len(total.panels), 1) if parts > 1 else 1
    pieces = [piece for panel in total.panels for piece in panel.split(n_pieces)]
    work, shares = [0] * parts, [list[Panel]() for _ in range(parts)]
    for piece in sorted(pieces, key=_multiplications, reverse=True):
        least = work.index(min(work))
        shares[least].append(piece)
        work[least] += _multiplications(piece)
    return shares


def _multiplications(piece: Panel) -> int:
    return (piece.first + piece.last) * (piece.last - piece.first)


def _check(rows: Array, room: Array, total: Triangle) -> None:
    """Refuse what BLAS would read or write beyond: it is given addresses, and asks no questions."""
    fits = rows.ndim == 2 and rows.dtype in _KINDS and rows.flags.c_contiguous and rows.shape[1] == total.d
    fits = fits and room.dtype == rows.dtype and room.ndim == 2 and len(room) > 0
    fits = fits and room.flags.c_contiguous and room.flags.writeable
    for panel in total.panels if fits else ():
        fits = fits and panel.values.size <= room.shape[1] and panel.first < panel.last <= rows.shape[1]
    if not fits:
        raise ValueError(
            "add_outer_products needs rows (n, d) in C order, room of the same type for a panel a thread, "
            f"and a total (d, d); got {rows.dtype} {rows.shape}, {room.dtype} {room.shape} and {total.d}."
        )


def _multiply(blas: _Blas, rows: Array, sign: int, first: int, product: Array) -> None:
    """Columns from `first` on of the product: what is above the diagonal block, and its upper triangle."""
    last, columns = product.shape
    n, d, height = _int(rows.shape[0]), _int(rows.shape[1]), _int(last)
    above, width = _int(first), _int(columns)
    factor, nothing = ctypes.byref(blas.number(sign)), ctypes.byref(blas.number(0))
    here, column = rows.ctypes.data, product.ctypes.data
    there, block = here + first * rows.itemsize, column + first * product.itemsize
    if first:
        blas.gemm(b"N", b"T", above, width, n, factor, here, d, there, d, nothing, column, height)
    blas.syrk(b"U", b"N", width, n, factor, there, d, nothing, block, height)


def _add_triangle(product: Array, first: int, total: Array) -> None:
    """Add columns from `first` on of an upper triangle; what stands below the diagonal is left alone."""
    for start in range(0, product.shape[1], COLUMNS):
        some = slice(start, min(start + COLUMNS, product.shape[1]))
        top, end = first + start, first + some.stop
        total[:top, some] += product[:top, some]
        total[top:end, some] += np.triu(product[top:end, some])


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
