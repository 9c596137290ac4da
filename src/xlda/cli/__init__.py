"""`xlda`, the command. Needs `pip install 'xlda[cli]'`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the exit code is 0, 1 where the work failed, or 2 for wrong usage."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        sys.exit(f"xlda: the command needs {error.name}: pip install 'xlda[cli]'")
    from xlda.cli.app import run

    sys.exit(run(sys.argv[1:]))
