"""`xlda`, the command. Needs `pip install 'xlda[cli]'`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the exit code is 0, 1 where it failed, 2 for wrong usage, or 130 for Ctrl-C."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401

        from xlda.cli.app import run
    except ImportError as error:
        if error.name not in ("rich", "typer"):
            raise
        sys.exit(f"xlda: the command needs {error.name}: pip install 'xlda[cli]'")
    except KeyboardInterrupt:  # before anything has begun
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))
