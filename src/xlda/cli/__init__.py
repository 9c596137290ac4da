"""`xlda`, the command. Needs the extra `cli`."""

from __future__ import annotations

import sys

from xlda._internal.extras import needs


def main() -> None:
    """Run the command line; the exit code is 0, 1 where the work failed, or 2 for wrong usage."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        sys.exit(f"xlda: {needs('the command', f'{error.name}', 'cli')}")
    from xlda.cli.app import run

    sys.exit(run(sys.argv[1:]))
