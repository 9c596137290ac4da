"""The command beside others: locks, keys, Ctrl-C, and one count."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

for needed in ("typer", "PIL", "onnx", "onnxruntime", "pyarrow"):
    pytest.importorskip(needed)

import xlda  # noqa: E402
from cli_shop import COLOURS  # noqa: E402
from xlda._internal.model_lock import locked_model  # noqa: E402

pytest_plugins = ("cli_shop",)

PROGRAM = [sys.executable, "-c", "from xlda.cli import main; main()"]
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


def total(model):
    return xlda.load(model).class_count_.sum()


def start(*arguments):
    return subprocess.Popen([*PROGRAM, *map(str, arguments)], **PIPES)


def test_many_that_learn_at_once_lose_nothing(shop, model):
    photos = [f"test/{name}/{number}.png" for name in COLOURS for number in range(2)]
    running = [start("learn", model, photo, "--label", f"class {n}") for n, photo in enumerate(photos)]
    assert [process.wait() for process in running] == [0] * 8
    for process in running:
        process.communicate()
    assert len(xlda.load(model).classes_) == 3 + 8


def test_merge_takes_its_turn(shop, model, call, rng):
    """Where it reads one of its models before another process writes it, that one's samples are lost."""
    np.savez("x.npz", embedding=rng.normal(size=(5, 6)), label=["other"] * 5)
    call("fit", "x.npz", "-o", "other.xlda")
    n = total(model)
    command = ["merge", model, "other.xlda", "-o", model, "--overwrite"]
    with subprocess.Popen([sys.executable, "-c", SLOW_TO_READ, *map(str, command)], **PIPES) as slow:
        assert slow.stdout.readline() == "read\n"  # and it writes a second later, at the soonest
        call("learn", model, "new", "--json")
        slow.communicate()
    assert slow.returncode == 0
    assert total(model) == n + 6 + 5


SLOW_TO_READ = """
import time, xlda
from xlda.cli import main
load = xlda.load
def slow(path):
    clf = load(path)
    print("read", flush=True)
    time.sleep(1)
    return clf
xlda.load = slow
main()
"""


def test_a_lock_is_waited_for_and_said(shop, model, call, monkeypatch):
    with locked_model(model):
        waiting = start("learn", model, "new")
        assert "waiting for another" in waiting.stderr.readline()
        time.sleep(1)
        assert waiting.poll() is None
    out, _ = waiting.communicate()
    assert waiting.returncode == 0
    assert "6 samples learned" in out


@pytest.mark.parametrize(
    "command",
    [
        ("learn", "shop.xlda", "new"),
        ("forget", "shop.xlda", "train"),
        ("rename", "shop.xlda", "red", "crimson"),
        ("merge-classes", "shop.xlda", "red", "blue"),
        ("remove", "shop.xlda", "red"),
        ("merge", "other.xlda", "-o", "shop.xlda", "--overwrite"),
        ("fit", "new", "-o", "shop.xlda", "--overwrite", "-b", "tiny.onnx"),
    ],
)
def test_whoever_writes_waits_for_the_lock_and_gives_up_at_last(shop, model, call, command):
    call("merge", model, "-o", "other.xlda")
    before = model.read_bytes()
    with locked_model(model):
        other = subprocess.run(
            [sys.executable, "-c", HASTY, *command], capture_output=True, text=True, check=False
        )
    assert (other.returncode, other.stdout) == (1, "")
    assert "waiting for another that is changing shop.xlda" in other.stderr
    assert other.stderr.splitlines()[-1].startswith("xlda: shop.xlda is being changed by another process")
    assert model.read_bytes() == before


HASTY = """
from xlda.cli import main, models
models.SOON, models.PATIENCE = 0.05, 0.1
main()
"""


def test_a_key_is_learned_once(shop, model, call):
    first = call("learn", model, "new", "--key", "visit 7", "--json")
    assert (first["learned"], first["learned_already"]) == (6, False)
    before = model.read_bytes()
    again = call("learn", model, "new", "--key", "visit 7", "--json")
    assert (again["learned"], again["learned_already"], again["classes"]) == (0, True, 4)
    assert "learned already" in call("learn", model, "new", "--key", "visit 7")
    assert model.read_bytes() == before
    assert call("learn", model, "new", "--key", "visit 8", "--json")["learned"] == 6
    assert xlda.load(model).batch_keys_ == ["visit 7", "visit 8"]


def test_ctrl_c_exits_130(shop, call, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("xlda.photos.parquet.embed_to_parquet", interrupted)
    assert "interrupted" in call("embed", "train", "-o", "a.parquet", "-b", "tiny.onnx", expect=130)


def test_ctrl_c_while_waiting_exits_130_and_changes_nothing(shop, model):
    before = model.read_bytes()
    with locked_model(model), start("learn", model, "new") as waiting:
        assert "waiting" in waiting.stderr.readline()
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait() == 130
        assert waiting.stderr.read() == "xlda: interrupted.\n"
    assert model.read_bytes() == before


def test_all_commands_count_alike(shop, model, call):
    assert call("inspect", model, "--json")["samples"] == 18
    call("learn", model, "new")
    assert call("forget", model, "--class", "red").endswith(" 18 samples left\n")
    assert call("inspect", model, "--json")["samples"] == 18
    assert call("learn", model, "train/red", "--json")["samples"] == 24
    assert call("remove", model, "red", "--json")["samples"] == 18
    assert "18 samples" in call("merge", model, "-o", "copy.xlda")
    assert call("forget", model, "new", "--json")["samples"] == 12
    assert call("inspect", model, "--json")["samples"] == 12
    assert sum(one["samples"] for one in call("classes", model, "--json")) == 12
