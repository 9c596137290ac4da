"""`xlda predict`, `learn` and `backup` with a service, in a shop with made-up photos."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("httpx")
pytest.importorskip("PIL")

from fake_service import Refusal
from xlda.client import sending

pytest_plugins = ("cli_shop", "fake_service")


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Files that the service takes for photos, and a folder of them for each class."""
    monkeypatch.chdir(tmp_path)
    for name in ("kiwi", "pear"):
        (tmp_path / "new" / name).mkdir(parents=True)
        for number in range(5):
            content = b"\xff\xd8\xff" + f"{name} {number}".encode()
            (tmp_path / "new" / name / f"{number}.jpg").write_bytes(content)
    monkeypatch.setattr(sending, "FIRST_WAIT", 0.01)
    return tmp_path


@pytest.fixture
def there(service, photos):
    return "--server", service.url


def bad(path):
    path.write_bytes(b"GIF89a")
    return path


def posts(service, path="/v1/samples"):
    return [request for request in service.requests if request.path == path]


def test_learn_and_predict(call, service, there):
    learned = call("learn", *there, "new", "--json")
    assert learned == {
        "model": service.url,
        "learned": 10,
        "learned_already": False,
        "taken_for_known": {},
        "new_classes": ["kiwi", "pear"],
        "classes": 2,
        "samples": 10,
    }
    assert {request.query["label"][0] for request in posts(service)} == {"kiwi", "pear"}
    assert posts(service)[0].body.startswith(b"\xff\xd8\xff")
    service.fail = ["cut"]  # so that the first is answered after others
    found = call("predict", *there, "new/pear/3.jpg", "new/kiwi", "-k", 1, "--json")
    assert [Path(one["name"]).as_posix() for one in found] == [
        "new/pear/3.jpg",
        *(f"new/kiwi/{n}.jpg" for n in range(5)),
    ]
    assert [one["label"] for one in found] == ["pear", *["kiwi"] * 5]
    assert {one["known"] for one in found} == {0.5}
    assert [(best["label"], best["probability"]) for best in found[0]["best"]] == [("pear", 0.75)]
    assert posts(service, "/v1/predict")[0].query == {"k": ["1"]}
    text = call("predict", *there, "new/pear/3.jpg", "--unknown", 0.05)
    assert text.splitlines() == ["new/pear/3.jpg  (50% known)", "   %  label", "75.0  pear"]
    assert posts(service, "/v1/predict")[-1].query == {"k": ["5"], "unknown": ["0.05"]}
    (Path("new") / "other.jpg").write_bytes(b"\xff\xd8\xff nobody knows")
    text = call("predict", *there, "new/other.jpg", "--unknown", 0.05)
    assert text.splitlines()[0] == "new/other.jpg  unknown  (50% known)"


def test_what_is_said_is_what_is_said_of_a_file(call, service, there):
    text = call("learn", *there, "new/kiwi")
    assert text == f"{service.url}: 5 samples learned; 1 new class (kiwi), 1 in all\n"
    text = call("learn", *there, "new/kiwi/1.jpg", "new/kiwi/2.jpg", "--label", "lime")
    assert text == f"{service.url}: 2 samples learned; 1 new class (lime), 2 in all\n"
    text = call("learn", *there, "new", "--only", "kiwi")
    assert "no new class" in text
    n = len(service.samples)
    call("learn", *there, "new", "--only", "kiwi", "--only", "plum", expect=1)
    assert "There is no class 'plum' among these samples" in call.err
    assert len(service.samples) == n


def test_four_photos_are_on_their_way_at_once(call, service, there):
    service.hold.clear()

    def let_go():
        deadline = time.monotonic() + 5
        while service.busy < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.1)  # in which a fifth could come
        service.hold.set()

    thread = threading.Thread(target=let_go)
    thread.start()
    call("predict", *there, "new", "--json")
    thread.join()
    assert service.most_busy == 4


# -- keys


def test_the_same_key_learns_nothing_again(call, service, there):
    assert call("learn", *there, "new/kiwi", "--key", "monday", "--json")["learned"] == 5
    n = len(service.samples)
    again = call("learn", *there, "new/kiwi", "--key", "monday", "--json")
    assert (again["learned"], again["learned_already"], again["new_classes"]) == (0, True, [])
    text = call("learn", *there, "new/kiwi", "--key", "monday")
    assert text == f"{service.url}: learned already, with the key monday; nothing is changed\n"
    assert len(service.samples) == n
    keys = {request.key for request in posts(service)}
    assert len(keys) == 5
    assert all(re.fullmatch(r"monday-[0-9a-f]{64}", key) for key in keys)
    more = call("learn", *there, "new", "--key", "monday", "--json")
    assert (more["learned"], more["learned_already"], more["new_classes"]) == (5, False, ["pear"])
    assert "learned already, with the key monday: 5 photos" in call.err
    call("learn", *there, "new/kiwi", "--key", "monday", "--label", "lime")
    assert len(service.samples) == n + 10
    call("learn", *there, "new/kiwi")
    assert len(service.samples) == n + 15


@pytest.mark.parametrize("key", ["a b", "ä", "k" * 151, ""])
def test_keys_that_cannot_be_sent(call, service, there, key):
    call("learn", *there, "new", "--key", key, expect=2)
    assert service.samples == {}


def test_an_answer_that_was_lost_counts_as_learned(call, service, there):
    service.fail = [None, None, "cut after", "cut after"]
    learned = call("learn", *there, "new", "--key", "k", "--json")
    assert (learned["learned"], learned["learned_already"]) == (10, False)
    assert len(service.samples) == 10
    assert len(posts(service)) == 12


# -- labels


def test_labels_mean_classes_of_the_service(call, service, there):
    service.labels = {"c1": "Fruit/kiwi", "c2": "x", "c3": "Pear", "c4": "y", "c5": "Nut/Pear"}
    call("learn", *there, "new/pear", expect=1)
    assert "much like the known 'Pear' or 'Nut/Pear'" in call.err
    assert service.samples == {}
    learned = call("learn", *there, "new", "--new-class", "--json")
    assert learned["taken_for_known"] == {"kiwi": "Fruit/kiwi"}
    assert learned["new_classes"] == ["pear"]
    assert "taken for known classes: kiwi is Fruit/kiwi" in call.err
    assert list(service.labels.values()) == ["Fruit/kiwi", "x", "Pear", "y", "Nut/Pear", "pear"]


def test_a_photo_without_a_label_is_not_sent(call, service, there):
    Path("a.jpg").write_bytes(b"\xff\xd8\xff")
    call("learn", *there, "a.jpg", expect=1)
    assert "a.jpg has no label" in call.err
    assert service.samples == {}


# -- what goes wrong


def test_a_bad_photo_is_named_and_may_be_skipped(call, service, there):
    bad(Path("new/kiwi/2.jpg"))
    call("predict", *there, "new/kiwi", expect=1)
    assert "xlda: new/kiwi/2.jpg: This is no JPEG, PNG or WebP picture." in call.err
    found = call("predict", *there, "new/kiwi", "--on-error", "skip", "--json")
    assert [Path(one["name"]).name for one in found] == ["0.jpg", "1.jpg", "3.jpg", "4.jpg"]
    assert "skipped: new/kiwi/2.jpg: This is no JPEG" in call.err
    assert call("learn", *there, "new/kiwi", "--on-error", "skip", "--json")["learned"] == 4
    call("learn", *there, str(bad(Path("b.jpg"))), "-l", "b", "--on-error", "skip", expect=1)
    assert "no sample left" in call.err
    Path("list.csv").write_text("none.jpg, kiwi\nnew/kiwi/0.jpg, kiwi\n")
    call("learn", *there, "list.csv", "--on-error", "skip")
    assert "skipped: none.jpg: No such file" in call.err


def test_what_was_learned_before_a_failure_is_said(call, service, there):
    service.fail = [None] * 7 + [Refusal(507, "The disk is nearly full.")] * 99
    call("learn", *there, "new", expect=1)
    assert "xlda: The disk is nearly full." in call.err
    assert re.search(r"[345] photos had been learned by then", call.err)
    assert "With --key it could be run again" in call.err


def test_warnings_are_said_by_name(call, service, there):
    Path("new/pear/1.jpg").write_bytes(b"\xff\xd8\xff dark")
    call("learn", *there, "new")
    assert "new/pear/1.jpg: It is dark." in call.err


def test_nobody_there(call, photos):
    call("predict", "--server", "http://127.0.0.1:1", "new", expect=1)
    assert "No xlda service answers at http://127.0.0.1:1. Start one with `xlda serve`." in call.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("predict", "--server", "URL"), "Name some photos"),
        (("predict", "--server", "URL", "new", "-b", "a.onnx"), "the service has its own"),
        (("learn", "--server", "URL", "a.npz"), "takes photos"),
        (("learn", "--server", "URL", "a.npz", "new"), "not both"),
        (("predict", "shop.xlda"), "Name a model file, and then photos"),
        (("predict",), "Name a model file, and then photos"),
        (("predict", "shop.xlda", "new", "--token-from", "t"), "for --server"),
        (("learn", "shop.xlda"), "Name a model file, and then photos"),
        (("predict", "--server", "shop", "new"), "address of a service"),
    ],
)
def test_wrong_usage(call, service, photos, arguments, said):
    expect = 1 if said in ("address of a service", "not both") else 2
    call(*(service.url if one == "URL" else one for one in arguments), expect=expect)
    assert said in call.err
    assert service.requests == []


def test_the_token_is_taken_from_the_environment_or_a_file(call, service, there, monkeypatch):
    service.token = "xlda_secret"
    call("predict", *there, "new/kiwi", expect=1)
    assert "wants a token" in call.err
    monkeypatch.setenv("XLDA_TOKEN", "xlda_secret")
    call("predict", *there, "new/kiwi")
    monkeypatch.setenv("XLDA_TOKEN", "xlda_wrong")
    call("predict", *there, "new/kiwi", expect=1)
    assert "xlda_" not in call.err
    Path("token.txt").write_text("xlda_secret\n")
    call("predict", *there, "new/kiwi", "--token-from", "token.txt")
    call("learn", *there, "new/kiwi", "--token-from", "token.txt")
    call("predict", *there, "new/kiwi", "--token-from", "none.txt", expect=1)
    assert "none.txt" in call.err


@pytest.mark.skipif(os.name == "nt", reason="signals are of Unix")
def test_ctrl_c_stops_soon_and_says_what_was_learned(service, there):
    """A few photos are learned; then the service holds back its answers."""
    service.held_after = 3
    command = "import sys; from xlda.cli import main; main()"
    arguments = [sys.executable, "-c", command, "learn", *there, "new", "--key", "k"]
    learning = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while service.hold.is_set() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3)
    started = time.monotonic()
    learning.send_signal(signal.SIGINT)
    _, said = learning.communicate(timeout=20)
    assert time.monotonic() - started < 5
    assert learning.returncode == 130
    assert said.splitlines()[-1] == "xlda: interrupted."
    assert re.search(r"[3-6] photos had been learned by then", said)
    assert "Run it again with the same key" in said
    assert "Traceback" not in said


# -- backup


def test_backup(call, service, there, photos):
    text = call("backup", "copy.zip", *there)
    assert Path("copy.zip").read_bytes() == service.export
    assert text == f"copy.zip: 350,000 bytes from {service.url}\n"
    assert call("backup", "copy.zip", *there, "--json")["bytes"] == 350_000
    service.cut_export = 99
    before = sorted(Path().iterdir())
    call("backup", "other.zip", *there, expect=1)
    assert sorted(Path().iterdir()) == before


def test_a_backup_replaces_no_other_file(call, service, there, photos):
    Path("shop.xlda").write_bytes(b"a model")
    assert "is no backup" in call("backup", "shop.xlda", *there, expect=1)
    assert Path("shop.xlda").read_bytes() == b"a model"
