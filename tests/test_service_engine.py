"""The engine of a service: whatever is done and undone, the model is that of the samples as they are now."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("apsw", reason="the service needs the extra `serve`")

import xlda
from xlda import XLDA
from xlda._internal.model_lock import locked_model
from xlda.errors import ServedModelError
from xlda.service import plans
from xlda.service.changes import NewSample
from xlda.service.engine import Engine, Keeping
from xlda.service.folding import fold
from xlda.service.problems import Problem
from xlda.service.writer import ChangePlan, Reply, Wanted

pytestmark = pytest.mark.filterwarnings("ignore:The covariance of 6 features")  # of a handful of samples

WIDTH = 6
DOINGS = ["teach", "create", "relabel", "forget", "rename", "merge", "remove", "undo", "many", "start"]
FRUITS = ["apple", "banana", "cherry", "date", "elder", "fig"]


class Shop:
    """An engine that is asked from one thread, beside a plain table of what it should know."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.rng = path, np.random.default_rng(seed)
        self.engine = Engine.open(path, Keeping(photos=False))
        self.engine.start()

    def change(self, operation: str, plan: ChangePlan, group: str | None = None) -> Reply:
        wanted = Wanted(operation, plan, "test", group=group, alone=True)
        self.engine.writer._queue.put(wanted)
        return wanted.answer.result(timeout=20)

    def teach(self, n: int = 3, group: str | None = None) -> Reply:
        labels = self.rng.choice(FRUITS, n)
        samples = [
            NewSample(self.rng.normal(size=WIDTH).astype(np.float32) + FRUITS.index(str(label)), str(label))
            for label in labels
        ]
        return self.change("learn", plans.teach_batch(samples), group)

    def ids(self) -> list[str]:
        return sorted(self.engine.book.by_id)

    def reopen(self, is_killed: bool) -> None:
        self.engine.abandon() if is_killed else self.engine.close()
        self.engine = Engine.open(self.path, Keeping(photos=False))
        self.engine.start()


def samples_now(shop: Shop) -> list[tuple[Any, ...]]:
    """Samples with the labels of their classes, as the database has them."""
    rows = shop.engine.rows
    classes = {row[0]: row[1:] for row in rows("SELECT number, label, parent FROM classes")}
    gone = {row[0] for row in rows("SELECT number FROM classes WHERE is_removed OR NOT is_there")}
    samples = []
    for home, embedding in rows("SELECT home, embedding FROM samples WHERE home IS NOT NULL"):
        while classes[home][1] is not None:
            home = classes[home][1]
        if home not in gone:
            samples.append((classes[home][0], np.frombuffer(embedding, np.float32).astype(np.float64)))
    return samples


def expected_moments(samples: list[tuple[Any, ...]]) -> tuple[dict[str, tuple[int, Any]], Any, int]:
    """Counts, means and scatter by a plain loop."""
    of_label: dict[str, list[Any]] = {}
    for label, embedding in samples:
        of_label.setdefault(label, []).append(embedding)
    means = {label: (len(some), np.mean(some, axis=0)) for label, some in of_label.items()}
    scatter = np.zeros((WIDTH, WIDTH))
    for label, some in of_label.items():
        for embedding in some:
            away = embedding - means[label][1]
            scatter += np.outer(away, away)
    return means, scatter, len(samples) - len(of_label)


def check_model(shop: Shop) -> None:
    means, scatter, dof = expected_moments(samples_now(shop))
    clf = shop.engine.machine.classifier
    found = dict(zip(clf.classes_.tolist(), clf.class_count_.tolist(), strict=True))
    assert {label: count for label, count in found.items() if count} == {k: n for k, (n, _) in means.items()}
    assert {str(entry.label): entry.count for entry in shop.engine.book.by_id.values() if entry.count} == {
        label: count for label, (count, _) in means.items()
    }
    for row, label in enumerate(clf.classes_.tolist()):
        if label in means:
            np.testing.assert_allclose(clf.means_[row], means[label][1], atol=1e-4)
    if dof > 0:
        np.testing.assert_allclose(
            clf.covariance_ * dof, scatter, atol=1e-3 * max(1.0, np.abs(scatter).max())
        )


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_done_and_undone_the_model_is_that_of_the_samples(tmp_path: Path, seed: int) -> None:
    shop = Shop(tmp_path / "shop.xlda", seed)
    rng, sample_ids, n_refused = shop.rng, [], 0
    shop.change("learn", plans.teach_batch([NewSample(-np.ones(WIDTH, np.float32), "apple")]))
    for round_ in range(120):
        ids = shop.ids()
        doing = rng.choice(
            ["teach", "relabel", "forget", "rename", "merge", "remove", "undo", "many", "start"]
        )
        try:
            if doing == "teach" or len(ids) < 2:
                shop.teach(int(rng.integers(1, 5)), group=f"visit {round_ // 10}")
            elif doing in ("relabel", "forget"):
                sample_ids = [row[0] for row in shop.engine.rows("SELECT id FROM samples")]
                some = rng.choice(sample_ids, min(2, len(sample_ids)), replace=False).tolist()
                plan = (
                    plans.forget(some) if doing == "forget" else plans.relabel(some, str(rng.choice(FRUITS)))
                )
                shop.change(doing, plan)
            elif doing == "create":
                shop.change(doing, plans.create_class(f"fruit {round_}"))
            elif doing == "rename":
                new = f"fruit {round_}" if rng.random() < 0.5 else str(rng.choice(FRUITS))
                shop.change(doing, plans.rename_class(str(rng.choice(ids)), new, None))
            elif doing == "merge":
                into, other = rng.choice(ids, 2, replace=False).tolist()
                shop.change(doing, plans.merge_classes(into, other, None))
            elif doing == "remove":
                shop.change(doing, plans.remove_class(str(rng.choice(ids)), None, False))
            elif doing == "start":
                shop.reopen(is_killed=bool(rng.random() < 0.5))
            else:
                last = shop.engine.machine.seq
                n = 1 if doing == "undo" else 2
                seqs = rng.integers(max(1, last - 12), last + 1, n).tolist()
                shop.change("undo", plans.undo(seqs))
        except Problem as problem:
            n_refused += {404: 1, 409: 1}[problem.status]
        check_model(shop)
    assert n_refused < 100
    shop.engine.close()


def start_file(path: Path, lift: int | None = None) -> XLDA:
    rng = np.random.default_rng(5)
    clf = XLDA(power=None, lift=lift)
    labels = np.repeat(["apple", "banana", "cherry"], [4, 7, 2])
    clf.fit(rng.normal(size=(13, WIDTH)).astype(np.float32) + 1, labels)
    clf.save(path)
    return clf


def moments(shop: Shop) -> tuple[Any, ...]:
    clf = shop.engine.machine.classifier
    seen = clf.class_count_ > 0
    return clf.classes_[seen].tolist(), clf.class_count_[seen], clf.means_[seen], clf.covariance_


def check_same(before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
    assert before[0] == after[0]
    for one, other in zip(before[1:], after[1:], strict=True):
        np.testing.assert_allclose(other, one, atol=1e-5)


@pytest.mark.parametrize("lift", [None, 20])
@pytest.mark.parametrize("is_taught_first", [False, True])
@pytest.mark.parametrize("operation", ["merge", "remove", "rename"])
def test_what_is_done_to_classes_of_the_starting_file_is_undone_exactly(
    tmp_path: Path, operation: str, is_taught_first: bool, lift: int | None
) -> None:
    start_file(tmp_path / "shop.xlda", lift)
    shop = Shop(tmp_path / "shop.xlda", 3)
    if is_taught_first:
        shop.teach(5)
    before, book = moments(shop), shop.engine.book
    apple, banana = book.by_label["apple"].id, book.by_label["banana"].id
    plan = {
        "merge": plans.merge_classes(apple, banana, None),
        "remove": plans.remove_class(banana, None, False),
        "rename": plans.rename_class(banana, "zucchini", None),
    }[operation]
    done = shop.change(operation, plan)
    assert moments(shop)[0] != before[0]
    changed = moments(shop)
    undone = shop.change("undo", plans.undo([done.body["seq"]]))
    check_same(before, moments(shop))
    shop.reopen(is_killed=True)
    check_same(before, moments(shop))
    shop.change("undo", plans.undo([undone.body["seq"]]))  # which does it again
    check_same(changed, moments(shop))
    shop.engine.close()


def test_samples_that_came_after_a_merge_stay_with_the_class_that_they_were_given_to(tmp_path: Path) -> None:
    start_file(tmp_path / "shop.xlda")
    shop = Shop(tmp_path / "shop.xlda", 3)
    book = shop.engine.book
    merged = shop.change(
        "merge", plans.merge_classes(book.by_label["apple"].id, book.by_label["banana"].id, None)
    )
    shop.change("learn", plans.teach_batch([NewSample(np.full(WIDTH, 2, np.float32), "apple")]))
    shop.change("undo", plans.undo([merged.body["seq"]]))
    counts = {str(entry.label): entry.count for entry in shop.engine.book.by_id.values()}
    assert counts == {"apple": 5.0, "banana": 7.0, "cherry": 2.0}
    shop.engine.close()


def test_what_is_folded_cannot_be_undone_and_a_merge_after_it_can(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop.xlda", 3)
    for _ in range(5):
        shop.teach(6)
    engine = shop.engine
    before = moments(shop)
    book = engine.book
    one, two = book.by_label["apple"].id, book.by_label["banana"].id
    merged = shop.change("merge", plans.merge_classes(one, two, None)).body["seq"]
    engine.checkpoint()
    done: list[int] = []
    until = merged - 1
    engine.writer.between(lambda: done.append(fold(engine.db, engine.machine, engine.photos, until, 0.0)))
    shop.change("create", plans.create_class("nut"))
    assert done == [merged - 1]
    with pytest.raises(Problem, match="too old"):
        shop.change("undo", plans.undo([1]))
    assert engine.rows("SELECT count(*) FROM samples WHERE embedding IS NOT NULL") == [(0,)]
    shop.reopen(is_killed=True)
    shop.change("undo", plans.undo([merged]))
    check_same(before, moments(shop))
    removed = shop.change("remove", plans.remove_class(two, None, False)).body["seq"]
    shop.change("undo", plans.undo([removed]))
    check_same(before, moments(shop))
    shop.engine.close()


def test_a_deletion_erases_once_it_cannot_be_undone(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop.xlda", 3)
    shop.teach(6)
    engine = shop.engine
    [(sample_id,), *_] = engine.rows("SELECT id FROM samples")
    shop.change("forget", plans.forget([sample_id]))
    engine.checkpoint()
    engine.writer.between(lambda: fold(engine.db, engine.machine, engine.photos, 2, 0.0))
    shop.change("create", plans.create_class("nut"))
    assert (sample_id,) not in engine.rows("SELECT id FROM samples")
    assert sample_id not in json.dumps(engine.rows("SELECT body FROM events"))
    shop.engine.close()


def test_a_class_that_never_had_samples_takes_over_one_that_has_none_any_more(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop.xlda", 1)
    one = -np.ones(WIDTH, np.float32)
    shop.change("learn", plans.teach_batch([NewSample(one, "apple")]))
    taught = shop.change("learn", plans.teach(NewSample(one, "grape"), plans.Warned([], []), None)).body
    shop.change("forget", plans.forget([taught["id"]]))
    new = shop.change("create", plans.create_class("lemon")).body["id"]
    merged = shop.change("merge", plans.merge_classes(new, taught["class_id"], None)).body["seq"]
    check_model(shop)
    shop.reopen(is_killed=True)
    shop.change("undo", plans.undo([merged]))
    shop.change("learn", plans.teach(NewSample(one, "grape"), plans.Warned([], []), None))
    check_model(shop)
    shop.engine.abandon()


def test_what_was_learned_is_taken_in_though_nobody_asks(tmp_path, monkeypatch):
    monkeypatch.setattr(Engine, "_measure", lambda self: False)  # which asks the model in its own way
    shop = Shop(tmp_path / "shop.xlda", seed=3)
    try:
        shop.teach(12)
        shop.engine.judge(np.zeros((1, WIDTH), np.float32), 1, None, None)
        shop.teach(100)
        upkeep, until = shop.engine.machine.classifier._model._upkeep, time.monotonic() + 20.0
        while (upkeep.served is None or upkeep.served.total < 112) and time.monotonic() < until:
            time.sleep(0.05)
        assert upkeep.served is not None
        assert upkeep.served.total == 112
    finally:
        shop.engine.close()


class LockThatLetsOthersIn:
    """The lock of a machine; whenever the writer lets go of it, somebody else does something first."""

    def __init__(self, do: Callable[[], None]) -> None:
        self._lock, self._do = threading.RLock(), do
        self.threads: list[threading.Thread] = []

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if threading.current_thread().name == "xlda-writer":
            self.threads.append(threading.Thread(target=self._do))
            self.threads[-1].start()
            self.threads[-1].join(0.3)


def test_a_checkpoint_never_holds_a_part_of_a_large_event(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop.xlda", 1)
    shop.change("learn", plans.teach_batch([NewSample(-np.ones(WIDTH, np.float32), "apple")]))
    taken: list[tuple[Any, int]] = []
    lock = LockThatLetsOthersIn(lambda: taken.append(shop.engine._view()))
    shop.engine.machine.lock = lock  # type: ignore[assignment]
    samples = [NewSample(np.full(WIDTH, number, np.float32), "apple") for number in range(700)]
    shop.change("learn", plans.teach_batch(samples))
    for thread in lock.threads:
        thread.join()
    assert len(taken) >= 3
    for number, (view, seq) in enumerate(taken):
        view.write(tmp_path / f"{number}.xlda")
        found = xlda.load(tmp_path / f"{number}.xlda").class_count_.tolist()
        assert (seq, found) == (2, [701.0])
    shop.engine.abandon()


def test_a_removed_class_is_erased_once_it_cannot_be_undone(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop.xlda", 5)
    engine = shop.engine
    for name in "ab":
        engine.photos.put(64 * name, b"a photo")
    samples = [
        NewSample(np.full(WIDTH, number, np.float32), label, 64 * "ab"[number % 2])
        for number, label in enumerate(["apple", "banana", "apple", "banana", "cherry"])
    ]
    samples[-1] = samples[-1]._replace(photo=64 * "b")  # which a class that stays has as well
    shop.change("learn", plans.teach_batch(samples))
    one, two = (engine.book.by_label[label].id for label in ("apple", "banana"))
    shop.change("merge", plans.merge_classes(one, two, None))
    removed = shop.change("remove", plans.remove_class(one, None, False)).body["seq"]
    engine.checkpoint()
    fold_until = lambda seq: fold(engine.db, engine.machine, engine.photos, seq, 0.0)  # noqa: E731
    engine.writer.between(lambda: fold_until(removed - 1))
    shop.change("create", plans.create_class("nut"))
    assert engine.rows("SELECT count(*) FROM samples") == [(5,)]  # the removal can be undone still
    engine.writer.between(lambda: fold_until(removed))
    shop.change("create", plans.create_class("fig"))
    assert engine.rows("SELECT count(*) FROM samples") == [(1,)]
    assert list(engine.photos.names()) == [64 * "b"]
    shop.reopen(is_killed=True)
    assert sorted(str(label) for label in shop.engine.book.by_label) == ["cherry", "fig", "nut"]
    shop.engine.close()


def test_commands_leave_a_model_alone_that_has_a_log(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop.xlda", 1)
    shop.teach(5)
    shop.engine.close()
    before = shop.path.read_bytes()
    with (
        pytest.raises(ServedModelError, match=r"belongs to a service, whose log in shop\.xlda\.service"),
        locked_model(shop.path),
    ):
        pass
    assert shop.path.read_bytes() == before
    copy = tmp_path / "elsewhere" / "shop.xlda"
    copy.parent.mkdir()
    copy.write_bytes(before)
    with locked_model(copy):
        pass
    Engine.open(shop.path).abandon()  # the service itself may, and the lock is free


def test_what_stands_in_the_way_of_an_undo_is_what_is_still_in_force(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop.xlda", 1)
    taught = shop.change(
        "learn", plans.teach(NewSample(-np.ones(WIDTH, np.float32), "apple"), plans.Warned([], []), None)
    ).body
    moved = [
        shop.change("relabel", plans.relabel([taught["id"]], label)).body["seq"] for label in ("fig", "nut")
    ]
    shop.change("undo", plans.undo(moved[1:]))
    with pytest.raises(Problem, match=f"event {moved[0]} changed one of its samples") as problem:
        shop.change("undo", plans.undo([taught["seq"]]))
    assert problem.value.more == {"by": moved[0]}
    shop.change("undo", plans.undo(moved[:1]))
    shop.change("undo", plans.undo([taught["seq"]]))
    assert shop.engine.book.n_samples() == 0
    one, two = (shop.change("create", plans.create_class(label)).body["id"] for label in ("kiwi", "lime"))
    named = [shop.change("rename", plans.rename_class(one, label, None)).body["seq"] for label in ("a", "b")]
    shop.change("undo", plans.undo(named[1:]))
    merged = shop.change("merge", plans.merge_classes(two, one, None)).body["seq"]
    with pytest.raises(Problem, match=f"event {merged} changed class"):
        shop.change("undo", plans.undo(named[:1]))
    shop.change("create", plans.create_class("a"))
    with pytest.raises(Problem, match="Rename that one first, then undo"):
        shop.change("undo", plans.undo([merged]))
    shop.engine.close()
