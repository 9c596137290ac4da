"""Who may change a model file: whoever holds the lock file `<model>.lock` beside it.

The system keeps the lock, not the file's being there: a lock file that a killed process left locks nothing,
and it stays for the next one, since removing it would let two in at once. Whoever only reads needs no lock.

Threads of a process take turns, and the lock belongs to the process: one may take it and another give it
back. A forked child does not have the lock of its parent, and wants its own like any other process.
"""

from __future__ import annotations

import errno
import json
import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xlda._internal.extras import needs
from xlda.errors import LockedModelError, ServedModelError

_of_parents: list[Any] = []  # locks inherited by a fork: letting go of one here could unlock the parent's


class ModelLock:
    """The lock of one model file, taken and given back as often as needed.

    Links are followed first, so that all names of a file have one lock.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._name = os.fspath(path)
        self.model = Path(os.path.realpath(path))
        self._file: Any = None
        self._renew()

    def _renew(self) -> None:
        if self._file is not None:
            _of_parents.append(self._file)
        self._process, self._file, self._threads = os.getpid(), None, threading.RLock()

    @property
    def turn(self) -> threading.RLock:
        """To be held by a thread for as long as no other one may take or give back the lock."""
        if self._process != os.getpid():
            self._renew()
        return self._threads

    @property
    def is_held(self) -> bool:
        """Whether this process has it."""
        return self._process == os.getpid() and self._file is not None

    def take(self, wait: float = 0.0, for_service: bool = False) -> None:
        """Take it, unless this process has it; where others hold it for `wait` seconds, LockedModelError.

        A model that has the log of a service beside it is that service's alone: the log would not know.
        """
        with self.turn:
            if self._file is None:
                self._file = _taken(self.model, self._name, wait)
                if not for_service:
                    self._check_no_log()

    def _check_no_log(self) -> None:
        folder = self.model.with_name(f"{self.model.name}.service")
        if (folder / "log.sqlite").exists():
            self.give_back()
            raise ServedModelError(
                f"{self._name} belongs to a service, whose log in {folder.name} would not know of the "
                "change. Start it with `xlda serve` and change it there, or change a copy that is in "
                "another folder."
            )

    def give_back(self) -> None:
        """Let others change the model; where this process does not have the lock, nothing happens."""
        with self.turn:
            lock, self._file = self._file, None
            if lock is not None:
                lock.release()


@contextmanager
def locked_model(path: str | os.PathLike[str], wait: float = 0.0) -> Iterator[Path]:
    """Hold the lock of a model file, which need not be there yet, in the block; gives its path without links.

    >>> with locked_model("shop.xlda") as path:
    ...     path.name
    'shop.xlda'
    """
    lock = ModelLock(path)
    lock.take(wait)
    try:
        yield lock.model
    finally:
        lock.give_back()


def check_wait(wait: float) -> None:
    """Refuse what is no number of seconds."""
    if isinstance(wait, bool) or not isinstance(wait, int | float) or math.isnan(wait) or wait < 0:
        raise ValueError(f"wait is a number of seconds of at least 0; got {wait!r}.")


def _taken(model: Path, name: str, wait: float) -> Any:
    check_wait(wait)
    try:
        from filelock import FileLock, Timeout
    except ImportError:
        raise needs("Changing a model", "filelock", "images") from None
    if not model.parent.is_dir():  # which filelock would make
        raise FileNotFoundError(f"No folder {model.parent} to write {model.name} in.")
    lock = FileLock(f"{model}.lock", thread_local=False)
    try:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            _check_served(model, name)
            lock.acquire(timeout=-1 if math.isinf(wait) else wait, poll_interval=0.05)
    except Timeout:
        raise LockedModelError(
            f"{name} is being changed by another process or recognizer. Try again once that has ended."
        ) from None
    except OSError as error:
        if isinstance(error, PermissionError) or error.errno == errno.EROFS:
            raise PermissionError(
                f"{name} cannot be changed: its lock {lock.lock_file} cannot be written. Copy the model to "
                "where you may write."
            ) from error
        raise
    return lock


def _check_served(model: Path, name: str) -> None:
    """Refuse at once what a service holds: it does so until it is ended. It has left its address."""
    try:
        found = json.loads((model.with_name(f"{model.name}.service") / "address.json").read_bytes())
        url, process = str(found["url"]), int(found["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    if _is_running(process):
        raise ServedModelError(
            f"{name} is being served at {url}: use --server {url} with `xlda learn`, `predict` and "
            f"`backup`, or the calls that {url}docs lists."
        )


def _is_running(process: int) -> bool:
    """Whether there is a process of this number: a service that was killed has left its address too."""
    try:
        os.kill(process, 0)
    except PermissionError:  # of another user
        return True
    except OSError:
        return False
    return True
