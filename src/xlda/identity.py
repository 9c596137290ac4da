"""Which backbone made some embeddings: one value, for backbones, models and files of embeddings alike."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

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
    network: str | None = None  # of the network alone, as it is run
    preprocessing: Mapping[str, Any] = field(default_factory=dict, hash=False)  # settings, as in JSON
    preprocessing_version: int = 1  # of the code that applies them
    width: int | None = None  # numbers in an embedding
    cut_head: bool = False  # whether the last layer of the network's file was left out

    def __post_init__(self) -> None:
        is_fine = {
            "name": isinstance(self.name, str) and self.name != "",
            "identity": self.identity is None or isinstance(self.identity, str),
            "network": self.network is None or isinstance(self.network, str),
            "preprocessing": isinstance(self.preprocessing, Mapping)
            and all(isinstance(name, str) for name in self.preprocessing),
            "preprocessing_version": _is_count(self.preprocessing_version),
            "width": self.width is None or _is_count(self.width),
            "cut_head": isinstance(self.cut_head, bool),
        }
        for name, fine in is_fine.items():
            if not fine:
                raise ValueError(f"A backbone cannot be described with {name}={getattr(self, name)!r}.")
        object.__setattr__(self, "preprocessing", dict(self.preprocessing))  # nobody else's to change

    @classmethod
    def of(
        cls,
        name: str,
        network: str,
        preprocessing: Mapping[str, Any],
        *,
        preprocessing_version: int = 1,
        width: int,
        cut_head: bool = False,
    ) -> Self:
        """The identity of a network, of which `network` says in any words which it is, in no others.

        >>> one, other = (BackboneIdentity.of("tiny", "v1", {"size": size}, width=3) for size in (8, 9))
        >>> one.network == other.network, one.identity == other.identity
        (True, False)
        """
        described: list[Any] = [network, dict(preprocessing)]
        if preprocessing_version != 1:  # files of the first version have none
            described.append(preprocessing_version)
        return cls(
            name,
            identity=_sha256(json.dumps(described, sort_keys=True)),
            network=_sha256(network),
            preprocessing=preprocessing,
            preprocessing_version=preprocessing_version,
            width=width,
            cut_head=cut_head,
        )

    def to_json(self) -> dict[str, Any]:
        """As a dict that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> BackboneIdentity | None:
        """What `to_json` gave, also in older files; None stays None. Unknown entries are left out.

        >>> BackboneIdentity.from_json({"name": "mine", "made by": "hand"}).identity is None
        True
        """
        if values is None or isinstance(values, BackboneIdentity):
            return values
        if not isinstance(values, Mapping) or "name" not in values:
            raise ValueError(f"A backbone is described by a dict with at least its name; got {values!r}.")
        return cls(**{name: values[name] for name in cls.__dataclass_fields__ if name in values})

    def is_same(self, other: BackboneIdentity) -> bool:
        """Whether both are known to be one and the same."""
        return self.identity is not None and self.identity == other.identity

    def check_same(self, found: BackboneIdentity | None, model: str) -> None:
        """Refuse embeddings of another backbone than this one, which is `model`'s, where both are known.

        Where neither has an identity, they are told apart by name.
        """
        if found is None or (found.identity is None) != (self.identity is None):
            return
        if found.identity == self.identity and (self.identity is not None or found.name == self.name):
            return
        theirs, own = found.name, self.name
        if theirs == own and found._settings() != self._settings():
            theirs, own = found._beside(self), self._beside(found)
        elif theirs == own:
            theirs = f"another network of the name {theirs}"
        raise OtherBackboneError(f"{model} was made with the backbone {own}; got embeddings of {theirs}.")

    def _settings(self) -> dict[str, Any]:
        return {**self.preprocessing, "preprocessing version": self.preprocessing_version}

    def _beside(self, other: BackboneIdentity) -> str:
        """The name, with what is different in the preprocessing."""
        theirs = other._settings()
        settings = [f"{key} {value}" for key, value in self._settings().items() if value != theirs.get(key)]
        return f"{self.name} ({', '.join(settings)})" if settings else self.name


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
