"""A part of a model, as it is written to a file, and how it is looked at by those who do not trust it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlda._internal.arrays import Array

AT_ONCE = 2**18  # numbers that are looked at at once, so that looking takes no memory
MOST = 2**63  # that a whole number may be

Tensors = dict[str, Array]


@dataclass(frozen=True, eq=False)
class Section:
    """Tensors, and one dict that JSON can hold.

    Methods give what is there if it is what is asked for, and a ValueError that says what is wrong, as a part
    of a sentence, if it is not.
    """

    name: str
    version: int = 1
    tensors: Tensors = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)
    may_be_ignored: bool = False  # by versions of xlda that do not know it

    def check_tensors(self, *names: str) -> None:
        """Refuse other tensors than these."""
        if set(self.tensors) != set(names):
            raise ValueError(f"{self.name} has the tensors {sorted(self.tensors)}, not {sorted(names)}")

    def tensor(self, name: str, dtypes: tuple[Any, ...], shape: tuple[int | None, ...]) -> Array:
        """A tensor of finite numbers, of one of these types and this shape; None is any length."""
        if name not in self.tensors:
            raise ValueError(f"{self.name} has no tensor {name}")
        tensor = self.tensors[name]
        if tensor.dtype not in [np.dtype(one) for one in dtypes]:
            raise ValueError(f"{name} of {self.name} is of the type {tensor.dtype}")
        if not _fits(tensor.shape, shape):
            raise ValueError(f"{name} of {self.name} has the shape {tensor.shape}")
        flat = tensor.reshape(-1)
        if not all(np.isfinite(flat[at : at + AT_ONCE]).all() for at in range(0, len(flat), AT_ONCE)):
            raise ValueError(f"{name} of {self.name} has numbers that are not finite")
        return tensor

    def whole_number(self, name: str) -> int:
        """A number of things."""
        value = self.info.get(name)
        if type(value) is not int or not 0 <= value < MOST:
            raise ValueError(f"{name} of {self.name} is no whole number")
        return value

    def number(self, name: str) -> float:
        """A finite number."""
        value = self.info.get(name)
        fits = abs(value) < MOST if type(value) is int else type(value) is float and math.isfinite(value)
        if not fits:
            raise ValueError(f"{name} of {self.name} is no finite number")
        return float(value)  # type: ignore[arg-type]

    def texts(self, name: str) -> list[str]:
        """A list of texts."""
        values = self.info.get(name)
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise ValueError(f"{name} of {self.name} is no list of texts")
        return values


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    if len(shape) != len(wanted):
        return False
    return all(length in (None, found) for length, found in zip(wanted, shape, strict=True))
