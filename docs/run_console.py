"""Runs the `$` lines in the console blocks of a page, and writes what they print below them.

python docs/run_console.py docs/tutorial.md FOLDER

FOLDER is where they run; it is made if need be. All lines of a page are given to one shell, so that variables
stay. A line that ends in `&` starts a service, which is waited for until it says where it is; it gets a port
of its own, and the page shows the usual one. A Python block that begins with `# NAME.py` is a file of that
name, which the lines after it can run.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

BLOCK = re.compile(r"```console\n(.*?)```|```python\n(?=# ([\w-]+\.py)\n)(.*?)```", re.DOTALL)
USUAL_PORT = "8765"
SERVED = " is served at "
PATIENCE = 1200.0  # seconds that one line may take


def run(page: str, folder: Path) -> str:
    """The page with what its commands print now, one after the other in `folder`."""
    port = _free_port()
    with Shell(folder, port) as shell:

        def done(block: re.Match[str]) -> str:
            if block[2] is not None:
                (folder / block[2]).write_text(block[3].replace(USUAL_PORT, port))
                return block[0]
            return f"```console\n{_run_block(block[1], port, shell.run)}```"

        return BLOCK.sub(done, page)


def _run_block(block: str, port: str, run_one: Callable[[str], str]) -> str:
    printed = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found = run_one(line[2:].replace(USUAL_PORT, port)).replace(port, USUAL_PORT)
            printed.append(f"{line}\n{found}")
    return "".join(printed)


class Shell:
    """A shell that takes one line after the other; what it started ends with it."""

    def __init__(self, folder: Path, port: str) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._shell = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env={**os.environ, "PATH": path, "XLDA_PORT": port},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._mark = secrets.token_hex(16)

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.close()
        self._end_all()
        self._shell.stdout.close()
        self._shell.wait()

    def _end_all(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGTERM)

    def run(self, command: str) -> str:
        """What a command prints."""
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{{ {command}\n}} < /dev/null\necho {self._mark}\n")
        self._shell.stdin.flush()
        wanted = [self._mark + "\n", *([SERVED] if command.endswith("&") else [])]
        printed = []
        too_long = threading.Timer(PATIENCE, self._end_all)
        too_long.start()
        while wanted:
            line = self._next()
            wanted = [text for text in wanted if text not in line]
            printed.append(line.replace(self._mark + "\n", ""))
        too_long.cancel()
        return _whole_lines("".join(printed))

    def _next(self) -> str:
        assert self._shell.stdout is not None
        line = self._shell.stdout.readline()
        if not line:
            raise RuntimeError("The shell of the page has ended.")
        return line


def _whole_lines(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


if __name__ == "__main__":
    path, folder = map(Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(run(path.read_text(), folder))
