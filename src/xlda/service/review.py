"""Answers that somebody should look at: unsure ones, and things that are like no known class.

A ring of a few hundred. What is in it is lost with nobody's harm, so nobody waits for the disk.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

import apsw
import numpy as np

from xlda._internal.arrays import Array
from xlda.service.database import one
from xlda.service.likeness import ALIKE, directions
from xlda.service.writer import Writer

MOST, DAYS = 500, 7.0
IGNORED = "ignored"  # the kind of a mark
COLUMNS = "id, time, embedding, photo, judged"


class Item(NamedTuple):
    """An answer to look at: what was asked, its photo if that is kept, and what was answered."""

    id: str
    time: float
    embedding: Array
    photo: str | None
    judged: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As it is sent."""
        return {"id": self.id, "time": self.time, "photo": self.photo is not None, **self.judged}


class Review:
    """The ring. Items are written by the writer, a second later than they come."""

    def __init__(self, db: apsw.Connection, reading: Callable[[], apsw.Connection], writer: Writer) -> None:
        self._db, self._reading, self._writer = db, reading, writer
        self._turn = threading.Lock()
        self._new: list[Item] = []

    def add(self, embedding: Array, photo: str | None, judged: dict[str, Any]) -> None:
        """Have somebody look at an answer."""
        with self._turn:
            self._new.append(Item(secrets.token_hex(16), time.time(), embedding, photo, judged))
            del self._new[:-MOST]

    def flush(self) -> None:
        """Have the writer write down what came since."""
        with self._turn:
            new, self._new = self._new, []
        if new:
            self._writer.between(lambda: self._write(new))

    def _write(self, items: list[Item]) -> None:
        rows = [
            (
                item.id,
                item.time,
                item.embedding.astype(np.float32).tobytes(),
                item.photo,
                json.dumps(item.judged),
            )
            for item in items
        ]
        with self._db as db:
            db.executemany(f"INSERT INTO review({COLUMNS}) VALUES (?, ?, ?, ?, ?)", rows)
            self.prune()

    def prune(self) -> None:
        """Keep the newest, also of those that were settled, since that may be undone; by the writer."""
        self._db.execute("DELETE FROM review WHERE time < ?", (time.time() - DAYS * 86400,))
        for is_settled in (0, 1):
            self._db.execute(
                "DELETE FROM review WHERE is_settled = ?1 AND id NOT IN (SELECT id FROM review WHERE "
                "is_settled = ?1 ORDER BY time DESC LIMIT ?2)",
                (is_settled, MOST),
            )

    def items(self, ids: list[str] | None = None) -> list[Item]:
        """All that nobody has settled, or those with these ids, the newest first."""
        with closing(self._reading()) as db:
            rows = db.execute(f"SELECT {COLUMNS} FROM review WHERE NOT is_settled ORDER BY time DESC")
            return [_item(row) for row in rows if ids is None or row[0] in ids]

    def is_ignored(self, embedding: Array) -> bool:
        """Whether it looks like something that somebody wants ignored."""
        with closing(self._reading()) as db:
            rows = db.execute("SELECT embedding FROM marks WHERE kind = ? AND is_there", (IGNORED,))
            found = [np.frombuffer(content, np.float32) for (content,) in rows]
        found = [one for one in found if len(one) == len(embedding)]
        if not found:
            return False
        [own] = directions(embedding[None])
        return bool((directions(np.stack(found)) @ own).max() >= ALIKE)

    def __len__(self) -> int:
        with closing(self._reading()) as db:
            return int(one(db, "SELECT count(*) FROM review WHERE NOT is_settled")[0])


def grouped(items: list[Item]) -> list[list[Item]]:
    """Items that look alike together, the largest group first.

    Each joins the first group whose first item it is like, and begins one where there is none.
    """
    groups: list[list[Item]] = []
    firsts: list[Array] = []
    for item in items:
        [direction] = directions(item.embedding[None])
        likeness = [float(first @ direction) if len(first) == len(direction) else 0.0 for first in firsts]
        best = int(np.argmax(likeness)) if likeness else -1
        if best >= 0 and likeness[best] >= ALIKE:
            groups[best].append(item)
        else:
            groups.append([item])
            firsts.append(direction)
    return sorted(groups, key=len, reverse=True)


def _item(row: Any) -> Item:
    return Item(row[0], row[1], np.frombuffer(row[2], np.float32), row[3], json.loads(row[4]))
