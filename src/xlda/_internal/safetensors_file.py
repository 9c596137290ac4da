"""Safetensors files, read and never mapped: whoever overwrites a mapped file in place kills its readers.

They are written from the memory that tensors are in, without a copy, and other threads need not wait for it.

Such a file is 8 bytes with the length of the header, the header in JSON, and the bytes of the tensors, one
after the other without gaps.
"""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.growing import with_room

AT_ONCE = 2**20  # bytes
ALIGNED = 8  # bytes: of which the header has a multiple
NUMBERS = {
    "BOOL": "?",
    "F16": "<f2", "F32": "<f4", "F64": "<f8",
    "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8",
    "U8": "u1", "U16": "<u2", "U32": "<u4", "U64": "<u8",
}  # fmt: skip
WITHOUT_NUMPY = {"BF16": 2, "C64": 8, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1}  # and their bytes
InMemory: TypeAlias = bytes | bytearray | memoryview | Array  # the last of uint8
MOST_AXES = 8
MOST_BYTES = 2**62  # of a tensor: more than any file


class BadSafetensorsError(ValueError):
    """What is wrong with a file, as a part of a sentence."""


@dataclass(frozen=True)
class TensorPlace:
    """Where a tensor is in its file, and what it is."""

    kind: str  # as the header has it
    shape: tuple[int, ...]
    start: int  # bytes from the beginning of the file
    stop: int

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """What NumPy calls it; None where it has no such type."""
        return np.dtype(NUMBERS[self.kind]) if self.kind in NUMBERS else None


@dataclass(frozen=True)
class Header:
    """What a file says that it holds."""

    metadata: dict[str, str]
    tensors: dict[str, TensorPlace]


class BytesInMemory(io.RawIOBase):
    """Bytes that are somewhere in memory already, read as a file, without a copy of all of them.

    >>> BytesInMemory(np.arange(5, dtype=np.uint8)).read(3)
    b'\\x00\\x01\\x02'
    """

    def __init__(self, data: InMemory) -> None:
        whole: Any = data
        self._data, self._at = memoryview(whole).cast("B"), 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go on reading at another place."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: len(self._data)}[whence]
        self._at = max(start + offset, 0)
        return self._at

    def readinto(self, room: Any) -> int:
        """Fill `room` with the bytes that come next, as far as there are any."""
        some = self._data[self._at : self._at + len(room)]
        room[: len(some)] = some
        self._at += len(some)
        return len(some)


def read_header(file: IO[bytes]) -> Header:
    """The header of a file that has just been opened, checked against the file's size."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    length = int.from_bytes(_read(file, 8), "little")
    if length > size - 8:
        raise BadSafetensorsError("it ends within its header")
    try:
        entries = json.loads(_read(file, length), object_pairs_hook=_without_doubles)
    except RecursionError:
        raise BadSafetensorsError("its header is nested too deeply") from None
    except ValueError as error:
        raise BadSafetensorsError(f"its header cannot be read, {error}") from error
    if not isinstance(entries, dict):
        raise BadSafetensorsError("its header is no dict")
    metadata = entries.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise BadSafetensorsError("its metadata are not texts")
    tensors = {name: _place(name, entry, 8 + length) for name, entry in entries.items()}
    _check_filled(tensors, 8 + length, size)
    return Header(metadata, tensors)


def read_tensor(
    file: IO[bytes], place: TensorPlace, see: Callable[[memoryview], object] = lambda _: None
) -> Array:
    """The tensor at `place`, in memory of its own; `see` is shown its bytes, a piece at a time."""
    if place.dtype is None:
        raise BadSafetensorsError(f"it has a tensor of {place.kind}, which NumPy has not got")
    tensor = with_room(place.shape, place.dtype)  # where they are class means, there will be more
    file.seek(place.start)
    for piece in pieces_of(tensor):
        if file.readinto(piece) != len(piece):  # type: ignore[attr-defined]
            raise BadSafetensorsError("it ends within its tensors")
        see(piece)  # while it is in the cache
    return tensor


def save_file(tensors: Mapping[str, Array], path: str | os.PathLike[str], metadata: dict[str, str]) -> None:
    """Write a file with these tensors, each of which is contiguous."""
    with Path(path).open("wb") as file:
        for piece in file_pieces(tensors, metadata):
            file.write(piece)


def file_pieces(tensors: Mapping[str, Array], metadata: dict[str, str]) -> Iterator[bytes | memoryview]:
    """The bytes of such a file, a piece at a time; the widest numbers come first."""
    names = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))}
    start = 0
    for name in names:
        tensor = tensors[name]
        stop = start + tensor.nbytes
        header[name] = {
            "dtype": _kind_of(tensor.dtype),
            "shape": list(tensor.shape),
            "data_offsets": [start, stop],
        }
        start = stop
    described = json.dumps(header, separators=(",", ":")).encode()
    described += b" " * (-len(described) % ALIGNED)
    yield len(described).to_bytes(8, "little") + described
    for name in names:
        yield from pieces_of(tensors[name])


def pieces_of(tensor: Array) -> Iterator[memoryview]:
    """The bytes of a contiguous tensor, a piece at a time."""
    memory = tensor.reshape(-1).view(np.uint8).data if tensor.size else memoryview(b"")
    for start in range(0, len(memory), AT_ONCE):
        yield memory[start : start + AT_ONCE]


def _kind_of(dtype: np.dtype[Any]) -> str:
    for kind, name in NUMBERS.items():
        if np.dtype(name) == dtype:
            return kind
    raise ValueError(f"Numbers of the type {dtype} cannot be written.")


def _read(file: IO[bytes], length: int) -> bytes:
    data = file.read(length)
    if len(data) < length:
        raise BadSafetensorsError("it ends within its header")
    return data


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("which has a name twice")
    return entries


def _place(name: str, entry: Any, start: int) -> TensorPlace:
    """An entry of the header, where tensors start at `start`."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise BadSafetensorsError(f"tensor {name!r} is not described by dtype, shape and data_offsets")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in NUMBERS | WITHOUT_NUMPY:
        raise BadSafetensorsError(f"tensor {name!r} is of an unknown type")
    if not _are_lengths(shape) or len(shape) > MOST_AXES:
        raise BadSafetensorsError(f"tensor {name!r} has no shape that can be")
    if not _are_lengths(offsets) or len(offsets) != 2:
        raise BadSafetensorsError(f"tensor {name!r} has no place that can be")
    one = np.dtype(NUMBERS[kind]).itemsize if kind in NUMBERS else WITHOUT_NUMPY[kind]
    if one * math.prod(max(length, 1) for length in shape) > MOST_BYTES:
        raise BadSafetensorsError(f"tensor {name!r} has no shape that can be")
    if offsets[1] - offsets[0] != one * math.prod(shape):
        raise BadSafetensorsError(f"tensor {name!r} has another size than its shape says")
    return TensorPlace(kind, tuple(shape), start + offsets[0], start + offsets[1])


def _are_lengths(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _check_filled(tensors: dict[str, TensorPlace], start: int, size: int) -> None:
    """Refuse gaps, overlaps, and a file that is shorter or longer than its tensors."""
    for place in sorted(tensors.values(), key=lambda place: (place.start, place.stop)):
        if place.start != start:
            raise BadSafetensorsError("its tensors do not follow each other")
        start = place.stop
    if start != size:
        raise BadSafetensorsError(f"it has {size} bytes where {start} were expected")
