from __future__ import annotations

import io

import numpy as np
import pytest

from xlda import XLDA
from xlda._internal import progress
from xlda._internal.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_how_far_how_fast_and_how_long(monkeypatch):
    clock = iter([0.0, 10.0, 10.0, 20.0, 20.0, 20.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    stream = Terminal()
    with Progress(lambda: 4000, stream=stream) as bar:
        bar.advance(1000)
        bar.advance(1000)
    lines = stream.getvalue().split("\r")
    assert lines[1].startswith(" 25%  1,000 of 4,000 samples, 100 a second, 0:30 left")
    assert lines[2].startswith(" 50%  2,000 of 4,000 samples, 100 a second, 0:20 left")
    assert stream.getvalue().endswith("\n")


@pytest.mark.parametrize(("stream", "wanted"), [(io.StringIO(), True), (Terminal(), False)])
def test_nobody_else_sees_or_counts_anything(stream, wanted):
    with Progress(lambda: pytest.fail("counted"), wanted, stream) as bar:
        bar.advance(10)
    assert stream.getvalue() == ""


def test_fit_source_shows_progress_on_a_terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    XLDA().fit_source((np.eye(5), range(5)))
    assert "5 of 5 samples" in stream.getvalue()


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0:00"), (61.2, "1:01"), (3600, "1:00:00")])
def test_clock(seconds, shown):
    assert progress._clock(seconds) == shown
