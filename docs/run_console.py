"""Runs the `$` lines in the console blocks of a page, and writes what they print below them.

python docs/run_console.py docs/tutorial.md FOLDER

FOLDER is where they run; it is made if need be.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def run(page: str, folder: Path) -> str:
    """The page with what its commands print now, one after the other in `folder`."""
    return BLOCK.sub(lambda block: f"```console\n{_run_block(block[1], folder)}```", page)


def _run_block(block: str, folder: Path) -> str:
    settings = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    printed = []
    for line in block.splitlines():
        if line.startswith("$ "):
            done = subprocess.run(
                line[2:],
                shell=True,
                cwd=folder,
                env=settings,
                check=False,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            printed.append(f"{line}\n{done.stdout}")
    return "".join(printed)


if __name__ == "__main__":
    path, folder = map(Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(run(path.read_text(), folder))
