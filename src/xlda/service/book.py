"""Which classes there are, for those who ask: as of the last change that was committed."""

from __future__ import annotations

import re
import threading
import unicodedata
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any, NamedTuple

import apsw

from xlda.labels import Label
from xlda.service.machine import Machine
from xlda.service.steps import Step

LAST = chr(0x10FFFF)  # comes after all other letters


@dataclass(slots=True)
class Entry:
    """A class that can be an answer."""

    id: str
    label: Label
    count: float
    folded: str  # the label as it is looked for

    def to_json(self) -> dict[str, Any]:
        """As it is sent."""
        count = int(self.count) if self.count == int(self.count) else self.count
        return {"id": self.id, "label": str(self.label), "count": count}


class Listed(NamedTuple):
    """Entries in their order, with all labels in one text, so that one search looks at all of them."""

    entries: list[Entry]
    text: str
    starts: list[int]  # of each label in the text, and the end

    @classmethod
    def of(cls, entries: list[Entry]) -> Listed:
        """Of entries that are sorted."""
        labels = [entry.folded for entry in entries]
        starts = list(accumulate((len(label) + 1 for label in labels), initial=0))
        return cls(entries, "\n".join(labels), starts)

    def fitting(self, wanted: str) -> Iterator[Entry]:
        """Entries that have what is wanted, the best first; no more is looked at than is taken."""
        first = bisect_left(self.entries, wanted, key=_folded)
        last = bisect_left(self.entries, wanted + LAST, first, key=_folded)
        yield from self.entries[first:last]
        begun = re.escape(wanted)
        yield from self._of_rank(1, wanted, re.compile(f"{begun}(?<![^\\W_]{begun})"))
        yield from self._of_rank(2, wanted, re.compile(begun))

    def _of_rank(self, rank: int, wanted: str, pattern: re.Pattern[str]) -> Iterator[Entry]:
        """Entries with a match of the pattern in which what is wanted has this rank."""
        match = pattern.search(self.text)
        while match is not None:
            number = bisect_right(self.starts, match.start()) - 1
            entry = self.entries[number]
            if _rank(entry.folded, wanted) == rank:
                yield entry
            match = pattern.search(self.text, self.starts[number + 1])


class Book:
    """Classes by id and by label. Threads may read while the one writer changes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.by_id: dict[str, Entry] = {}
        self.by_label: dict[Label, Entry] = {}
        self._former: dict[
            Label, str
        ] = {}  # ids of labels that are no more, for answers that still have them
        self._sorted: list[Entry] = []  # by label
        self._listed: Listed | None = None  # these, until there are others
        self._n_changes = 0
        self._kind: type | None = None

    @classmethod
    def load(cls, db: apsw.Connection, machine: Machine) -> Book:
        """As the database has it, with the counts of the model."""
        book, counts = cls(), {}
        if machine.is_started:
            classifier = machine.classifier
            labels, weights = classifier.classes_.tolist(), classifier.class_count_.tolist()
            counts = dict(zip(labels, weights, strict=True))
        current = "SELECT id, label FROM classes WHERE parent IS NULL AND is_there AND NOT is_removed"
        for class_id, label in db.execute(current):
            book._put(class_id, label, counts.get(label, 0.0), is_sorted_later=True)
        book._sorted = sorted(book.by_id.values(), key=_order)
        for (label,) in db.execute("SELECT label FROM classes LIMIT 1"):  # and of those that were removed
            book._kind = type(label)
        return book

    def reload(self, db: apsw.Connection, machine: Machine) -> None:
        """Have what the database has, in place of all that was here."""
        found = Book.load(db, machine)
        with self._lock:
            self.by_id, self.by_label, self._sorted = found.by_id, found.by_label, found._sorted
            self._kind = found._kind
            self._note_change()

    def __len__(self) -> int:
        return len(self.by_id)

    @property
    def kind(self) -> type | None:
        """What labels are: `str` or `int`; None where there never were any."""
        return self._kind

    def id_of(self, label: Label) -> str | None:
        """The id of the class with this label, or that had it until just now."""
        found = self.by_label.get(label)
        return self._former.get(label) if found is None else found.id

    def n_samples(self) -> float:
        """Samples of all classes."""
        with self._lock:
            return sum(entry.count for entry in self.by_id.values())

    def page(self, query: str, after: str, limit: int) -> tuple[list[Entry], str | None]:
        """Some classes whose labels have a word that begins so, those that begin so themselves first."""
        listed, wanted = self._in_order(), folded(query).replace("\n", " ").strip()
        found = listed.fitting(wanted) if wanted else iter(listed.entries)
        if after:
            for entry in found:
                if entry.id == after:
                    break
        some = list(islice(found, limit + 1))
        return some[:limit], some[limit - 1].id if len(some) > limit else None

    def _in_order(self) -> Listed:
        with self._lock:
            if self._listed is not None:
                return self._listed
            entries, n_changes = self._sorted.copy(), self._n_changes
        listed = Listed.of(entries)  # which takes a while, and the writer shall not wait for it
        with self._lock:
            if n_changes == self._n_changes:
                self._listed = listed
        return listed

    # -- what the writer does

    def take(self, steps: Iterable[Step]) -> None:
        """Follow what the model does."""
        with self._lock:
            for step in steps:
                self._take_one(step)

    def _take_one(self, step: Step) -> None:
        kind, *rest = step
        if kind == "learn":
            for class_id, label, _ in rest[0]:
                (self.by_id.get(class_id) or self._put(class_id, label, 0.0)).count += 1.0
        elif kind == "forget":
            for class_id, _ in rest[0]:
                self.by_id[class_id].count -= 1.0
        elif kind == "name":
            self._put(rest[0], rest[1], self._drop(rest[0]))
        elif kind == "join":
            self.by_id[rest[0]].count += self._drop(rest[1])
        elif kind == "split":
            into, other, label, count, *_ = rest
            self.by_id[into].count -= count
            self._put(other, label, count)
        elif kind == "drop":
            self._drop(rest[0])
        elif kind == "heard":
            for _, class_id, label, change in rest[1]:
                (self.by_id.get(class_id) or self._put(class_id, label, 0.0)).count += change
        elif kind == "restore":
            self._put(rest[0], rest[1], rest[2])

    def _put(self, class_id: str, label: Label, count: float, is_sorted_later: bool = False) -> Entry:
        entry = Entry(class_id, label, count, folded(str(label)))
        self.by_id[class_id] = self.by_label[label] = entry
        self._kind = type(label)
        self._note_change()
        if not is_sorted_later:
            insort(self._sorted, entry, key=_order)
        return entry

    def _drop(self, class_id: str) -> float:
        """Be without a class; gives how many samples it had."""
        entry = self.by_id.pop(class_id, None)
        if entry is None:
            return 0.0
        if self.by_label.get(entry.label) is entry:
            del self.by_label[entry.label]
            self._former[entry.label] = class_id
            while len(self._former) > 1000:
                del self._former[next(iter(self._former))]
        self._note_change()
        del self._sorted[bisect_left(self._sorted, _order(entry), key=_order)]
        return entry.count

    def _note_change(self) -> None:
        self._listed = None
        self._n_changes += 1


def _folded(entry: Entry) -> str:
    return entry.folded


def _order(entry: Entry) -> tuple[str, str, str]:
    return entry.folded, str(entry.label), entry.id


def folded(text: str) -> str:
    """A text with case and accents aside.

    >>> folded("Crème Brûlée")
    'creme brulee'
    """
    if text.isascii():
        return text.casefold()
    apart = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in apart if not unicodedata.combining(letter))


def _rank(text: str, wanted: str) -> int:
    """How well a text fits: 0 where it begins with what is wanted, 1 where a word does, 2 elsewhere."""
    place = text.find(wanted)
    if place == 0:
        return 0
    while place > 0:
        if not text[place - 1].isalnum():
            return 1
        place = text.find(wanted, place + 1)
    return 2
