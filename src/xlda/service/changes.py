"""One change of what a service knows: written to the database, and told as steps for the model.

Every change is a list of effects, each with what was before and after, so that it can be undone exactly. A
sample has a home, the class that it was given to; a class that was merged into another has a parent. So a
merge moves no sample, and undoing it none either.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw
import numpy as np

from xlda._internal.arrays import Array
from xlda.labels import Label
from xlda.service.database import SUBTREE, one
from xlda.service.log import embedding_digest
from xlda.service.machine import LearnedSample, Machine
from xlda.service.problems import Problem
from xlda.service.steps import Block, Step

CLASS = "number, id, label, parent, is_there, is_removed, from_file, touched"
SAMPLE = 'number, id, home, touched, embedding, photo, "group"'


class ClassRow(NamedTuple):
    """A class as it stands in the database."""

    number: int
    id: str
    label: Label
    parent: int | None
    is_there: int
    is_removed: int
    from_file: int
    touched: int

    @property
    def is_current(self) -> bool:
        """Whether it can be given samples and be an answer."""
        return bool(self.is_there and not self.is_removed and self.parent is None)


class SampleRow(NamedTuple):
    """A sample as it stands in the database."""

    number: int
    id: str
    home: int | None
    touched: int
    embedding: bytes | None
    photo: str | None
    group: str | None

    def sample(self) -> LearnedSample:
        """What is learned of it."""
        assert self.embedding is not None
        return LearnedSample(np.frombuffer(self.embedding, np.float32), self.group)


class NewSample(NamedTuple):
    """A sample to be learned."""

    embedding: Array
    label: Label
    photo: str | None = None
    group: str | None = None


def sample_number(sample_id: str) -> int:
    """The row of a sample, as its id says; -1, which none has, where it says nothing."""
    try:
        number = int(sample_id.partition("-")[0], 16)
    except ValueError:
        return -1
    return number if 0 <= number < 2**63 else -1


class Transaction:
    """A change under way, in a transaction of whoever made it: `seq` will be its number."""

    def __init__(self, db: apsw.Connection, machine: Machine, seq: int) -> None:
        self.db, self.machine, self.seq = db, machine, seq
        self.steps: list[Step] = []
        self.samples: dict[str, LearnedSample] = {}  # that the steps need
        self.about: dict[str, Any] = {}  # what is told of it
        self.undoes: list[int] = []
        self.of_samples: list[list[Any]] = []  # [id, home before, home after], and what its embedding is
        self.of_classes: list[list[Any]] = []  # [id, field, before, after], and what else undoing needs
        self.of_marks: list[list[Any]] = []  # [kind, id, before, after]: see `marks`
        self.new_classes: list[Label] = []

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write down."""
        return not (self.steps or self.of_samples or self.of_classes or self.of_marks or self.about)

    def body(self) -> dict[str, Any]:
        """What the log keeps of it."""
        parts = {"samples": self.of_samples, "classes": self.of_classes, "marks": self.of_marks}
        found = {**parts, "steps": self.steps}
        return {**{name: part for name, part in found.items() if part}, "about": self.about}

    # -- finding

    def class_of(self, class_id: str) -> ClassRow:
        """The class with this id, which must be current."""
        found = self.find(class_id)
        if found is None or not found.is_there:
            raise Problem(404, f"There is no class with the id {class_id}.")
        if found.is_removed:
            raise Problem(
                409, f"Class {found.label} was removed. Undo event {found.touched} to have it back."
            )
        if found.parent is not None:
            into = self.root(found)
            raise Problem(409, f"Class {found.label} was merged into {into.label}. Use the id {into.id}.")
        return found

    def find(self, class_id: str) -> ClassRow | None:
        """The class with this id, whatever has become of it."""
        row = one(self.db, f"SELECT {CLASS} FROM classes WHERE id = ?", (class_id,))
        return None if row is None else ClassRow(*row)

    def labelled(self, label: Label) -> ClassRow | None:
        """The current class with this label."""
        row = one(
            self.db,
            f"SELECT {CLASS} FROM classes WHERE label = ? AND parent IS NULL AND is_there AND NOT is_removed",
            (label,),
        )
        return None if row is None else ClassRow(*row)

    def numbered(self, number: int) -> ClassRow:
        """The class with this number."""
        return ClassRow(*one(self.db, f"SELECT {CLASS} FROM classes WHERE number = ?", (number,)))

    def root(self, row: ClassRow) -> ClassRow:
        """The class that this one was merged into, or itself."""
        while row.parent is not None:
            row = self.numbered(row.parent)
        return row

    def sample_of(self, sample_id: str) -> SampleRow:
        """The sample with this id, which must be part of what was learned and may still be changed."""
        row = self.find_sample(sample_id)
        if row is None or row.home is None or not self.root(self.numbered(row.home)).is_current:
            raise Problem(404, f"There is no sample with the id {sample_id}.")
        if row.embedding is None:
            raise Problem(409, f"Sample {sample_id} was learned too long ago to be changed by itself.")
        return row

    def find_sample(self, sample_id: str) -> SampleRow | None:
        """The sample with this id, whatever has become of it."""
        number = sample_number(sample_id)
        row = one(self.db, f"SELECT {SAMPLE} FROM samples WHERE number = ? AND id = ?", (number, sample_id))
        return None if row is None else SampleRow(*row)

    def subtree(self, row: ClassRow) -> list[int]:
        """Numbers of a class and of all that were merged into it."""
        numbers = self.db.execute(f"{SUBTREE} SELECT number FROM tree", (row.number,))
        return [number for (number,) in numbers]

    def items(self, row: ClassRow) -> list[SampleRow]:
        """Samples of a class, and of those merged into it, that can still be changed one by one."""
        homes = json.dumps(self.subtree(row))
        found = self.db.execute(
            f"SELECT {SAMPLE} FROM samples WHERE home IN (SELECT value FROM json_each(?)) "
            "AND embedding IS NOT NULL ORDER BY number",
            (homes,),
        )
        return [SampleRow(*sample) for sample in found]

    def block(self, row: ClassRow) -> Block | None:
        """All samples of a class that the database knows, as one; None where there are none."""
        items = self.items(row)
        block = None
        if items:
            embeddings = np.stack([item.sample().embedding for item in items])
            block = self.machine.block_of(embeddings)
        homes = json.dumps(self.subtree(row))
        folded = "SELECT count, mean, rows FROM folded WHERE home IN (SELECT value FROM json_each(?))"
        for stored in self.db.execute(folded, (homes,)):
            part = Block.from_bytes(*stored)
            block = part if block is None else block.plus(part)
        others = self._of_others(row)
        return others if block is None else block if others is None else block.plus(others)

    def _of_others(self, row: ClassRow) -> Block | None:
        """What other boxes of a fleet have taught of a class and of all that were merged into it."""
        found: Block | None = None
        for number in self.subtree(row) if self.machine.is_in_fleet else ():
            part = self.machine.block_of_others(self.numbered(number).id)
            if part is not None:
                found = part if found is None else found.plus(part)
        return found

    def _beside_samples(self, row: ClassRow) -> Block | None:
        """What a class has beside samples that can be learned again; in a fleet that changes."""
        known, items = self.block(row), self.items(row)
        if known is None or not items:
            return known
        embeddings = np.stack([item.sample().embedding for item in items])
        left = known.plus(self.machine.block_of(embeddings), -1.0)
        return left if left.count > 1e-6 else None

    # -- classes

    def class_for(self, label: Label) -> ClassRow:
        """The class with this label, made if there is none."""
        return self.labelled(label) or self.create(label)

    def create(self, label: Label, class_id: str | None = None) -> ClassRow:
        """A new class, with an id of its own unless one is given."""
        class_id = class_id or secrets.token_hex(16)
        self.db.execute(
            "INSERT INTO classes(id, label, is_there, touched) VALUES (?, ?, 1, ?)",
            (class_id, label, self.seq),
        )
        self.of_classes.append([class_id, "is_there", 0, 1])
        self.new_classes.append(label)
        self.steps.append(["name", class_id, label])
        found = self.find(class_id)
        assert found is not None
        return found

    def set_there(self, row: ClassRow, is_there: bool) -> None:
        """Have a class again that was made, or be without it; it has no samples."""
        if is_there:
            self.check_free_again(row.label)
            self.steps.append(["name", row.id, row.label])
        else:
            self.steps.append(["drop", row.id])
        self._set(row, "is_there", int(row.is_there), int(is_there))

    def rename(self, row: ClassRow, label: Label) -> None:
        """Give a class another label."""
        if label == row.label:
            return
        self.check_free(label)
        self._set(row, "label", row.label, label)
        self.steps.append(["name", row.id, label])

    def check_free_again(self, label: Label) -> None:
        """Refuse to give a label back that another class has by now."""
        taken = self.labelled(label)
        if taken is not None:
            raise Problem(
                409,
                f"There is another class {label} by now. Rename that one first, then undo; after that the "
                "two can be merged.",
                class_id=taken.id,
            )

    def check_free(self, label: Label) -> None:
        """Refuse a label that another class has."""
        taken = self.labelled(label)
        if taken is not None:
            raise Problem(
                409,
                f"There is a class {label} already. Merge the two, or choose another label.",
                class_id=taken.id,
            )

    def merge(self, into: ClassRow, other: ClassRow) -> None:
        """Make one class a part of another."""
        if into.number == other.number:
            raise Problem(422, "A class cannot be merged with itself; `other` is the id of another class.")
        for row in (into, other):
            if self.machine.is_of_layer(row.id):
                raise Problem(409, f"Class {row.label} comes from a converted layer, and cannot be merged.")
        base, has_samples = self._base(other), self.machine.block(other.id) is not None
        self._set(other, "parent", None, into.id, None if base is None else base.to_json())
        if has_samples and self.machine.block(into.id) is None:  # it takes over all of the other
            self.steps += [["drop", into.id], ["split", other.id, into.id, into.label, *self._whole(other)]]
            self.steps.append(["drop", other.id])
        else:
            self.steps.append(["join", into.id, other.id])

    def unmerge(self, other: ClassRow, base: Block | None) -> None:
        """Make a class that was merged one of its own again, with the samples that it then has."""
        self.check_free_again(other.label)
        into = self.root(other)
        block = self.block(other)
        if base is not None and not self.machine.is_in_fleet:
            block = base if block is None else base.plus(block)
        self._set(other, "parent", self.numbered(other.parent or 0).id, None, base and base.to_json())
        if block is not None and block.count:
            self.steps.append(["split", into.id, other.id, other.label, *block.to_json()])
        else:
            self.steps.append(["name", other.id, other.label])

    def remove(self, row: ClassRow) -> None:
        """Let a class go: each of its samples is forgotten, and what is left of it dropped."""
        items, base = self.items(row), self._base(row, with_folded=True)
        self._set(row, "is_removed", 0, 1, None if base is None else base.to_json())
        if items:
            self.steps.append(["forget", [[row.id, item.id] for item in items]])
            self.samples |= {item.id: item.sample() for item in items}
        self.steps.append(["drop", row.id])

    def unremove(self, row: ClassRow, base: Block | None) -> None:
        """Have a class again that was removed."""
        self.check_free_again(row.label)
        if self.machine.is_in_fleet:
            base = self._beside_samples(row)
        self._set(row, "is_removed", 1, 0, None if base is None else base.to_json())
        if base is None:
            self.steps.append(["name", row.id, row.label])
        else:
            self.steps.append(["restore", row.id, row.label, *base.to_json()])
        self._learn_again(row, self.items(row))

    def _base(self, row: ClassRow, with_folded: bool = False) -> Block | None:
        """What the model has of a class beside the samples in the database, or beside those it can forget."""
        whole = self.machine.block(row.id)
        if whole is None or not (self._is_from_file(row) or with_folded):
            return None
        if with_folded:
            items = self.items(row)
            embeddings = [item.sample().embedding for item in items]
            known = self.machine.block_of(np.stack(embeddings)) if items else None
        else:
            known = self.block(row)
        base = whole if known is None else whole.plus(known, -1.0)
        return base if base.count > 1e-6 else None

    def _whole(self, row: ClassRow) -> list[Any]:
        whole = self.machine.block(row.id)
        assert whole is not None
        return whole.to_json()

    def _is_from_file(self, row: ClassRow) -> bool:
        homes = json.dumps(self.subtree(row))
        found = one(
            self.db,
            "SELECT 1 FROM classes WHERE from_file AND number IN (SELECT value FROM json_each(?))",
            (homes,),
        )
        return found is not None

    def _set(self, row: ClassRow, field: str, before: Any, after: Any, *more: Any) -> None:
        value = after
        if field == "parent" and after is not None:
            into = self.find(after)
            assert into is not None
            value = into.number
        self.db.execute(
            f"UPDATE classes SET {field} = ?, touched = ? WHERE number = ?", (value, self.seq, row.number)
        )
        self.of_classes.append([row.id, field, before, after, *more])

    # -- samples

    def add(self, samples: Sequence[NewSample]) -> list[SampleRow]:
        """Learn samples, of known classes or of new ones."""
        self._check_width(len(samples[0].embedding))
        number = one(self.db, "SELECT coalesce(max(number), 0) FROM samples")[0]
        homes: dict[Label, ClassRow] = {}
        rows, entries = [], []
        for sample in samples:
            home = homes.get(sample.label) or homes.setdefault(sample.label, self.class_for(sample.label))
            number += 1
            embedding = np.ascontiguousarray(sample.embedding, np.float32)
            content = embedding.tobytes()
            sample_id = f"{number:x}-{secrets.token_hex(8)}"
            row = SampleRow(number, sample_id, home.number, self.seq, content, sample.photo, sample.group)
            rows.append(row)
            entries.append([home.id, home.label, sample_id])
            self.samples[sample_id] = LearnedSample(embedding, sample.group)
            self.of_samples.append([sample_id, None, home.id, embedding_digest(content)])
        self.db.executemany(f"INSERT INTO samples({SAMPLE}) VALUES (?,?,?,?,?,?,?)", rows)
        self.steps.append(["learn", entries])
        return rows

    def _check_width(self, width: int) -> None:
        known = self.machine.width or self.fact("width")
        if known is None:
            self.set_fact("width", width)
        elif width != known:
            raise Problem(
                422, f"The embeddings have {width} numbers each; this model has learned ones of {known}."
            )

    def fact(self, name: str) -> Any:
        """Something that was noted once."""
        row = one(self.db, "SELECT value FROM facts WHERE name = ?", (name,))
        return None if row is None else row[0]

    def set_fact(self, name: str, value: Any) -> None:
        """Note something."""
        self.db.execute("INSERT OR REPLACE INTO facts(name, value) VALUES (?, ?)", (name, value))

    def move(self, rows: Sequence[SampleRow], to: ClassRow | None) -> None:
        """Give samples to another class, or take them away; some may have been taken away before."""
        forgotten, learned = [], []
        for row in rows:
            before = None if row.home is None else self.numbered(row.home)
            self.of_samples.append([row.id, before and before.id, to and to.id])
            self.samples[row.id] = row.sample()
            if before is not None:
                forgotten.append([self.root(before).id, row.id])
            if to is not None:
                root = self.root(to)
                learned.append([root.id, root.label, row.id])
        self.db.executemany(
            "UPDATE samples SET home = ?, touched = ? WHERE number = ?",
            [(to and to.number, self.seq, row.number) for row in rows],
        )
        self.steps += [["forget", forgotten]] if forgotten else []
        self.steps += [["learn", learned]] if learned else []

    def _learn_again(self, root: ClassRow, items: Sequence[SampleRow]) -> None:
        if items:
            self.steps.append(["learn", [[root.id, root.label, item.id] for item in items]])
            self.samples |= {item.id: item.sample() for item in items}
