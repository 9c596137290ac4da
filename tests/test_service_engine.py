"""The engine of a service: whatever is done and undone, the model is that of the samples as they are now."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("apsw", reason="the service needs the extra `serve`")

import xlda
from xlda import XLDA
from xlda._internal.model_lock import locked_model
from xlda.errors import ServedModelError
from xlda.moments.kept_samples import embedding_hashes
from xlda.service import plans
from xlda.service.changes import NewSample
from xlda.service.engine import Engine, Keeping
from xlda.service.folding import fold
from xlda.service.machine import Machine
from xlda.service.problems import Problem
from xlda.service.steps import packed
from xlda.service.writer import ChangePlan, Reply, Wanted

pytestmark = pytest.mark.filterwarnings("ignore:The covariance of 6 features")  # of a handful of samples

WIDTH = 6
N_ROWS = 4  # of a class, for a second look
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
        return asyncio.run(self.engine.writer.change(wanted))

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


def check_rows(shop: Shop) -> None:
    """Rows of each class for a second look by a plain loop over the samples that the database has."""
    clf = shop.engine.machine.classifier
    moments, of_label = clf._model.moments, clf._model.labels.table().row_of
    assert moments.sketches is not None
    np.testing.assert_array_equal(moments.sketches.weights[: moments.n_classes], moments.counts)
    samples = samples_now(shop)
    for label in sorted({label for label, _ in samples}):
        mine = np.stack([embedding for one, embedding in samples if one == label])
        wanted = np.zeros((N_ROWS, WIDTH))
        for x, number in zip(mine, embedding_hashes(mine.astype(np.float16)).tolist(), strict=True):
            wanted[number % N_ROWS] += (-1.0 if number >> 63 else 1.0) * (x - mine.mean(axis=0))
        found = moments.residuals_of(np.array([of_label[label]]))[0][0]
        np.testing.assert_allclose(found, wanted, atol=1e-4)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_done_and_undone_the_model_is_that_of_the_samples(tmp_path: Path, seed: int) -> None:
    looks_twice = seed >= 6
    if looks_twice:  # a model that had samples, and has none any more
        nothing = np.eye(2, WIDTH), ["nut", "nut"]
        XLDA(power=None, second_look=N_ROWS).fit(*nothing).forget(*nothing).save(tmp_path / "shop.xlda")
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
        if looks_twice:
            check_rows(shop)
    assert n_refused < 100
    shop.engine.close()


def start_file(path: Path, lift: int | None = None, second_look: int | None = None) -> XLDA:
    rng = np.random.default_rng(5)
    clf = XLDA(power=None, lift=lift, second_look=second_look)
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


def look(shop: Shop) -> dict[str, Any]:
    """Rows for a second look by label, all of which have all samples, and what is answered."""
    clf = shop.engine.machine.classifier
    moments = clf._model.moments
    rows, weights = moments.residuals_of(np.arange(moments.n_classes))
    np.testing.assert_array_equal(weights, moments.counts)
    clf._model.upkeep.start_over()
    queries = np.random.default_rng(9).normal(size=(50, WIDTH)).astype(np.float32) + 1
    found: dict[str, Any] = {label: rows[row] for label, row in clf._model.labels.table().row_of.items()}
    return {**found, "scores": clf.decision_function(queries), "answers": clf.predict(queries)}


def check_same_look(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert before.keys() == after.keys()
    for name, one in before.items():
        if name != "answers":
            np.testing.assert_allclose(after[name], one, atol=1e-3, err_msg=name)
    np.testing.assert_array_equal(before["answers"], after["answers"])


@pytest.mark.parametrize("is_saved_between", [False, True])
def test_a_second_look_after_a_merge_and_a_removal_that_were_undone(
    tmp_path: Path, is_saved_between: bool
) -> None:
    start_file(tmp_path / "shop.xlda", second_look=N_ROWS)
    shop = Shop(tmp_path / "shop.xlda", 3)
    shop.teach(20)
    before, book = look(shop), shop.engine.book
    apple, banana = book.by_label["apple"].id, book.by_label["banana"].id
    for plan in (
        plans.merge_classes(apple, banana, None),
        plans.remove_class(banana, None, False),
        plans.merge_classes(banana, apple, None),
    ):
        done = shop.change("change", plan).body["seq"]
        changed = look(shop)
        assert len(changed) < len(before)
        if is_saved_between:
            shop.engine.checkpoint()
        undone = shop.change("undo", plans.undo([done])).body["seq"]
        check_same_look(before, look(shop))
        shop.reopen(is_killed=True)
        check_same_look(before, look(shop))
        again = shop.change("undo", plans.undo([undone])).body["seq"]
        check_same_look(changed, look(shop))
        shop.change("undo", plans.undo([again]))
        check_same_look(before, look(shop))
    shop.engine.close()


def test_a_second_look_after_undoing_what_has_folded_samples(tmp_path: Path) -> None:
    start_file(tmp_path / "shop.xlda", second_look=N_ROWS)
    shop = Shop(tmp_path / "shop.xlda", 3)
    for _ in range(5):
        shop.teach(6)
    engine, before = shop.engine, look(shop)
    one, two = (engine.book.by_label[label].id for label in ("date", "banana"))
    merged = shop.change("merge", plans.merge_classes(one, two, None)).body["seq"]
    engine.checkpoint()
    for last in (3, merged - 1):  # some, and then the others
        engine.writer.between(lambda last=last: fold(engine.db, engine.machine, engine.photos, last, 0.0))
    shop.change("create", plans.create_class("nut"))
    assert engine.rows("SELECT count(*) FROM samples WHERE embedding IS NOT NULL") == [(0,)]
    shop.reopen(is_killed=True)
    shop.change("undo", plans.undo([merged]))
    check_same_look(before, look(shop))
    removed = shop.change("remove", plans.remove_class(two, None, False)).body["seq"]
    shop.change("undo", plans.undo([removed]))
    check_same_look(before, look(shop))
    shop.engine.close()


def test_steps_of_logs_that_knew_no_rows_are_taken_all_the_same(tmp_path: Path) -> None:
    clf = start_file(tmp_path / "shop.xlda", second_look=N_ROWS)
    clf.class_ids_ = {"apple": "a", "banana": "b", "cherry": "c"}
    machine = Machine(clf)
    count, mean = clf.class_moments("banana")
    block = [count, packed(mean, np.float64)]
    machine.take([["drop", "b"], ["restore", "b", "banana", *block]], {})
    machine.take([["join", "a", "b"], ["split", "a", "b", "banana", *block]], {})
    assert clf.class_count_.tolist() == [4, 7, 2]
    assert clf.predict(clf.means_).tolist() == ["apple", "banana", "cherry"]


def test_a_log_whose_folded_samples_have_no_rows_is_brought_up_to_date(tmp_path: Path) -> None:
    start_file(tmp_path / "shop.xlda", second_look=N_ROWS)
    shop = Shop(tmp_path / "shop.xlda", 3)
    shop.teach(20)
    engine, before = shop.engine, moments(shop)
    one, two = (engine.book.by_label[label].id for label in ("apple", "banana"))
    merged = shop.change("merge", plans.merge_classes(one, two, None)).body["seq"]
    engine.checkpoint()
    engine.writer.between(lambda: fold(engine.db, engine.machine, engine.photos, merged - 1, 0.0))
    shop.change("create", plans.create_class("nut"))
    shop.engine.close()
    database = tmp_path / "shop.xlda.service" / "log.sqlite"
    with closing(sqlite3.connect(database)) as db:
        db.execute("ALTER TABLE folded DROP COLUMN rows")
        db.execute("PRAGMA user_version = 2")
        db.commit()
    shop.engine = Engine.open(shop.path, Keeping(photos=False))
    shop.engine.start()
    assert database.with_name("log.sqlite.version-2").exists()
    shop.change("undo", plans.undo([merged]))
    check_same(before, moments(shop))
    clf = shop.engine.machine.classifier
    weights = clf._model.moments.residuals_of(clf._model.labels.rows(["apple", "banana", "cherry"]))[1]
    assert (weights > 0).tolist() == [False, False, True]  # which nobody can know of the two
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


def test_a_start_deletes_what_killed_services_had_half_written(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop.xlda", 1)
    shop.teach(5)
    folder = shop.engine.places.folder
    (folder / "hub").mkdir()
    left = [
        folder / ".backup-0123456789abcdef.sqlite",
        folder / ".backup-0123456789abcdef.sqlite-wal",
        folder / "hub" / ".coming-0123456789abcdef",
        folder / "hub" / ".going-0123456789abcdef",
    ]
    for file in left:
        file.write_bytes(b"half of")
    (folder / "hub" / "forgotten.json").write_bytes(b"{}")
    shop.reopen(is_killed=True)
    assert [file for file in left if file.exists()] == []
    assert (folder / "hub" / "forgotten.json").exists()
    check_model(shop)
    shop.engine.close()


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


def test_who_is_gone_takes_no_answer_from_others(tmp_path):
    """Two changes are committed together; whoever wanted the first does not wait for it any more."""
    shop, may_go_on = Shop(tmp_path / "shop.xlda", 1), threading.Event()
    samples = [NewSample(row, "pear") for row in shop.rng.normal(size=(2, WIDTH)).astype(np.float32)]
    wanted = [Wanted("learn", plans.teach_batch([one]), "test") for one in samples]

    async def run() -> Reply:
        shop.engine.writer.between(lambda: assert_(may_go_on.wait(20)))
        gone, waiting = (asyncio.ensure_future(shop.engine.writer.change(one)) for one in wanted)
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        may_go_on.set()
        return await asyncio.wait_for(waiting, 20)

    try:
        assert asyncio.run(run()).body["seq"] == 2
        assert shop.engine.book.by_label["pear"].count == 2
    finally:
        shop.engine.close()


def assert_(found: bool) -> None:
    assert found


def test_a_model_that_cannot_be_assessed_yet_is_kept_in_order(tmp_path, monkeypatch):
    """Where the head in use is of too few samples, nothing is told, and all else that is due is done."""
    shop = Shop(tmp_path / "shop.xlda", 1)
    try:
        shop.teach(4)
        monkeypatch.setattr(shop.engine.machine.classifier, "calibrate_if_due", lambda progress: True)
        monkeypatch.setattr(shop.engine.machine.classifier, "assess", raising_of(ValueError("too few")))
        assert shop.engine._measure() is True
        assert shop.engine.assessment is None
    finally:
        shop.engine.close()


def raising_of(error):
    def fail():
        raise error

    return fail
