"""What embeddings of a fleet are: numbers of different spaces cannot be added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xlda.errors import OtherBackboneError
from xlda.identity import BackboneIdentity


@dataclass(frozen=True)
class Space:
    """Width of embeddings, the power that is taken of them, the precision of means, and what made them."""

    width: int
    power: float | None = None
    half: bool = False
    backbone: BackboneIdentity | None = None

    def check_same(self, other: Space, who: str) -> None:
        """Refuse what cannot be added to what is of this space; `who` has that.

        >>> Space(3).check_same(Space(4), "The hub")
        Traceback (most recent call last):
        xlda.errors.OtherBackboneError: The hub has embeddings of 3 numbers; got some of 4.
        """
        if other.width != self.width:
            raise OtherBackboneError(
                f"{who} has embeddings of {self.width} numbers; got some of {other.width}."
            )
        if self.backbone is not None:
            self.backbone.check_same(other.backbone, who)
        if other.power != self.power:
            raise OtherBackboneError(
                f"{who} has embeddings with the power {self.power}; got some with {other.power}. Begin all "
                "boxes from one model, or with the same `power`."
            )

    def to_json(self) -> dict[str, Any]:
        """As a dict that JSON can hold."""
        backbone = None if self.backbone is None else self.backbone.to_json()
        return {"width": self.width, "power": self.power, "half": self.half, "backbone": backbone}

    @classmethod
    def from_json(cls, stored: Any) -> Space:
        """What `to_json` gave; what cannot be that is a ValueError, as a part of a sentence."""
        if not isinstance(stored, dict) or set(stored) != {"width", "power", "half", "backbone"}:
            raise ValueError("it does not say what its embeddings are")
        width, power, half = stored["width"], stored["power"], stored["half"]
        if type(width) is not int or not 0 < width <= 2**20 or type(half) is not bool:
            raise ValueError("the width of its embeddings is nothing that can be")
        if power is not None and (type(power) not in (int, float) or not 0 < power < float("inf")):
            raise ValueError("the power of its embeddings is nothing that can be")
        return cls(width, power, half, BackboneIdentity.from_json(stored["backbone"]))
