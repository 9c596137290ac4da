"""What boxes and a hub send each other: what was taught between two versions, or all of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from xlda import storage
from xlda._internal.section import Section
from xlda.fleet.registers import Registers, is_id
from xlda.fleet.space import Space
from xlda.fleet.sums import SignedSamples, Sums, checked_names

NAME, VERSION = "contribution", 1
KNOWN = {NAME: VERSION, "samples": 1, "added": 2, "added kept": 1, "removed": 2, "removed kept": 1}
MOST_NUMBER = 2**53


class Version(NamedTuple):
    """How much a box has taught. A box that was set back begins an epoch; `mark` tells equal ones apart."""

    epoch: int
    seq: int
    mark: str = ""

    @property
    def place(self) -> tuple[int, int]:
        """What is larger for a later one."""
        return self.epoch, self.seq


Versions = dict[str, Version]  # by box


@dataclass(frozen=True, eq=False)
class Message:
    """What boxes have taught between the versions `before` and `after`; all of it where `before` is None.

    Sums that were `added` come first, then samples, then sums that were `removed`. `registers` have what was
    said since, and `forgotten` all boxes whose contributions were taken out, with the epoch until which.
    """

    space: Space
    before: Versions | None
    after: Versions
    added: Sums | None = None
    removed: Sums | None = None
    samples: SignedSamples | None = None
    registers: Registers = field(default_factory=Registers)
    forgotten: dict[str, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing."""
        taught = self.added is None and self.removed is None and self.samples is None
        return self.before is not None and taught and not len(self.registers)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, whole or not at all."""
        info = {
            "space": self.space.to_json(),
            "before": None if self.before is None else _plain(self.before),
            "after": _plain(self.after),
            "registers": self.registers.to_json(),
            "forgotten": self.forgotten,
        }
        sections = [Section(NAME, VERSION, info=info)]
        for name, taught in (("added", self.added), ("removed", self.removed)):
            sections += [] if taught is None else taught.to_sections(name)
        if self.samples is not None:
            sections.append(_samples_section(self.samples))
        storage.write(path, sections)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Message:
        """What `write` wrote; anything else is a `DamagedFileError`. Nothing that it says is trusted yet."""
        sections = storage.read(path, KNOWN)
        with storage.said_of(path):
            if NAME not in sections:
                raise ValueError("it is not a contribution to a fleet")
            info = sections[NAME].info
            space, before = Space.from_json(info.get("space")), info.get("before", "")
            return cls(
                space,
                None if before is None else _versions(before),
                _versions(info.get("after")),
                Sums.from_sections(sections, "added", space),
                Sums.from_sections(sections, "removed", space),
                _samples(sections.get("samples"), space.width),
                Registers.from_json(info.get("registers")),
                forgotten_of(info.get("forgotten")),
            )


def _samples_section(samples: SignedSamples) -> Section:
    number_of = {name: number for number, name in enumerate(samples.names)}
    tensors = {
        "embeddings": samples.embeddings,
        "rows": np.fromiter(map(number_of.__getitem__, samples.ids), np.int32, len(samples)),
        "signs": samples.signs,
        "groups": samples.groups.astype(np.int64),
    }
    return Section("samples", 1, tensors, {"names": [list(pair) for pair in samples.names.items()]})


def _samples(section: Section | None, width: int) -> SignedSamples | None:
    if section is None:
        return None
    section.check_tensors("embeddings", "rows", "signs", "groups")
    names = checked_names(section.info.get("names"))
    embeddings = section.tensor("embeddings", (np.float32,), (None, width))
    n = len(embeddings)
    rows, signs = section.tensor("rows", (np.int32,), (n,)), section.tensor("signs", (np.int8,), (n,))
    groups = section.tensor("groups", (np.int64,), (n,))
    if n and not (rows.min() >= 0 and rows.max() < len(names) and (np.abs(signs) == 1).all()):
        raise ValueError("its samples are of no class, or neither added nor taken away")
    ids = list(names)
    return SignedSamples(embeddings, [ids[row] for row in rows.tolist()], names, signs, groups)


def _plain(versions: Mapping[str, Version]) -> dict[str, list[Any]]:
    return {box: list(version) for box, version in versions.items()}


def _versions(stored: Any) -> Versions:
    if not isinstance(stored, dict) or not all(map(is_id, stored)):
        raise ValueError("it does not say of which boxes it is")
    return {box: version_of(entry) for box, entry in stored.items()}


def version_of(stored: Any) -> Version:
    """A version from what JSON has; what cannot be one is a ValueError, as a part of a sentence."""
    if not isinstance(stored, list) or len(stored) != 3:
        raise ValueError("it has no version that can be")
    epoch, seq, mark = stored
    if not all(type(one) is int and 0 <= one < MOST_NUMBER for one in (epoch, seq)):
        raise ValueError("it has no version that can be")
    if not isinstance(mark, str) or len(mark) > 64:
        raise ValueError("it has no version that can be")
    return Version(epoch, seq, mark)


def forgotten_of(stored: Any) -> dict[str, int]:
    """Boxes that were taken out, from what JSON has; what cannot be those is a ValueError."""
    if not isinstance(stored, dict) or not all(
        is_id(box) and type(epoch) is int and 0 <= epoch < MOST_NUMBER for box, epoch in stored.items()
    ):
        raise ValueError("it does not say which boxes were forgotten")
    return stored
