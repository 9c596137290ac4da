"""Writes what `xlda COMMAND --help` prints into the pages beside this file, and a table into docs/serve.md.

python docs/commands/write_help.py
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SERVE = HERE.parent / "serve.md"
BLOCK = re.compile(r"```text\nUsage: .*?```", re.DOTALL)
TABLE = re.compile(r"<!-- options -->\n.*?<!-- end of options -->", re.DOTALL)


def printed_help(name: str) -> str:
    """What the command prints."""
    program = "import sys; from xlda.cli import main; main()"
    settings = {**os.environ, "COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1"}
    command = [sys.executable, "-c", program, name, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=settings)
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


def updated(page: str, text: str) -> str:
    """The page with this help in it."""
    found, n = BLOCK.subn(lambda _: f"```text\n{text}\n```", page)
    if n != 1:
        raise ValueError(f"A page of a command has one block that begins with `Usage:`; found {n}.")
    return found


def options_of_serve() -> str:
    """Options of `xlda serve`, with their variables, as a table."""
    import typer

    from xlda.cli.app import app

    rows = ["| option | variable | if nothing is said | what it is |", "|---|---|---|---|"]
    for param in typer.main.get_command(app()).commands["serve"].params:
        names = " / ".join((*param.opts, *param.secondary_opts))
        named = f"`{names}`" if names.startswith("-") else "the first word"
        rows.append(f"| {named} | `{param.envvar}` | {_shown(param.default)} | {param.help} |")
    return "\n".join(rows)


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return "on" if default else "off"
    return "" if default is None else f"{default:g}" if isinstance(default, float) else str(default)


def with_options(page: str) -> str:
    """The page of the service with that table in it."""
    return TABLE.sub(lambda _: f"<!-- options -->\n{options_of_serve()}\n<!-- end of options -->", page)


if __name__ == "__main__":
    SERVE.write_text(with_options(SERVE.read_text()))
    for path in sorted(HERE.glob("*.md")):
        path.write_text(updated(path.read_text(), printed_help(path.stem)))
