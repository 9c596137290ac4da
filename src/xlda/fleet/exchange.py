"""How a box and a hub come to agree: what to send, what to send again, and when to begin anew."""

from __future__ import annotations

import secrets
from typing import Protocol

from xlda.errors import OtherVersionError
from xlda.fleet.joined import Joined
from xlda.fleet.message import Message, Version, Versions

MOST_TRIES = 4


class AnyHub(Protocol):
    """What a box asks of a hub: a folder, or a service elsewhere."""

    def put(self, message: Message) -> Version:
        """Take in what a box has taught; gives the version of that box that is there then."""
        ...

    def version(self, box: str) -> Version | None:
        """The version of a box that is there; None where there is none."""
        ...

    def answer(self, asker: str | None, since: Versions) -> Message | None:
        """What others have taught since; None where that is nothing."""
        ...


class Sender(Protocol):
    """What sends: one box, its version, changes that may not have arrived, and all of it."""

    @property
    def name(self) -> str:
        """What it is called at the hub."""
        ...

    @property
    def version(self) -> Version | None:
        """What it has taught; None where that is nothing."""
        ...

    def changes(self) -> list[Message]:
        """What the hub may not have yet, in order."""
        ...

    def whole(self) -> Message:
        """All of it."""
        ...

    def arrived(self) -> None:
        """The hub has all of it."""
        ...

    def begin_epoch(self, version: Version) -> None:
        """Have this version from now on: the hub has a later one of a life that was lost here."""
        ...


def next_version(last: Version | None) -> Version:
    """The version after this one."""
    return Version(1, 1, _mark()) if last is None else Version(last.epoch, last.seq + 1, _mark())


def next_epoch(last: Version) -> Version:
    """The first version of a new epoch."""
    return Version(last.epoch + 1, 1, _mark())


def send(sender: Sender, hub: AnyHub) -> None:
    """Have the hub at the version of the sender, whatever was lost on the way or at either end."""
    for _ in range(MOST_TRIES):
        mine = sender.version
        if mine is None:
            before = hub.version(sender.name)
            if before is None:
                return
            sender.begin_epoch(next_epoch(before))  # it was here before, and has lost all that it was taught
            continue
        try:
            there = _put_all(sender, hub)
        except OtherVersionError as error:
            if error.version is None or Version(*error.version).place < mine.place:
                there = hub.put(sender.whole())
            else:
                there = Version(*error.version)
        if there == mine:
            sender.arrived()
            return
        if there.place < mine.place:
            there = hub.put(sender.whole())
        if there.place >= mine.place and there != mine:
            sender.begin_epoch(next_epoch(there))
    raise OtherVersionError("The hub and this box do not come to agree. Does another box have its name?")


def take(others: Joined, hub: AnyHub, asker: str, answer: Message | None) -> bool:
    """Take in what the hub answers, or else all that it has; whether that said anything new."""
    if answer is None:
        return False
    try:
        is_new = others.apply(answer)
    except OtherVersionError:
        answer = hub.answer(asker, {})
        if answer is None:
            return False
        is_new = others.apply(answer)
    if not is_new:
        others.check_none_forgotten(answer)
    return is_new


def _put_all(sender: Sender, hub: AnyHub) -> Version:
    changes = sender.changes()
    there = None if changes else hub.version(sender.name)
    for message in changes:
        there = hub.put(message)
    return hub.put(sender.whole()) if there is None else there


def _mark() -> str:
    return secrets.token_hex(8)
