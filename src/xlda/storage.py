"""One model, one file: safetensors with a checksum, written whole or not at all.

The file holds named tensors and, in its metadata, one JSON text with everything else. What they mean is the
business of `classifier.py`. No pickle: opening a file runs no code.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from xlda.arrays import Array

FORMAT = "xlda"
FORMAT_VERSION = 2  # the newest; 2 is 1 with rows of an imported layer

Tensors = dict[str, Array]


def write(
    path: str | os.PathLike[str], tensors: Tensors, info: dict[str, Any], version: int = FORMAT_VERSION
) -> None:
    """Write `tensors` and the JSON-able `info`. A file already there is replaced only by a complete one.

    `version` is the oldest format that has all of it, so that no reader misses a part.
    """
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    metadata = {
        "format": FORMAT,
        "format_version": str(version),
        "info": json.dumps(info, sort_keys=True),
    }
    metadata["sha256"] = _digest(tensors, metadata)
    with replaced(path) as unfinished:
        save_tensors(tensors, unfinished, metadata)


def save_tensors(tensors: Tensors, path: Path, metadata: dict[str, str]) -> None:
    """As safetensors does it, with an OSError where that fails."""
    try:
        save_file(tensors, path, metadata)
    except SafetensorError as error:
        raise OSError(f"{path} cannot be written: {error}") from error


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


def read(path: str | os.PathLike[str]) -> tuple[Tensors, dict[str, Any]]:
    """Read what `write` wrote. Anything else, and a damaged file, is a ValueError that says what is wrong."""
    path = Path(path)
    with path.open("rb"):
        pass  # a missing or forbidden file is the system's own error, with its name
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            _check_format(path, metadata)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is not a complete XLDA model: {error}.") from error
    if metadata.pop("sha256", None) != _digest(tensors, metadata):
        raise ValueError(
            f"{path} is damaged: its contents do not match its checksum. Restore it from a copy."
        )
    return tensors, json.loads(metadata["info"])


def _check_format(path: Path, metadata: dict[str, str]) -> None:
    if metadata.get("format") != FORMAT:
        raise ValueError(f"{path} is a safetensors file, but not an XLDA model.")
    version = metadata.get("format_version", "")
    if not version.isdecimal() or int(version) > FORMAT_VERSION:
        raise ValueError(
            f"{path} has format version {version!r}; this xlda reads versions up to {FORMAT_VERSION}. "
            "Install a newer xlda to open it."
        )


def _digest(tensors: Tensors, metadata: dict[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype.str} {tensor.shape}".encode())
        digest.update(tensor.ravel().view(np.uint8).data)
    return digest.hexdigest()


def flush_to_disk(path: Path) -> None:
    """Have the system write a file, or the entries of a folder, now."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open a directory, and needs no flush of one
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
