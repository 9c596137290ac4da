"""How far, how fast, how long yet: one line on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import IO, Self

EVERY = 0.2  # seconds between two lines


class Progress:
    """Counts samples; use it in a `with` block and call `advance`.

    It writes nothing, and does not `count` how many there are, unless `wanted` and `stream` is a terminal.
    """

    def __init__(self, count: Callable[[], int], wanted: bool = True, stream: IO[str] | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._shown = wanted and self._stream.isatty()
        self._total, self._done = count() if self._shown else 0, 0

    def __enter__(self) -> Self:
        self._start = self._last = time.monotonic()
        return self

    def advance(self, n_samples: int) -> None:
        """Count `n_samples` more."""
        self._done += n_samples
        if self._shown and time.monotonic() - self._last >= EVERY:
            self._write()

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._write()
            self._stream.write("\n")

    def _write(self) -> None:
        self._last = time.monotonic()
        seconds = max(self._last - self._start, 1e-9)
        rate = self._done / seconds
        left = max(self._total - self._done, 0) / rate if rate else 0.0
        share = self._done / max(self._total, self._done, 1)
        self._stream.write(
            f"\r{share:4.0%}  {self._done:,} of {self._total:,} samples, "
            f"{rate:,.0f} a second, {_clock(left)} left\x1b[K"
        )
        self._stream.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
