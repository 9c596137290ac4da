"""Another backbone for a service, and options that say what is kept and how it is logged."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("apsw", reason="the service needs the extra `serve`")
pytest.importorskip("fastapi", reason="the service needs the extra `serve`")

from cli_shop import write_network
from service_under_test import COMMAND, environment, photo, running
from xlda import backbones
from xlda.service.engine import Engine, Keeping
from xlda.service.reembedding import reembed


@pytest.fixture
def networks(tmp_path):
    paths = tmp_path / "one.onnx", tmp_path / "other.onnx"
    for seed, path in enumerate(paths):
        write_network(path, seed)
    return paths


def test_another_backbone_is_refused_until_photos_are_embedded_again(tmp_path, networks):
    model, (one, other) = tmp_path / "shop.xlda", networks
    with running(model, backbone=one) as service:
        for number in range(3):
            for name in ("red", "green"):
                service.teach(name, photo(name, number))
        width = service.get("/v1/model")["features"]
        service.learn(np.ones((2, width)), ["no photo", "no photo"])
        merged = service.post(
            f"/v1/classes/{service.id_of('red')}:merge", json={"other": service.id_of("green")}
        )
        service.undo(merged["seq"])
        service.teach("blue", photo("blue", 1))
        ids = {label: class_id for label, (class_id, _) in service.classes().items()}
        assert service.end() == 0
    before = model.read_bytes()
    command = [sys.executable, "-c", COMMAND, "serve", str(model), "--port", "0", "--backbone", str(other)]
    refused = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60)
    assert refused.returncode == 1
    assert "Give --reembed to make a new model of the photos that are kept." in " ".join(
        refused.stderr.split()
    )
    assert model.read_bytes() == before
    said = []
    reembed(model, str(other), Keeping(), said.append)
    assert said == [
        "7 photos of 3 classes embedded again.",
        "2 samples have no photo, and are not in the new model.",
        "Without any photo, and so without samples now: no photo.",
        "The model as it was is kept as shop.xlda.before-1, with its log beside it.",
    ]
    assert (tmp_path / "shop.xlda.before-1").read_bytes() == before
    with running(model, backbone=other) as service:
        found = service.classes()
        assert found == {"blue": (ids["blue"], 1), "green": (ids["green"], 3), "red": (ids["red"], 3)}
        assert service.get("/v1/model")["backbone"]["identity"] == backbones.load(other).identity.identity
        assert service.predict(photo("red", 1))["label"] == "red"
        [sample, *_] = service.get(f"/v1/classes/{ids['blue']}")["samples"]
        assert service.get(f"/v1/samples/{sample['id']}/photo").startswith(b"\xff\xd8\xff")
    old = Engine.open(tmp_path / "shop.xlda.before-1")
    assert {str(entry.label): entry.count for entry in old.book.by_id.values()} == {
        "blue": 1, "green": 3, "no photo": 2, "red": 3,
    }  # fmt: skip
    old.abandon()
    reembed(model, str(other), Keeping(), said.append)
    assert said[-1].endswith("already; nothing is embedded again.")


def test_without_photos_that_is_said_and_none_is_kept(tmp_path, networks):
    with running(tmp_path / "shop.xlda", "--no-photos", "--no-review", backbone=networks[0]) as service:
        assert "No photos are kept (--no-photos): another backbone will mean starting anew." in "".join(
            service.lines
        )
        taught = service.teach("red", photo("red", 1))
        service.get(f"/v1/samples/{taught['id']}/photo", 404)
        kept = service.get("/v1/model")["disk"]
        assert (kept["photos"]["kept"], kept["photos"]["bytes"], kept["review"]["kept"]) == (False, 0, False)


def test_lines_of_the_log_are_json_where_that_is_asked_for(tmp_path):
    with running(tmp_path / "shop.xlda", "--log-json") as service:
        service.learn(np.eye(3, 4), ["a", "b", "c"])
        service.process.kill()
        service.process.wait()
    with running(tmp_path / "shop.xlda", "--log-json") as service:
        lines = [json.loads(line) for line in service.lines if line.startswith("{")]
        assert {"level": "info", "logger": "xlda.service", "message": "1 events replayed"}.items() <= lines[
            0
        ].items()
