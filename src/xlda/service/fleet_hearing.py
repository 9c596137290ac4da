"""Samples of other boxes that a model learns as it learns its own: where no class becomes another by them."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from xlda.fleet.message import Message
from xlda.fleet.registers import LABEL
from xlda.labels import Label
from xlda.service.changes import Transaction


class HeardEntries(NamedTuple):
    """What a message changes: for each class id [class id, id of its class here, label, change of count]."""

    changes: list[list[Any]]
    new: list[tuple[str, Label]]  # classes that are not known here yet


def heard_entries(change: Transaction, message: Message) -> HeardEntries | None:
    """What a message changes; None where it is more than samples of classes as they are, and of new ones."""
    samples = message.samples
    if message.added is not None or message.removed is not None or message.forgotten or samples is None:
        return None
    labels = dict(samples.names)
    for register in message.registers:
        if register.field != LABEL or change.find(register.class_id) is not None:
            return None
        labels[register.class_id] = register.value
    new: list[tuple[str, Label]] = []
    changes = []
    counts: Counter[str] = Counter()
    for name, sign in zip(samples.ids, samples.signs.tolist(), strict=True):
        counts[name] += sign
    for name, label in labels.items():
        row = change.find(name)
        if row is None:
            if change.labelled(label) is not None:
                return None  # one class of two
            new.append((name, label))
            changes.append([name, name, label, counts[name]])
            continue
        root = change.root(row)
        if not root.is_current:
            return None
        changes.append([name, root.id, root.label, counts[name]])
    is_one_each = len({label for _, label in new}) == len(new)
    return HeardEntries(changes, new) if is_one_each else None
