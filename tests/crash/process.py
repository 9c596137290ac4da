"""The service as a process, started by its command line."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

WRAPPER = Path(__file__).with_name("served.py")
ADDRESS = re.compile(r"is served at (http://\S+)/")
MODEL = "shop.xlda"


class Served:
    """A running service, or one that has ended before it could be reached: then `url` is None.

    With `set_` or `change` it is started through `served.py`, or `is_forked`; else it is plain `xlda serve`.
    """

    def __init__(
        self, folder, *options, fault=None, set_=None, change=(), backbone=True, log=None, is_forked=False
    ):
        self.folder = Path(folder)
        self.log = Path(log or self.folder / "service.log")
        environment = {name: text for name, text in os.environ.items() if not name.startswith("XLDA_")}
        environment |= {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        if fault is not None:
            environment["XLDA_FAULT"] = fault
        command = [_installed()]
        if set_ or change:
            command = [sys.executable, str(WRAPPER)]
            environment["CRASH_TEST"] = json.dumps({"set": set_ or {}, "change": list(change)})
        given = ["serve", MODEL, "--port", "0", *(["--backbone", "none"] if backbone else []), *options]
        if is_forked and (set_ or change):
            from crash.forked import Forked

            self.process = Forked(given, self.folder, environment, self.log)
        else:
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    [*command, *given],
                    cwd=self.folder,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
        try:
            self.url = self._address()
        except BaseException:
            self.kill()
            raise

    def _address(self, seconds=60.0):
        late = threading.Timer(seconds, self.process.kill)
        late.start()
        try:
            for line in self.process.stdout:
                if found := ADDRESS.search(line):
                    return found[1]
            self.process.wait()
            return None
        finally:
            late.cancel()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    @property
    def has_ended(self):
        return self.process.poll() is not None

    def kill(self):
        """As the power goes, for this process."""
        if not self.has_ended:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def wait_for_end(self, seconds):
        """Whether it has ended by itself by then."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self):
        """As an operator does; gives the exit code."""
        self.process.terminate()
        begun = time.monotonic()
        code = self.process.wait(30)
        assert time.monotonic() - begun < 10
        self.process.stdout.close()
        return code

    def said(self):
        """What it has logged, for messages of tests."""
        return self.log.read_text(errors="replace")[-3000:]


def _installed():
    beside = Path(sys.executable).with_name("xlda")
    found = str(beside) if beside.exists() else shutil.which("xlda")
    assert found, "the command xlda is not installed"
    return found
