"""Services as boxes of a fleet: what each was taught, all of them know, whatever is undone where."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest

from fleet_oracle import check_model, moments_by_loop
from xlda import XLDA
from xlda.fleet import FleetHub
from xlda.service import plans
from xlda.service.changes import NewSample
from xlda.service.engine import Engine
from xlda.service.fleet_sync import synced
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
