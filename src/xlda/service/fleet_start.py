"""What a box began with, as it began: classes that were merged here since are apart in it."""

from __future__ import annotations

import json
from typing import Any

import apsw

from xlda.fleet.sums import Sums
from xlda.moments.blocks import split
from xlda.service.database import ROOTS
from xlda.service.steps import Block

MERGED = f"""{ROOTS} SELECT one.id, one.label, root.id, root.label FROM tree
JOIN classes AS one ON one.number = tree.number JOIN classes AS root ON root.number = tree.root
WHERE one.number <> root.number"""


def apart_again(db: apsw.Connection, taught: Sums) -> None:
    """Take what merged classes began with out of the classes that they are part of."""
    began = _began_with(db)
    merged: list[Any] = list(db.execute(MERGED))
    for name, label, root, root_label in merged:
        block = began.get(name)
        if block is not None and block.count:
            into, row = taught.rows([root, name], {root: root_label, name: label}).tolist()
            split(taught.moments, into, row, block.count, block.mean)


def _began_with(db: apsw.Connection) -> dict[str, Block]:
    """What each class that was ever merged had of the beginning by itself.

    A merge notes what the class had with all that was part of it then; each of these was merged before.
    """
    parents: dict[str, str | None] = {}
    own: dict[str, Block] = {}
    events = db.execute("""SELECT body FROM events WHERE instr(body, '"parent"') ORDER BY seq""")
    for (body,) in events:
        for name, field, _, into, *base in json.loads(body).get("classes", []):
            if field != "parent":
                continue
            if into is not None and base and base[0] and name not in own:
                block = Block.from_json(base[0])
                for part in _parts_of(name, parents):
                    block = block.plus(own[part], -1.0) if part in own else block
                own[name] = block
            parents[name] = into
    return own


def _parts_of(name: str, parents: dict[str, str | None]) -> list[str]:
    """Classes that are part of one, and parts of these."""
    found = [name]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]
