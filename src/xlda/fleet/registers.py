"""What boxes have said of classes: the last word counts, by a logical clock; and which classes that makes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from xlda.labels import Label

LABEL, PARENT, GONE = FIELDS = ("label", "parent", "gone")
MOST_CLOCK = 2**62


class Register(NamedTuple):
    """What one box has said of one field of a class, and when by its logical clock."""

    class_id: str
    field: str  # the label; the id of the class that this one is part of, or None; whether it was removed
    value: Any
    clock: int
    box: str

    @property
    def rank(self) -> tuple[int, str, str]:
        """Which of two holds: the one with the larger rank. It is the same for none but equal ones."""
        return self.clock, self.box, json.dumps(self.value)


class Registers:
    """The last word on each field of each class. Joining is in any order, and as often as one likes.

    >>> mine, theirs = Registers(), Registers()
    >>> mine.write(Register("a1", LABEL, "kiwi", 1, "bern"))
    True
    >>> theirs.write(Register("a1", LABEL, "Kiwi", 2, "basel"))
    True
    >>> mine.join(theirs)
    >>> mine.value("a1", LABEL)
    'Kiwi'
    """

    def __init__(self, registers: Iterable[Register] = ()) -> None:
        self._of: dict[str, dict[str, Register]] = {}
        self.clock = 0  # the latest
        for register in registers:
            self.write(register)

    def __iter__(self) -> Iterator[Register]:
        for fields in self._of.values():
            yield from fields.values()

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    @property
    def ids(self) -> Iterable[str]:
        """Classes that something was said of."""
        return self._of.keys()

    def write(self, register: Register) -> bool:
        """Take in what was said; whether it holds now, and did not before."""
        self.clock = max(self.clock, register.clock)
        fields = self._of.setdefault(register.class_id, {})
        last = fields.get(register.field)
        if last is not None and last.rank >= register.rank:
            return False
        fields[register.field] = register
        return True

    def join(self, others: Iterable[Register]) -> None:
        """Take in all that others have said."""
        for register in others:
            self.write(register)

    def value(self, class_id: str, field: str) -> Any:
        """What holds; None where nothing was said."""
        found = self._of.get(class_id, {}).get(field)
        return None if found is None else found.value

    def to_json(self) -> list[list[Any]]:
        """As a list that JSON can hold."""
        return [list(register) for register in self]

    @classmethod
    def from_json(cls, stored: Any) -> Registers:
        """What `to_json` gave; what cannot be that is a ValueError, as a part of a sentence."""
        if not isinstance(stored, list):
            raise ValueError("its registers are no list")
        return cls(_checked(entry) for entry in stored)


class FleetClass(NamedTuple):
    """A class of the whole fleet: its id, which is that of one of its parts, and its label."""

    id: str
    label: Label


def classes_of(names: Mapping[str, Label], registers: Registers) -> dict[str, FleetClass | None]:
    """The class that each id is part of, or None where that was removed.

    `names` are labels of ids that nobody has said anything of. Ids that were merged are one class; where
    merges go round in a circle, the smallest id on it is the class. So are ids with equal labels, and the
    smallest of them is the class.

    >>> classes_of({"a1": "kiwi", "b1": "kiwi", "c1": "pear"}, Registers())["b1"]
    FleetClass(id='a1', label='kiwi')
    """
    labels = labels_of(names, registers)
    parents = {name: parent for name in labels if (parent := registers.value(name, PARENT)) in labels}
    roots = {name: root_of(name, parents.get) for name in labels}
    of_label: dict[Label, str] = {}
    for root in sorted(set(roots.values())):
        if not registers.value(root, GONE):
            of_label.setdefault(labels[root], root)
    classes: dict[str, FleetClass | None] = {
        root: None if registers.value(root, GONE) else FleetClass(of_label[labels[root]], labels[root])
        for root in set(roots.values())
    }
    return {name: classes[root] for name, root in roots.items()}


def removed_roots(classes: Mapping[str, FleetClass | None], registers: Registers) -> dict[str, str]:
    """Ids that were removed, each with the one that it was merged into before that."""

    def parent_of(name: str) -> str | None:
        parent: str | None = registers.value(name, PARENT)
        return parent if parent in classes else None

    return {name: root_of(name, parent_of) for name, found in classes.items() if found is None}


def labels_of(names: Mapping[str, Label], registers: Registers) -> dict[str, Label]:
    """The label of each id, as it was last given, or as it came."""
    labels = dict(names)
    for class_id in registers.ids:
        label = registers.value(class_id, LABEL)
        if label is not None:
            labels[class_id] = label
    return labels


def root_of(name: str, parent_of: Callable[[str], str | None]) -> str:
    """The id that a class id was merged into in the end; on a circle, the smallest of it."""
    path = [name]
    while (parent := parent_of(path[-1])) is not None:
        if parent in path:
            return min(path[path.index(parent) :])
        path.append(parent)
    return path[-1]


def _checked(entry: Any) -> Register:
    if not isinstance(entry, list) or len(entry) != len(Register._fields):
        raise ValueError("one of its registers is none")
    register = Register(*entry)
    fits = {
        LABEL: type(register.value) in (str, int),
        PARENT: register.value is None or is_id(register.value),
        GONE: isinstance(register.value, bool),
    }
    is_clock = type(register.clock) is int and 0 <= register.clock < MOST_CLOCK
    if not (is_id(register.class_id) and is_clock and isinstance(register.box, str)):
        raise ValueError("one of its registers has no class, clock and box that can be")
    if register.field not in fits or not fits[register.field]:
        raise ValueError(
            f"one of its registers says {str(register.field)[:20]!r} of a class, and nothing that fits"
        )
    return register


def is_id(value: Any) -> bool:
    """Whether this can be the id of a class or the name of a box."""
    return isinstance(value, str) and 0 < len(value) <= 64
