"""Files that are computed once and kept: in $XLDA_CACHE, else in the user's folder for such files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from xlda._internal.files import write_whole


def cache_folder() -> Path:
    """Where they are kept: $XLDA_CACHE, else $XDG_CACHE_HOME/xlda, else ~/.cache/xlda."""
    if own := os.environ.get("XLDA_CACHE"):
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "xlda"


def cached(name: str, build: Callable[[], bytes]) -> bytes:
    """The content of file `name`, built where it is missing or damaged.

    Its checksum stands in a file beside it. A folder that cannot be written costs time, and nothing else.
    """
    path = cache_folder() / name
    recorded = path.with_name(f"{name}.sha256")
    try:
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() == recorded.read_text(encoding="ascii").strip():
            return content
    except (OSError, UnicodeDecodeError):
        pass
    content = build()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
        write_whole(recorded, f"{hashlib.sha256(content).hexdigest()}\n".encode())
    except OSError:
        pass
    return content
