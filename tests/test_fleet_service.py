"""Services as boxes of a fleet: what each was taught, all of them know, whatever is undone where."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest

pytest.importorskip("apsw", reason="the service needs the extra `serve`")
pytest.importorskip("httpx", reason="the service needs the extra `serve`")

from fleet_oracle import check_model, moments_by_loop
from service_under_test import COMMAND, environment, running
from xlda import XLDA, upkeep
from xlda.client import NoServiceError
from xlda.errors import RefusedContributionError
from xlda.fleet import FleetHub
from xlda.fleet.remote import RemoteHub
from xlda.service import fleet_member, plans
from xlda.service.backup import backup, restore
from xlda.service.changes import NewSample
from xlda.service.database import ROOTS
from xlda.service.engine import Engine
from xlda.service.fleet_sync import hub_at, synced
from xlda.service.problems import Problem
from xlda.service.tokens import Tokens
from xlda.service.writer import Wanted

WIDTH = 5
RNG = np.random.default_rng(3)


class ServedBox:
    """An engine, and a name in the fleet."""

    def __init__(self, folder, name):
        self.name, self.path = name, folder / f"{name}.xlda"
        self.open()

    def open(self):
        self.engine = Engine.open(self.path)
        self.engine.start()

    def close(self):
        self.engine.close()

    def change(self, plan):
        return self.engine.writer.change_now(Wanted("test", plan, "test", alone=True)).body

    def learn(self, embeddings, labels):
        samples = [
            NewSample(np.asarray(one, np.float32), str(label))
            for one, label in zip(embeddings, labels, strict=True)
        ]
        return self.change(plans.teach_batch(samples))["seq"]

    def sync(self, hub, **more):
        return synced(self.engine, hub, self.name, **more)

    def id_of(self, label):
        return self.engine.book.by_label[label].id

    def check(self, samples):
        """This knows as much as one who saw these, pairs of label and embedding."""
        check_model(
            self.engine.machine.classifier, moments_by_loop(samples, {label: label for label, _ in samples})
        )
        counts = {entry.label: entry.count for entry in self.engine.book.by_id.values() if entry.count}
        assert counts == moments_by_loop(samples, {label: label for label, _ in samples})["counts"]


@contextmanager
def boxes(folder, *names, start=None):
    found = []
    for name in names:
        if start is not None:
            (folder / f"{name}.xlda").write_bytes(start.read_bytes())
        found.append(ServedBox(folder, name))
    try:
        yield found
    finally:
        for box in found:
            box.close()


@pytest.fixture
def start(tmp_path):
    """A model file with two classes, and its samples."""
    embeddings = RNG.normal(size=(8, WIDTH)).astype(np.float32)
    labels = ["kiwi", "pear"] * 4
    path = tmp_path / "start.xlda"
    XLDA(power=None).partial_fit(embeddings, labels).save(path)
    return path, list(zip(labels, embeddings, strict=True))


def some(n, *labels):
    embeddings = RNG.normal(size=(n, WIDTH)).astype(np.float32)
    return [(labels[number % len(labels)], one) for number, one in enumerate(embeddings)]


def taught(box, samples):
    return box.learn([one for _, one in samples], [label for label, _ in samples])


def test_two_boxes_know_what_both_were_taught_and_the_start_counts_once(tmp_path, start):
    path, began = start
    hub = FleetHub(tmp_path / "hub")
    with boxes(tmp_path, "bern", "basel", start=path) as (bern, basel):
        one, two = some(5, "kiwi", "fig"), some(6, "kiwi", "lime", "fig")
        taught(bern, one)
        taught(basel, two)
        for box in (bern, basel, bern, basel):
            box.sync(hub)
        for box in (bern, basel):
            box.check([*began, *one, *two])
        bern.close()
        bern.open()
        bern.check([*began, *one, *two])


@pytest.mark.parametrize(("moment", "name"), [(upkeep, "new_head"), (fleet_member.tables, "live_labels")])
def test_a_box_is_taught_while_a_sync_makes_its_model(tmp_path, monkeypatch, moment, name):
    centres = dict(
        zip(("kiwi", "pear", "fig", "melon"), 30 * np.eye(4, WIDTH, dtype=np.float32), strict=True)
    )

    def far_apart(n, *labels):
        return [(label, one + centres[label]) for label, one in some(n, *labels)]

    began, path = far_apart(8, "kiwi", "pear"), tmp_path / "start.xlda"
    XLDA(power=None).partial_fit([one for _, one in began], [label for label, _ in began]).save(path)
    hub = FleetHub(tmp_path / "hub")
    with boxes(tmp_path, "bern", "basel", start=path) as (bern, basel):
        for box in (bern, basel, bern):
            box.sync(hub)
        taught(basel, theirs := far_apart(6, "fig", "pear"))
        basel.change(plans.rename_class(basel.id_of("kiwi"), "kiwi fruit", None))
        basel.sync(hub)
        mine, waited = far_apart(5, "melon", "pear", "kiwi"), []

        def and_be_taught(done):
            def do(*given, **how):
                found = done(*given, **how)
                if not waited and threading.current_thread() is threading.main_thread():
                    teacher = threading.Thread(target=taught, args=(bern, mine), daemon=True)
                    teacher.start()
                    teacher.join(20)
                    waited.append(teacher.is_alive())
                return found

            return do

        monkeypatch.setattr(moment, name, and_be_taught(getattr(moment, name)))
        bern.sync(hub)
        assert waited == [False]
        monkeypatch.setattr(upkeep, "new_head", None)  # the head that was made is the one that answers
        samples = [*began, *theirs, *mine]
        truth = ["kiwi fruit" if label == "kiwi" else label for label, _ in samples]
        embeddings = [one for _, one in samples]
        assert bern.engine.machine.classifier.predict(embeddings).tolist() == truth
        monkeypatch.undo()
        for _ in range(2):
            bern.check(list(zip(truth, embeddings, strict=True)))
            bern.close()
            bern.open()


def test_undoing_is_exact_on_any_box(tmp_path, start):
    path, began = start
    hub = FleetHub(tmp_path / "hub")
    with boxes(tmp_path, "bern", "basel", start=path) as (bern, basel):
        one, two, three = some(5, "kiwi", "fig"), some(6, "kiwi", "fig"), some(3, "kiwi")
        seq = taught(bern, one)
        taught(basel, two)
        for box in (bern, basel, bern):
            box.sync(hub)
        taught(bern, three)
        merged = bern.change(plans.merge_classes(bern.id_of("pear"), bern.id_of("kiwi"), None))["seq"]
        taught(basel, later := some(4, "kiwi"))
        for box in (basel, bern, basel):
            box.sync(hub)
        everything = [*began, *one, *two, *three, *later]
        joined = [("pear" if label == "kiwi" else label, sample) for label, sample in everything]
        for box in (bern, basel):
            box.check(joined)
        bern.change(plans.undo([merged]))
        bern.check(everything)
        bern.change(plans.undo([seq]))
        left = [*began, *two, *three, *later]
        bern.check(left)
        for box in (bern, basel):
            box.sync(hub)
            box.check(left)


def test_a_start_is_brought_as_it_was_also_by_a_box_that_has_merged_its_classes(tmp_path, start):
    path, began = start
    hub = FleetHub(tmp_path / "hub")
    with boxes(tmp_path, "bern", "basel", start=path) as (bern, basel):
        taught(bern, one := some(5, "kiwi", "pear", "fig"))
        first = bern.change(plans.merge_classes(bern.id_of("kiwi"), bern.id_of("pear"), None))["seq"]
        taught(bern, two := some(3, "kiwi"))
        second = bern.change(plans.merge_classes(bern.id_of("fig"), bern.id_of("kiwi"), None))["seq"]
        for box in (bern, basel):
            box.sync(hub)
            box.check([("fig", sample) for _, sample in [*began, *one, *two]])
        for seq in (second, first):
            bern.change(plans.undo([seq]))
        for box in (bern, basel):
            box.sync(hub)
            box.check([*began, *one, *two])


def test_a_start_is_brought_as_it_was_where_only_the_first_of_two_merges_was_undone(tmp_path, start):
    path, began = start
    hub = FleetHub(tmp_path / "hub")
    with boxes(tmp_path, "bern", "basel", start=path) as (bern, basel):
        taught(bern, one := some(3, "fig"))
        first = bern.change(plans.merge_classes(bern.id_of("kiwi"), bern.id_of("pear"), None))["seq"]
        bern.change(plans.merge_classes(bern.id_of("fig"), bern.id_of("kiwi"), None))
        bern.change(plans.undo([first]))
        for box in (bern, basel):
            box.sync(hub)
            box.check([*(("fig" if label == "kiwi" else label, one) for label, one in began), *one])


def test_names_and_removals_come_to_all(tmp_path, start):
    path, began = start
    hub = FleetHub(tmp_path / "hub")
    with boxes(tmp_path, "bern", "basel", start=path) as (bern, basel):
        taught(bern, one := some(4, "fig"))
        for box in (bern, basel):
            box.sync(hub)
        basel.change(plans.rename_class(basel.id_of("fig"), "Fig", None))
        removed = basel.change(plans.remove_class(basel.id_of("pear"), None, False))["seq"]
        for box in (basel, bern):
            box.sync(hub)
        for box in (bern, basel):
            assert sorted(entry.label for entry in box.engine.book.by_id.values()) == ["Fig", "kiwi"]
        basel.change(plans.undo([removed]))
        for box in (basel, bern):
            box.sync(hub)
        for box in (bern, basel):
            box.check([*began, *(("Fig", sample) for _, sample in one)])


def test_a_removal_or_merge_that_is_undone_has_what_others_taught_meanwhile(tmp_path, start):
    path, began = start
    hub = FleetHub(tmp_path / "hub")
    with boxes(tmp_path, "bern", "basel", start=path) as (bern, basel):
        taught(basel, one := some(6, "fig", "lime"))
        for box in (basel, bern):
            box.sync(hub)
        removed = bern.change(plans.remove_class(bern.id_of("fig"), None, False))["seq"]
        merged = bern.change(plans.merge_classes(bern.id_of("kiwi"), bern.id_of("lime"), None))["seq"]
        taught(basel, two := some(4, "fig", "lime"))
        for box in (bern, basel, bern):
            box.sync(hub)
        bern.change(plans.undo([merged]))
        bern.change(plans.undo([removed]))
        for box in (bern, basel, bern):
            box.sync(hub)
        for box in (bern, basel):
            box.check([*began, *one, *two])


@pytest.mark.parametrize("teaches", [False, True])
def test_a_removal_that_is_undone_brings_back_what_only_others_taught(tmp_path, teaches):
    hub = FleetHub(tmp_path / "hub")
    with boxes(tmp_path, "bern", "basel") as (bern, basel):
        taught(bern, samples := some(6, "fig", "lime"))
        taught(basel, more := some(3, "kiwi"))
        samples += more
        for box in (bern, basel, bern):
            box.sync(hub)
        removed = basel.change(plans.remove_class(basel.id_of("fig"), None, False))["seq"]
        for box in (basel, bern, basel):
            box.sync(hub)
        if teaches:
            taught(bern, more := some(2, "lime"))
            samples += more
            bern.sync(hub)
        basel.change(plans.undo([removed]))
        for box in (basel, bern, basel):  # bern hears of it, and tells basel of its samples again
            box.sync(hub)
        for box in (basel, bern):
            counts = {entry.label: entry.count for entry in box.engine.book.by_id.values()}
            assert counts == moments_by_loop(samples, {label: label for label, _ in samples})["counts"]


def test_a_merge_that_is_undone_leaves_apart_what_others_taught_meanwhile(tmp_path):
    hub = FleetHub(tmp_path / "hub")
    with boxes(tmp_path, "bern", "basel") as (bern, basel):
        taught(bern, one := some(6, "fig", "lime"))
        for box in (bern, basel):
            box.sync(hub)
        merged = basel.change(plans.merge_classes(basel.id_of("fig"), basel.id_of("lime"), None))["seq"]
        taught(bern, two := some(4, "lime"))  # which knows of no merge
        for box in (bern, basel):
            box.sync(hub)
        basel.change(plans.undo([merged]))
        for box in (basel, bern):
            box.sync(hub)
            box.check([*one, *two])


def test_many_small_syncs_are_written_as_one_and_a_restart_goes_on(tmp_path, start, monkeypatch):
    monkeypatch.setattr(fleet_member, "MOST_FILES", 4)
    path, began = start
    hub = FleetHub(tmp_path / "hub")
    samples = list(began)
    with boxes(tmp_path, "bern", "basel", start=path) as (bern, basel):
        for round_ in range(12):
            taught(bern, one := some(2, "kiwi", "fig"))
            samples += one
            bern.sync(hub)
            basel.sync(hub)
            if round_ == 6:
                basel.close()  # before a checkpoint: the log is read again
                basel.open()
        for box in (bern, basel):
            box.check(samples)
            assert len(list((box.engine.places.folder / "fleet").iterdir())) < 12


@pytest.mark.parametrize("width", [WIDTH, 200])  # of few numbers a hub writes all anew, of many a chain
@pytest.mark.parametrize("has_samples", [False, True])
def test_a_box_that_comes_late_gets_what_was_taught_in_many_syncs(tmp_path, width, has_samples):
    hub = FleetHub(tmp_path / "hub")
    samples = [
        (label, np.resize(one, width) + RNG.normal(size=width)) for label, one in some(9, "fig", "pear")
    ]
    with boxes(tmp_path, "bern", "late") as (bern, late):
        for part in (samples[:3], samples[3:6]):
            taught(bern, part)
            bern.sync(hub)
        if has_samples:
            taught(late, samples[6:])
        known = samples if has_samples else samples[:6]
        for box in (late, bern, late):
            box.sync(hub)
            box.check(known)


def test_a_name_is_settled_once_a_hub_was_reached_and_nobody_has_it(tmp_path, start):
    path, began = start
    hub = FleetHub(tmp_path / "hub")
    with boxes(tmp_path, "bern", "basel", start=path) as (bern, basel):
        taught(bern, one := some(3, "fig"))
        basel.sync(hub)
        with pytest.raises(NoServiceError, match="No hub answers"):
            synced(bern.engine, RemoteHub("http://127.0.0.1:9"), "typo")
        taught(basel, two := some(2, "fig"))
        basel.sync(hub)
        with pytest.raises(RefusedContributionError, match="box basel already"):
            synced(bern.engine, hub, "basel")
        bern.sync(hub)
        with pytest.raises(ValueError, match="This box is bern"):
            synced(bern.engine, hub, "other")
        basel.sync(hub)
        for box in (bern, basel):
            box.check([*began, *one, *two])


def test_what_was_forgotten_and_comes_back_is_told(tmp_path, start):
    path, began = start
    hub, other = FleetHub(tmp_path / "hub"), FleetHub(tmp_path / "other")
    with boxes(tmp_path, "bern", "basel", start=path) as (bern, basel):
        taught(basel, some(3, "fig"))
        for box in (basel, bern):
            box.sync(hub)
        hub.forget("basel")
        bern.sync(hub)
        basel.sync(other)  # which knows of no forgetting
        with pytest.raises(RefusedContributionError, match="--forget basel"):
            bern.sync(other)
        other.forget("basel")
        bern.sync(other)
        bern.check(began)


def test_what_a_sync_is_in_the_way_of_is_told(tmp_path, start):
    hub = FleetHub(tmp_path / "hub")
    with boxes(tmp_path, "bern", "basel", start=start[0]) as (bern, basel):
        for box in (bern, basel):
            box.sync(hub)
        renamed = bern.change(plans.rename_class(bern.id_of("kiwi"), "Kiwi", None))["seq"]
        for box in (bern, basel):
            box.sync(hub)
        basel.change(plans.rename_class(basel.id_of("Kiwi"), "kiwi fruit", None))
        for box in (basel, bern):
            box.sync(hub)
        with pytest.raises(Problem, match="a sync, which brought what another box has said"):
            bern.change(plans.undo([renamed]))


def test_a_folder_with_other_files_is_no_hub(tmp_path):
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(FileExistsError, match="is no hub"):
        hub_at(str(tmp_path))
    (tmp_path / "hub").mkdir()
    assert hub_at(str(tmp_path / "hub")).versions() == {}


def test_a_box_that_began_with_nothing_learns_all_and_is_forgotten_exactly(tmp_path, start):
    path, began = start
    hub = FleetHub(tmp_path / "hub")
    with boxes(tmp_path, "bern", start=path) as [bern], boxes(tmp_path, "new") as [new]:
        bern.sync(hub)
        new.sync(hub)
        new.check(began)
        taught(new, one := some(5, "kiwi", "fig"))
        for box in (new, bern):
            box.sync(hub)
            box.check([*began, *one])
        hub.forget("new")
        bern.sync(hub)
        bern.check(began)


def test_few_samples_of_a_class_stay_at_home(tmp_path, start):
    path, began = start
    hub = FleetHub(tmp_path / "hub")
    with boxes(tmp_path, "bern", "basel", start=path) as (bern, basel):
        taught(bern, rare := some(2, "fig"))
        taught(bern, many := some(3, "kiwi"))
        bern.sync(hub, min_count=3)
        basel.sync(hub)
        basel.check([*began, *many])
        bern.check([*began, *many, *rare])
        taught(bern, more := some(1, "fig"))
        for box in (bern, basel):
            box.sync(hub)
            box.check([*began, *many, *rare, *more])


def test_a_class_of_which_few_are_left_goes_home_again(tmp_path, start):
    path, began = start
    hub = FleetHub(tmp_path / "hub")
    with boxes(tmp_path, "bern", "basel", start=path) as (bern, basel):
        taught(bern, figs := some(2, "fig"))
        seq = taught(bern, more := some(2, "fig"))
        bern.sync(hub, min_count=3)
        basel.sync(hub)
        basel.check([*began, *figs, *more])
        bern.change(plans.undo([seq]))
        for box in (bern, basel):
            box.sync(hub)
        bern.check([*began, *figs])
        basel.check(began)


def test_a_restored_box_takes_up_where_it_was_and_what_it_lost_counts_no_more(tmp_path, start):
    path, began = start
    hub = FleetHub(tmp_path / "hub")
    with boxes(tmp_path, "bern", "basel", start=path) as (bern, basel):
        taught(bern, one := some(3, "kiwi", "fig"))
        for box in (bern, basel):
            box.sync(hub)
        (tmp_path / "backup.zip").write_bytes(b"".join(backup(bern.engine)))
        taught(bern, some(4, "lime"))
        for box in (bern, basel):
            box.sync(hub)
        bern.close()
        bern.path = tmp_path / "again.xlda"
        restore(tmp_path / "backup.zip", bern.path)
        bern.open()
        taught(bern, two := some(2, "pear"))
        for box in (bern, basel):
            box.sync(hub)
            box.check([*began, *one, *two])


def test_a_backup_is_whole_while_a_sync_writes_and_deletes_files(tmp_path, start):
    path, began = start
    hub = FleetHub(tmp_path / "hub")
    with boxes(tmp_path, "bern", "basel", start=path) as (bern, basel):
        taught(basel, one := some(4, "kiwi", "fig"))
        for box in (basel, bern):
            box.sync(hub)
        fleet = bern.engine.places.folder / "fleet"
        (fleet / ".own-0123456789abcdef.safetensors.0123.tmp").write_bytes(b"half of")
        pieces = backup(bern.engine)
        written = [next(pieces)]
        before = {part.name for part in fleet.iterdir()}
        basel.change(plans.rename_class(basel.id_of("fig"), "Fig", None))
        for box in (basel, bern):
            box.sync(hub)
        assert before - {part.name for part in fleet.iterdir()}
        (tmp_path / "backup.zip").write_bytes(b"".join([*written, *pieces]))
        bern.close()
        bern.path = tmp_path / "again.xlda"
        restore(tmp_path / "backup.zip", bern.path)
        bern.open()
        bern.check([*began, *one])
        taught(bern, two := some(2, "pear"))
        renamed = [("Fig" if label == "fig" else label, sample) for label, sample in one]
        for box in (bern, basel):
            box.sync(hub)
            box.check([*began, *renamed, *two])


def test_a_sync_leaves_the_connection_of_the_writer_to_its_thread(tmp_path, start, monkeypatch):
    path, _ = start
    with boxes(tmp_path, "bern", start=path) as (bern,):
        bern.sync(FleetHub(tmp_path / "hub"))
        with monkeypatch.context() as patch:
            patch.setattr(bern.engine, "db", None)
            assert fleet_member.FleetMember(bern.engine).name == "bern"


@pytest.mark.parametrize("part", ["own", "others"])
@pytest.mark.parametrize("content", [None, b"damaged"])
def test_a_box_that_has_lost_files_of_its_fleet_says_so_and_goes_on(tmp_path, start, part, content):
    path, began = start
    hub = FleetHub(tmp_path / "hub")
    with boxes(tmp_path, "bern", "basel", start=path) as (bern, basel):
        taught(basel, one := some(4, "kiwi", "fig"))
        for box in (basel, bern):
            box.sync(hub)
        for file in (bern.engine.places.folder / "fleet").glob(f"{part}-*"):
            file.unlink() if content is None else file.write_bytes(content)
        taught(bern, two := some(2, "pear"))
        basel.change(plans.rename_class(basel.id_of("fig"), "Fig", None))
        basel.sync(hub)
        with pytest.raises(Problem, match=r"is not whole.*xlda backup"):
            bern.sync(hub)
        bern.check([*began, *one, *two])


POINTS = ["fleet-file-written", "fleet-before-delete", "fleet-after-delete", "after-commit", "before-answer"]


@pytest.mark.parametrize("fault", POINTS if os.environ.get("XLDA_LONG") else POINTS[:2])
def test_a_sync_that_was_killed_changes_nothing_or_all(tmp_path, start, fault):
    path, began = start
    hub = FleetHub(tmp_path / "hub")
    with boxes(tmp_path, "bern", "basel", start=path) as (bern, basel):
        taught(bern, one := some(3, "kiwi", "fig"))
        bern.sync(hub)
        taught(basel, two := some(3, "kiwi", "fig"))
        basel.close()
        command = [sys.executable, "-c", COMMAND, "sync", "hub", "--model", "basel.xlda", "--box", "basel"]
        killed = {**environment(), "XLDA_FAULT": f"{fault}:1"}
        ended = subprocess.run(command, cwd=tmp_path, env=killed, capture_output=True, check=False)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        basel.open()
        for box in (basel, bern):
            box.sync(hub)
            box.check([*began, *one, *two])


# -- by the command, between processes


def cli(folder, *arguments, token=None):
    command = [sys.executable, "-c", COMMAND, "sync", *arguments, "--json"]
    if token is not None:
        (folder / "token").write_text(token)
        command += ["--hub-token-from", "token"]
    ended = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    return ended.returncode, ended.stdout or ended.stderr


def test_three_services_and_the_command(tmp_path, start):
    path, _ = start
    tokens, text = Tokens().with_new("bern", ["sync"])
    tokens, other = tokens.with_new("basel", ["sync"])
    tokens, admin = tokens.with_new("boss", ["admin"])
    tokens.write(tmp_path / "tokens.json")
    for name in ("bern", "basel"):
        (tmp_path / f"{name}.xlda").write_bytes(path.read_bytes())
    hub = running(tmp_path / "hub.xlda", "--token-file", tmp_path / "tokens.json")
    with hub as hub, running(tmp_path / "bern.xlda") as bern, running(tmp_path / "basel.xlda") as basel:
        one, two = some(5, "kiwi", "fig"), some(4, "kiwi", "lime")
        bern.learn([x for _, x in one], [label for label, _ in one])
        basel.learn([x for _, x in two], [label for label, _ in two])
        asked = {"hub": hub.url, "box": "bern"}
        assert "--hub-token-from" in bern.post("/v1/sync", 409, json=asked)["detail"]
        (tmp_path / "other hub").mkdir()  # a folder as the command sees it, not as the service does
        code, said = cli(tmp_path, "other hub", "--server", bern.url, "--box", "bern")
        assert code == 0, said
        assert (tmp_path / "other hub" / "boxes" / "bern").is_dir()
        code, said = cli(tmp_path, hub.url, "--server", "http://127.0.0.1:9", "--box", "bern")
        assert code == 1
        assert "No service of this box answers at http://127.0.0.1:9" in said
        basel_asks = {"hub": hub.url, "box": "basel", "token": other}
        basel.post("/v1/sync", json=basel_asks)
        code, said = cli(tmp_path, hub.url, "--server", bern.url, "--box", "bern", token=text)
        assert code == 0, said
        basel.post("/v1/sync", json=basel_asks)
        wanted = {"kiwi": 9, "pear": 4, "fig": 2, "lime": 2}
        assert bern.counts() == basel.counts() == wanted
        lime = next(sample for label, sample in two if label == "lime")
        assert "lime" in {best["label"] for best in bern.judge([lime])["predictions"][0]["top"]}
        basel.learn([lime], ["lime"])
        assert "another token" in basel.post("/v1/sync", 409, json={**basel_asks, "token": text})["detail"]
        code, said = cli(tmp_path, hub.url, "--forget", "basel", token=admin)
        assert code == 0, said
        bern.post("/v1/sync", json={"hub": hub.url, "token": text})
        assert {label: n for label, n in bern.counts().items() if n} == {"kiwi": 7, "pear": 4, "fig": 2}


# -- anything, in any order


def random_act(box, chance):
    """Something that a person may do, where it can be done."""
    labels = sorted(entry.label for entry in box.engine.book.by_id.values())
    other = [label for label in labels if label not in ("kiwi", "pear")]  # what others began with stays
    act = chance.choice(["learn", "learn", "learn", "merge", "rename", "remove", "undo", "undo", "forget"])
    try:
        if act == "learn":
            taught(box, some(chance.randrange(1, 5), *(f"l{chance.randrange(6)}" for _ in range(2)), "kiwi"))
        elif act == "merge":
            into, gone = chance.sample(labels, 2)
            box.change(plans.merge_classes(box.id_of(into), box.id_of(gone), None))
        elif act == "rename":
            box.change(plans.rename_class(box.id_of(chance.choice(labels)), f"n{chance.randrange(9)}", None))
        elif act == "remove":
            box.change(plans.remove_class(box.id_of(chance.choice(other)), None, False))
        elif act == "undo":
            box.change(plans.undo([chance.randrange(1, box.engine.machine.seq + 1)]))
        else:
            rows = box.engine.rows("SELECT id FROM samples WHERE home IS NOT NULL")
            box.change(plans.forget([chance.choice(rows)[0]]))
    except (Problem, IndexError, ValueError):
        pass  # there is nothing of the kind


def go(box, hub):
    """Sync, but where the box would have to bring the start and has removed some of it: another brings it."""
    try:
        box.sync(hub)
    except RefusedContributionError as error:
        if "began with were removed" not in str(error):
            raise


def samples_of(box):
    """Labels and embeddings of all samples that a box has, as its database says."""
    query = (
        f"{ROOTS} SELECT root.label, embedding FROM samples JOIN tree ON tree.number = samples.home "
        "JOIN classes AS root ON root.number = tree.root"
    )
    return [(label, np.frombuffer(content, np.float32)) for label, content in box.engine.rows(query)]


def check_equal(found, began):
    """All boxes know all samples that any has; what they began with is of the class that has its ids."""
    first = found[0].engine.machine.label_of
    ids = dict(
        found[0].engine.rows(
            f"{ROOTS} SELECT classes.id, root.id FROM tree JOIN classes USING (number) "
            "JOIN classes AS root ON root.number = tree.root"
        )
    )
    start = [(first[ids[began[1][label]]], one) for label, one in began[0] if began[1][label] in ids]
    everything = [*start, *(one for box in found for one in samples_of(box))]
    if len(start) == len(began[0]):
        for box in found:
            box.check(everything)
    else:  # what was removed has left its scatter
        wanted = moments_by_loop(everything, {label: label for label, _ in everything})["counts"]
        for box in found:
            assert {one.label: one.count for one in box.engine.book.by_id.values() if one.count} == wanted


@pytest.mark.parametrize("seed", range(int(os.environ.get("XLDA_FLEET_SEEDS", "2"))))
def test_whatever_is_done_on_boxes_all_know_the_same(tmp_path, start, seed):
    path, began = start
    chance, hub = random.Random(seed), FleetHub(tmp_path / "hub")
    with boxes(tmp_path, "bern", "basel", "chur", start=path) as found:
        ids = {entry.label: entry.id for entry in found[0].engine.book.by_id.values()}
        for _ in range(40):
            box = chance.choice(found)
            go(box, hub) if chance.random() < 0.3 else random_act(box, chance)
        for _ in range(4):  # who hears of a removal takes his own samples back the next time
            for box in found:
                go(box, hub)
        check_equal(found, (began, ids))
