"""Writes what `xlda COMMAND --help` prints into the pages beside this file.

python docs/commands/write_help.py
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
BLOCK = re.compile(r"```text\nUsage: .*?```", re.DOTALL)


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


if __name__ == "__main__":
    for path in sorted(HERE.glob("*.md")):
        path.write_text(updated(path.read_text(), printed_help(path.stem)))
