"""A disk that is full, or fails: nothing more is acknowledged, predicting goes on, and nothing is lost."""

from __future__ import annotations

import io
import subprocess
from contextlib import suppress

import numpy as np
import pytest

pytest.importorskip("apsw", reason="the service needs the extra `serve`")
pytest.importorskip("httpx", reason="the service needs the extra `serve`")

import httpx

from crash.campaign import Campaign
from crash.ledger import WIDTH, Wish
from crash.served import FAILING, PAGES
from crash.shop import running
from xlda.service import writer
from xlda.service.problems import Problem


class Teacher:
    """A client of a campaign that teaches batches one by one."""

    def __init__(self, campaign, url):
        self._campaign, self._n = campaign, len(campaign.ledger.wishes)
        self.client = httpx.Client(base_url=url, timeout=30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def teach(self):
        self._n += 1
        labels = [f"class {number}" for number in range(8)]
        wish = Wish(f"batch-{self._n}", "learn", "POST", "/v1/samples:batch", None, labels, self._n)
        return self._campaign.clients.send(self.client, wish).status_code

    def teach_until(self, status, most=2000):
        """Teach until that is the answer; how often it was another."""
        for number in range(most):
            found = self.teach()
            if found == status:
                return number
            assert found == 200
        raise AssertionError(f"{status} was never answered")

    def predict(self):
        file = io.BytesIO()
        np.save(file, np.ones((1, WIDTH), np.float32))
        headers = {"Content-Type": "application/x-npy"}
        return self.client.post("/v1/predict", content=file.getvalue(), headers=headers).status_code


def test_a_database_that_may_not_grow(tmp_path):
    with Campaign(tmp_path, change=["limit pages"]) as campaign:
        with campaign._served() as served, Teacher(campaign, served.url) as teacher:
            assert teacher.teach() == 200
            (tmp_path / PAGES).write_text("1")  # which SQLite takes for: no more than there are
            teacher.teach_until(507)
            assert [teacher.teach(), teacher.predict(), teacher.teach()] == [507, 200, 507]
            (tmp_path / PAGES).unlink()
            assert [teacher.teach(), teacher.predict()] == [200, 200]
        campaign.check()
    campaign.assert_fine()


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"needs to mount a tmpfs: {error}")
    if mounted.returncode:
        pytest.skip(f"needs to mount a tmpfs: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(path):
    """Take all room that there is."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)) == 4096:
            pass


def test_a_disk_that_is_full(small_disk, tmp_path):
    least_free = {"xlda.service.writer.LEAST_FREE": 0}
    with Campaign(small_disk, aside=tmp_path, set_=least_free) as campaign:
        with campaign._served() as served, Teacher(campaign, served.url) as teacher:
            assert teacher.teach() == 200
            filler = small_disk / "filler"
            fill(filler)
            teacher.teach_until(507)
            assert [teacher.teach(), teacher.predict(), teacher.teach()] == [507, 200, 507]
            filler.unlink()
            assert [teacher.teach(), teacher.predict()] == [200, 200]
            fill(filler)
            code = served.stop()  # without a checkpoint, on which nothing depends
        assert code == 0, served.said()
        filler.unlink()
        campaign.end()
    campaign.assert_fine()


def test_changes_stop_while_there_is_room_left(tmp_path, monkeypatch):
    with running(tmp_path / "shop.xlda") as shop:
        assert shop.teach(["apple", "pear"]).status == 200
        monkeypatch.setattr(writer, "LEAST_FREE", 1 << 60)
        with pytest.raises(Problem) as refused:
            shop.teach(["apple"])
        assert refused.value.status == 507
        seq, judged, _ = shop.engine.judge(np.ones((1, 8), np.float32), 1, None, None)
        assert seq == 1
        assert judged is not None
        monkeypatch.undo()
        assert shop.teach(["apple"]).body["seq"] == 2


def test_a_failed_sync_ends_acknowledging_at_once(tmp_path):
    with Campaign(tmp_path, change=["fail syncs"]) as campaign:
        with campaign._served() as served, Teacher(campaign, served.url) as teacher:
            assert [teacher.teach(), teacher.teach(), teacher.predict()] == [200, 200, 200]
            (tmp_path / FAILING).touch()
            assert [teacher.teach(), teacher.predict()] == [503, 200]
            (tmp_path / FAILING).unlink()  # what the disk has lost, it does not say
            assert [teacher.teach(), teacher.predict(), teacher.teach()] == [503, 200, 503]
            assert teacher.client.get("/readyz").status_code == 503
            assert teacher.client.get("/healthz").status_code == 200
        campaign.check()
    campaign.assert_fine()


def test_what_fails_between_two_commits_does_not_end_the_writer(tmp_path):
    with running(tmp_path / "shop.xlda") as shop:
        shop.teach(["apple", "pear"])

        def fail():
            raise writer.apsw.FullError("database or disk is full")

        shop.engine.writer.between(fail)
        assert shop.teach(["apple"]).body["seq"] == 2

        def fail_for_good():
            raise writer.apsw.IOError("disk I/O error")

        shop.engine.writer.between(fail_for_good)
        with pytest.raises(Problem) as refused:
            shop.teach(["apple"])
        assert refused.value.status == 503
