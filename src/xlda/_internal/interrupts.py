"""Work that no signal must cut in two."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SIGNALS = tuple(sorted(signal.valid_signals()))
_at_work: _Deferral | None = None  # of the main thread, which alone has signals


@contextmanager
def interrupt_afterwards() -> Iterator[None]:
    """Let the block run to its end; the handlers of signals that came meanwhile are called then.

    That is so for Ctrl-C and for every other signal whose handler is written in Python, since any of them may
    raise an exception. They reach the main thread only, so in any other there is nothing to do.
    """
    global _at_work
    if _at_work is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    deferral = _Deferral()
    try:
        _at_work = deferral
        deferral.take_over()
        yield
    finally:
        _at_work = None
        deferral.is_open = False
        deferral.give_back()
        deferral.call_handlers()


class _Deferral:
    """Handlers taken over for a while. One that cannot be given back calls the one that was there before."""

    def __init__(self) -> None:
        self.is_open = True
        self.thread = threading.get_ident()
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._came: list[tuple[int, FrameType | None]] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.is_open:
            self._came.append((number, frame))
        else:
            self._handlers[number](number, frame)

    def take_over(self) -> None:
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
                signal.signal(number, self)

    def give_back(self) -> None:
        for number, handler in self._handlers.items():
            if signal.getsignal(number) is self:
                signal.signal(number, handler)

    def call_handlers(self) -> None:
        for number, frame in self._came:
            self._handlers[number](number, frame)


def _after_fork_in_child() -> None:
    """Where another thread has forked, the one that was at work is not there to give handlers back."""
    global _at_work
    if _at_work is not None and _at_work.thread != threading.get_ident():
        deferral, _at_work = _at_work, None
        deferral.is_open = False
        deferral.give_back()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
