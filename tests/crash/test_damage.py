"""Files that are damaged, torn, too new or too old: a sentence, or all that was acknowledged."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("apsw", reason="the service needs the extra `serve`")

from crash.process import MODEL, Served
from crash.shop import running
from xlda.errors import DamagedFileError, NewerFileError
from xlda.service import database, plans
from xlda.service.engine import Engine
from xlda.service.places import ServicePlaces

NOW = database.VERSION
DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def places(tmp_path):
    """A service of three events that was killed: the model has none of them."""
    with running(tmp_path / MODEL) as shop:
        for labels in (["apple", "pear"], ["apple", "fig"], ["fig", "fig"]):
            shop.teach(labels)
    return ServicePlaces.of(tmp_path / MODEL)


def changed(places, sql, *bindings):
    with closing(sqlite3.connect(places.database)) as db, db:
        db.execute(sql, bindings)


def flip(path, text, offset=0):
    """Change one bit of what is at a text that the file has once."""
    content = bytearray(path.read_bytes())
    assert content.count(text) == 1
    content[content.index(text) + offset] ^= 1
    path.write_bytes(content)


def test_a_flipped_bit_in_the_middle_stops_the_start_with_a_sentence(places):
    with closing(sqlite3.connect(places.database)) as db:
        [event_id] = db.execute("SELECT id FROM events WHERE seq = 2").fetchone()
    flip(places.database, event_id.encode(), 5)
    with pytest.raises(DamagedFileError, match=r"event 2 of its log is not what was written\. Restore it"):
        Engine.open(places.model)
    with Served(places.model.parent) as served:
        assert served.url is None
        assert served.process.returncode == 1
        assert "event 2 of its log is not what was written" in " ".join(served.said().split())
        assert "Traceback" not in served.said()


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("DELETE FROM events WHERE seq = 2", "event 2 of its log is missing"),
        ("UPDATE events SET time = '2020-01-01T00:00:00.000Z' WHERE seq = 1", "event 1 of its log is not"),
        ("UPDATE events SET operation = 'forget' WHERE seq = 3", "event 3 of its log is not"),
        ("UPDATE samples SET embedding = zeroblob(32) WHERE number = 3", "the embedding of sample 3-"),
        ("UPDATE samples SET embedding = NULL WHERE number = 3", "the embedding of sample 3-"),
        ("DELETE FROM samples WHERE number = 4", "sample 4-"),
    ],
)
def test_what_is_not_as_it_was_written_is_an_error(places, sql, said):
    changed(places, sql)
    before = places.database.read_bytes()
    with pytest.raises(DamagedFileError, match=said):
        Engine.open(places.model)
    assert places.database.read_bytes() == before


def test_something_else_in_place_of_the_database_is_an_error(places):
    places.database.write_bytes(b"something else, and long enough to have a header of its own" * 100)
    with pytest.raises(DamagedFileError, match="is damaged"):
        Engine.open(places.model)


def test_a_page_that_is_something_else_is_an_error(places):
    with closing(sqlite3.connect(places.database)) as db:
        [page] = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'events'").fetchone()
    content = bytearray(places.database.read_bytes())
    content[4096 * (page - 1) : 4096 * page] = 512 * b"no page!"
    places.database.write_bytes(content)
    with pytest.raises(DamagedFileError, match="is damaged: database disk image is malformed"):
        Engine.open(places.model)


def test_a_torn_tail_is_cut(tmp_path):
    with running(tmp_path / MODEL) as shop:
        log = Path(f"{shop.engine.places.database}-wal")
        lengths = [log.stat().st_size]
        for labels in (["apple", "pear"], ["apple", "fig"], ["fig", "fig"]):
            shop.teach(labels)
            lengths.append(log.stat().st_size)
        copies = []
        for number, (length, tail) in enumerate([(lengths[3] - 100, b""), (lengths[2] + 24, b"\0" * 5000)]):
            copy = ServicePlaces.of(tmp_path / f"copy-{number}.xlda")
            copy.folder.mkdir()
            shutil.copyfile(shop.engine.places.database, copy.database)
            Path(f"{copy.database}-wal").write_bytes(log.read_bytes()[:length] + tail)
            copies.append(copy)
    for copy in copies:
        with running(copy.model) as torn:
            assert torn.engine.machine.seq == 2
            assert {entry.label: entry.count for entry in torn.engine.book.by_id.values()} == {
                "apple": 2.0,
                "pear": 1.0,
                "fig": 1.0,
            }
            assert torn.teach(["fig"]).body["seq"] == 3


def test_a_model_and_a_log_of_other_days_are_refused(places):
    with running(places.model, ends_well=True):
        pass
    shutil.copytree(places.folder, places.folder.with_name("older"))
    with running(places.model, ends_well=True) as shop:
        shop.teach(["pear"])
    shutil.rmtree(places.folder)
    places.folder.with_name("older").rename(places.folder)
    with pytest.raises(DamagedFileError, match="one of the two is an older copy"):
        Engine.open(places.model)


# -- versions


def test_a_newer_database_is_refused(places):
    changed(places, "PRAGMA user_version = 99")
    before = places.database.read_bytes()
    with pytest.raises(NewerFileError, match="of version 99, which a newer xlda has written"):
        Engine.open(places.model)
    assert places.database.read_bytes() == before


def version_of(path):
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return db.execute("PRAGMA user_version").fetchone()[0]


def add_a_table(connection):
    connection.execute("CREATE TABLE news(text TEXT)")


@pytest.fixture
def next_version(places, monkeypatch):
    """From now on, the database there is of the version before."""
    monkeypatch.setattr(database, "VERSION", database.VERSION + 1)
    monkeypatch.setitem(database.MIGRATIONS, database.VERSION - 1, add_a_table)


def check_migrated(places):
    with running(places.model) as shop:
        assert shop.engine.rows("SELECT count(*) FROM news") == [(0,)]
        assert shop.engine.machine.seq == 3
        shop.teach(["pear"])
    assert version_of(places.database) == NOW + 1
    copy = places.database.with_name(f"log.sqlite.version-{NOW}")
    assert version_of(copy) == NOW
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("SELECT count(*) FROM events").fetchone() == (3,)
        assert db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'news'").fetchone() == (0,)


@pytest.mark.usefixtures("next_version")
def test_an_older_database_is_migrated_after_a_copy(places):
    check_migrated(places)


KILLED = """
import sys
from pathlib import Path
from xlda.service import database

database.MIGRATIONS[database.VERSION] = lambda connection: connection.execute("CREATE TABLE news(text TEXT)")
database.VERSION += 1
database.opened(Path(sys.argv[1]))
"""


@pytest.mark.parametrize(
    "fault", ["migration-after-copy", "migration-before-commit", "migration-after-commit"]
)
@pytest.mark.usefixtures("next_version")
def test_a_migration_that_was_killed_is_made_by_the_next_start(places, fault):
    command = [sys.executable, "-c", KILLED, os.fspath(places.database)]
    ended = subprocess.run(command, env={**os.environ, "XLDA_FAULT": f"{fault}:1"}, check=False)
    assert ended.returncode == -signal.SIGKILL
    check_migrated(places)


@pytest.mark.usefixtures("next_version")
def test_a_migration_that_fails_changes_nothing(places, monkeypatch):
    def fail(connection):
        add_a_table(connection)
        raise ValueError("no")

    monkeypatch.setitem(database.MIGRATIONS, NOW, fail)
    with pytest.raises(ValueError, match="no"):
        Engine.open(places.model)
    assert version_of(places.database) == NOW
    monkeypatch.setitem(database.MIGRATIONS, NOW, add_a_table)
    check_migrated(places)


# -- the databases that each version wrote


@pytest.mark.parametrize("version", range(1, NOW + 1))
def test_a_database_of_every_version_gives_what_it_gave(tmp_path, version):
    expected = json.loads((DATA / f"service-log-{version}.json").read_text())
    places = ServicePlaces.of(tmp_path / MODEL)
    places.folder.mkdir()
    shutil.copyfile(DATA / f"service-log-{version}.sqlite", places.database)
    assert version_of(places.database) == version
    with running(places.model) as shop:
        engine = shop.engine
        assert engine.machine.seq == expected["seq"]
        by_id = [{row["id"]: row for row in some} for some in (expected["classes"], classes_of(engine))]
        assert by_id[0] == by_id[1]
        model = engine.machine.classifier
        assert model.classes_.tolist() == list(expected["means"])
        np.testing.assert_allclose(model.means_, list(expected["means"].values()), atol=1e-5)
        [[last]] = engine.rows("SELECT max(seq) FROM events WHERE operation = 'remove'")
        shop.change("undo", plans.undo([last]))
        assert "pear" in engine.book.by_label
        again = shop.teach(["apple"], key="first", fingerprint=b"a request")
        assert again.is_replayed
        assert again.body == {"learned": 12, "new_classes": ["apple", "pear", "fig", "plum"], "seq": 1}
        assert sorted(row[0] for row in engine.rows("SELECT kind FROM marks")) == expected.get("marks", [])
        assert engine.is_first_start is False  # photos are not kept here
    assert version_of(places.database) == NOW
    assert places.database.with_name(f"log.sqlite.version-{version}").exists() is (version < NOW)


def test_it_has_every_operation():
    source = (Path(plans.__file__).parent / "calls_model.py").read_text()
    newest = DATA / f"service-log-{NOW}.sqlite"
    with closing(sqlite3.connect(f"file:{newest}?mode=ro&immutable=1", uri=True)) as db:
        found = {operation for (operation,) in db.execute("SELECT DISTINCT operation FROM events")}
    assert found >= {"learn", "correct", "feedback", "create", "rename", "relabel", "forget", "merge", "undo"}
    assert found >= {"remove", "review", "settings"}
    assert '"review"' in source


def classes_of(engine):
    return [entry.to_json() for entry in engine.book.by_id.values()]


def test_damage_before_the_checkpoint_stops_the_start_too(places):
    engine = Engine.open(places.model)
    engine.start()
    engine.close()  # all of the log is in the model file now
    changed(places, "UPDATE events SET actor = 'somebody else' WHERE seq = 2")
    with pytest.raises(DamagedFileError, match="event 2 of its log is not what was written"):
        Engine.open(places.model)
