"""What is too old to be undone: events go, and their samples are in the model alone from then on."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any

import apsw
import numpy as np

from xlda.service.changes import SAMPLE, SampleRow
from xlda.service.database import one
from xlda.service.faults import reached
from xlda.service.machine import Machine
from xlda.service.photo_store import PhotoStore
from xlda.service.steps import Block

AT_ONCE = 500  # events or samples in one transaction
MOST_ANSWERS = 100_000  # that are remembered for requests that come again


def fold(db: apsw.Connection, machine: Machine, photos: PhotoStore, saved_seq: int, undo_days: float) -> int:
    """Drop some events that are older than so many days and in the model file; gives how many it were.

    Embeddings of their samples are added up by class, since undoing a merge may need their sum; those of
    samples that were taken away, by themselves or with their class, are erased, and their photos with them.
    """
    before = datetime.now(UTC) - timedelta(days=undo_days)
    limit = before.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    oldest: list[Any] = db.execute("SELECT seq, time FROM events ORDER BY seq LIMIT ?", (AT_ONCE,)).fetchall()
    old = [seq for seq, _ in takewhile(lambda event: event[1] < limit and event[0] <= saved_seq, oldest)]
    if old:
        gone = _fold_until(db, machine, old[-1])
        _delete_photos(db, photos, gone)
    return len(old)


def _fold_until(db: apsw.Connection, machine: Machine, last: int) -> list[str]:
    """Fold all up to this event; gives photos that may not be needed any more."""
    with db:
        checksum = one(db, "SELECT checksum FROM events WHERE seq = ?", (last,))[0]
        old = f"SELECT {SAMPLE} FROM samples WHERE touched <= ? AND embedding IS NOT NULL"
        rows = [SampleRow(*row) for row in db.execute(old, (last,))]
        gone = [row for row in rows if row.home is None]
        _add_up(db, machine, [row for row in rows if row.home is not None])
        db.executemany(
            "UPDATE samples SET embedding = NULL WHERE number = ?", [(row.number,) for row in rows]
        )
        db.executemany("DELETE FROM samples WHERE number = ?", [(row.number,) for row in gone])
        of_removed = _erase_removed(db, last)
        db.execute("DELETE FROM events WHERE seq <= ?", (last,))
        db.execute("DELETE FROM undone WHERE seq <= ?", (last,))
        db.execute("DELETE FROM answers WHERE event <= ?", (last,))
        value = json.dumps([last, checksum.hex()])
        db.execute("INSERT OR REPLACE INTO facts(name, value) VALUES ('folded', ?)", (value,))
        reached("fold-before-commit")
    reached("fold-after-commit")
    return [*(row.photo for row in gone if row.photo is not None), *of_removed]


def _erase_removed(db: apsw.Connection, last: int) -> list[str]:
    """Erase what is kept of classes whose removal cannot be undone any more; gives their photos."""
    removed = (
        "WITH RECURSIVE removed(number) AS (SELECT number FROM classes WHERE is_removed AND touched <= ? "
        "UNION SELECT classes.number FROM classes, removed WHERE classes.parent = removed.number)"
    )
    theirs = "FROM samples WHERE home IN (SELECT number FROM removed)"
    photos = [
        photo for (photo,) in db.execute(f"{removed} SELECT photo {theirs}", (last,)) if photo is not None
    ]
    db.execute(f"{removed} DELETE {theirs}", (last,))
    db.execute(f"{removed} DELETE FROM folded WHERE home IN (SELECT number FROM removed)", (last,))
    return photos


def _add_up(db: apsw.Connection, machine: Machine, rows: list[SampleRow]) -> None:
    homes: dict[int, list[SampleRow]] = {}
    for row in rows:
        homes.setdefault(row.home or 0, []).append(row)
    for home, some in homes.items():
        block = machine.block_of(np.stack([row.sample().embedding for row in some]))
        known = one(db, "SELECT count, mean, rows FROM folded WHERE home = ?", (home,))
        if known is not None:
            block = block.plus(Block.from_bytes(*known))
        new = (home, block.count, block.mean.tobytes(), block.rows_to_bytes())
        db.execute("INSERT OR REPLACE INTO folded(home, count, mean, rows) VALUES (?, ?, ?, ?)", new)


def _delete_photos(db: apsw.Connection, photos: PhotoStore, names: list[str]) -> None:
    for name in names:
        if not is_needed(db, name):
            photos.delete(name)


def is_needed(db: apsw.Connection, photo: str) -> bool:
    """Whether a sample has this photo, or somebody is to look at it."""
    needed = "SELECT 1 FROM samples WHERE photo = ? UNION ALL SELECT 1 FROM review WHERE photo = ?"
    return one(db, needed, (photo, photo)) is not None


def forget_answers(db: apsw.Connection) -> None:
    """Forget what the oldest of many requests were answered with."""
    oldest = "SELECT seq FROM requests ORDER BY seq DESC LIMIT 1 OFFSET ?"
    found = one(db, oldest, (MOST_ANSWERS,))
    if found is not None:
        db.execute("DELETE FROM requests WHERE seq <= ?", (found[0],))
