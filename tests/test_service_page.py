"""What the page needs of a service beyond predicting and teaching: review, undo, settings."""

from __future__ import annotations

import importlib.util
import re
import time

import numpy as np
import pytest

for module in ("apsw", "fastapi", "uvicorn", "httpx", "onnxruntime", "onnx", "PIL", "typer"):
    pytest.importorskip(module)

from cli_shop import write_network  # noqa: E402
from service_under_test import SOON, blobs, photo, running  # noqa: E402
from xlda.client import Client  # noqa: E402
from xlda.service.book import Entry, Listed  # noqa: E402
from xlda.service.pairing import Pairing  # noqa: E402
from xlda.service.tokens import Token, TokenFile, Tokens  # noqa: E402


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    path = tmp_path_factory.mktemp("network") / "tiny.onnx"
    write_network(path, 0)
    return path


@pytest.fixture(scope="module")
def shop(tmp_path_factory, network):
    """A service with photos of which it is never sure, shared by all tests here."""
    with running(tmp_path_factory.mktemp("shop") / "shop.xlda", backbone=network) as service:
        for number in range(3):
            for name in ("red", "green", "blue", "kiwi"):
                service.teach(name, photo("red", number, (300, 300)))
        yield service
        assert service.end() == 0
        assert "Traceback" not in "".join(service.lines), "".join(service.lines)


def soon(check):
    until = time.monotonic() + SOON
    while not (found := check()) and time.monotonic() < until:
        time.sleep(0.05)
    assert found
    return found


def open_ids(service):
    return {item["id"] for group in service.get("/v1/review")["groups"] for item in group["items"]}


def put_aside(service, n, seed, name="red"):
    """Have answers put aside; gives their ids."""
    before = open_ids(service)
    for number in range(n):
        service.predict(photo(name, seed + number, (300, 300)))
    return list(soon(lambda: len(found := open_ids(service) - before) >= n and found))


def apply(service, ids, expect=200, **act):
    return service.post("/v1/review:apply", expect, json={"ids": ids, **act})


# -- review


def test_every_act_is_one_event_that_is_undone_and_done_again(shop):
    ids = put_aside(shop, 2, 1000)
    red = shop.id_of("red")
    for act, said in (
        ({"dismiss": True}, "dismissed"),
        ({"ignore": True}, "ignored"),
        ({"not": red}, "not"),
        ({"label": "red"}, None),
    ):
        before, others = shop.counts(), open_ids(shop) - set(ids)
        done = apply(shop, ids, **act)
        assert open_ids(shop) == others
        [event] = [one for one in shop.get("/v1/events/recent")["events"] if one["seq"] == done["seq"]]
        assert (event.get("said"), event["n"], event["undone"], event["can_be_undone"]) == (
            said, 2, False, True
        )  # fmt: skip
        undone = shop.undo(done["seq"])
        label = "red" if said in ("not", None) else None
        assert undone["undid"] == {"operation": "review", "label": label, "count": 2}
        assert open_ids(shop) == others | set(ids)
        assert shop.counts() == before
        again = shop.undo(undone["seq"])
        assert again["undid"] == {"operation": "undo", "label": label, "count": 2}
        assert open_ids(shop) == others
        shop.undo(again["seq"])
        assert open_ids(shop) == others | set(ids)
    apply(shop, ids, dismiss=True)
    apply(shop, ids, 404, dismiss=True)


def test_what_looks_like_something_ignored_is_not_put_aside(shop):
    [item] = put_aside(shop, 1, 1100)
    ignored = apply(shop, [item], ignore=True)
    n_before = len(open_ids(shop))
    for number in range(3):
        shop.predict(photo("red", 1110 + number, (300, 300)))
    time.sleep(1.5)
    assert len(open_ids(shop)) == n_before
    shop.undo(ignored["seq"])
    put_aside(shop, 1, 1120)


def test_acts_that_do_not_fit_are_refused(shop):
    [item] = put_aside(shop, 1, 1200)
    sample = shop.get(f"/v1/classes/{shop.id_of('red')}")["samples"][0]["id"]
    apply(shop, [item], 422, keep=True)
    apply(shop, [item], 422, keep=False)
    apply(shop, [item], 422)
    apply(shop, [item], 422, keep=True, dismiss=True)
    apply(shop, [sample], 422, ignore=True)
    apply(shop, [sample], 422, **{"not": shop.id_of("red")})
    apply(shop, ["1-00"], 404, keep=True)
    apply(shop, [item], dismiss=True)


def test_groups_say_what_they_are_and_what_is_solved(tmp_path, network):
    with running(tmp_path / "solved.xlda", backbone=network) as service:
        for number in range(3):
            service.teach("red", photo("red", number, (300, 300)))
        ids = put_aside(service, 2, 100, "blue")
        assert service.predict(photo("blue", 9, (300, 300)), unknown=0.05)["label"] is None
        soon(lambda: len(open_ids(service)) == 3)
        groups = service.get("/v1/review")["groups"]
        assert [(one["kind"], one["solved"], one["label"]) for one in groups] == [("unknown", False, None)]
        for number in range(4):
            service.teach("blue", photo("blue", 200 + number, (300, 300)))

        def is_solved():
            groups = service.get("/v1/review")["groups"]
            return [
                (one["kind"], one["label"], one["class_id"], one["size"]) for one in groups if one["solved"]
            ]

        [found] = soon(is_solved)
        assert found == ("unsure", "blue", service.id_of("blue"), len(open_ids(service)))
        assert set(ids) <= open_ids(service)  # they do not vanish by themselves
        put_aside(service, 1, 300, "green")
        groups = service.get("/v1/review")["groups"]
        assert [(one["solved"], one["size"]) for one in groups] == [(False, 1), (True, 3)]


def test_samples_that_contradict_others(tmp_path):
    X, y = blobs(60, seed=1)
    rng = np.random.default_rng(0)
    centre = X[y == "b"].mean(axis=0)
    with running(tmp_path / "wrong.xlda") as service:
        service.learn(X, y)
        service.learn(centre + 0.1 * rng.normal(size=(1, 6)), ["a"])
        wrong = service.get(f"/v1/classes/{service.id_of('a')}?limit=1")["samples"][0]["id"]
        groups = soon(lambda: service.get("/v1/review")["groups"])
        mine = next(one for one in groups if wrong in {item["id"] for item in one["items"]})
        assert (mine["kind"], mine["label"], mine["class_id"]) == ("contradicts", "b", service.id_of("b"))
        item = next(item for item in mine["items"] if item["id"] == wrong)
        assert (item["sample_id"], item["taught_label"]) == (wrong, "a")
        n_samples = sum(one["size"] for one in groups)
        assert n_samples < 15  # most agree
        newest = service.get(f"/v1/classes/{service.id_of('a')}?limit=1")["samples"][0]
        assert (newest["id"], newest["hurts"]) == (wrong, True)

        kept = apply(service, [wrong], keep=True)
        assert kept["taught"] is False
        assert wrong not in open_ids(service)
        service.undo(kept["seq"])
        assert wrong in open_ids(service)
        moved = apply(service, [wrong], label="b")
        assert moved["taught"] is True
        assert wrong not in open_ids(service)
        assert service.counts()["b"] == 21
        service.undo(moved["seq"])
        assert service.counts() == {"a": 21, "b": 20, "c": 20}
        assert wrong in open_ids(service)


# -- classes


def test_samples_of_a_class_come_in_pages_the_newest_first(shop):
    seqs = [shop.teach("many", photo("kiwi", 2000 + number, (300, 300)))["seq"] for number in range(5)]
    path = f"/v1/classes/{shop.id_of('many')}"
    every = shop.get(path)
    numbers = [int(sample["id"].partition("-")[0], 16) for sample in every["samples"]]
    assert numbers == sorted(numbers, reverse=True)
    assert every["next"] is None
    found, after = [], ""
    for _ in range(3):
        page = shop.get(path, params={"limit": 2, "after": after})
        found += page["samples"]
        after = page["next"]
    assert after is None
    assert found == every["samples"]
    assert shop.get(path, params={"after": "nothing"})["samples"] == []
    shop.get(path, 422, params={"limit": 0})
    undone = shop.undo(*seqs)
    assert undone["undid"] == {"operation": "learn", "label": "many", "count": 5}


def test_the_share_of_answers_that_people_corrected(tmp_path, network):
    with running(tmp_path / "judged.xlda", backbone=network) as service:
        for number in range(3):
            service.teach("red", photo("red", number, (300, 300)))
            service.teach("green", photo("green", number, (300, 300)))

        def judge(number, **said):
            asked = service.predict(photo("red", 100 + number, (300, 300)))
            assert asked["label"] == "red"
            return service.post(f"/v1/predictions/{asked['id']}/feedback", json=said)["seq"]

        path = f"/v1/classes/{service.id_of('red')}"
        for number in range(3):
            judge(number, correct=True)
        denied = judge(3, **{"not": service.id_of("red")})
        assert service.get(path)["corrections"] is None  # too few
        corrected = judge(4, label="apple")
        assert service.get(path)["corrections"] == pytest.approx(2 / 5)
        judge(5, correct=True)
        assert service.get(path)["corrections"] == pytest.approx(2 / 6)
        service.undo(corrected)
        assert service.get(path)["corrections"] == pytest.approx(1 / 5)
        redo = service.undo(denied)["seq"]
        judge(6, correct=True)
        assert service.get(path)["corrections"] == 0
        service.undo(redo)
        assert service.get(path)["corrections"] == pytest.approx(1 / 6)
        assert service.get(path)["enough"] is None


# -- settings, and events


def test_the_question_about_photos(tmp_path, network):
    path = tmp_path / "first.xlda"
    with running(path, backbone=network) as service:
        found = service.get("/v1/model")
        assert (found["first_start"], found["photos_kept"], found["takes_photos"]) == (True, True, True)
        assert found["scopes"] == ["read", "teach", "admin", "sync"]
        assert found["lan_addresses"] == []
        for body in ({}, {"keep_photos": "no"}, {"keep_photos": None}, {"keep_photos": True, "more": 1}):
            service.post("/v1/settings", 422, json=body)
        said = service.post("/v1/settings", json={"keep_photos": False})
        found = service.get("/v1/model")
        assert (found["first_start"], found["photos_kept"]) == (False, False)
        sample = service.teach("red", photo("red", 1, (300, 300)))
        service.get(f"/v1/samples/{sample['id']}/photo", 404)
        undone = service.undo(said["seq"])
        assert undone["undid"] == {"operation": "settings", "label": None, "count": 1}
        assert service.get("/v1/model")["first_start"] is True
        service.post("/v1/settings", json={"keep_photos": True})
        sample = service.teach("red", photo("red", 2, (300, 300)))
        service.get(f"/v1/samples/{sample['id']}/photo")
        service.post("/v1/settings", json={"keep_photos": False})
        assert service.end() == 0
    with running(path, backbone=network) as service:
        found = service.get("/v1/model")
        assert (found["first_start"], found["photos_kept"]) == (False, False)
    with running(path, "--no-photos", backbone=network) as service:
        service.post("/v1/settings", 409, json={"keep_photos": True})
        assert service.get("/v1/model")["first_start"] is False


def test_the_newest_events(shop):
    seqs = [shop.post("/v1/classes", 201, json={"label": f"new {number}"})["seq"] for number in range(3)]
    undone = shop.undo(seqs[1])["seq"]
    found = shop.get("/v1/events/recent?limit=4")["events"]
    assert [(one["seq"], one["undone"]) for one in found] == [
        (undone, False), (seqs[2], False), (seqs[1], True), (seqs[0], False)
    ]  # fmt: skip
    assert found[0]["undid"] == {"operation": "create", "label": "new 1", "count": 1}
    assert found[0]["undoes"] == [seqs[1]]
    shop.get("/v1/events/recent?limit=0", 422)
    shop.get("/v1/events/recent?limit=501", 422)
    both = shop.undo(seqs[0], seqs[2])
    assert both["undid"] == {"operation": "create", "label": None, "count": 2}


def test_the_client_of_all_of_this(shop):
    with Client(shop.url) as client:
        content = photo("green", 3000, (300, 300))
        taught = client.teach(content, "green", unless_warned=True)
        assert (taught.learned, taught.codes) == (True, ())
        again = client.teach(content, "green", unless_warned=True)
        assert (again.learned, again.id, again.label) == (False, "", "green")
        assert "same_photo" in again.codes
        found = client.predict(content, like=1)
        assert [one["sample_id"] for one in found.like] == [taught.id]
        assert client.predict(photo("green", 3001, (20, 20))).codes[0] == "too_small"
        item = put_aside(shop, 1, 3010)[0]
        done = client.review_apply([item], ignore=True)
        client.undo(done.seq)
        client.review_apply([taught.id], keep=True)
        client.undo(taught.seq)


# -- pairing


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    texts = {}
    tokens = Tokens()
    for scope in ("teach", "admin"):
        tokens, texts[scope] = tokens.with_new(f"my-{scope}", [scope])
    tokens.write(folder / "tokens.json")
    options = ("--token-file", folder / "tokens.json", "--host", "0.0.0.0")
    with running(folder / "shop.xlda", *options) as service:
        service.tokens = {scope: {"authorization": f"Bearer {text}"} for scope, text in texts.items()}
        service.token_file = folder / "tokens.json"
        yield service
        assert service.end() == 0


def let_in(service, code, expect=204):
    """The headers of a browser that was let in by a code."""
    answer = service.http.post("/v1/session", json={"code": code})
    service.http.cookies.clear()
    assert answer.status_code == expect, answer.text
    return {"cookie": answer.headers["set-cookie"].partition(";")[0], "sec-fetch-site": "same-origin"}


def test_the_code_that_is_printed_lets_an_admin_in_once(guarded):
    line = soon(lambda: [line for line in guarded.lines if "#code=" in line])[0]
    code = re.search(r"#code=([0-9A-Z]{4}-[0-9A-Z]{4})$", line.strip())[1]
    cookie = let_in(guarded, code)
    assert guarded.get("/v1/model", headers=cookie)["scopes"] == ["read", "teach", "admin"]
    assert guarded.http.post("/v1/session", json={"code": code}).status_code == 401


def test_a_browser_lets_another_one_in(guarded):
    guarded.post("/v1/pairing", 401, json={})
    guarded.post("/v1/pairing", 403, json={}, headers=guarded.tokens["teach"])
    for body in ({"scope": "sync"}, {"scope": 1}, {"scopes": "teach"}, []):
        guarded.post("/v1/pairing", 422, json=body, headers=guarded.tokens["admin"])
    found = guarded.post("/v1/pairing", json={}, headers=guarded.tokens["admin"])
    assert found["expires_in"] == 600
    addresses = guarded.get("/v1/model", headers=guarded.tokens["admin"])["lan_addresses"]
    assert found["addresses"] == [f"{url}#code={found['code']}" for url in addresses]
    assert all(url.endswith(f":{guarded.port}/") and "127.0.0.1" not in url for url in addresses)
    if addresses and importlib.util.find_spec("segno"):
        assert found["qr"].startswith("<svg")
    cookie = let_in(guarded, found["code"].lower().replace("-", ""))
    guarded.post("/v1/classes", 201, json={"label": "made by a phone"}, headers=cookie)
    guarded.post("/v1/pairing", 403, json={}, headers=cookie)
    [name] = [one.name for one in Tokens.read(guarded.token_file) if one.scopes == ("teach",)][1:]
    assert name.startswith("paired-")
    [event] = guarded.get("/v1/events/recent?limit=1", headers=cookie)["events"]
    assert event["actor"] == name
    Tokens.read(guarded.token_file).without(name).write(guarded.token_file)
    soon(lambda: guarded.http.get("/v1/model", headers=cookie).status_code == 401)


def test_wrong_codes_are_refused_and_not_for_long(guarded):
    statuses = [guarded.http.post("/v1/session", json={"code": "ABCD-EFGH"}).status_code for _ in range(120)]
    assert set(statuses) == {401, 429}
    assert statuses == sorted(statuses)


def test_a_code_is_good_for_ten_minutes(monkeypatch):
    pairing, now = Pairing(), time.monotonic()
    early, late = pairing.new("read"), pairing.new("teach")
    monkeypatch.setattr(time, "monotonic", lambda: now + 590)
    assert pairing.taken(early) == "read"
    monkeypatch.setattr(time, "monotonic", lambda: now + 602)
    assert pairing.taken(late) is None


def test_browsers_are_let_in_where_the_file_cannot_be_written_and_old_ones_go(tmp_path, monkeypatch):
    path = tmp_path / "tokens.json"
    old = Token("paired-old", ("teach",), "0" * 64, "2020-01-01T00:00:00+00:00")
    Tokens((old, Token("till", ("read",), "1" * 64, "2020-01-01T00:00:00+00:00"))).write(path)
    file = TokenFile(path)
    made = file.paired("teach")
    assert [one.name for one in Tokens.read(path)] == ["till", made.name]
    assert file.named(made.name) == made

    def fail(*_):
        raise PermissionError("no")

    monkeypatch.setattr(Tokens, "write", fail)
    other = file.paired("read")
    assert file.named(other.name) == other
    assert [one.name for one in Tokens.read(path)] == ["till", made.name]


def test_without_tokens_there_is_nobody_to_let_in(shop):
    shop.post("/v1/pairing", 409, json={})
    assert shop.http.post("/v1/session", json={"code": "ABCD-EFGH"}).status_code == 204
    assert not any("#code=" in line for line in shop.lines)


def test_classes_whose_words_begin_so_come_before_those_that_have_it_elsewhere():
    labels = ["banana", "ab", "red ab", "crab", "x_ab", "cab ab", "(ab)"]
    entries = sorted((Entry(label, label, 1.0, label) for label in labels), key=lambda entry: entry.folded)
    listed = Listed.of(entries)
    assert [entry.id for entry in listed.fitting("ab")] == ["ab", "(ab)", "cab ab", "red ab", "x_ab", "crab"]
    assert [entry.id for entry in listed.fitting("(a")] == ["(ab)"]
