"""Undoing events, exactly: each effect is turned round, unless something later stands in the way."""

from __future__ import annotations

import json
from typing import Any

from xlda.service import marks
from xlda.service.changes import ClassRow, SampleRow, Transaction
from xlda.service.database import one
from xlda.service.log import Event, event_of, folded_position
from xlda.service.problems import Problem
from xlda.service.steps import Block


def undo(change: Transaction, seqs: list[int]) -> None:
    """Undo these events, the newest first, as one change. Undoing what undid something does it again."""
    events = []
    for seq in sorted(set(seqs), reverse=True):
        event = _undoable(change, seq)
        events.append(event)
        _turn_round(change, event)
        change.db.execute("INSERT INTO undone(seq, by) VALUES (?, ?)", (seq, change.seq))
        change.db.executemany("DELETE FROM undone WHERE seq = ?", [(again,) for again in event.undoes])
    change.undoes = sorted(set(seqs))
    change.about |= {"n": len(change.of_samples), "undid": told(events)}


def seqs_of_group(change: Transaction, group: str) -> list[int]:
    """Events that brought samples of a group and were not undone."""
    found = change.db.execute(
        'SELECT seq FROM events WHERE "group" = ? AND seq NOT IN (SELECT seq FROM undone) AND undoes IS NULL',
        (group,),
    )
    seqs = [seq for (seq,) in found]
    if not seqs:
        raise Problem(404, f"There is no event of the group {group} that could be undone.")
    return seqs


def _undoable(change: Transaction, seq: int) -> Event:
    event = event_of(change.db, seq)
    if event is None:
        if 0 < seq <= folded_position(change.db).seq:
            raise Problem(409, f"Event {seq} is too old to be undone; --undo-days says how long that can be.")
        raise Problem(404, f"There is no event {seq}.")
    by = one(change.db, "SELECT by FROM undone WHERE seq = ?", (seq,))
    if by is not None:
        raise Problem(
            409, f"Event {seq} was undone by event {by[0]}. Undo that one to have it again.", by=by[0]
        )
    if not can_be_undone(event):
        raise Problem(409, f"Event {seq} changed nothing that could be undone.")
    return event


def can_be_undone(event: Event) -> bool:
    """Whether it changed something that can be as it was before."""
    return any(event.body.get(part) for part in ("samples", "classes", "marks"))


def told(events: list[Event]) -> dict[str, Any]:
    """What was undone, for people: what was done, to which class if it was one, and to how many."""
    operations = {event.operation for event in events}
    labels = {json.dumps(_label_of(event)) for event in events}
    return {
        "operation": operations.pop() if len(operations) == 1 else "several",
        "label": json.loads(labels.pop()) if len(labels) == 1 else None,
        "count": sum(_count_of(event) for event in events),
    }


def _label_of(event: Event) -> str | None:
    about = event.body.get("about", {})
    label = about.get("undid", about).get("label") or about.get("new")
    return label if isinstance(label, str) else None


def _count_of(event: Event) -> int:
    about = event.body.get("about", {})
    return int(about["undid"]["count"] if "undid" in about else about.get("n", 1))


def _turn_round(change: Transaction, event: Event) -> None:
    of_classes = event.body.get("classes", [])[::-1]
    coming = [effect for effect in of_classes if effect[1] == "is_there" and not effect[3]]
    going = [effect for effect in of_classes if effect[1] == "is_there" and effect[3]]
    for effect in coming:
        row = _class(change, effect[0])
        if not row.is_there:
            change.set_there(row, True)
    for effect in of_classes:
        if effect[1] != "is_there":
            _turn_class(change, event.seq, effect)
    _turn_samples(change, event.seq, event.body.get("samples", [])[::-1])
    marks.turn_round(change, event.body.get("marks", []))
    for effect in going:
        row = _class(change, effect[0])
        if row.is_current and _is_empty(change, row):
            change.set_there(row, False)


def _class(change: Transaction, class_id: str) -> ClassRow:
    row = change.find(class_id)
    if row is None:
        raise Problem(409, "A class that is needed for it is gone for good.")
    return row


def _is_empty(change: Transaction, row: ClassRow) -> bool:
    child = one(change.db, "SELECT 1 FROM classes WHERE parent = ?", (row.number,))
    sample = one(change.db, "SELECT 1 FROM samples WHERE home = ?", (row.number,))
    return child is None and sample is None and not row.from_file


def _turn_class(change: Transaction, seq: int, effect: list[Any]) -> None:
    class_id, field, before, after, *more = effect
    row, base = _class(change, class_id), None
    if more and more[0]:
        base = Block.from_json(more[0])
    if field == "label":
        if row.label != after or not row.is_current:
            raise _in_the_way(change, seq, row)
        change.rename(row, before)
    elif field == "is_removed":
        if bool(row.is_removed) != bool(after) or row.parent is not None:
            raise _in_the_way(change, seq, row)
        change.unremove(row, base) if after else change.remove(row)
    else:
        _turn_parent(change, seq, row, before, after, base)


def _turn_parent(
    change: Transaction, seq: int, row: ClassRow, before: str | None, after: str | None, base: Block | None
) -> None:
    if after is not None:  # it was a merge
        into = _class(change, after)
        if row.parent != into.number or not change.root(into).is_current:
            raise _in_the_way(change, seq, row if row.parent != into.number else change.root(into))
        change.unmerge(row, base)
        return
    assert before is not None
    into = _class(change, before)
    for one_of_two in (row, into):
        if not one_of_two.is_current:
            raise _in_the_way(change, seq, one_of_two)
    change.merge(into, row)


def _in_the_way(change: Transaction, seq: int, row: ClassRow) -> Problem:
    by = _newest_in_force(change, seq, "classes", row.id) or row.touched
    return Problem(
        409,
        f"Event {seq} cannot be undone, since event {by} changed class {row.label} later. "
        f"{_way_out(change, by)}",
        by=by,
    )


def _way_out(change: Transaction, by: int) -> str:
    """What to do about an event that is in the way."""
    if one(change.db, "SELECT operation FROM events WHERE seq = ?", (by,)) == ("sync",):
        return "That was a sync, which brought what another box has said: undo it there, or do it here anew."
    return "Undo that first."


def _newest_in_force(change: Transaction, seq: int, part: str, name: str) -> int | None:
    """The last event that changed a class or a sample after this one, and was not undone itself."""
    later = change.db.execute(
        "SELECT seq, body FROM events WHERE seq > ? AND undoes IS NULL AND instr(body, ?) AND seq NOT IN "
        "(SELECT seq FROM undone) ORDER BY seq DESC",
        (seq, name),
    )
    for number, body in later:
        if any(effect[0] == name for effect in json.loads(body).get(part, [])):
            return int(number)
    return None


def _turn_samples(change: Transaction, seq: int, effects: list[list[Any]]) -> None:
    """Samples to where they were, as many at a time as go to one place."""
    run: list[SampleRow] = []
    target: str | None = None
    for sample_id, before, after, *_ in effects:
        if run and (before != target or any(row.id == sample_id for row in run[-1:])):
            _move(change, run, target)
            run = []
        row = change.find_sample(sample_id)
        if row is None or row.embedding is None:
            raise Problem(409, f"A sample of event {seq} was learned too long ago to be changed by itself.")
        home = None if row.home is None else change.numbered(row.home)
        if (home and home.id) != after:
            by = _newest_in_force(change, seq, "samples", sample_id) or row.touched
            raise Problem(
                409,
                f"Event {seq} cannot be undone, since event {by} changed one of its samples later. "
                f"{_way_out(change, by)}",
                by=by,
            )
        if home is not None and not change.root(home).is_current:
            raise _in_the_way(change, seq, change.root(home))
        run.append(row)
        target = before
    if run:
        _move(change, run, target)


def _move(change: Transaction, rows: list[SampleRow], target: str | None) -> None:
    if target is None:
        change.move(rows, None)
        return
    to = _class(change, target)
    root = change.root(to)
    if not root.is_current:
        raise Problem(
            409,
            f"Class {root.label}, which its samples were of, is no more: event {root.touched} changed it. "
            f"{_way_out(change, root.touched)}",
            by=root.touched,
        )
    change.move(rows, to)
