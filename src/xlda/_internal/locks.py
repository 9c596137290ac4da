"""Locks that a forked process can use, whatever other threads were doing when it was forked."""

from __future__ import annotations

import os
import threading
from typing import Any, Self
from weakref import WeakSet

_all: WeakSet[ForkSafeLock] = WeakSet()
_held: list[ForkSafeLock] = []  # while a process is being forked


class ForkSafeLock:
    """A re-entrant lock that nobody else holds while the process is being forked.

    The fork waits until other threads let go of it, so that the child never gets a lock that is held for
    ever, nor what the lock protects in the middle of a change. Copies, pickled ones too, are new locks.

    >>> with ForkSafeLock():
    ...     pass
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _all.add(self)

    def __enter__(self) -> Self:
        self._lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return ForkSafeLock, ()

    def __deepcopy__(self, memo: dict[int, Any]) -> ForkSafeLock:
        return ForkSafeLock()


def _before_fork() -> None:
    _held[:] = sorted(_all, key=id)  # in the one order in which all take several of them
    for lock in _held:
        lock.__enter__()


def _after_fork() -> None:
    while _held:
        _held.pop().__exit__()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
