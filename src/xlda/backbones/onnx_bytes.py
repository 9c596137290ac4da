"""As much of the ONNX format as networks here need, without the package `onnx`, which is 35 MB.

An ONNX file is a message of Protocol Buffers: fields, each with a number (those of onnx.proto) and either a
whole number or some bytes, which may be a message again. Parts of a graph are bytes here, ready for the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from xlda._internal.arrays import Array

FLOAT = 1  # types of numbers, as the format counts them
TYPES = {"float32": FLOAT, "uint8": 2, "int8": 3, "int32": 6}
WHOLE, EIGHT_BYTES, SOME_BYTES, FOUR_BYTES = 0, 1, 2, 5  # what a field holds
OF_ONE_NUMBER, OF_TEXT, OF_NUMBERS = 2, 3, 7  # types of a node's settings
IR_VERSION = 8  # of the format


def node(
    kind: str, inputs: Iterable[str], outputs: Iterable[str], settings: Mapping[str, Any], domain: str = ""
) -> bytes:
    """A node; a setting is a whole number, a text, or several numbers."""
    return b"".join(
        [
            *(_text(1, name) for name in inputs),
            *(_text(2, name) for name in outputs),
            _text(4, kind),
            *(_field(5, _setting(name, settings[name])) for name in sorted(settings)),
            _text(7, domain) if domain else b"",
        ]
    )


def constant(name: str, values: Array) -> bytes:
    """An array that nodes use by its name."""
    lengths = b"".join(_number(1, length) for length in values.shape)
    content = values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
    return lengths + _number(2, TYPES[values.dtype.name]) + _text(8, name) + _field(9, content)


def floats(name: str, shape: Iterable[int | str]) -> bytes:
    """An input or output of float32; a length that may vary has a name."""
    lengths = (_number(1, n) if isinstance(n, int) else _text(2, n) for n in shape)
    form = _field(2, b"".join(_field(1, length) for length in lengths))
    return _text(1, name) + _field(2, _field(1, _number(1, FLOAT) + form))


def network(
    name: str,
    nodes: Iterable[bytes],
    constants: Iterable[bytes],
    inputs: Iterable[bytes],
    outputs: Iterable[bytes],
    opsets: Mapping[str, int],
) -> bytes:
    """The content of an ONNX file. `opsets` says which version of each domain's nodes is meant."""
    graph = b"".join(
        [
            *(_field(1, part) for part in nodes),
            _text(2, name),
            *(_field(5, part) for part in constants),
            *(_field(11, part) for part in inputs),
            *(_field(12, part) for part in outputs),
        ]
    )
    used = b"".join(_field(8, _text(1, domain) + _number(2, version)) for domain, version in opsets.items())
    return _number(1, IR_VERSION) + _text(2, "xlda") + _field(7, graph) + used


def files_beside(path: Path) -> set[str]:
    """Names of the files beside an ONNX file in which it keeps weights."""
    try:
        return set(_locations(memoryview(path.read_bytes())))
    except (IndexError, UnicodeDecodeError):
        raise ValueError(f"{path} is not a complete ONNX file.") from None


def _locations(content: memoryview) -> Iterator[str]:
    for graph in _messages(content, 7):
        for tensor in _messages(graph, 5):
            for entry in _messages(tensor, 13):
                key, value = (b"".join(_messages(entry, number)) for number in (1, 2))
                if key == b"location":
                    yield value.decode()


def _messages(content: memoryview, wanted: int) -> Iterator[memoryview]:
    """The bytes of every field of this number."""
    at = 0
    while at < len(content):
        key, at = _read_number(content, at)
        holds = key & 7
        if holds == WHOLE:
            _, at = _read_number(content, at)
            continue
        if holds == SOME_BYTES:
            length, at = _read_number(content, at)
        elif holds in (EIGHT_BYTES, FOUR_BYTES):
            length = 8 if holds == EIGHT_BYTES else 4
        else:
            raise IndexError
        if at + length > len(content):
            raise IndexError
        if key >> 3 == wanted and holds == SOME_BYTES:
            yield content[at : at + length]
        at += length


def _read_number(content: memoryview, at: int) -> tuple[int, int]:
    """A whole number, seven bits a byte with the lowest first, and where it ends."""
    number = shift = 0
    while True:
        byte = content[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7


def _setting(name: str, value: int | str | Sequence[int]) -> bytes:
    if isinstance(value, int):
        return _text(1, name) + _number(3, value) + _number(20, OF_ONE_NUMBER)
    if isinstance(value, str):
        return _text(1, name) + _text(4, value) + _number(20, OF_TEXT)
    return _text(1, name) + b"".join(_number(8, number) for number in value) + _number(20, OF_NUMBERS)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | WHOLE) + _varint(value)


def _text(field: int, value: str) -> bytes:
    return _field(field, value.encode())


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | SOME_BYTES) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """A whole number that is not negative, seven bits a byte with the lowest first."""
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    return bytes([*written, number])
