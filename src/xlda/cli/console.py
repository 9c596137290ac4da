"""What the command prints: results on standard output; progress, warnings and errors on standard error.

Labels and paths come from anywhere: what could move the cursor, or turn the text around, is shown escaped.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

UNSEEN = (
    "Cc",
    "Cf",
    "Cs",
    "Zl",
    "Zp",
)  # categories of characters: control, format, half a pair, line, paragraph
JOINERS = "\u200c\u200d"  # which are in words of some scripts, and in emoji

_NOT_ASCII = re.compile(r"[\x7f-\U0010ffff]")
_bars: list[Progress] = []  # on the terminal now


def shown(text: str) -> str:
    r"""A text as it may go to a terminal: on one line, and with no power over it.

    >>> print(shown("a\x1b[2Jb\nc"), shown("Kühlregal, 世界"))
    a\x1b[2Jb\nc Kühlregal, 世界
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(sign) if _is_unseen(sign) else sign for sign in text)


def say(text: str) -> None:
    """A line of the result."""
    print(shown(text))


def note(text: str) -> None:
    """A line beside the result."""
    print(shown(text), file=sys.stderr)


def say_json(result: Any) -> None:
    """The result for a program to read."""
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(result, ensure_ascii=not is_utf8, indent=2, default=str)
    print(_NOT_ASCII.sub(lambda sign: json.dumps(sign[0])[1:-1] if _is_unseen(sign[0]) else sign[0], text))


def say_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Rows under the names of their columns, if they have any; numbers on the right. No rows, no table."""
    if not rows:
        return
    cells = [list(columns)] * any(columns) + [[shown(_text(value)) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    on_right = [all(isinstance(value, int | float) for value in column) for column in zip(*rows, strict=True)]
    for row in cells:
        placed = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, on_right, strict=True)
        ]
        say("  ".join(placed).rstrip())


def first_few(names: Sequence[object], n: int = 10) -> str:
    """Names in a sentence, the first `n` of them.

    >>> first_few(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    text = ", ".join(str(name) for name in names[:n])
    return text if len(names) <= n else f"{text} and {len(names) - n:,} more"


def counted(n: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "class"), counted(1200, "class"), counted(0, "sample")
    ('1 class', '1,200 classes', '0 samples')
    """
    ending = "" if n == 1 else "es" if what.endswith("s") else "s"
    return f"{n:,} {what}{ending}"


def can_ask() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str, answers: Sequence[str]) -> str:
    """One of the answers, from whoever is at the terminal; where there is no more input, the last."""
    for bar in _bars:
        bar.stop()
    try:
        while True:
            print(shown(question), end=" ", file=sys.stderr, flush=True)
            line = _typed()
            answer = line.strip().lower()
            if not line or answer in answers:
                return answer if line else answers[-1]
    finally:
        for bar in _bars:
            bar.start()


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Gives a function to be called with how many more are done. Shows nothing but on a terminal."""
    if not sys.stderr.isatty():
        yield lambda n_more: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        _bars.append(bar)
        try:
            yield lambda n_more: bar.advance(task, n_more)
        finally:
            _bars.remove(bar)


def _typed() -> str:
    """A line from the terminal; what follows begins on a line of its own, however this one ends."""
    line = ""
    try:
        line = sys.stdin.readline()
    finally:
        if not line:
            note("")
    return line


def _is_unseen(sign: str) -> bool:
    return unicodedata.category(sign) in UNSEEN and sign not in JOINERS


def _escaped(sign: str) -> str:
    return sign.encode("unicode_escape").decode("ascii")


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
