"""`xlda`, the command. Needs the extra `cli`."""

from __future__ import annotations

import sys

from xlda._internal.extras import needs


def main() -> None:
    """Run the command line; the exit code is 0, 1 where it failed, 2 for wrong usage, or 130 for Ctrl-C."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        sys.exit(f"xlda: {needs('the command', f'{error.name}', 'cli')}")
    try:
        from xlda.cli.app import run
    except KeyboardInterrupt:  # before anything has begun
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))
