"""Photos that come more than once in one call."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path


def repeated_photos(paths: Sequence[str | os.PathLike[str]]) -> dict[int, int]:
    """Which files are the same as an earlier one: their places, each with that of the first such file.

    The same is what links lead to, and what has the same bytes; only files of equal size are read. One that
    is not there, or cannot be read, is left to whoever opens it.

    >>> for name, content in {"a.jpg": b"kiwi", "b.jpg": b"pear", "c.jpg": b"kiwi"}.items():
    ...     _ = Path(name).write_bytes(content)
    >>> repeated_photos(["a.jpg", "b.jpg", "./a.jpg", "c.jpg"])
    {2: 0, 3: 0}
    """
    files = [os.path.realpath(path) for path in paths]
    sizes = {file: _size(file) for file in files}
    n_of_size = Counter(sizes.values())
    first: dict[object, int] = {}
    repeats = {}
    for place, file in enumerate(files):
        earlier = first.setdefault(file, place)
        if earlier == place and sizes[file] is not None and n_of_size[sizes[file]] > 1:
            earlier = first.setdefault(_digest(file), place)
        if earlier != place:
            repeats[place] = earlier
    return repeats


def _size(file: str) -> int | None:
    try:
        return Path(file).stat().st_size
    except OSError:
        return None


def _digest(file: str) -> object:
    """Of the bytes; one that no other has, where they cannot be read."""
    try:
        with Path(file).open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").digest()
    except OSError:
        return object()
