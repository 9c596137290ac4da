"""Small photos as files, by the hash of what was uploaded."""

from __future__ import annotations

import math
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from xlda._internal.files import flush_to_disk
from xlda.service.faults import reached

SPARED = 60.0  # seconds in which a photo may wait for the event that refers to it
NAME = re.compile("[0-9a-f]{64}")
FILE = re.compile(r"([0-9a-f]{64})\.jpg")
UNFINISHED = re.compile(r"\.[0-9a-f]{64}\.[0-9a-f]{16}\.tmp")


class PhotoStore:
    """A folder of JPEG files, `ab/abcd....jpg`, whose names are hex SHA-256 that the caller gives.

    One process at a time may have it; its threads may share it. `n_bytes` is what all photos take, and the
    store `is_full` once that is `most_bytes`, which whoever puts photos should ask first.

    >>> store = PhotoStore("photos", most_bytes=10**9)
    >>> store.put(64 * "a", b"a JPEG file")
    >>> store.read(64 * "a"), store.n_bytes, list(store.names()) == [64 * "a"]
    (b'a JPEG file', 11, True)
    >>> store.delete(64 * "a"), store.read(64 * "a")
    (True, None)
    """

    def __init__(self, folder: str | os.PathLike[str], most_bytes: int) -> None:
        self.folder, self.most_bytes = Path(folder), most_bytes
        self._make_folders()
        self._turn = threading.Lock()
        self._put_at: dict[str, float] = {}  # when photos of late were put, by a clock that never jumps
        self._unfinished: set[str] = set()  # files that a thread is writing
        self._n_bytes = sum(file.stat().st_size for file in self._files() if FILE.fullmatch(file.name))

    @property
    def n_bytes(self) -> int:
        """Bytes of all photos."""
        return self._n_bytes

    @property
    def is_full(self) -> bool:
        """Whether no more photos should be put."""
        return self._n_bytes >= self.most_bytes

    def put(self, name: str, jpeg: bytes) -> None:
        """Keep a photo; it is on disk when this returns. One that is there already stays as it is."""
        path = self._path(name)
        self._note(name)  # first: from now on, no sweep takes away what is there
        if not path.exists():
            with self._written(name, jpeg) as unfinished, self._turn:
                before = _n_bytes_of(path) or 0  # of another thread that was faster
                reached("photo-before-rename")
                unfinished.replace(path)
                reached("photo-after-rename")
                self._n_bytes += len(jpeg) - before
        flush_to_disk(path.parent)  # also for one that is there: who put it may not have come so far

    def read(self, name: str) -> bytes | None:
        """The photo, or None where there is none."""
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            return None

    def delete(self, name: str) -> bool:
        """Remove a photo from the disk; whether there was one.

        Whoever is not sure that nobody else is just putting the same photo leaves this to `sweep`.
        """
        path = self._path(name)
        with self._turn:
            is_gone = self._removed(path)
        flush_to_disk(path.parent)
        return is_gone

    def names(self) -> Iterator[str]:
        """Of all photos, in no order."""
        for file in self._files():
            if match := FILE.fullmatch(file.name):
                yield match[1]

    def sweep(self, known: Callable[[str], bool]) -> int:
        """Remove unfinished files and photos that are not `known`, but those put in the last minute.

        Such a photo may be put before the event that refers to it is written. What this process did not put
        itself was put by one that has ended. Returns the number of photos removed; all other files stay.
        """
        n_removed = 0
        for file in self._files():
            path = Path(file.path)
            if UNFINISHED.fullmatch(file.name):
                with self._turn:
                    if file.name not in self._unfinished:
                        path.unlink(missing_ok=True)
            elif (match := FILE.fullmatch(file.name)) and not known(match[1]):
                with self._turn:  # a photo is noted before it is put: what came after `known` is seen here
                    n_removed += not self._is_young(match[1]) and self._removed(path)
        return n_removed

    # -- files

    def _make_folders(self) -> None:
        """All of them, at once: then a photo needs no more than its own to be flushed."""
        for number in range(256):
            (self.folder / f"{number:02x}").mkdir(parents=True, exist_ok=True)
        flush_to_disk(self.folder)
        flush_to_disk(self.folder.absolute().parent)

    def _path(self, name: str) -> Path:
        """Where the photo is; nothing else can be reached by a name."""
        if not NAME.fullmatch(name):
            raise ValueError(f"A photo's name is 64 hex digits, of its SHA-256; got {name[:80]!r}.")
        return self.folder / name[:2] / f"{name}.jpg"

    def _files(self) -> Iterator[os.DirEntry[str]]:
        for number in range(256):
            with os.scandir(self.folder / f"{number:02x}") as files:
                yield from files

    @contextmanager
    def _written(self, name: str, jpeg: bytes) -> Iterator[Path]:
        """A file with that content, on disk; it is gone after the block unless it has another name then."""
        unfinished = self._path(name).with_name(f".{name}.{secrets.token_hex(8)}.tmp")
        with self._turn:
            self._unfinished.add(unfinished.name)
        try:
            with unfinished.open("xb") as file:
                file.write(jpeg)
                file.flush()
                os.fsync(file.fileno())
            yield unfinished
        finally:
            unfinished.unlink(missing_ok=True)
            with self._turn:
                self._unfinished.discard(unfinished.name)

    def _removed(self, path: Path) -> bool:
        """Whether there was such a photo, which is removed. To be called in turn."""
        if (n_bytes := _n_bytes_of(path)) is None:
            return False
        reached("photo-before-delete")
        path.unlink()
        reached("photo-after-delete")
        self._n_bytes -= n_bytes
        return True

    # -- what was put of late

    def _note(self, name: str) -> None:
        with self._turn:
            self._put_at.pop(name, None)  # so that the oldest stand first
            self._put_at[name] = time.monotonic()
            while not self._is_young(oldest := next(iter(self._put_at))):
                del self._put_at[oldest]

    def _is_young(self, name: str) -> bool:
        return time.monotonic() - self._put_at.get(name, -math.inf) < SPARED


def _n_bytes_of(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None
