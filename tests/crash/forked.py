"""Services that are forked from a process which has imported all they need, and so start much sooner."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

from crash import served

NEEDED = ["httpx", "xlda.classifier", "xlda.service.app", "xlda.service.server", "xlda.cli.serve"]


class Forked:
    """A process as `subprocess.Popen` has it, as far as the crash test needs that. For POSIX alone."""

    def __init__(self, arguments, folder, environment, log):
        forking = multiprocessing.get_context("forkserver")
        forking.set_forkserver_preload(NEEDED)
        reading, writing = forking.Pipe(duplex=False)
        given = (arguments, str(folder), environment, str(log), writing)
        self._process = forking.Process(target=_serve, args=given, daemon=True)
        self._process.start()
        writing.close()
        self.stdout = os.fdopen(os.dup(reading.fileno()), "r")
        reading.close()

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def wait(self, seconds=None):
        self._process.join(seconds)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked service", seconds)
        return self._process.exitcode

    def send_signal(self, number):
        os.kill(self._process.pid, number)

    def terminate(self):
        self._process.terminate()

    def kill(self):
        self._process.kill()


def _serve(arguments, folder, environment, log, writing):
    """What the new process does."""
    from xlda.service import faults

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    faults._NAME, faults._LAST = faults._parsed(environment.get(faults.VARIABLE))
    os.dup2(writing.fileno(), 1)
    with Path(log).open("ab") as file:
        os.dup2(file.fileno(), 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)  # those of the parent were for other files
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    sys.argv = ["xlda", *arguments]
    served.run()
