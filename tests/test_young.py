"""What a young model says of things that it was never taught: that they are unknown."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("apsw", reason="the service needs the extra `serve`")

from xlda import XLDA
from xlda.service import plans, young
from xlda.service.changes import NewSample
from xlda.service.engine import Engine, Keeping
from xlda.service.judging import predictions
from xlda.service.writer import Wanted

WIDTH = 256


class Things:
    """Embeddings of things, as a network makes them: never negative, and much alike for one thing."""

    def __init__(self, seed: int, noise: float) -> None:
        self.rng, self.noise = np.random.default_rng(seed), noise
        self.centres = self.rng.gamma(0.5, size=(40, WIDTH))

    def of(self, number: int, n: int) -> np.ndarray:
        return (self.centres[number] * self.rng.lognormal(0, self.noise, size=(n, WIDTH))).astype(np.float32)


class Shop:
    def __init__(self, path: Path) -> None:
        self.engine = Engine.open(path, Keeping(photos=False))
        self.engine.start()

    def change(self, operation, plan):
        wanted = Wanted(operation, plan, "test", alone=True)
        return asyncio.run(self.engine.writer.change(wanted)).body

    def teach(self, label, embeddings):
        return self.change("learn", plans.teach_batch([NewSample(one, label) for one in embeddings]))

    def labels(self, embeddings, unknown=0.05):
        return [one["label"] for one in predictions(self.engine, embeddings, 1, unknown, None)[1]]

    def sure(self, embeddings):
        return [one["sure"] for one in predictions(self.engine, embeddings, 1, None, None)[1]]


@pytest.fixture
def shop(tmp_path):
    found = Shop(tmp_path / "shop.xlda")
    yield found
    found.engine.close()


@pytest.mark.parametrize("noise", [0.15, 0.5])  # frames of one camera, and photos
def test_two_classes_and_a_handful_of_photos(shop, noise):
    things = Things(1, noise)
    shop.teach("a", things.of(0, 3))
    shop.teach("b", things.of(1, 3))
    known = shop.labels(things.of(0, 50)) + shop.labels(things.of(1, 50))
    assert known.count(None) <= 10
    assert set(known[:50]) <= {"a", None}
    strange = [shop.labels(things.of(number, 1))[0] for number in range(2, 32)]
    assert strange.count(None) >= 27
    assert np.mean(shop.sure(things.of(0, 20))) > 0.8
    assert not shop.sure(things.of(5, 1))[0]  # also where nobody asked for the unknown
    assert shop.labels(things.of(5, 1), None) != [None]


def test_it_follows_what_is_taught_moved_and_undone(shop):
    things = Things(2, 0.2)
    shop.teach("a", things.of(0, 3))
    shop.teach("b", things.of(1, 3))
    new = things.of(2, 1)
    assert shop.labels(new) == [None]
    taught = shop.teach("a", things.of(2, 3))
    assert shop.labels(new) != [None]
    undone = shop.change("undo", plans.undo([taught["seq"]]))
    assert shop.labels(new) == [None]
    shop.change("undo", plans.undo([undone["seq"]]))
    assert shop.labels(new) != [None]
    shop.teach("c", things.of(3, 3))
    b, c = (shop.engine.book.by_label[label].id for label in "bc")
    shop.change("merge", plans.merge_classes(b, c, None))
    assert shop.labels(things.of(3, 1)) == ["b"]
    shop.change("remove", plans.remove_class(b, None, False))
    assert shop.labels(things.of(3, 1)) == [None]


def test_the_share_that_may_be_rejected_counts(shop):
    things = Things(3, 0.5)
    shop.teach("a", things.of(0, 5))
    shop.teach("b", things.of(1, 5))
    asked = things.of(0, 200)
    rejected = [shop.labels(asked, share).count(None) for share in (0.01, 0.3, 0.9)]
    assert rejected == sorted(rejected)
    assert rejected[0] < rejected[2]


def test_nothing_is_strange_to_a_model_whose_samples_are_elsewhere(tmp_path):
    things = Things(4, 0.3)
    X = np.concatenate([things.of(0, 4), things.of(1, 4)])
    XLDA().fit(X, ["a"] * 4 + ["b"] * 4).save(tmp_path / "old.xlda")
    shop = Shop(tmp_path / "old.xlda")
    try:
        shop.teach("c", things.of(2, 2))
        assert None not in shop.labels(things.of(0, 20))
    finally:
        shop.engine.close()


def test_only_the_newest_of_a_class_are_looked_at(shop, monkeypatch):
    monkeypatch.setattr(young, "MOST_OF_A_CLASS", 4)
    things = Things(5, 0.2)
    for _ in range(4):
        shop.teach("a", things.of(0, 3))
        shop.teach("b", things.of(1, 3))
        assert shop.labels(things.of(7, 1)) == [None]
    assert len(shop.engine._young._all) == 8
    monkeypatch.setattr(young, "MOST", 1)
    assert shop.labels(things.of(7, 1)) != [None]  # there are too many to look at


def test_what_is_measured_takes_over_little_by_little(shop):
    things = Things(6, 0.5)
    for number in range(4):
        shop.teach(str(number), things.of(number, 14))
    shop.engine.machine.classifier.calibrate(progress=False)
    assert shop.engine._snapshot()[1].tells_unknown
    weights, taught = [], 4 * 14
    while taught < 600:
        seq = shop.engine.machine.seq
        n_classes = len(shop.engine.book)
        weights.append(shop.engine._young.weight(seq, n_classes))
        if weights[-1] >= 0.5:  # strangers are caught as before
            strange = [shop.labels(things.of(39 - number, 1))[0] for number in range(10)]
            assert strange.count(None) >= 8
            assert np.mean(shop.sure(things.of(0, 20))) > 0.7
        shop.teach(str(n_classes), things.of(n_classes, 30))
        taught += 30
    assert weights[0] == 1.0
    assert weights == sorted(weights, reverse=True)
    assert weights[-1] == 0.0
    assert len(set(weights)) > 5
