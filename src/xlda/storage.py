"""One model, one file: safetensors with a checksum, written whole or not at all.

The file holds named tensors and, in its metadata, one JSON text with everything else. What they mean is the
business of `classifier.py`. No pickle: opening a file runs no code.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from xlda._internal.arrays import Array
from xlda._internal.files import replaced

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
