"""The log: events one after the other, each with a checksum over itself and all before it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from xlda.service.database import damaged, one

COLUMNS = 'seq, id, time, actor, operation, "group", undoes, body, checksum'


class Event(NamedTuple):
    """What happened, and who did it. `body` has what it changed and what the model does for it."""

    seq: int
    id: str
    time: str
    actor: str
    operation: str
    group: str | None
    undoes: list[int]
    body: dict[str, Any]
    checksum: bytes

    def to_json(self) -> dict[str, Any]:
        """What others are told of it."""
        told = {
            "seq": self.seq,
            "id": self.id,
            "time": self.time,
            "actor": self.actor,
            "operation": self.operation,
            "group": self.group,
        }
        if self.undoes:
            told["undoes"] = self.undoes
        return {**told, **self.body.get("about", {})}


class LogPosition(NamedTuple):
    """How far a log has come: its last event, and the checksum of all of them."""

    seq: int
    checksum: bytes


def now() -> str:
    """The time as it is noted: UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def last_position(db: apsw.Connection) -> LogPosition:
    """Of the newest event; where all were folded, of the last of these."""
    row = one(db, "SELECT seq, checksum FROM events ORDER BY seq DESC LIMIT 1")
    return folded_position(db) if row is None else LogPosition(*row)


def folded_position(db: apsw.Connection) -> LogPosition:
    """Of the last event that is in the model alone."""
    row = one(db, "SELECT value FROM facts WHERE name = 'folded'")
    if row is None:
        return LogPosition(0, b"")
    seq, checksum = json.loads(row[0])
    return LogPosition(seq, bytes.fromhex(checksum))


def append(
    db: apsw.Connection,
    last: LogPosition,
    actor: str,
    operation: str,
    group: str | None,
    undoes: list[int],
    body: dict[str, Any],
) -> Event:
    """Write the next event, within a transaction of whoever calls."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    numbers = json.dumps(undoes) if undoes else None
    row = (last.seq + 1, secrets.token_hex(16), now(), actor, operation, group, numbers, text)
    checksum = _checksum(last.checksum, row)
    db.execute(f"INSERT INTO events({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)", (*row, checksum))
    return Event(*row[:6], undoes, body, checksum)


def events_after(db: apsw.Connection, seq: int, limit: int = -1) -> Iterator[Event]:
    """Events that came after this one, in their order."""
    for row in db.execute(f"SELECT {COLUMNS} FROM events WHERE seq > ? ORDER BY seq LIMIT ?", (seq, limit)):
        yield _event(row)


def newest_events(db: apsw.Connection, limit: int) -> Iterator[tuple[Event, bool]]:
    """The last events, the newest first, and whether each was undone."""
    columns = ", ".join(f"events.{name.strip()}" for name in COLUMNS.split(","))
    query = f"SELECT {columns}, undone.seq IS NOT NULL FROM events LEFT JOIN undone USING (seq)"
    for *row, is_undone in db.execute(f"{query} ORDER BY events.seq DESC LIMIT ?", (limit,)):
        yield _event(tuple(row)), bool(is_undone)


def event_of(db: apsw.Connection, seq: int) -> Event | None:
    """The event with this number, while it is kept."""
    row = one(db, f"SELECT {COLUMNS} FROM events WHERE seq = ?", (seq,))
    return None if row is None else _event(row)


def checked_events(db: apsw.Connection, path: Path, start: LogPosition) -> Iterator[Event]:
    """Events after a position; one that is missing or is not what was written is an error."""
    last = start
    for row in db.execute(f"SELECT {COLUMNS} FROM events WHERE seq > ? ORDER BY seq", (start.seq,)):
        if row[0] != last.seq + 1:
            raise damaged(path, f"event {last.seq + 1} of its log is missing")
        if row[8] != _checksum(last.checksum, row[:8]):
            raise damaged(path, f"event {row[0]} of its log is not what was written")
        last = LogPosition(row[0], row[8])
        yield _event(row)


def embedding_digest(embedding: bytes | memoryview) -> str:
    """What is noted of an embedding in the event that brought it."""
    return blake2b(embedding, digest_size=16).hexdigest()


def _event(row: tuple[Any, ...]) -> Event:
    undoes: list[int] = json.loads(row[6]) if row[6] else []
    return Event(row[0], row[1], row[2], row[3], row[4], row[5], undoes, json.loads(row[7]), row[8])


def _checksum(before: bytes, row: tuple[Any, ...]) -> bytes:
    text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
    return blake2b(before + text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
