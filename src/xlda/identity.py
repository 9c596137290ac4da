"""Which backbone made some embeddings: one value, for backbones, models and files of embeddings alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from xlda.errors import OtherBackboneError


@dataclass(frozen=True)
class BackboneIdentity:
    """What made the embeddings. Those of equal `identity` can be compared; where it is None, nobody knows.

    >>> mine = BackboneIdentity("tiny", identity="a1", width=64)
    >>> mine.check_same(BackboneIdentity("large", identity="b2", width=512), "shop.xlda")
    Traceback (most recent call last):
    xlda.errors.OtherBackboneError: shop.xlda was made with the backbone tiny; got embeddings of large.
    """

    name: str  # for people
    identity: str | None = None  # hexadecimal SHA-256 of the network and its preprocessing
    network: str | None = None  # of the network alone
    preprocessing: Mapping[str, Any] = field(default_factory=dict)  # its settings, as JSON can hold them
    preprocessing_version: int = 1  # of the code that applies them
    width: int | None = None  # numbers in an embedding
    cut_head: bool = False  # whether the last layer of the network's file was left out

    def to_json(self) -> dict[str, Any]:
        """As a dict that JSON can hold."""
        return {**asdict(self), "preprocessing": dict(self.preprocessing)}

    @classmethod
    def from_json(cls, values: Any) -> BackboneIdentity | None:
        """What `to_json` gave, also in older files; None stays None. Unknown entries are left out.

        >>> BackboneIdentity.from_json({"name": "mine", "made by": "hand"}).identity is None
        True
        """
        if values is None or isinstance(values, BackboneIdentity):
            return values
        if not isinstance(values, Mapping) or not isinstance(values.get("name"), str):
            raise ValueError(f"A backbone is described by a dict with at least its name; got {values!r}.")
        known = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        return cls(**known)

    def check_same(self, found: BackboneIdentity | None, model: str) -> None:
        """Refuse embeddings of another backbone than this one, which is `model`'s, where both are known.

        Where neither has an identity, they are told apart by name.
        """
        if found is None or (found.identity is None) != (self.identity is None):
            return
        if found.identity == self.identity and (self.identity is not None or found.name == self.name):
            return
        theirs, own = found.name, self.name
        if theirs == own and dict(found.preprocessing) != dict(self.preprocessing):
            theirs, own = found._beside(self), self._beside(found)
        elif theirs == own:
            theirs = f"another network of the name {theirs}"
        raise OtherBackboneError(f"{model} was made with the backbone {own}; got embeddings of {theirs}.")

    def _beside(self, other: BackboneIdentity) -> str:
        """The name, with what is different in the preprocessing."""
        theirs = other.preprocessing
        settings = [f"{key} {value}" for key, value in self.preprocessing.items() if value != theirs.get(key)]
        return f"{self.name} ({', '.join(settings)})"
