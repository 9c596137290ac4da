"""What the database of a box has for its fleet: which samples it has told of, and classes as they were then.

`contributed` has the samples that are in the box's contribution, with the class ids that they count for.
`fleet_classes` has the classes as they were when the box and its fleet last agreed, so that what differs was
changed here since.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import apsw
import numpy as np

from xlda.fleet.registers import GONE, LABEL, PARENT, FleetClass, Register, Registers, root_of
from xlda.fleet.space import Space
from xlda.fleet.sums import NO_GROUP, SignedSamples
from xlda.inputs import prepared
from xlda.labels import Label, label_hash
from xlda.service.database import ROOTS

TABLES = """
CREATE TABLE IF NOT EXISTS contributed(number INTEGER PRIMARY KEY, home TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS fleet_classes(
    id TEXT PRIMARY KEY, label NOT NULL, parent TEXT, gone INTEGER NOT NULL) WITHOUT ROWID;
"""
# Samples that count for another class than the fleet was told, or were told of and count no more.
CHANGED = f"""{ROOTS}, now(number, home) AS (SELECT samples.number, classes.id FROM samples JOIN tree ON
tree.number = samples.home JOIN classes ON classes.number = samples.home)
SELECT samples.number, contributed.home, now.home, samples.embedding, samples."group" FROM samples
LEFT JOIN now ON now.number = samples.number LEFT JOIN contributed ON contributed.number = samples.number
WHERE contributed.home IS NOT now.home AND samples.embedding IS NOT NULL"""
# Classes as they are now.
STATES = """SELECT one.id, one.label, other.id AS parent, one.is_removed OR NOT one.is_there AS gone
FROM classes AS one LEFT JOIN classes AS other ON other.number = one.parent"""
# Those that are not as the fleet last agreed; few, of many.
DIFFERENT = f"""FROM ({STATES}) AS now LEFT JOIN fleet_classes AS agreed USING (id) WHERE agreed.id IS NULL
OR now.label IS NOT agreed.label OR now.parent IS NOT agreed.parent OR now.gone IS NOT agreed.gone"""


class MovedSample(NamedTuple):
    """A sample whose class is another than the fleet was told; None is none."""

    number: int
    before: str | None
    after: str | None
    embedding: bytes
    group: str | None


class ClassState(NamedTuple):
    """A class as people see it."""

    label: Label
    parent: str | None
    gone: bool


def moved_samples(db: apsw.Connection) -> list[MovedSample]:
    """Samples that the fleet was not told of as they are."""
    return [MovedSample(*row) for row in db.execute(CHANGED)]


def released(moved: list[MovedSample], min_count: int) -> list[MovedSample]:
    """What the fleet may be told of: all that is taken away, and what is added where it is enough."""
    adds = Counter(one.after for one in moved if one.after is not None)
    told = []
    for one in moved:
        if one.after is not None and adds[one.after] < min_count:
            one = one._replace(after=None)  # it stays at home
        if one.before is not None or one.after is not None:
            told.append(one)
    return told


def withdrawn(db: apsw.Connection, told: list[MovedSample], min_count: int) -> list[MovedSample]:
    """Samples of classes of which too few are left, to be taken away as well: they stay at home again."""
    if min_count <= 1:
        return []
    left = Counter(dict(db.execute("SELECT home, count(*) FROM contributed GROUP BY home")))
    left.update(one.after for one in told if one.after is not None)
    left.subtract(one.before for one in told if one.before is not None)
    few, known = {home for home, n in left.items() if 0 < n < min_count}, {one.number for one in told}
    rows = db.execute(
        'SELECT number, contributed.home, NULL, embedding, "group" FROM contributed JOIN samples '
        "USING (number) WHERE embedding IS NOT NULL"
    )
    return [one for one in map(MovedSample._make, rows) if one.before in few and one.number not in known]


def note_contributed(db: apsw.Connection, told: list[MovedSample]) -> None:
    """Note what the fleet was told of."""
    db.executemany("DELETE FROM contributed WHERE number = ?", [(one.number,) for one in told])
    new = [(one.number, one.after) for one in told if one.after is not None]
    db.executemany("INSERT INTO contributed(number, home) VALUES (?, ?)", new)


def signed(moved: list[MovedSample], names: Mapping[str, Label], space: Space) -> SignedSamples | None:
    """What was added and taken away, as the moments have it."""
    parts: list[tuple[MovedSample, str, int]] = [
        (one, one.after, 1) for one in moved if one.after is not None
    ]
    parts += [(one, one.before, -1) for one in moved if one.before is not None]
    if not parts:
        return None
    raw = np.stack([np.frombuffer(one.embedding, np.float32) for one, _, _ in parts])
    groups = [NO_GROUP if one.group is None else label_hash(one.group) >> 1 for one, _, _ in parts]
    ids = [class_id for _, class_id, _ in parts]
    return SignedSamples(
        np.ascontiguousarray(prepared(raw, space.power), np.float32),
        ids,
        {name: names[name] for name in dict.fromkeys(ids)},
        np.array([sign for _, _, sign in parts], np.int8),
        np.array(groups, np.int64),
    )


def class_states(db: apsw.Connection) -> dict[str, ClassState]:
    """All classes as they are now."""
    return {class_id: _class_state(*state) for class_id, *state in db.execute(STATES)}


def _class_state(label: Label, parent: str | None, gone: int) -> ClassState:
    return ClassState(label, parent, bool(gone))


def note_begun(db: apsw.Connection, first: list[list[Any]]) -> None:
    """Note the classes, pairs of id and label, that this box began with, as all that began with them have."""
    rows = [(class_id, label) for class_id, label in first]
    db.executemany(
        "INSERT OR IGNORE INTO fleet_classes(id, label, parent, gone) VALUES (?, ?, NULL, 0)", rows
    )


def has_all(db: apsw.Connection, first: list[list[Any]]) -> bool:
    """Whether classes that this box began with, pairs of id and label, are all there, merged or not."""
    live = {name for (name,) in db.execute(f"{ROOTS} SELECT id FROM tree JOIN classes USING (number)")}
    return all(class_id in live for class_id, _ in first)


def note_agreed(db: apsw.Connection) -> None:
    """Note that the fleet knows classes as they are now."""
    db.execute(f"REPLACE INTO fleet_classes SELECT now.id, now.label, now.parent, now.gone {DIFFERENT}")
    db.execute("DELETE FROM fleet_classes WHERE id NOT IN (SELECT id FROM classes)")


def labels_of_samples(db: apsw.Connection, moved: list[MovedSample]) -> dict[str, Label]:
    """Labels of the class ids that samples are and were of, also of those that are no more."""
    ids = {one.before for one in moved} | {one.after for one in moved}
    rows = (db.execute("SELECT id, label FROM classes WHERE id = ?", (name,)).fetchone() for name in ids)
    return dict(row for row in rows if row is not None)


def live_labels(db: apsw.Connection) -> dict[str, Label]:
    """Labels of class ids that were not removed."""
    return dict(db.execute("SELECT id, label FROM classes WHERE is_there AND NOT is_removed"))


def add_class(db: apsw.Connection, class_id: str, label: Label, seq: int) -> None:
    """Have a class that another box has made, and the fleet knows."""
    db.execute(
        "INSERT INTO classes(id, label, is_there, touched) VALUES (?, ?, 1, ?)", (class_id, label, seq)
    )
    db.execute("INSERT INTO fleet_classes(id, label, parent, gone) VALUES (?, ?, NULL, 0)", (class_id, label))


def said_here(db: apsw.Connection, clock: int, parent_of: Callable[[str], Any], box: str) -> list[Register]:
    """What was said of classes here since the fleet last agreed, as registers.

    Whoever names or removes a class means all that it is made of: what is in it for its equal label alone
    is made a part of it.
    """
    rows = list(db.execute(f"SELECT now.*, agreed.id, agreed.label, agreed.parent, agreed.gone {DIFFERENT}"))
    parts = defaultdict(list)
    for child, parent in db.execute("SELECT id, parent FROM fleet_classes WHERE parent IS NOT NULL"):
        parts[parent].append(child)
    said = []
    for class_id, *states in rows:
        now, is_known, before = _class_state(*states[:3]), states[3] is not None, _class_state(*states[4:])
        if not is_known:
            if now.gone:
                continue  # nobody has ever heard of it
            before = ClassState("", None, False)
        elif (before.label, before.gone) != (now.label, now.gone):
            said += [
                Register(child, PARENT, class_id, clock, box)
                for child in parts[class_id]
                if parent_of(child) != class_id
            ]
        for field, old, new in zip((LABEL, PARENT, GONE), before, now, strict=True):
            if old != new:
                said.append(Register(class_id, field, new, clock, box))
    return said


def set_states(
    db: apsw.Connection,
    classes: Mapping[str, FleetClass | None],
    labels: Mapping[str, Label],
    known: Registers,
    seq: int,
) -> None:
    """Have all classes as the fleet says."""
    now = class_states(db)
    wanted = {name: _state(name, classes, labels, known) for name in classes}
    changed = {name: state for name, state in wanted.items() if now.get(name) != state}
    new = [(name, state.label, seq) for name, state in changed.items() if name not in now]
    db.executemany(
        "INSERT INTO classes(id, label, is_there, is_removed, touched) VALUES (?, ?, 1, 1, ?)", new
    )
    names = [(name,) for name in changed]
    db.executemany("UPDATE classes SET is_removed = 1 WHERE id = ?", names)  # so that labels may be swapped
    db.executemany(
        "UPDATE classes SET label = ?1, parent = (SELECT number FROM classes WHERE id = ?2), "
        "is_removed = ?3, is_there = max(is_there, NOT ?3), touched = ?4 WHERE id = ?5",
        [(state.label, state.parent, int(state.gone), seq, name) for name, state in changed.items()],
    )


def _state(
    name: str, classes: Mapping[str, FleetClass | None], labels: Mapping[str, Label], known: Registers
) -> ClassState:
    def parent_of(child: str) -> str | None:
        parent = known.value(child, PARENT)
        return parent if parent in labels else None

    one = classes[name]
    if root_of(name, parent_of) != name:
        return ClassState(labels[name], parent_of(name), bool(known.value(name, GONE)))
    if one is None:
        return ClassState(labels[name], None, True)
    return ClassState(labels[name], None if one.id == name else one.id, False)
