"""What an event has the model do: steps that stand in the log, and always make the same model.

Each is a list that JSON can hold. Classes have ids here, since labels change.

    ["learn", [[class id, label, sample id], ...]]    ["forget", [[class id, sample id], ...]]
    ["name", class id, label]                         a new class, or another label for a known one
    ["join", into, other]                             ["split", into, other, label, count, mean]
    ["drop", class id]                                ["restore", class id, label, count, mean]
    ["backbone", identity]                            what made the embeddings that follow
    ["confirm", class id or null, embedding]          which answer was right; nothing is learned from it
    ["unconfirm", class id or null, embedding]        as if nobody had said so
    ["heard", others, [[class id, class here, label, change of count], ...]]    samples of other boxes
    ["become", model, others]                         files with the model of a fleet, and what others taught
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlda._internal.arrays import Array

Step = list[Any]


@dataclass(frozen=True, eq=False)
class Block:
    """Some samples of a class as one: how many, and their mean (d,), float64, as the model has it."""

    count: float
    mean: Array

    @classmethod
    def of(cls, samples: Array) -> Block:
        """Samples (n, d) as one."""
        return cls(float(len(samples)), samples.mean(axis=0) if len(samples) else np.zeros(samples.shape[1]))

    def plus(self, other: Block, sign: float = 1.0) -> Block:
        """Both together, or this one without the other."""
        count = self.count + sign * other.count
        if abs(count) < 1e-6:
            return Block(0.0, np.zeros_like(self.mean))
        return Block(count, (self.count * self.mean + sign * other.count * other.mean) / count)

    def to_json(self) -> list[Any]:
        """As it stands in the log."""
        return [self.count, packed(self.mean, np.float64)]

    @classmethod
    def from_json(cls, stored: list[Any]) -> Block:
        """What `to_json` gave."""
        return cls(stored[0], unpacked(stored[1], np.float64))


def packed(values: Array, dtype: Any = np.float32) -> str:
    """Numbers as text, with all their bits."""
    return base64.b64encode(np.ascontiguousarray(values, dtype).tobytes()).decode()


def unpacked(text: str, dtype: Any = np.float32) -> Array:
    """What `packed` gave."""
    values: Array = np.frombuffer(base64.b64decode(text), dtype)
    return values
