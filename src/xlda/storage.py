"""One model, one file: safetensors with a checksum, written whole or not at all; or the same in memory.

A file is made of sections, each with a name, a version, tensors and one dict that JSON can hold. What they
mean is the business of those who own them; `xlda.model_file` puts them together. No pickle: opening a file
runs no code.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from xlda._internal.files import replaced
from xlda._internal.older_formats import sections_of_older
from xlda._internal.safetensors_file import (
    BadSafetensorsError,
    BytesInMemory,
    InMemory,
    file_pieces,
    pieces_of,
    read_header,
    read_tensor,
    save_file,
)
from xlda._internal.section import Section, Tensors
from xlda.errors import DamagedFileError, NewerFileError

FORMAT = "xlda"
FORMAT_VERSION = 3  # the newest; 1 and 2 had no sections
IN_MEMORY = "A model in memory"  # what it is called that has no path
LONGEST = 300  # characters of what is said about a file

Sections = dict[str, Section]


def write(path: str | os.PathLike[str], sections: Iterable[Section]) -> None:
    """Write sections, whose names differ. A file already there is replaced only by a complete one."""
    tensors, metadata = _packed(sections)
    with replaced(path) as unfinished:
        save_tensors(tensors, unfinished, metadata)


def to_bytes(sections: Iterable[Section]) -> bytes:
    """What `write` would write."""
    return b"".join(file_pieces(*_packed(sections)))


def _packed(sections: Iterable[Section]) -> tuple[Tensors, dict[str, str]]:
    """The tensors and texts of a file with these sections."""
    tensors, described = {}, {}
    for section in sections:
        described[section.name] = {
            "version": section.version,
            "info": section.info,
            "may_be_ignored": section.may_be_ignored,
        }
        for name, tensor in section.tensors.items():
            tensors[f"{section.name}/{name}"] = np.ascontiguousarray(tensor)  # a copy where it is not
    metadata = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "sections": json.dumps(described, sort_keys=True),
    }
    metadata["sha256"] = digest(tensors, metadata)
    return tensors, metadata


def save_tensors(tensors: Tensors, path: Path, metadata: dict[str, str]) -> None:
    """Write tensors and texts to a file of safetensors."""
    save_file({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, path, metadata)


def read(path: str | os.PathLike[str], known: Mapping[str, int]) -> Sections:
    """Read the sections that `write` wrote, by name, also from files of older formats.

    `known` has the newest version of each section that the caller understands. A newer one, and an unknown
    section that may not be ignored, is a `NewerFileError`; anything wrong is a `DamagedFileError`.
    """
    with Path(path).open("rb") as file:
        return _read(file, os.fspath(path), known)


def from_bytes(data: InMemory, known: Mapping[str, int]) -> Sections:
    """The same of what `to_bytes` gave, which is copied."""
    return _read(cast(IO[bytes], BytesInMemory(data)), IN_MEMORY, known)


def _read(file: IO[bytes], name: str, known: Mapping[str, int]) -> Sections:
    tensors, metadata = _contents(file, name)
    with said_of(name):
        if metadata["format_version"] == str(FORMAT_VERSION):
            sections = _sections(tensors, _json(metadata, "sections"))
        else:
            sections = sections_of_older(tensors, _json(metadata, "info"))
        return {name: section for name, section in sections.items() if _is_known(section, known)}


@contextmanager
def said_of(path: str | os.PathLike[str]) -> Iterator[None]:
    """Make what is wrong with a file, as a part of a sentence, the sentence that says so of `path`."""
    try:
        yield
    except NewerFileError as error:
        raise NewerFileError(f"{path} has {error}. Install a newer xlda to open it.") from error
    except (ValueError, RecursionError) as error:  # the second where something is nested deeply
        what = str(error)[:LONGEST].rstrip(".")
        raise DamagedFileError(f"{path} is damaged: {what}. Restore it from a copy.") from error


def _contents(file: IO[bytes], name: str) -> tuple[Tensors, dict[str, str]]:
    """Tensors and texts of a file of a format that is known, with the right checksum."""
    try:
        header = read_header(file)
        metadata = header.metadata
        _check_format(name, metadata)
        claimed = metadata.pop("sha256", None)
        total, tensors = _begun(metadata), {}
        for tensor, place in sorted(header.tensors.items()):
            if place.dtype is not None:  # else it is refused
                total.update(_described(tensor, place.dtype, place.shape))
            tensors[tensor] = read_tensor(file, place, total.update)
    except BadSafetensorsError as error:
        raise DamagedFileError(
            f"{name} is not a complete XLDA model: {error}. Restore it from a copy."
        ) from error
    with said_of(name):
        if claimed != total.hexdigest():
            raise ValueError("its contents do not match its checksum")
    return tensors, metadata


def _check_format(path: str, metadata: dict[str, str]) -> None:
    if metadata.get("format") != FORMAT:
        raise DamagedFileError(f"{path} is a safetensors file, but not an XLDA model.")
    version = metadata.get("format_version", "")
    if version not in [str(known) for known in range(1, FORMAT_VERSION + 1)]:
        raise NewerFileError(
            f"{path} has format version {version[:20]!r}; this xlda reads versions up to {FORMAT_VERSION}. "
            "Install a newer xlda to open it."
        )


def digest(tensors: Tensors, metadata: dict[str, str]) -> str:
    """The checksum of what a file holds, in hexadecimal."""
    total = _begun(metadata)
    for name in sorted(tensors):
        tensor = tensors[name]
        total.update(_described(name, tensor.dtype, tensor.shape))
        for piece in pieces_of(tensor):
            total.update(piece)
    found: str = total.hexdigest()
    return found


def _begun(metadata: dict[str, str]) -> Any:
    return hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())


def _described(name: str, dtype: Any, shape: tuple[int, ...]) -> bytes:
    return f"{name} {np.dtype(dtype).str} {shape}".encode(errors="surrogatepass")


def _json(metadata: dict[str, str], name: str) -> dict[str, Any]:
    try:
        values = json.loads(metadata.get(name, "null"))
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise ValueError(f"its {name} cannot be read")
    return values


def _sections(tensors: Tensors, described: dict[str, Any]) -> Sections:
    sections = {}
    for name, values in described.items():
        if not isinstance(values, dict) or set(values) != {"version", "info", "may_be_ignored"}:
            raise ValueError(f"its section {name!r} has no version, info and may_be_ignored")
        section = Section(name, values["version"], {}, values["info"], values["may_be_ignored"])
        if type(section.version) is not int or section.version < 1:
            raise ValueError(f"its section {name!r} has no version that can be")
        if not isinstance(section.info, dict) or not isinstance(section.may_be_ignored, bool):
            raise ValueError(f"the info of its section {name!r} is no dict, or nobody knows if it matters")
        sections[name] = section
    for full_name, tensor in tensors.items():
        owner, _, name = full_name.partition("/")
        if owner not in sections:
            raise ValueError(f"its tensor {full_name!r} is of no section")
        sections[owner].tensors[name] = tensor
    return sections


def _is_known(section: Section, known: Mapping[str, int]) -> bool:
    """Whether this section can be read; one that can not be done without must be."""
    if section.name not in known:
        if section.may_be_ignored:
            return False
        raise NewerFileError(f"a section {section.name!r}, which this xlda does not know")
    if section.version > known[section.name]:
        raise NewerFileError(
            f"version {section.version} of the section {section.name!r}; this xlda reads versions up to "
            f"{known[section.name]}"
        )
    return True
