"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

ABANDONED = 24 * 3600.0  # seconds after which nobody writes to a file any more, where locks cannot tell


@contextmanager
def replaced(path: str | os.PathLike[str], mode: int | None = None) -> Iterator[Path]:
    """A file to write in the block; at its end it takes the place of `path`, unless the block fails.

    It has the mode and, where that is allowed, the owner of the file that it replaces; where `mode` is given,
    it has that one, from before anything is in it. Where `path` is a link, the file that it leads to is
    replaced. What a writer of `path` that was killed has left is removed.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"No folder {path.parent} to write {path.name} in.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder.")
    path = Path(os.path.realpath(path))
    _sweep(path)
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with _held(unfinished):
            before = (path if path.exists() else unfinished).stat()
            if mode is not None:
                unfinished.chmod(mode)
            yield unfinished
            unfinished.chmod(stat.S_IMODE(before.st_mode) if mode is None else mode)
            if hasattr(os, "chown"):
                with suppress(OSError):
                    os.chown(unfinished, before.st_uid, before.st_gid)
            flush_to_disk(unfinished)
            unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    flush_to_disk(path.parent)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that nobody ever sees a part of it."""
    with replaced(path) as unfinished:
        unfinished.write_bytes(content)


def flush_to_disk(path: Path) -> None:
    """Have the system write a file, or the entries of a folder, now."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open a directory, and needs no flush of one
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- what killed writers leave


@contextmanager
def _held(unfinished: Path) -> Iterator[None]:
    """Make the file, and hold a lock on it: the system lets go of that, whatever becomes of this process."""
    if fcntl is None:
        unfinished.touch()  # and close it: Windows gives no other name to a file that is open
        yield
        return
    with unfinished.open("ab") as file:
        with suppress(OSError):  # of a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        if unfinished.exists():
            yield
            return
    with _held(unfinished):  # it was swept in the moment before it was held
        yield


def _sweep(path: Path) -> None:
    """Remove unfinished files of `path` that nobody writes to."""
    name = re.compile(re.escape(f".{path.name}.") + "[0-9a-f]{8}" + re.escape(".tmp"))
    with suppress(OSError):
        for file in path.parent.iterdir():
            if name.fullmatch(file.name) and not file.is_symlink() and file.is_file():
                with suppress(OSError):  # BlockingIOError: somebody writes to it
                    _remove_if_abandoned(file)


def _remove_if_abandoned(file: Path) -> None:
    if fcntl is None:
        if time.time() - file.stat().st_mtime > ABANDONED:
            file.unlink()
        return
    with file.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.unlink()
