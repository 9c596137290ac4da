"""Points at which a test can kill the service, to show that nothing that was acknowledged is lost.

With the environment variable `XLDA_FAULT` set to `photo-before-rename:3`, the process kills itself by SIGKILL
when it reaches that point for the third time: nothing is cleaned up, as when the power goes. Without the
variable, which nobody sets but such tests, a point costs one comparison.
"""

from __future__ import annotations

import itertools
import os
import signal

VARIABLE = "XLDA_FAULT"
NAMES = (
    "before-commit",
    "after-commit",
    "before-answer",
    "wal-before-copy",
    "wal-after-copy",
    "checkpoint-before-rename",
    "checkpoint-after-rename",
    "checkpoint-after-sync",
    "fold-before-commit",
    "fold-after-commit",
    "start-before-tables",
    "start-after-open",
    "start-in-replay",
    "start-after-adopting",
    "migration-after-copy",
    "migration-before-commit",
    "migration-after-commit",
    "restore-before-rename",
    "restore-between-renames",
    "restore-after-rename",
    "exchange-begun",
    "exchange-old-moved",
    "exchange-new-moved",
    "fleet-file-written",
    "fleet-before-delete",
    "fleet-after-delete",
    "photo-before-rename",
    "photo-after-rename",
    "photo-before-delete",
    "photo-after-delete",
)


def reached(name: str) -> None:
    """Say that the service has come to the point of this name, one of `NAMES`."""
    if name == _NAME and next(_TIMES) == _LAST:
        os.kill(os.getpid(), signal.SIGKILL)


def _parsed(text: str | None) -> tuple[str | None, int]:
    """Which point ends the process, and at which time of reaching it; None where nothing is set.

    >>> _parsed("photo-after-rename:2")
    ('photo-after-rename', 2)
    """
    if not text:
        return None, 0
    name, _, times = text.partition(":")
    if name not in NAMES or not times.isdecimal() or int(times) < 1:
        raise ValueError(
            f"{VARIABLE}={text!r}; expected NAME:N, N from 1, and a name out of {', '.join(NAMES)}."
        )
    return name, int(times)


_NAME, _LAST = _parsed(os.environ.get(VARIABLE))
_TIMES = itertools.count(1)
