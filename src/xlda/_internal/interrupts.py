"""Work that no signal must cut in two."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import FrameType
from typing import Any

# What `signal` has around these makes enums of their answers, and takes ten times as long.
_c: Any = import_module("_signal") if find_spec("_signal") else signal
_SIGNALS = tuple(int(number) for number in sorted(signal.valid_signals()))
_last: _Deferral | None = None  # of the main thread, which alone has signals


@contextmanager
def interrupt_afterwards() -> Iterator[None]:
    """Let the block run to its end; the handlers of signals that came meanwhile are called then.

    That is so for Ctrl-C and for every other signal whose handler is written in Python, since any of them may
    raise an exception. They reach the main thread only, so in any other there is nothing to do.
    """
    global _last
    is_inside = _last is not None and _last.is_open
    if is_inside or threading.current_thread() is not threading.main_thread():
        yield
        return
    _last = deferral = _Deferral()
    try:
        deferral.take_over()
        yield
    finally:
        deferral.give_back()


class _Deferral:
    """Handlers taken over for a while, and the signals that came meanwhile."""

    def __init__(self) -> None:
        self.is_open = True
        self.thread = threading.get_ident()
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self.came: list[tuple[int, FrameType | None]] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.is_open:
            self.came.append((number, frame))
        else:  # it came while the handlers are being given back
            self._handlers[number](number, frame)

    def take_over(self) -> None:
        for number in _SIGNALS:
            handler = _c.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
                _c.signal(number, self)

    def give_back(self) -> None:
        """Give all handlers back, call those whose signals came, and raise the first error there was."""
        first_error: BaseException | None = None
        taken = list(self._handlers)
        while taken or self.came or self.is_open:
            try:
                self.is_open = False
                while taken:
                    if _c.getsignal(taken[-1]) is self:
                        _c.signal(taken[-1], self._handlers[taken[-1]])
                    taken.pop()
                while self.came:
                    number, frame = self.came.pop(0)
                    self._handlers[number](number, frame)
            except BaseException as error:  # a handler's: the others are given back all the same
                first_error = first_error or error
        if first_error is not None:
            raise first_error


def _after_fork_in_child() -> None:
    """Where another thread has forked, the one that was at work is not there to give handlers back."""
    if _last is not None and _last.is_open and _last.thread != threading.get_ident():
        _last.came.clear()  # what came was the parent's
        _last.give_back()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
