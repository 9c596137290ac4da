from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from xlda._internal import files
from xlda._internal.files import replaced, write_whole

ENDLESS = """
import sys, time
from xlda._internal.files import replaced
with replaced(sys.argv[1]) as unfinished:
    unfinished.write_bytes(b"half")
    print("writing", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def writer(tmp_path):
    """A process in the middle of writing tmp_path / "model"."""
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(tmp_path / "model")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "writing\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def unfinished_files(folder):
    return [file for file in folder.iterdir() if file.name != "model"]


@pytest.mark.skipif(files.fcntl is None, reason="no locks here")
def test_what_a_killed_writer_left_is_swept_by_the_next(writer, tmp_path):
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    assert len(unfinished_files(tmp_path)) == 1
    write_whole(tmp_path / "other", b"")  # another name's is none of its business
    assert len(unfinished_files(tmp_path)) == 2
    write_whole(tmp_path / "model", b"whole")
    assert unfinished_files(tmp_path) == [tmp_path / "other"]


@pytest.mark.skipif(files.fcntl is None, reason="no locks here")
def test_what_a_living_writer_writes_is_left_alone(writer, tmp_path):
    (unfinished,) = unfinished_files(tmp_path)
    write_whole(tmp_path / "model", b"whole")
    assert unfinished.read_bytes() == b"half"
    assert (tmp_path / "model").read_bytes() == b"whole"


def test_files_that_only_look_like_it_are_left_alone(tmp_path):
    kept = [".model.12345678.tmp~", ".model.1234567g.tmp", ".model2.12345678.tmp", "model.12345678.tmp"]
    for name in kept:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "elsewhere").write_bytes(b"mine")
    (tmp_path / ".model.00000000.tmp").symlink_to(tmp_path / "elsewhere")
    write_whole(tmp_path / "model", b"")
    found = {file.name for file in unfinished_files(tmp_path)}
    assert found == {*kept, "elsewhere", ".model.00000000.tmp"}


def test_without_locks_only_old_files_are_swept(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "fcntl", None)
    old, young = tmp_path / ".model.00000000.tmp", tmp_path / ".model.11111111.tmp"
    for file, age in ((old, 2 * files.ABANDONED), (young, 60.0)):
        file.write_bytes(b"")
        os.utime(file, (time.time() - age,) * 2)
    write_whole(tmp_path / "model", b"whole")
    assert unfinished_files(tmp_path) == [young]
    assert (tmp_path / "model").read_bytes() == b"whole"


@pytest.mark.skipif(files.fcntl is None, reason="no locks here")
def test_a_file_swept_in_the_moment_before_it_is_held_is_made_again(tmp_path, monkeypatch):
    flock, swept = files.fcntl.flock, []

    def sweep_first(file, operation):
        if not swept and file.name.endswith(".tmp"):
            Path(file.name).unlink()
            swept.append(file.name)
        flock(file, operation)

    monkeypatch.setattr(files.fcntl, "flock", sweep_first)
    with replaced(tmp_path / "model") as unfinished:
        assert [str(unfinished)] == swept
        with unfinished.open("r+b") as file, pytest.raises(BlockingIOError):
            flock(file, files.fcntl.LOCK_EX | files.fcntl.LOCK_NB)  # it is held
        unfinished.write_bytes(b"whole")
    assert (tmp_path / "model").read_bytes() == b"whole"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, OSError])
def test_a_block_that_fails_leaves_nothing(error, tmp_path):
    def fail():
        with replaced(tmp_path / "model") as unfinished:
            unfinished.write_bytes(b"half")
            raise error

    with pytest.raises(error):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_locks_will_do(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError("no locks available")

    if files.fcntl is not None:
        monkeypatch.setattr(files.fcntl, "flock", no_locks)
    (tmp_path / ".model.00000000.tmp").write_bytes(b"")
    write_whole(tmp_path / "model", b"whole")
    assert unfinished_files(tmp_path) == [tmp_path / ".model.00000000.tmp"]  # nobody knows if it is held
