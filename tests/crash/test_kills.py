"""The service is killed at random moments and at every fault point; what it acknowledged is there then."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

pytest.importorskip("apsw", reason="the service needs the extra `serve`")
pytest.importorskip("httpx", reason="the service needs the extra `serve`")

import httpx
import PIL.Image

from crash.campaign import OFTEN, Campaign
from crash.clients import WEIGHTS
from crash.process import MODEL, WRAPPER, Served
from crash.run import OF_FOLDS, POINTS, WITHOUT_REMOVAL
from crash.shop import running
from xlda.service import exchanging, faults
from xlda.service.backup import backup
from xlda.service.engine import Engine
from xlda.service.places import ServicePlaces

ELSEWHERE = {  # points that need more than samples to be reached, and the tests that do
    "start-before-tables": "below", "restore-before-rename": "below", "restore-between-renames": "below",
    "restore-after-rename": "below", "photo-before-rename": "below", "photo-after-rename": "below",
    "photo-before-delete": "below", "photo-after-delete": "below", "migration-after-copy": "test_damage.py",
    "migration-before-commit": "test_damage.py", "migration-after-commit": "test_damage.py",
    "fleet-file-written": "test_fleet_service.py", "fleet-before-delete": "test_fleet_service.py",
    "fleet-after-delete": "test_fleet_service.py",
    "exchange-begun": "below", "exchange-old-moved": "below", "exchange-new-moved": "below",
}  # fmt: skip


def test_every_point_has_its_test():
    assert set(faults.NAMES) == {*POINTS, *OF_FOLDS, *ELSEWHERE}


def lives(folder, points, **more):
    """A campaign with a life that ends anywhere, and one that ends at each point."""
    folder.mkdir()
    with Campaign(folder, **more) as campaign:
        campaign.life(n_samples=60)
        for number, point in enumerate(points):
            while point == "start-in-replay" and not campaign.is_ahead:  # or there is nothing to replay
                campaign.life("after-commit:9")
            assert campaign.life(f"{point}:{1 + number % 3 if 'start' not in point else 1}"), point
        campaign.end()
    return campaign


def test_a_kill_at_any_point_loses_nothing(tmp_path):
    half = len(POINTS) // 2 + 1
    kept = {"points": POINTS[:half], "seed": 1, "weights": {**WEIGHTS, "remove": 3}}
    points = [*POINTS[half:], *OF_FOLDS]
    folded = {"points": points, "seed": 2, "weights": WITHOUT_REMOVAL, "folds_after": 2.0}
    with ThreadPoolExecutor(2) as pool:
        ended = [
            pool.submit(lives, tmp_path / "kept", **kept),
            pool.submit(lives, tmp_path / "folded", **folded),
        ]
    for campaign in (one.result() for one in ended):
        campaign.assert_fine()
        assert campaign.n_samples > 50
        assert campaign.n_kills >= 4


def test_acknowledging_before_the_commit_is_found_out(tmp_path):
    with Campaign(tmp_path, change=["acknowledge early"], weights={"learn": 1}) as campaign:
        campaign.life("before-commit:6")
        campaign.check()
    assert campaign.lost
    assert not campaign.is_fine


def test_a_first_start_that_was_killed_is_no_hindrance(tmp_path):
    with Served(tmp_path, fault="start-before-tables:1") as served:
        assert served.process.returncode == -signal.SIGKILL
    Engine.open(tmp_path / MODEL).abandon()


# -- restoring


def restore(folder, fault=None):
    environment = {name: text for name, text in os.environ.items() if not name.startswith("XLDA_")}
    environment |= {} if fault is None else {"XLDA_FAULT": f"{fault}:1"}
    command = [sys.executable, str(WRAPPER), "restore", "backup.zip", "--out", MODEL]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False).returncode


def state(engine):
    return engine.machine.seq, {entry.label: entry.count for entry in engine.book.by_id.values()}


def test_a_restore_that_was_killed_is_whole_or_nothing(tmp_path):
    with running(tmp_path / MODEL) as shop:
        shop.teach(["apple", "pear"])
        shop.engine.checkpoint()
        shop.teach(["apple", "fig"])  # which the model in the backup has not got
        content, expected = b"".join(backup(shop.engine)), state(shop.engine)
    for fault in ("restore-before-rename", "restore-between-renames", "restore-after-rename"):
        folder = tmp_path / fault
        folder.mkdir()
        (folder / "backup.zip").write_bytes(content)
        assert restore(folder, fault) == -signal.SIGKILL
        if fault == "restore-before-rename":
            assert not (folder / MODEL).exists()
            assert restore(folder) == 0
        engine = Engine.open(folder / MODEL)
        assert state(engine) == expected
        engine.abandon()
        assert (folder / MODEL).exists()


# -- another backbone


class Ended(BaseException):
    """As a kill: nobody catches it."""


@pytest.mark.parametrize("n_points", range(1, 7))
def test_an_exchange_of_models_that_was_killed_is_finished_by_the_next_start(tmp_path, monkeypatch, n_points):
    old, new = ServicePlaces(tmp_path / MODEL), ServicePlaces(tmp_path / f"{MODEL}.reembedded")
    for places, text in ((old, "old"), (new, "new")):
        places.model.write_text(text)
        places.folder.mkdir()
        (places.folder / "log.sqlite").write_text(text)
    left = iter(range(n_points - 1))

    def reached(name):
        if next(left, None) is None:
            raise Ended

    monkeypatch.setattr(exchanging, "reached", reached)
    with suppress(Ended):
        exchanging.exchange(old, new)
    monkeypatch.setattr(exchanging, "reached", lambda name: None)
    exchanging.finish_exchange(old)
    former = ServicePlaces(tmp_path / f"{MODEL}.before-1")
    for places, text in ((old, "new"), (former, "old")):
        assert places.model.read_text() == text
        assert (places.folder / "log.sqlite").read_text() == text
    assert len(list(tmp_path.iterdir())) == 4


# -- photos


def photo(number):
    """A JPEG file like no other."""
    pixels = np.random.default_rng(number).integers(0, 256, (40, 40, 3), np.uint8)
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, "JPEG")
    return file.getvalue()


def teach_and_forget(url, numbers):
    """Teach photos and forget every second one; gives the ids of those that stay, if all went well."""
    stay = []
    with httpx.Client(base_url=url, timeout=30) as client:
        for number in numbers:
            headers = {"Content-Type": "image/jpeg", "Idempotency-Key": f"photo-{number}"}
            query = {"label": f"class {number % 3}"}
            try:
                answer = client.post("/v1/samples", params=query, content=photo(number), headers=headers)
                assert answer.status_code == 201, answer.text
                if number % 2:
                    client.delete(f"/v1/samples/{answer.json()['id']}").raise_for_status()
                else:
                    stay.append(answer.json()["id"])
            except httpx.TransportError:
                return stay
    return stay


def test_photos_of_a_killed_service_are_there_or_gone_with_their_samples(tmp_path):
    often = {**OFTEN, "xlda.service.photo_store.SPARED": 0.5}
    stay, ends = [], ["before-rename:3", "after-rename:2", "before-delete:1", "after-delete:1", None]
    for number, fault in enumerate(end and f"photo-{end}" for end in ends):
        options = ["--undo-days", f"{0.5 / 86400:.12f}"]
        changed = {"set_": often, "change": ["small backbone"], "backbone": False}
        with Served(tmp_path, *options, fault=fault, **changed) as served:
            if fault is not None and served.url is None:  # it came to what the one before had left
                assert served.process.returncode == -signal.SIGKILL
                continue
            assert served.url is not None, served.said()
            stay += teach_and_forget(served.url, range(10 * number, 10 * number + 6))
            if fault is None:
                names = wait_for_photos(served.url, tmp_path, stay)
                assert served.stop() == 0
            else:
                reached = served.wait_for_end(0.8)
                if not reached:  # what is too old is dropped after a change
                    stay += teach_and_forget(served.url, [10 * number + 8])
                assert served.wait_for_end(20.0), fault
    log = json.loads((tmp_path / "samples.json").read_text())
    assert len(names) == len(log)


def wait_for_photos(url, folder, stay):
    """The names of all photos on disk, once they are those of the samples that are still known."""
    with httpx.Client(base_url=url, timeout=30) as client:
        for sample in stay:
            assert client.get(f"/v1/samples/{sample}/photo").status_code == 200
        until = time.monotonic() + 20
        while True:
            client.post("/v1/classes", json={"label": f"at {time.monotonic()}"}).raise_for_status()
            known = samples_of(client)
            names = list((folder / f"{MODEL}.service" / "photos").rglob("*.jpg"))
            if len(names) == len(known) or time.monotonic() > until:
                (folder / "samples.json").write_text(json.dumps(known))
                return names
            time.sleep(0.2)


def samples_of(client):
    classes = client.get("/v1/classes").json()["classes"]
    found = [client.get(f"/v1/classes/{row['id']}").json()["samples"] for row in classes]
    return [sample["id"] for some in found for sample in some]
