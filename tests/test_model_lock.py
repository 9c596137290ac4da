"""The lock file beside a model, between processes, threads and forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("filelock")

from xlda._internal.model_lock import ModelLock, locked_model
from xlda.errors import LockedModelError

HOLD = """
import sys, time
from xlda._internal.model_lock import locked_model
with locked_model(sys.argv[1]):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def holder(path, seconds):
    """A process that holds the lock for so long."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, path, str(seconds)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    return process


def is_free(path="shop.xlda"):
    try:
        with locked_model(path):
            return True
    except LockedModelError:
        return False


def test_one_at_a_time_and_the_second_is_told_at_once():
    with holder("shop.xlda", 60) as process:
        began = time.monotonic()
        with (
            pytest.raises(LockedModelError, match=r"^shop\.xlda is being changed by another process"),
            locked_model("shop.xlda"),
        ):
            pass
        assert time.monotonic() - began < 5
        assert is_free("other.xlda")
        process.kill()
    assert is_free()


def test_it_waits_for_as_long_as_it_is_told():
    with holder("shop.xlda", 1.0):
        with pytest.raises(LockedModelError), locked_model("shop.xlda", wait=0.1):
            pass
        with locked_model("shop.xlda", wait=60):
            pass


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_a_lock_file_left_by_a_kill_locks_nothing():
    process = holder("shop.xlda", 60)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert Path("shop.xlda.lock").exists()
    assert is_free()


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_all_names_of_a_file_have_one_lock():
    Path("deep").mkdir()
    Path("link.xlda").symlink_to("deep/shop.xlda")
    Path("folder").symlink_to("deep")
    with locked_model("link.xlda") as path:
        assert path == Path("deep/shop.xlda").resolve()
        assert Path("deep/shop.xlda.lock").exists()
        assert not is_free("folder/shop.xlda")
        assert not is_free(Path("deep/shop.xlda").resolve())
    assert not Path("link.xlda.lock").exists()


def test_it_is_given_back_by_an_error_and_only_once():
    def fail():
        with locked_model("shop.xlda"):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert is_free()
    lock = ModelLock("shop.xlda")
    lock.take()
    lock.take()
    assert lock.is_held
    lock.give_back()
    assert not lock.is_held
    assert is_free()
    lock.give_back()


def test_threads_share_it():
    lock = ModelLock("shop.xlda")
    thread = threading.Thread(target=lock.take)
    thread.start()
    thread.join()
    assert lock.is_held
    lock.take()
    assert not is_free()
    lock.give_back()
    assert is_free()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_no_lock_and_does_not_take_its_parents_away():
    lock = ModelLock("shop.xlda")
    lock.take()
    held, done = threading.Event(), threading.Event()

    def hold():
        with lock.turn:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)  # the child gets a copy of its lock, and not the thread
    thread.start()
    held.wait()
    child = os.fork()
    if not child:
        signal.alarm(30)
        code = 1
        try:
            was_held = lock.is_held
            lock.give_back()
            try:
                lock.take()
            except LockedModelError:
                code = 2 if was_held else 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    done.set()
    thread.join()
    assert lock.is_held
    assert not is_free()
    lock.give_back()
    assert is_free()


@pytest.mark.parametrize("wait", [-1, float("nan"), "long", True, None])
def test_what_is_no_time_is_refused(wait):
    with pytest.raises(ValueError, match="wait is a number of seconds"), locked_model("shop.xlda", wait):
        pass


def test_no_folder_is_made():
    with pytest.raises(FileNotFoundError, match=r"No folder .*nowhere"), locked_model("nowhere/shop.xlda"):
        pass
    assert not Path("nowhere").exists()


def test_without_filelock_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "filelock", None)
    with pytest.raises(ImportError, match=r"needs filelock: pip install .*\[images\]"), locked_model("a"):
        pass
