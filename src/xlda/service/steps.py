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

Where a model has a second look, `split` and `restore` have the rows of these samples after their mean.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlda._internal.arrays import Array
from xlda.moments.sketches import SketchRows

Step = list[Any]


@dataclass(frozen=True, eq=False)
class Block:
    """Some samples of a class as one: how many, and their mean (d,), float64, as the model has it."""

    count: float
    mean: Array
    rows: SketchRows | None = None  # for a second look: those of samples of which they are known

    @classmethod
    def of(cls, samples: Array, n_rows: int | None = None) -> Block:
        """Samples (n, d) as one, with so many rows for a second look."""
        if not len(samples):
            return cls(0.0, np.zeros(samples.shape[1]))
        rows = None if n_rows is None else SketchRows.of(samples, n_rows)
        return cls(float(len(samples)), samples.mean(axis=0), rows)

    def plus(self, other: Block, sign: float = 1.0) -> Block:
        """Both together, or this one without the other."""
        count = self.count + sign * other.count
        if abs(count) < 1e-6:
            return Block(0.0, np.zeros_like(self.mean))
        mean = (self.count * self.mean + sign * other.count * other.mean) / count
        return Block(count, mean, _together(self.rows, other.rows, sign))

    def to_json(self) -> list[Any]:
        """As it stands in the log."""
        rows = self.rows_to_bytes()
        last = [] if rows is None else [base64.b64encode(rows).decode()]
        return [self.count, packed(self.mean, np.float64), *last]

    @classmethod
    def from_json(cls, stored: list[Any]) -> Block:
        """What `to_json` gave; logs of older versions have no rows."""
        count, mean, *rows = stored
        return cls.from_bytes(count, base64.b64decode(mean), base64.b64decode(rows[0]) if rows else None)

    def rows_to_bytes(self) -> bytes | None:
        """The rows, less as many means, so that they need no more than float32."""
        if self.rows is None:
            return None
        sums, signs, weight = self.rows
        less = (sums - signs[:, None] * self.mean).astype(np.float32)
        found: bytes = np.array([weight, *signs]).tobytes() + less.tobytes()
        return found

    @classmethod
    def from_bytes(cls, count: float, mean: bytes, rows: bytes | None) -> Block:
        """A block of a mean, float64, and of what `rows_to_bytes` gave."""
        centre: Array = np.frombuffer(mean, np.float64)
        if rows is None:
            return cls(count, centre)
        n_rows = (len(rows) - 8) // (8 + 4 * len(centre))
        weight, *signs = np.frombuffer(rows, np.float64, 1 + n_rows)
        sums = np.frombuffer(rows, np.float32, offset=8 * (1 + n_rows)).reshape(n_rows, -1)
        each = np.array(signs)
        return cls(count, centre, SketchRows(sums + each[:, None] * centre, each, float(weight)))


def _together(one: SketchRows | None, other: SketchRows | None, sign: float) -> SketchRows | None:
    """Rows of both, or of one without the other, as far as they are known."""
    if other is None:
        return one
    return (other.plus(other, -1.0) if one is None else one).plus(other, sign)


def packed(values: Array, dtype: Any = np.float32) -> str:
    """Numbers as text, with all their bits."""
    return base64.b64encode(np.ascontiguousarray(values, dtype).tobytes()).decode()


def unpacked(text: str, dtype: Any = np.float32) -> Array:
    """What `packed` gave."""
    values: Array = np.frombuffer(base64.b64decode(text), dtype)
    return values
