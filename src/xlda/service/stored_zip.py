"""What is in a zip file as numpy.savez writes it: not compressed, and so read in a tenth of the time."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

END = struct.Struct("<4sHHHHIIH")  # the end of the list: disks, entries here and in all, its size and place
LISTED = struct.Struct("<4s2xBxHH4xIIIHHH8xI")  # an entry of the list, without times and attributes
LOCAL = struct.Struct("<4s2xHH16xHH")  # what stands before the content of an entry, without what is listed
MOST = 16  # entries
NEWEST = 63  # version of the format that is needed, as 6.3
LARGE = 0xFFFFFFFF  # stands for a number that is written elsewhere


class _Entry(NamedTuple):
    """A file in the list: flags, method, checksum, bytes packed and unpacked, and where it is."""

    signature: bytes
    version: int
    flags: int
    method: int
    checksum: int
    n_packed: int
    n_bytes: int
    n_name: int
    n_extra: int
    n_comment: int
    place: int

    @property
    def is_plain(self) -> bool:
        is_stored = not self.flags and not self.method and self.n_packed == self.n_bytes < LARGE
        return self.signature == b"PK\1\2" and self.version <= NEWEST and is_stored


def stored_files(content: bytes) -> dict[str, bytes] | None:
    """The files of a plain zip file by their names; None where it has anything that zipfile should judge.

    That is: compression, encryption, a comment, large numbers, a name that is not ASCII or comes twice, a
    checksum that is not right, files that overlap, are not in the order of the list, or lie outside.

    >>> import io, zipfile
    >>> file = io.BytesIO()
    >>> with zipfile.ZipFile(file, "w") as archive:
    ...     archive.writestr("label.npy", b"kiwi")
    >>> stored_files(file.getvalue())
    {'label.npy': b'kiwi'}
    """
    try:
        return _read(content)
    except (struct.error, UnicodeDecodeError):
        return None


def _read(content: bytes) -> dict[str, bytes] | None:
    end = len(content) - END.size
    signature, *disks, n_here, n, size, listed, comment = END.unpack_from(content, max(end, 0))
    if signature != b"PK\5\6" or any(disks) or comment or not n_here == n <= MOST or listed + size != end:
        return None
    files: dict[str, bytes] = {}
    place, used = listed, 0
    for _ in range(n):
        entry = _Entry(*LISTED.unpack_from(content, place))
        place += LISTED.size
        name = content[place : place + entry.n_name]
        place += entry.n_name + entry.n_extra + entry.n_comment
        start = _start(content, entry, name)
        if start is None or entry.place < used or name.decode("ascii") in files:
            return None
        used = start + entry.n_bytes
        data = content[start:used]
        if used > listed or zlib.crc32(data) != entry.checksum:
            return None
        files[name.decode("ascii")] = data
    return files if place == end else None


def _start(content: bytes, entry: _Entry, name: bytes) -> int | None:
    """Where the content of a file begins; None where it is not plain, or another name stands before it."""
    signature, flags, method, n_name, n_extra = LOCAL.unpack_from(content, entry.place)
    start: int = entry.place + LOCAL.size + n_name
    is_same = not flags and not method and content[start - n_name : start] == name
    return start + n_extra if entry.is_plain and is_same and signature == b"PK\3\4" else None
