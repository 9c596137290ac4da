from __future__ import annotations

import os
import re
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from xlda import XLDA
from xlda._internal import threads
from xlda._internal.threads import in_parallel, in_parallel_with_blas, n_threads


def blas_threads():
    """Of the BLAS of NumPy and SciPy; other tests may have loaded libraries that bring their own."""
    return [
        pool["num_threads"]
        for pool in threadpool_info()
        if pool["user_api"] == "blas" and re.search(r"(numpy|scipy)[^/]*libs", pool["filepath"])
    ]


@pytest.mark.parametrize("run", [in_parallel, in_parallel_with_blas])
@pytest.mark.parametrize(("n", "parts"), [(10, 1), (10, 3), (2, 4), (0, 2)])
def test_every_row_is_done_once(run, n, parts):
    done = []
    run(lambda start, stop, part: done.append((part, list(range(start, stop)))), n, parts)
    assert sorted(part for part, _ in done) == list(range(parts))
    assert sorted(row for _, rows in done for row in rows) == list(range(n))


def test_parts_run_at_the_same_time():
    meeting = threading.Barrier(3, timeout=10)
    in_parallel(lambda start, stop, part: meeting.wait(), 3, 3)


def test_an_error_in_any_part_comes_through():
    for bad in (0, 1):
        with pytest.raises(ZeroDivisionError):
            in_parallel(lambda start, stop, part, bad=bad: 1 // (part - bad), 2, 2)


def test_the_blas_has_one_thread_in_each_part_and_all_of_them_afterwards():
    before = blas_threads()
    inside = []

    def work(start, stop, part):
        inside.append(blas_threads())

    callers = [threading.Thread(target=in_parallel_with_blas, args=(work, 4, 2)) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert {count for counts in inside for count in counts} == {1}
    assert blas_threads() == before


def test_who_does_not_wait_works_alone():
    entered, release, parts = threading.Event(), threading.Event(), []

    def slow(start, stop, part):
        entered.set()
        release.wait(30)

    other = threading.Thread(target=in_parallel_with_blas, args=(slow, 2, 2))
    other.start()
    entered.wait(30)
    in_parallel_with_blas(lambda start, stop, part: parts.append((start, stop, part)), 9, 2, wait=False)
    release.set()
    other.join()
    assert parts == [(0, 9, 0)]
    in_parallel_with_blas(lambda start, stop, part: parts.append((start, stop, part)), 9, 2, wait=False)
    assert len(parts) == 3


def test_who_limits_the_blas_limits_this():
    with threadpool_limits(1, user_api="blas"):
        assert n_threads() == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_can_learn(rng):
    X, y = rng.normal(size=(3000, 200)), np.arange(3000) % 500
    clf = XLDA().fit(X, y)  # has started threads
    child = os.fork()
    if child == 0:
        clf.partial_fit(X, y).covariance_.sum()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_nobody_limits_the_blas_while_another_thread_is_alone_with_it():
    began, end = threading.Event(), threading.Event()

    def beside():
        with threads.alone():
            assert threads.parts_for(2**30) == 1
            began.set()
            assert end.wait(20)

    def calls(n):
        parts, limits = [], []

        def work(start, stop, _part):
            parts.append((start, stop))
            limits.append(blas_threads())

        threads.in_parallel_with_blas(work, n, 2)
        return sorted(parts), limits

    usual = blas_threads()
    thread = threading.Thread(target=beside)
    thread.start()
    assert began.wait(20)
    assert calls(10) == ([(0, 10)], [usual])
    end.set()
    thread.join()
    parts, limits = calls(10)
    assert parts == [(0, 5), (5, 10)]
    assert all(set(some) == {1} for some in limits)


def test_whoever_fails_waits_for_the_other_parts():
    """They may be writing into memory that is given back when the error is raised."""
    begun, done = threading.Event(), []

    def work(_start, _stop, part):
        if not part:
            assert begun.wait(10)
            raise KeyError("the first part")
        begun.set()
        time.sleep(0.2)
        done.append(part)

    with pytest.raises(KeyError):
        in_parallel(work, 2, 2)
    assert done == [1]
