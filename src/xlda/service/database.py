"""The database of a service: its tables, its version, and how it is opened.

Events are the log and are only ever added; samples and classes are what they have come to. All of it changes
in the same transactions, so that what is read after a crash is what the last one that was committed left.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from xlda._internal.files import replaced
from xlda.errors import DamagedFileError, NewerFileError
from xlda.service.faults import reached

VERSION = 3
OLDEST_SQLITE = (3, 51, 3)
WITHDRAWN = {(3, 52, 0)}
PAGES_IN_WAL = 4096  # of 4 KiB, before they are copied into the database
BUSY = 10_000  # milliseconds that another connection is waited for

# What version 1 had; `MIGRATIONS` have what came since.
TABLES = """
CREATE TABLE facts(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE events(
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    time TEXT NOT NULL,          -- UTC, a remark: the order is that of seq
    actor TEXT NOT NULL,
    operation TEXT NOT NULL,
    "group" TEXT,
    undoes TEXT,                 -- JSON: sequence numbers
    body TEXT NOT NULL,          -- JSON: what it changed, and what the model does for it
    checksum BLOB NOT NULL       -- of all of this and of the checksum before
);
CREATE TABLE undone(seq INTEGER PRIMARY KEY, by INTEGER NOT NULL);
CREATE TABLE classes(
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    label NOT NULL,              -- text or integer, as the model has it
    parent INTEGER,              -- the class that it was merged into
    is_there INTEGER NOT NULL,   -- 0 where what made it was undone
    is_removed INTEGER NOT NULL DEFAULT 0,
    from_file INTEGER NOT NULL DEFAULT 0, -- whether some of its samples were learned before the log began
    touched INTEGER NOT NULL DEFAULT 0    -- the event that changed it last
);
CREATE UNIQUE INDEX current_label ON classes(label) WHERE parent IS NULL AND is_there AND NOT is_removed;
CREATE INDEX class_parent ON classes(parent) WHERE parent IS NOT NULL;
CREATE TABLE samples(
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    home INTEGER,                -- number of the class that it was last given to; NULL: it was taken away
    touched INTEGER NOT NULL,    -- the event that changed it last
    embedding BLOB,              -- float32, as it was learned; NULL once it cannot be undone any more
    photo TEXT,
    "group" TEXT
);
CREATE INDEX sample_home ON samples(home);
CREATE INDEX sample_touched ON samples(touched) WHERE embedding IS NOT NULL;
CREATE INDEX sample_photo ON samples(photo) WHERE photo IS NOT NULL;
CREATE TABLE folded(home INTEGER PRIMARY KEY, count REAL NOT NULL, mean BLOB NOT NULL);
CREATE TABLE requests(
    key TEXT PRIMARY KEY,
    fingerprint BLOB NOT NULL,
    status INTEGER NOT NULL,
    answer TEXT NOT NULL,
    seq INTEGER NOT NULL
);
CREATE INDEX request_seq ON requests(seq);
CREATE TABLE review(
    id TEXT PRIMARY KEY,
    time REAL NOT NULL,
    embedding BLOB NOT NULL,
    photo TEXT,
    judged TEXT NOT NULL         -- JSON: what was answered
);
CREATE TABLE history(seq INTEGER PRIMARY KEY, time TEXT NOT NULL, figures TEXT NOT NULL);
"""

SINCE_2 = """
ALTER TABLE review ADD COLUMN is_settled INTEGER NOT NULL DEFAULT 0;
CREATE TABLE marks(              -- what people have said of things to look at, beside what they are
    kind TEXT NOT NULL,          -- 'ignored': nothing like it is put aside; 'kept': a sample is right
    id TEXT NOT NULL,
    embedding BLOB,
    is_there INTEGER NOT NULL,   -- 0 where it was undone
    PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE TABLE answers(            -- that people have judged, with the class that was the answer
    event INTEGER NOT NULL,
    class TEXT NOT NULL,
    is_right INTEGER NOT NULL,
    n INTEGER NOT NULL
);
CREATE INDEX answer_class ON answers(class);
"""

SINCE_3 = "ALTER TABLE folded ADD COLUMN rows BLOB"  # for a second look; NULL where they are not known

# Before a query: `tree` has the numbers of a class and of all that were merged into it.
SUBTREE = (
    "WITH RECURSIVE tree(number) AS (SELECT ? UNION SELECT classes.number FROM classes, tree "
    "WHERE classes.parent = tree.number)"
)
# Before a query: `tree` has the numbers of all classes, each with the current class that it is part of.
ROOTS = (
    "WITH RECURSIVE tree(number, root) AS (SELECT number, number FROM classes WHERE parent IS NULL AND "
    "is_there AND NOT is_removed UNION SELECT classes.number, tree.root FROM classes, tree WHERE "
    "classes.parent = tree.number)"
)

# What makes a database of one version one of the next. It is copied first.
MIGRATIONS: dict[int, Callable[[apsw.Connection], object]] = {
    1: lambda db: db.execute(SINCE_2),
    2: lambda db: db.execute(SINCE_3),
}


def check_sqlite(version: str | None = None) -> None:
    """Refuse a SQLite that may lose what it has confirmed."""
    version = version or apsw.sqlite_lib_version()
    found = tuple(int(part) for part in version.split(".")[:3])
    if found < OLDEST_SQLITE or found in WITHDRAWN:
        least = ".".join(map(str, OLDEST_SQLITE))
        raise RuntimeError(
            f"SQLite {version} has a fault that can lose what was learned. Install an `apsw` with SQLite "
            f"{least} or later, other than 3.52.0."
        )


def opened(path: Path, vfs: str | None = None) -> apsw.Connection:
    """The database, made where there is none, ready to be written to by this connection alone."""
    check_sqlite()
    try:
        connection = _connected(path, vfs)
        try:
            if _is_blank(connection):
                reached("start-before-tables")
                with connection:
                    connection.execute(TABLES)
                    for number in range(1, VERSION):
                        MIGRATIONS[number](connection)
                    connection.pragma("user_version", VERSION)
            else:
                _migrate(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise damaged(path, str(error)) from error


def reader(path: Path, vfs: str | None = None) -> apsw.Connection:
    """Another connection, which only reads, and sees what was committed when each of its reads begins."""
    connection = apsw.Connection(os.fspath(path), apsw.SQLITE_OPEN_READONLY, vfs=vfs)
    connection.set_busy_timeout(BUSY)
    return connection


def damaged(path: Path, what: str) -> DamagedFileError:
    """The error of a database that cannot be trusted."""
    return DamagedFileError(f"{path} is damaged: {what.rstrip('.')}. Restore it from a backup.")


def _connected(path: Path, vfs: str | None) -> apsw.Connection:
    connection = apsw.Connection(os.fspath(path), vfs=vfs)
    connection.set_busy_timeout(BUSY)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.wal_autocheckpoint(PAGES_IN_WAL)
    return connection


def _is_blank(connection: apsw.Connection) -> bool:
    """Whether nothing is in it: it is new, or who made it was killed before there was anything."""
    return not connection.pragma("user_version") and not one(connection, "SELECT 1 FROM sqlite_schema")


def _migrate(connection: apsw.Connection, path: Path) -> None:
    version = int(connection.pragma("user_version"))
    if version > VERSION:
        raise NewerFileError(
            f"{path} is of version {version}, which a newer xlda has written; this one knows up to "
            f"{VERSION}. Install a newer xlda to open it."
        )
    if version < VERSION:
        if version not in MIGRATIONS:
            raise damaged(path, "it is not the database of a service")
        copy = path.with_name(f"{path.name}.version-{version}")
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        with replaced(copy) as unfinished:
            shutil.copyfile(path, unfinished)
        reached("migration-after-copy")
    while version < VERSION:
        with connection:
            MIGRATIONS[version](connection)
            version += 1
            connection.pragma("user_version", version)
            reached("migration-before-commit")
        reached("migration-after-commit")


def one(connection: apsw.Connection, sql: str, bindings: Any = ()) -> Any:
    """The first row that a query gives, or None."""
    for row in connection.execute(sql, bindings):
        return row
    return None
