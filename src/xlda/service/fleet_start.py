"""What a box began with, as it began: classes that were merged here since are apart in it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import apsw

from xlda.fleet.sums import Sums
from xlda.moments.blocks import split
from xlda.service.database import ROOTS
from xlda.service.steps import Block


class Merged(NamedTuple):
    """A class that was merged into another, and what the model had of it beside samples of the database."""

    seq: int
    class_id: str
    label: Any
    into: str
    base: Block


def apart_again(db: apsw.Connection, taught: Sums) -> None:
    """Take classes that were merged, and had something of the beginning, out of those they are in."""
    for one in sorted(_merged(db), reverse=True):  # the last merge first
        into, row = taught.rows([one.into, one.class_id], _labels(db, one)).tolist()
        split(taught.moments, into, row, one.base.count, one.base.mean)


def _merged(db: apsw.Connection) -> list[Merged]:
    live = f"{ROOTS} SELECT id, label FROM tree JOIN classes USING (number) WHERE parent IS NOT NULL"
    found = (_last_merge(db, str(class_id), label) for class_id, label in db.execute(live).fetchall())
    return [one for one in found if one is not None]


def _last_merge(db: apsw.Connection, class_id: str, label: Any) -> Merged | None:
    """The merge that holds; None where there was nothing of the beginning in it."""
    events = db.execute("SELECT seq, body FROM events WHERE instr(body, ?) ORDER BY seq DESC", (class_id,))
    for seq, body in events:
        for name, field, _, into, *more in json.loads(body).get("classes", []):
            if (name, field) == (class_id, "parent") and into is not None:
                base = Block.from_json(more[0]) if more and more[0] else None
                return None if base is None else Merged(seq, class_id, label, into, base)
    return None


def _labels(db: apsw.Connection, one: Merged) -> dict[str, Any]:
    [(label,)] = db.execute("SELECT label FROM classes WHERE id = ?", (one.into,))
    return {one.class_id: one.label, one.into: label}
