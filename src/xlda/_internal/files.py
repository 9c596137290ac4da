"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A file to write in the block; at its end it takes the place of `path`, unless the block fails.

    It has the mode and, where that is allowed, the owner of the file that it replaces. Where `path` is a
    link, the file that it leads to is replaced.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"No folder {path.parent} to write {path.name} in.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder.")
    path = Path(os.path.realpath(path))
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        unfinished.touch()
        mode = (path if path.exists() else unfinished).stat()
        yield unfinished
        unfinished.chmod(stat.S_IMODE(mode.st_mode))
        if hasattr(os, "chown"):
            with suppress(OSError):
                os.chown(unfinished, mode.st_uid, mode.st_gid)
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
