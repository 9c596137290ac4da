"""Locks that a forked process can use, whatever other threads were doing when it was forked."""

from __future__ import annotations

import os
import threading
from weakref import WeakSet

_all: WeakSet[threading.RLock] = WeakSet()
_held: list[threading.RLock] = []  # while a process is being forked


def fork_safe_lock() -> threading.RLock:
    """A re-entrant lock that no other thread holds while the process is being forked.

    The fork waits until other threads let go of it, so that the child never gets a lock that is held for
    ever, nor what the lock protects in the middle of a change.

    >>> with fork_safe_lock():
    ...     pass
    """
    lock = threading.RLock()
    _all.add(lock)
    return lock


def _before_fork() -> None:
    for lock in sorted(_alive(), key=id):  # in the one order in which all take several of them
        lock.acquire()
        _held.append(lock)


def _alive() -> list[threading.RLock]:
    while True:
        try:
            return list(_all)
        except RuntimeError:  # another thread has just made one
            continue


def _after_fork() -> None:
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
