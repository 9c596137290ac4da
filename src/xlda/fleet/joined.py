"""What some boxes have taught, added up, and how much of each: it takes in messages in any order."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from xlda.errors import OtherVersionError, RefusedContributionError
from xlda.fleet.message import Message, Version, Versions
from xlda.fleet.registers import Registers
from xlda.fleet.space import Space
from xlda.fleet.sums import SignedSamples, Sums


class Joined:
    """Contributions of boxes, none twice.

    A message that starts from what is here is applied, one that was applied before changes nothing, and one
    that starts from elsewhere is an `OtherVersionError`: then its sender is asked for all.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.versions: Versions = {}
        self.taught, self.registers = Sums(space), Registers()
        self.forgotten: dict[str, int] = {}  # boxes that were taken out, and until which epoch

    def apply(self, message: Message) -> bool:
        """Take in a message; whether it said anything new."""
        self.space.check_same(message.space, "This fleet")
        if message.before is None:
            return self._replace(message)
        if not self._is_next(message.before, message.after):
            return False
        if message.added is not None:
            self.taught.merge(message.added)
        if message.samples is not None:
            self.taught.add(message.samples)
        if message.removed is not None:
            self.taught.take_away(message.removed)
        self.registers.join(message.registers)
        self.versions |= message.after
        self._forget(message.forgotten)
        return True

    def check_none_forgotten(self, message: Message) -> None:
        """Refuse what a hub says that has a box again which was forgotten: its sums cannot be told apart."""
        for box, version in message.after.items():
            if version.epoch <= self.forgotten.get(box, -1):
                raise RefusedContributionError(
                    f"The hub has the box {box}, which was forgotten. Forget it there again: "
                    f"`xlda sync HUB --forget {box}`."
                )

    def whole(self) -> Message:
        """All of it as one message."""
        return Message(
            self.space,
            None,
            dict(self.versions),
            self.taught,
            registers=self.registers,
            forgotten=self.forgotten,
        )

    def add(self, other: Joined) -> None:
        """Take in what other boxes have taught."""
        if twice := self.versions.keys() & other.versions.keys():
            raise ValueError(f"The contribution of {min(twice)} is in both.")
        self.taught.merge(other.taught)
        self.registers.join(other.registers)
        self.versions |= other.versions
        self._forget(other.forgotten)

    def _replace(self, message: Message) -> bool:
        """Have all of a message in place of what is here, unless it is older in anything."""
        if message.after == self.versions and message.forgotten == self.forgotten:
            return False
        for box, mine in self.versions.items():
            theirs = message.after.get(box)
            is_forgotten = mine.epoch <= message.forgotten.get(box, -1)
            if not is_forgotten and (theirs is None or theirs.place < mine.place):
                return False
        if any(version.epoch <= self.forgotten.get(box, -1) for box, version in message.after.items()):
            return False
        self.taught = Sums(self.space) if message.added is None else copy.deepcopy(message.added)
        self.registers = Registers(message.registers)
        self.versions = dict(message.after)
        self._forget(message.forgotten)
        return True

    def _is_next(self, before: Versions, after: Versions) -> bool:
        """Whether a message starts from here; False where it, or what it is of, is behind."""
        mine = self.versions
        if any(version.epoch <= self.forgotten.get(box, -1) for box, version in after.items()):
            return False
        known = [box in mine and mine[box].place >= version.place for box, version in after.items()]
        if all(known):
            return False
        if any(known) or any(mine.get(box) != before.get(box) for box in after):
            raise OtherVersionError(
                "This starts from another version than is here. Send all of it.", _only(mine, after)
            )
        return True

    def _forget(self, forgotten: dict[str, int]) -> None:
        for box, epoch in forgotten.items():
            self.forgotten[box] = max(epoch, self.forgotten.get(box, -1))


def _only(mine: Versions, after: Versions) -> Version | None:
    """The version that is here of the one box that a message is of."""
    return mine.get(next(iter(after))) if len(after) == 1 else None


def sums_in(files: Sequence[Path]) -> Sums:
    """What files have that were written one after the other: all of it first, then changes."""
    first, *more = (Message.read(file) for file in files)
    found = Joined(first.space)
    found.taught, found.versions = first.added or Sums(first.space), first.after
    for message in more:
        found.apply(message)
    return found.taught


def together(messages: Iterable[Message]) -> Message:
    """Messages that are no wholes, each starting where the one before of its box ended, as one."""
    some = list(messages)
    before: Versions = {}
    after: Versions = {}
    registers, sums = Registers(), {"added": Sums(some[0].space), "removed": Sums(some[0].space)}
    for message in some:
        first = message.after.keys() - after.keys()  # boxes of which nothing came before
        before |= {box: version for box, version in (message.before or {}).items() if box in first}
        after |= message.after
        registers.join(message.registers)
        for name, total in sums.items():
            part: Sums | None = getattr(message, name)
            if part is not None:
                total.merge(part)
    samples = SignedSamples.together(message.samples for message in some if message.samples is not None)
    added, removed = (total if total.names else None for total in sums.values())
    return replace(
        some[0],
        before=before,
        after=after,
        added=added,
        removed=removed,
        samples=samples,
        registers=registers,
    )
