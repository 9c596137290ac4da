"""What the command prints: results on standard output; progress, warnings and errors on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def say(text: str) -> None:
    """A line of the result."""
    print(text)


def note(text: str) -> None:
    """A line beside the result."""
    print(text, file=sys.stderr)


def say_json(result: Any) -> None:
    """The result for a program to read."""
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(result, ensure_ascii=not is_utf8, indent=2, default=str))


def say_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Rows under the names of their columns, if they have any; numbers on the right. No rows, no table."""
    if not rows:
        return
    cells = [list(columns)] * any(columns) + [[_text(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    on_right = [all(isinstance(value, int | float) for value in column) for column in zip(*rows, strict=True)]
    for row in cells:
        placed = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, on_right, strict=True)
        ]
        say("  ".join(placed).rstrip())


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Gives a function to be called with how many more are done. Shows nothing but on a terminal."""
    if not sys.stderr.isatty():
        yield lambda n_more: None
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda n_more: bar.advance(task, n_more)


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
