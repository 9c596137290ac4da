"""What cannot be forgotten."""

from __future__ import annotations


class ForgetError(ValueError):
    """More of a class was to be forgotten than it has."""

    def __init__(self, row: int, taken: float, have: float) -> None:
        super().__init__(f"Cannot forget {taken:g} of row {row}: it has {have:g}.")
        self.row, self.taken, self.have = row, taken, have
