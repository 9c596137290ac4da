"""`xlda`, the command. Needs the extra `cli`."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from xlda._internal.extras import needs


def main() -> None:
    """Run the command line; the exit code is 0, 1 where it failed, 2 for wrong usage, or 130 for Ctrl-C."""
    for package in ("rich", "typer"):
        if find_spec(package) is None:
            sys.exit(f"xlda: {needs('the command', package, 'cli')}")
    try:
        from xlda.cli.app import run
    except KeyboardInterrupt:  # before anything has begun
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))
