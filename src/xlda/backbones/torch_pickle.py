"""State dicts that torch wrote before version 1.6, read without torch and without running anything.

Such a file is four pickles and then the bytes of each storage. A pickle can ask for any function of any
module; here it gets nothing but what tensors need, in a form that holds no code. Anything else is refused by
its name.
"""

from __future__ import annotations

import io
import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xlda._internal.arrays import Array

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
KINDS = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "|i1",
    "ByteStorage": "|u1",
    "BoolStorage": "|b1",
}


class _Storage(NamedTuple):
    key: str
    kind: str
    n_values: int


class _Tensor(NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            # Made anew each time: a pickle can set attributes of what it gets.
            return lambda storage, offset, shape, strides, *_: _Tensor(storage, offset, shape, strides)
        if module == "torch" and name in KINDS:
            return KINDS[name]
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no tensor needs: refused, not run")

    def persistent_load(self, pid: Any) -> _Storage:
        try:
            tag, kind, key, _, n_values, part = pid
        except (TypeError, ValueError):
            tag = kind = key = n_values = part = None
        if (
            tag != "storage"
            or kind not in KINDS.values()
            or not isinstance(key, str)
            or not _is_size(n_values)
        ):
            raise pickle.UnpicklingError(f"it asks for {pid!r}, which is no storage")
        if part is not None:
            raise pickle.UnpicklingError("it has a storage within a storage, which is not supported")
        return _Storage(key, kind, n_values)


def read(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Arrays by name from a state dict in torch's old format: read-only views of the file's bytes."""
    path = Path(path)
    content = path.read_bytes()
    if content[:4] == b"PK\x03\x04":
        raise ValueError(
            f"{path} is in torch's newer, zipped format; expected the older one. "
            "torch.save(..., _use_new_zipfile_serialization=False) writes it."
        )
    try:
        return _read(content)
    except Exception as error:  # a broken pickle can raise anything
        reason = str(error) or type(error).__name__
        raise ValueError(f"{path} is not a complete state dict in torch's old format: {reason}.") from error


def _read(content: bytes) -> dict[str, Array]:
    file = io.BytesIO(content)
    magic, protocol, system, state, keys = (_Unpickler(file).load() for _ in range(5))
    if (magic, protocol) != (MAGIC, PROTOCOL) or not isinstance(system, dict):
        raise ValueError("it does not begin as such a file does")
    if system.get("little_endian") is not True:
        raise ValueError("its numbers are big-endian, which is not supported")
    if not isinstance(state, dict):
        raise ValueError(f"it holds {type(state).__name__}, not a dict of tensors")
    for name, tensor in state.items():
        if not isinstance(name, str) or not isinstance(tensor, _Tensor):
            raise ValueError(f"its entry {name!r} is {type(tensor).__name__}, not a tensor")
    storages = {tensor.storage.key: tensor.storage for tensor in state.values()}
    values = _values(content, file.tell(), keys, storages)
    return {name: _view(name, tensor, values) for name, tensor in state.items()}


def _values(content: bytes, at: int, keys: Any, storages: dict[str, _Storage]) -> dict[str, Array]:
    """The numbers of each storage: a count of 8 bytes, then they themselves, in the order of `keys`."""
    if not isinstance(keys, list) or sorted(keys) != sorted(storages):
        raise ValueError("its tensors and its storages are not the same")
    values = {}
    for key in keys:
        _, kind, n_values = storages[key]
        end = at + 8 + n_values * np.dtype(kind).itemsize
        if int.from_bytes(content[at : at + 8], "little") != n_values or end > len(content):
            raise ValueError(f"it ends within storage {key!r}, or has it in another length than announced")
        values[key] = np.frombuffer(content, kind, n_values, at + 8)
        at = end
    return values


def _view(name: str, tensor: _Tensor, values: dict[str, Array]) -> Array:
    storage, offset, shape, strides = tensor
    numbers = values[storage.key]
    for sizes in ((offset,), shape, strides):
        if not isinstance(sizes, tuple) or not all(_is_size(size) for size in sizes):
            raise ValueError(f"its tensor {name!r} has no valid shape")
    last = offset + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
    if 0 in shape:
        return np.empty(shape, storage.kind)
    if storage.kind != numbers.dtype.str or last >= len(numbers):
        raise ValueError(f"its tensor {name!r} reaches beyond its storage")
    steps = [stride * numbers.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(numbers[offset:], shape, steps, writeable=False)


def _is_size(value: Any) -> bool:
    return type(value) is int and value >= 0
