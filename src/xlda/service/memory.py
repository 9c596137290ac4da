"""How a service that runs for months has its memory: what is large is given back to the system at once."""

from __future__ import annotations

import ctypes
import sys

LARGE = 4_000_000  # bytes
ARENAS = 2  # pools of small pieces; by default there are eight for each core, and each keeps what it had
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8  # the names of these settings in malloc.h


def give_back_what_is_large() -> None:
    """Have glibc take every large block from the system by itself, and return it when it is freed.

    By default it learns from the first blocks that are freed to keep those of up to 32 MB, and a model that
    is renewed now and then takes half as much memory again. Where there is no glibc, nothing is done.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, LARGE)
        mallopt(_ARENA_MAX, ARENAS)
