"""Locks that a forked process can use, whatever other threads were doing when it was forked."""

from __future__ import annotations

import os
import threading
from weakref import WeakSet

from xlda._internal.interrupts import interrupt_afterwards

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
    with interrupt_afterwards():  # or some would be held for ever
        locks = _known()
        for lock in locks:
            lock.acquire()
        _held[:] = locks  # only now: until all are held, another thread may be forking


def _after_fork() -> None:
    locks = _held.copy()
    _held.clear()  # before the next thread that forks may have them
    for lock in reversed(locks):
        lock.release()


def _known() -> list[threading.RLock]:
    """All locks, in the one order in which all take several of them."""
    while True:
        try:
            return sorted(_all, key=id)
        except RuntimeError:  # another thread has made one meanwhile
            continue


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
