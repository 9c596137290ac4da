"""Arrays that rows are added to, without a long wait for a copy of all that there are.

A small array is copied to one of twice the length. A large one is given as much address space as the machine
has memory, once: it stays where it is, and takes the memory of what was written to. Where address space is
not to be had for nothing, large arrays double too.
"""

from __future__ import annotations

import math
import mmap
import os
import platform
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from xlda._internal.arrays import Array

MOST_COPIED = 2**24  # bytes: a few milliseconds
FEWEST = 8  # rows

# Linux's MAP_NORESERVE, which Python knows by name from 3.13 on: without it, a process with two large arrays
# could not fork, since both together are more than there is memory.
NOT_COUNTED = 0x4000 if sys.platform == "linux" else 0
MACHINES = ("x86_64", "aarch64", "arm64")  # where it is that number


class _Reserved(mmap.mmap):
    """Address space, zeros where nobody has written; an array is at its beginning."""

    row: tuple[int, ...] = ()  # the shape of one


def lengthened(array: Array, n_rows: int) -> Array:
    """`array` with at least `n_rows` rows, those behind it zeros: itself, more of its memory, or a copy.

    The memory is that of whoever grows it: of two who share an array, only one may.

    >>> lengthened(np.ones((1, 2)), 3)[:3]
    array([[1., 1.],
           [0., 0.],
           [0., 0.]])
    """
    if n_rows <= len(array):
        return array
    reserved = _reserved_for(array)
    if reserved is not None and n_rows <= len(reserved):
        return reserved
    return copied(array, max(n_rows, 2 * len(array), FEWEST))


def copied(array: Array, n_rows: int | None = None, dtype: Any = None) -> Array:
    """A copy, perhaps with zeros behind it up to `n_rows`, perhaps of another type."""
    shape = (len(array) if n_rows is None else n_rows, *array.shape[1:])
    longer = with_room(shape, array.dtype if dtype is None else dtype)
    longer[: len(array)] = array
    return longer


def with_room(shape: tuple[int, ...], dtype: Any) -> Array:
    """Zeros of this shape; `lengthened` finds more rows behind them where they are many."""
    width, itemsize, n_bytes = math.prod(shape[1:]), np.dtype(dtype).itemsize, _address_space()
    if not MOST_COPIED < math.prod(shape) * itemsize <= n_bytes:
        return np.zeros(shape, dtype)
    try:
        memory = _Reserved(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NOT_COUNTED)
    except (OSError, MemoryError):
        return np.zeros(shape, dtype)
    with suppress(AttributeError, OSError):  # where there are no huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)  # as NumPy does: rows are read here and there
    memory.row = shape[1:]
    whole: Array = np.frombuffer(memory, dtype, n_bytes // (width * itemsize) * width)
    return whole.reshape(-1, *shape[1:])[: shape[0]]


def _reserved_for(array: Array) -> Array | None:
    """`array` with all rows that were reserved for it, if any were."""
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    memory = getattr(whole.base, "obj", None)  # whose memoryview the base is
    if not isinstance(memory, _Reserved) or memory.row != array.shape[1:] or whole.dtype != array.dtype:
        return None
    is_beginning = whole.ctypes.data == array.ctypes.data and array.flags.c_contiguous
    return whole.reshape(-1, *memory.row) if is_beginning else None


@cache
def _address_space() -> int:
    """Bytes to reserve for a large array: as many as there is memory, or 0 where they would cost some."""
    is_known = sys.platform in ("linux", "darwin") and platform.machine() in MACHINES
    if not is_known or _counts_as_memory():
        return 0
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _counts_as_memory() -> bool:
    """Whether address space is limited: for this process, or for all of them together."""
    import resource

    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        return True
    try:
        return Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "2"
    except OSError:  # not Linux
        return False
