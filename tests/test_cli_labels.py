"""Labels as people give them, and the commands that change them."""

from __future__ import annotations

import io
import json
import shutil
import unicodedata

import numpy as np
import pytest

for needed in ("typer", "PIL", "onnx", "onnxruntime", "pyarrow"):
    pytest.importorskip(needed)

import xlda  # noqa: E402
from cli_shop import OLD, paint  # noqa: E402
from xlda.cli import console, labels  # noqa: E402
from xlda.cli.app import run  # noqa: E402

pytest_plugins = ("cli_shop",)


def counts(model):
    clf = xlda.load(model)
    return dict(zip(clf.classes_.tolist(), clf.class_count_.tolist(), strict=True))


@pytest.fixture
def deep(shop, call):
    """A model that was fitted one folder higher, so that its labels are `old/red` and so on."""
    paint(shop / "all" / "old", OLD, 6, 1)
    paint(shop / "val" / "old", OLD, 4, 9)
    call("fit", "all", "-o", "deep.xlda", "-b", "tiny.onnx")
    return shop / "deep.xlda"


def test_it_does_not_matter_where_one_points(deep, call):
    found = call("evaluate", deep, "val/old", "--json")
    assert found["accuracy"] == call("evaluate", deep, "val", "--json")["accuracy"] > 0.5
    assert found["unknown_classes"] == []
    assert found["taken_for_known"] == {name: f"old/{name}" for name in sorted(OLD)}
    learned = call("learn", deep, "val/old", "--json")
    assert (learned["learned"], learned["new_classes"], learned["classes"]) == (12, [], 3)
    assert call.err == "taken for known classes: blue is old/blue, green is old/green, red is old/red\n"
    assert set(counts(deep).values()) == {10.0}
    assert call("forget", deep, "val/old", "--json")["forgotten"] == 12
    assert set(counts(deep).values()) == {6.0}


def test_a_label_may_be_longer_than_the_known_one(model, shop, call):
    paint(shop / "more" / "fruit", ["red"], 2, 5)
    assert call("learn", model, "more", "--json")["new_classes"] == []
    assert counts(model)["red"] == 8
    assert call.err == "taken for known classes: fruit/red is red\n"


def test_a_single_photo_has_the_label_of_its_folder(deep, shop, call, monkeypatch):
    learned = call("learn", deep, "val/old/red/0.png", "--json")
    assert (learned["learned"], learned["new_classes"]) == (1, [])
    assert call.err.splitlines() == [
        "1 photo has the label of its folder: red",
        "taken for known classes: red is old/red",
    ]
    assert counts(deep)["old/red"] == 7
    assert call("forget", deep, "val/old/red/0.png", "--json")["forgotten"] == 1
    assert call("learn", deep, "val/old/red", "val/old/blue", "--json")["learned"] == 8
    assert counts(deep) == {"old/blue": 10, "old/green": 6, "old/red": 10}
    assert call("evaluate", deep, "val/old/red/*.png", "--json")["by_class"].keys() == {"old/red"}
    paint(shop / "new", ["kiwi"], 1, 2)
    assert call("learn", deep, "new/kiwi/0.png", "--json")["new_classes"] == ["kiwi"]


def test_no_label_is_made_up(deep, shop, call, monkeypatch):
    shutil.copy("val/old/red/0.png", "loose.png")
    shutil.copy("val/old/red/0.png", "val/old/loose.png")
    (shop / "list.csv").write_text("val/old/red/1.png\n")
    for where in ("loose.png", "val/old", "list.csv"):
        assert "has no label" in call("learn", deep, where, expect=1)
    assert "has no label" in call("fit", "val/old/red", "-o", "x.xlda", "-b", "tiny.onnx", expect=1)
    assert "--label is empty" in call("learn", deep, "loose.png", "--label", " ", expect=2)
    made = call("fit", "val/old/red", "val/old/blue", "-o", "two.xlda", "-b", "tiny.onnx", "--json")
    assert made["classes"] == 2
    assert call("learn", deep, "loose.png", "--label", "red", "--json")["taken_for_known"] == {
        "red": "old/red"
    }


@pytest.mark.parametrize("label", ["Red", "RED ", "r-e_d", "r\u0301ed", "light"])
def test_a_label_much_like_a_known_one_is_refused_without_a_terminal(model, shop, call, label):
    known = {"r\u0301ed": unicodedata.normalize("NFC", "r\u0301ed"), "light": "x/light"}.get(label, "red")
    if known != "red":
        call("rename", model, "red", known)
    if label == "light":
        call("rename", model, "blue", "y/light")
    before = model.read_bytes()
    error = call("learn", model, "new/kiwi", "--label", label, expect=1)
    assert repr(known) in error
    assert "--new-class" in error
    assert model.read_bytes() == before
    learned = call("learn", model, "new/kiwi", "--label", label, "--new-class", "--json")
    assert learned["new_classes"] == [label]


@pytest.mark.parametrize(("answer", "label"), [("1", "red"), ("n", "Red"), ("what?\n1", "red")])
def test_somebody_at_the_terminal_is_asked(model, call, monkeypatch, answer, label):
    monkeypatch.setattr(labels, "can_ask", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{answer}\n"))
    before = counts(model)
    call("learn", model, "new/kiwi", "--label", "Red")
    assert "1  red" in call.err
    assert "n  Red, a new class" in call.err
    assert counts(model) == {**before, label: before.get(label, 0) + 6}


@pytest.mark.parametrize("answer", ["q\n", ""])
def test_whoever_is_asked_may_stop(model, capsys, monkeypatch, answer):
    monkeypatch.setattr(labels, "can_ask", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    before = model.read_bytes()
    assert run(["learn", str(model), "new/kiwi", "--label", "Red"]) == 1
    assert capsys.readouterr().err.endswith("much like the known 'red'. Nothing was changed.\n")
    assert model.read_bytes() == before


def test_evaluate_takes_what_is_alike_and_changes_nothing(model, shop, call):
    (shop / "test" / "red").rename("test/Red")
    before = model.read_bytes()
    found = call("evaluate", model, "test", "--json")
    assert found["taken_for_known"] == {"Red": "red"}
    assert found["unknown_classes"] == ["kiwi"]
    assert model.read_bytes() == before


def test_learn_names_every_new_class(model, shop, call, rng):
    names = [f"new {number:02}" for number in range(12)]
    np.savez("many.npz", embedding=rng.normal(size=(12, 6)), label=names)
    assert call("learn", model, "many.npz") == (
        f"{model}: 12 samples learned; 12 new classes ({', '.join(names[:10])} and 2 more), 15 in all\n"
    )
    np.savez("one.npz", embedding=rng.normal(size=(1, 6)), label=["one"])
    assert call("learn", model, "one.npz").endswith(": 1 sample learned; 1 new class (one), 16 in all\n")
    assert call("learn", model, "one.npz").endswith(": 1 sample learned; no new class, 16 in all\n")
    np.savez("many.npz", embedding=rng.normal(size=(12, 6)), label=[f"more {name}" for name in names])
    assert call("learn", model, "many.npz", "--json")["new_classes"] == [f"more {name}" for name in names]


def test_fit_and_merge_tell_of_classes_that_are_alike(shop, call, rng):
    np.savez("a.npz", embedding=rng.normal(size=(4, 6)), label=["kiwi", "kiwi", "Kiwi", "pear"])
    call("fit", "a.npz", "-o", "a.xlda")
    assert (
        call.err == "classes that are much alike: kiwi and Kiwi. `xlda merge-classes` makes them one.\n"
        or (call.err == "classes that are much alike: Kiwi and kiwi. `xlda merge-classes` makes them one.\n")
    )


def test_rename(model, call):
    before = counts(model)
    assert call("rename", model, "red", "crimson") == f"{model}: red is crimson now\n"
    assert counts(model) == {"crimson": before["red"], "green": before["green"], "blue": before["blue"]}
    assert (
        call("rename", model, "crimson", "Crimson", "--json")["new"] == "Crimson"
    )  # its own name is no doubt
    assert "Is it 'Crimson'?" in call("rename", model, "crimsn", "red", expect=1)
    assert "merge-classes" in call("rename", model, "Crimson", "blue", expect=1)
    assert "--new-class" in call("rename", model, "Crimson", "Blue", expect=1)
    assert "empty" in call("rename", model, "Crimson", " ", expect=2)
    call("rename", model, "Crimson", "Blue", "--new-class")
    assert set(counts(model)) == {"Blue", "green", "blue"}


def test_merge_classes(model, call):
    call("learn", model, "new", "--label", "reddish")
    whole = xlda.load(model).covariance_.shape
    assert call("merge-classes", model, "red", "reddish") == (
        f"{model}: reddish is a part of red now, with 12 samples; 3 classes\n"
    )
    assert counts(model) == {"red": 12, "green": 6, "blue": 6}
    assert xlda.load(model).covariance_.shape == whole
    assert "There is no class 'reddish'" in call("merge-classes", model, "red", "reddish", expect=1)
    assert "two classes" in call("merge-classes", model, "red", "red", expect=1)


def test_merged_classes_are_as_if_learned_so(model, shop, call):
    shutil.copy(model, "other.xlda")
    call("learn", model, "new", "--label", "reddish")
    call("merge-classes", model, "red", "reddish")
    call("learn", "other.xlda", "new", "--label", "red")
    one, other = xlda.load(model), xlda.load("other.xlda")
    np.testing.assert_allclose(one.covariance_, other.covariance_, rtol=1e-4, atol=1e-7)


def test_remove(model, call):
    before = model.read_bytes()
    assert "Is it 'green'?" in call("remove", model, "red", "gren", expect=1)
    assert model.read_bytes() == before  # all or nothing
    assert call("remove", model, "red", "blue", "red") == (
        f"{model}: removed red, blue, with 12 samples; 1 class, 6 samples left\n"
    )
    assert counts(model) == {"green": 6}


def test_classes(model, call):
    call("learn", model, "new")
    assert call("classes", model).splitlines() == [
        "samples  class",
        "6        blue",
        "6        green",
        "6        kiwi",
        "6        red",
    ]
    assert call("classes", model, "RE", "--json") == [
        {"label": "red", "samples": 6},
        {"label": "green", "samples": 6},
    ]
    assert call("classes", model, "puce") == ""
    assert "'puce'" in call.err
    assert call("classes", model, "puce", "--json") == []


def test_commands_for_classes_with_numbers_for_labels(shop, call, rng):
    np.savez("n.npz", embedding=rng.normal(size=(30, 6)), label=np.repeat([3, 7, 12], 10))
    call("fit", "n.npz", "-o", "n.xlda")
    assert call("classes", "n.xlda", "--json") == [{"label": n, "samples": 10} for n in (3, 7, 12)]
    assert call("classes", "n.xlda").splitlines()[1:] == ["10       3", "10       7", "10       12"]
    assert call("rename", "n.xlda", "3", "4", "--json")["new"] == 4
    assert "whole numbers" in call("rename", "n.xlda", "4", "four", expect=1)
    call("merge-classes", "n.xlda", "4", "7")
    assert call("remove", "n.xlda", "12", "--json")["removed"] == [12]
    assert counts("n.xlda") == {4: 20}
    assert xlda.load("n.xlda").classes_.dtype == np.int64


def test_the_same_photo_twice_is_learned_once(model, shop, call):
    assert call("learn", model, "new", shop / "new", "--json")["learned"] == 6
    assert call.err.startswith("the same photo again, taken once: 6 (")
    assert len(call.err.splitlines()) == 1
    shutil.copy("new/kiwi/0.png", "new/kiwi/copy.png")
    assert call("forget", model, "new", "--json")["forgotten"] == 6
    assert call("learn", model, "new", "--json")["learned"] == 6
    assert call.err == "the same photo again, taken once: 1 (new/kiwi/copy.png is new/kiwi/0.png)\n"
    (shop / "new" / "lime").mkdir()
    shutil.copy("new/kiwi/0.png", "new/lime/other.png")
    call("learn", model, "new")
    assert "two labels, taken with both: 1 (new/kiwi/0.png and new/lime/other.png)" in call.err
    assert counts(model)["lime"] == 1
    made = call("fit", "new", "-o", "new.xlda", "-b", "tiny.onnx", "--json")
    assert made["samples"] == 7
    for command in (("evaluate", model), ("predict", model)):
        call(*command, "new/kiwi/0.png", "new/kiwi/0.png", "--json")
        assert "taken once" in call.err


def test_the_same_file_of_embeddings_twice_is_learned_once(model, shop, call):
    call("embed", "new", "-o", "new.parquet", "-b", "tiny.onnx")
    learned = call("learn", model, "new.parquet", shop / "new.parquet", "--json")
    assert learned["learned"] == 6
    assert "given twice, and taken once" in call.err


def test_nothing_in_a_label_reaches_the_terminal_raw(model, shop, capsys, call):
    evil = "a\x1b[2Jb\nc\u202ed\x9be\x00f"
    escaped = r"a\x1b[2Jb\nc\u202ed\x9be\x00f"
    clf = xlda.load(model)
    clf.rename_class("red", evil)
    clf.save(model)
    (shop / "evil").mkdir()
    shutil.copy("test/red/0.png", "evil/x\x1b[31m\n.png")
    asked = ("evil/x\x1b[31m\n.png",)
    for command in (
        ("inspect", model),
        ("classes", model),
        ("predict", model, *asked),
        ("evaluate", model, *asked),
        ("learn", model, "new", "--label", "new \x1b"),
        ("rename", model, evil, evil + "2"),
        ("remove", model, evil + "1"),
        ("remove", model, evil + "2"),
        ("learn", model, "none\x1b.png"),
        ("pre\x1bdict",),
        ("learn", "no\x1bne.xlda", *asked, "--debug"),
    ):
        run([str(argument) for argument in command])
        printed = "".join(capsys.readouterr())
        assert printed
        assert not set(printed) & set("\x1b\u202e\x9b\x00"), printed
        if command[0] in ("classes", "inspect"):
            assert escaped in printed
    run(["classes", str(model), "--json"])
    out = capsys.readouterr().out
    assert not set(out) & set("\x1b\u202e\x9b\x00")
    assert "new \x1b" in [one["label"] for one in json.loads(out)]


def test_letters_of_all_scripts_stay_as_they_are():
    for text in (
        "K\u00fchlregal",
        "\u4e16\u754c",
        "\u05e9\u05dc\u05d5\u05dd",
        "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\U0001f469\u200d\U0001f4bb",
    ):
        assert console.shown(text) == text
