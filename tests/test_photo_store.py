from __future__ import annotations

import ast
import hashlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from xlda.service import faults, photo_store
from xlda.service.photo_store import PhotoStore

SOURCE = Path(faults.__file__).parents[1]
KIWI, PEAR, PLUM = (hashlib.sha256(fruit).hexdigest() for fruit in (b"kiwi", b"pear", b"plum"))


@pytest.fixture
def store():
    return PhotoStore("photos", most_bytes=1000)


@pytest.fixture
def clock(monkeypatch):
    """Seconds that a test can turn on; what the system's clock says has no meaning."""
    now = [5.0]
    monkeypatch.setattr(photo_store.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(photo_store.time, "time", lambda: pytest.fail("clocks jump"))
    return now


def files():
    """All files of the store, by path, with what they hold."""
    return {
        path.relative_to("photos").as_posix(): path.read_bytes()
        for path in Path("photos").rglob("*")
        if path.is_file()
    }


def name_of(descriptor):
    """Of an open file."""
    return Path(f"/proc/self/fd/{descriptor}").readlink().name


knows_open_files = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")


class TestPhotos:
    def test_a_photo_is_a_file_of_its_name(self, store):
        store.put(KIWI, b"green")
        store.put(PEAR, b"yellow")
        assert files() == {f"{KIWI[:2]}/{KIWI}.jpg": b"green", f"{PEAR[:2]}/{PEAR}.jpg": b"yellow"}
        assert (store.read(KIWI), store.read(PLUM)) == (b"green", None)
        assert sorted(store.names()) == sorted([KIWI, PEAR])

    def test_one_that_is_there_stays(self, store):
        store.put(KIWI, b"green")
        store.put(KIWI, b"brown")
        assert store.read(KIWI) == b"green"
        assert store.n_bytes == 5

    def test_deleted_is_gone(self, store):
        store.put(KIWI, b"green")
        assert store.delete(KIWI) is True
        assert store.delete(KIWI) is False
        assert (store.read(KIWI), files(), store.n_bytes) == (None, {}, 0)

    @pytest.mark.parametrize(
        "name",
        ["", "..", "../../etc/passwd", KIWI.upper(), KIWI[:-1], KIWI + "0", KIWI + "\n", "../" + KIWI[3:]],
    )
    def test_no_other_file_can_be_reached(self, store, name):
        for use in (store.read, store.delete, lambda name: store.put(name, b"")):
            with pytest.raises(ValueError, match="64 hex digits"):
                use(name)
        assert files() == {}

    def test_bytes_are_counted_on_and_at_the_next_start(self, store):
        store.put(KIWI, bytes(400))
        store.put(PEAR, bytes(500))
        Path("photos/00/notes.txt").write_bytes(bytes(50))
        assert (store.n_bytes, store.is_full) == (900, False)
        store.put(PLUM, bytes(100))
        again = PhotoStore("photos", most_bytes=1000)
        assert (store.n_bytes, again.n_bytes, store.is_full, again.is_full) == (1000, 1000, True, True)
        again.delete(PEAR)
        assert (again.n_bytes, again.is_full) == (500, False)

    @knows_open_files
    def test_threads_that_put_the_same_photo_count_it_once(self, store, monkeypatch):
        both = threading.Barrier(2)
        fsync = os.fsync

        def meet(descriptor):
            if name_of(descriptor).endswith(".tmp"):
                both.wait(10)  # each has found that it is not there
            fsync(descriptor)

        monkeypatch.setattr(photo_store.os, "fsync", meet)
        threads = [threading.Thread(target=store.put, args=(KIWI, bytes(n))) for n in (30, 40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.n_bytes == len(store.read(KIWI))
        assert list(files()) == [f"{KIWI[:2]}/{KIWI}.jpg"]


@knows_open_files
class TestDurable:
    @pytest.fixture
    def calls(self, store, monkeypatch):
        """What is asked of the disk, in its order."""
        seen = []
        fsync, replace = os.fsync, Path.replace

        def synced(descriptor):
            seen.append(("sync", name_of(descriptor)))
            fsync(descriptor)

        def renamed(path, target):
            seen.append(("rename", Path(target).name))
            return replace(path, target)

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(Path, "replace", renamed)
        return seen

    def test_content_then_name_then_folder(self, store, calls):
        store.put(KIWI, b"green")
        unfinished = calls[0][1]
        assert photo_store.UNFINISHED.fullmatch(unfinished)
        assert calls == [("sync", unfinished), ("rename", f"{KIWI}.jpg"), ("sync", KIWI[:2])]

    def test_one_that_is_there_may_not_be_synced_yet(self, store, calls):
        store.put(KIWI, b"green")
        del calls[:]
        store.put(KIWI, b"green")
        assert calls == [("sync", KIWI[:2])]

    def test_a_deletion_is_synced(self, store, calls):
        store.delete(KIWI)
        assert calls == [("sync", KIWI[:2])]

    def test_folders_are_synced_at_the_start(self, calls):
        PhotoStore("elsewhere/photos", most_bytes=1)
        assert calls == [("sync", "photos"), ("sync", "elsewhere")]

    def test_a_full_disk_leaves_nothing(self, store, monkeypatch):
        def full(_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(photo_store.os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            store.put(KIWI, b"green")
        assert (files(), store.n_bytes, store._unfinished) == ({}, 0, set())


class TestSweep:
    def test_what_nobody_refers_to_goes_once_it_is_a_minute_old(self, store, clock):
        store.put(KIWI, b"green")
        store.put(PEAR, b"yellow")
        clock[0] += 59.9
        store.put(PLUM, b"blue")
        assert store.sweep({KIWI}.__contains__) == 0
        clock[0] += 0.1
        assert store.sweep({KIWI}.__contains__) == 1
        assert sorted(store.names()) == sorted([KIWI, PLUM])
        assert store.n_bytes == 9

    def test_one_that_is_put_again_is_young_again(self, store, clock):
        store.put(KIWI, b"green")
        store.put(PEAR, b"yellow")
        clock[0] += 100
        store.put(KIWI, b"green")
        assert set(store._put_at) == {KIWI}  # the other is forgotten, though it came later
        assert store.sweep(lambda name: False) == 1
        assert list(store.names()) == [KIWI]

    def test_one_that_is_put_while_it_is_swept_stays(self, store, clock):
        store.put(KIWI, b"green")
        clock[0] += 100

        def known(name):
            store.put(KIWI, b"green")  # and the event that refers to it comes after this answer
            return False

        assert store.sweep(known) == 0
        assert store.read(KIWI) == b"green"

    def test_what_another_process_left_goes_at_once(self, store):
        store.put(KIWI, b"green")
        assert PhotoStore("photos", most_bytes=1).sweep(lambda name: False) == 1
        assert files() == {}

    def test_only_photos_of_late_are_remembered(self, store, clock):
        for name in (KIWI, PEAR):
            store.put(name, b"")
            clock[0] += 100
        assert set(store._put_at) == {PEAR}

    def test_unfinished_files_go_unless_they_are_being_written(self, store, monkeypatch):
        left = Path("photos", KIWI[:2], f".{KIWI}.{16 * '0'}.tmp")
        left.write_bytes(b"half")
        fsync, seen = os.fsync, []

        def sweep_first(descriptor):
            if not seen:
                seen.append(store.sweep(lambda name: True))
            fsync(descriptor)

        monkeypatch.setattr(photo_store.os, "fsync", sweep_first)
        store.put(PEAR, b"yellow")
        assert not left.exists()
        assert store.read(PEAR) == b"yellow"

    def test_other_files_are_none_of_its_business(self, store):
        others = [
            f"{KIWI}.png", f"{KIWI}.jpg~", f".{KIWI}.tmp", f".{KIWI[1:]}.{16 * '0'}.tmp", "readme.txt",
        ]  # fmt: skip
        for name in others:
            Path("photos/00", name).write_bytes(b"mine")
        assert store.sweep(lambda name: False) == 0
        assert sorted(files()) == sorted(f"00/{name}" for name in others)
        assert list(store.names()) == []


PUT_AND_DELETE = """
import sys
from xlda.service.photo_store import PhotoStore
store = PhotoStore("photos", 10**6)
for name in sys.argv[1:]:
    store.put(name, b"a photo")
print("put", flush=True)
for name in sys.argv[1:]:
    store.delete(name)
print("deleted", flush=True)
"""


def run_with(fault, *names):
    """What a process printed that puts and deletes those photos, and how it ended."""
    environment = {**os.environ, "XLDA_FAULT": fault, "PYTHONPATH": str(SOURCE.parent)}
    ended = subprocess.run(
        [sys.executable, "-c", PUT_AND_DELETE, *names], env=environment, capture_output=True, text=True
    )
    return ended.stdout.split(), ended.returncode, ended.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
class TestFaults:
    @pytest.mark.parametrize(
        ("fault", "printed", "left"),
        [
            ("photo-before-rename:1", [], []),
            ("photo-after-rename:1", [], [KIWI]),
            ("photo-before-rename:2", [], [KIWI]),
            ("photo-after-rename:2", [], [KIWI, PEAR]),
            ("photo-before-delete:1", ["put"], [KIWI, PEAR]),
            ("photo-after-delete:1", ["put"], [PEAR]),
            ("photo-after-delete:2", ["put"], []),
        ],
    )
    def test_a_process_ends_there_and_the_next_goes_on(self, fault, printed, left):
        assert run_with(fault, KIWI, PEAR)[:2] == (printed, -signal.SIGKILL)
        store = PhotoStore("photos", 10**6)
        assert sorted(store.names()) == sorted(left)
        assert store.n_bytes == 7 * len(left)
        assert len(files()) == len(left) + ("before-rename" in fault)
        store.sweep(lambda name: True)
        assert len(files()) == len(left)
        assert all(content == b"a photo" for content in files().values())

    @pytest.mark.parametrize("fault", ["", "photo-after-rename:3"])
    def test_else_nothing_happens(self, fault):
        assert run_with(fault, KIWI, PEAR)[:2] == (["put", "deleted"], 0)

    @pytest.mark.parametrize("fault", ["photo:1", "photo-after-rename", "photo-after-rename:0", ":1"])
    def test_a_slip_in_the_variable_stops_the_start(self, fault):
        printed, code, error = run_with(fault, KIWI)
        assert (printed, code) == ([], 1)
        assert f"XLDA_FAULT={fault!r}; expected NAME:N" in error

    def test_every_name_is_reached_somewhere_and_no_other(self):
        named = [
            node.args[0].value
            for path in SOURCE.rglob("*.py")
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "reached"
        ]
        assert set(named) == set(faults.NAMES)
