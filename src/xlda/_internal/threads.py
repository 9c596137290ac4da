"""A loop on a few threads of our own, with the BLAS kept to one thread in each.

Left to itself, the BLAS has threads that go on spinning for a while after each call, on cores that the next
step needs. Sharing out whole steps instead keeps all cores at work.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController  # comes with scikit-learn

MOST_THREADS = 8
WORTH_THREADS = 2**17  # multiplications; fewer are done sooner than a thread wakes up

_here = threading.local()  # `alone`: whether this thread shares nothing out
_pool: ThreadPoolExecutor | None = None
_blas_in_hand = threading.Lock()  # two at once would leave it limited for ever
_n_alone = 0  # threads that are


def n_threads() -> int:
    """As many threads as the BLAS would use now: whoever limits that limits this."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = [library.num_threads or 1 for library in _blas().lib_controllers]
    return max(1, min(cores, MOST_THREADS, *threads))


def parts_for(n_multiplications: int) -> int:
    """Threads worth using for work of this size."""
    if n_multiplications <= WORTH_THREADS or getattr(_here, "alone", False):
        return 1
    return n_threads()


@contextmanager
def alone() -> Iterator[None]:
    """Share nothing out in this thread, and have nobody limit the BLAS meanwhile, which it is using."""
    global _n_alone
    with _blas_in_hand:
        _n_alone += 1
    _here.alone = True
    try:
        yield
    finally:
        _here.alone = False
        with _blas_in_hand:
            _n_alone -= 1


def in_parallel(work: Callable[[int, int, int], object], n: int, parts: int) -> None:
    """Call `work(start, stop, part)` for each of `parts` equal stretches of `range(n)`, all at once."""
    edges = [n * part // parts for part in range(parts + 1)]
    tasks = [_threads().submit(work, edges[part], edges[part + 1], part) for part in range(1, parts)]
    try:
        work(edges[0], edges[1], 0)
    finally:
        wait_for(tasks)  # none goes on by itself, in memory that whoever called may give back
    for task in tasks:
        task.result()


def in_parallel_with_blas(
    work: Callable[[int, int, int], object], n: int, parts: int, wait: bool = True
) -> None:
    """The same for work that calls the BLAS, which uses one thread in each part.

    Where others are doing such work already and it shall not `wait` for them, it is one part, and so it is
    while somebody is `alone`: limiting the threads of the BLAS is for all who use it, and at once.
    """
    if parts == 1 or not _blas_in_hand.acquire(blocking=wait):
        work(0, n, 0)
        return
    try:
        if not _n_alone:
            with _blas().limit(limits=1):
                in_parallel(work, n, parts)
            return
    finally:
        _blas_in_hand.release()
    work(0, n, 0)


def _blas() -> ThreadpoolController:
    return _found("scipy.linalg.cython_blas" in sys.modules)


@cache
def _found(with_scipy: bool) -> ThreadpoolController:
    """Those that are there; SciPy brings one of its own, once it is needed."""
    return ThreadpoolController().select(user_api="blas")


def _threads() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="xlda")
    return _pool


def _forget_threads() -> None:
    global _pool, _blas_in_hand, _n_alone
    _pool, _blas_in_hand, _n_alone = None, threading.Lock(), 0


if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=_forget_threads)
