"""Saving what was known at one moment, while learning and predicting go on."""

from __future__ import annotations

import copy
import threading
import time

import numpy as np
import pytest

import xlda
from xlda import XLDA, model_file, storage, upkeep
from xlda.errors import DamagedFileError
from xlda.search.codes import Codebook
from xlda.search.tuning import Planned

D = 24
PARAMETERS = [
    {},
    {"search": "fisher"},
    {"search": "fast scan"},
    {"precision": "half"},
    {"priors": "empirical"},
    {"background": True},
    {"covariance": "fixed"},
]


def drawn(rng, n_classes=80, first=0):
    y = np.repeat(np.arange(first, first + n_classes), rng.integers(2, 7, n_classes))
    means = np.random.default_rng(5).normal(size=(1000, D)) * 3
    return (means[y] + rng.normal(size=(len(y), D))).astype(np.float32), y


def in_use(rng, **parameters):
    """A classifier whose head is not renewed: classes changed, came and went since."""
    if parameters.get("search") == "fast scan":
        pytest.importorskip("faiss")
    X, y = drawn(rng)
    clf = XLDA(**{"renew": 0.2, **parameters}).partial_fit(X, y)
    clf.predict(X[:1])
    more, labels = drawn(rng, 6, first=90)
    clf.partial_fit(more, labels).predict(X[:1])
    clf.partial_fit(X[:9] + 1, y[:9])
    clf.remove_class(int(y[20])).rename_class(int(y[40]), 500).partial_fit(X[:0], [], classes=[501])
    return clf, np.concatenate([X, more, X + 2])


@pytest.fixture
def nothing_anew(monkeypatch):
    def refuse(*_args, **_kwargs):
        pytest.fail("something was made anew")

    def begin():
        monkeypatch.setattr(upkeep, "new_head", refuse)
        monkeypatch.setattr(Codebook, "of", refuse)

    yield begin
    monkeypatch.undo()


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_what_is_in_use_is_saved_as_it_is(parameters, rng, tmp_path, nothing_anew):
    clf, queries = in_use(rng, **parameters)
    nothing_anew()
    weight = clf._model.upkeep._weight
    assert weight
    clf.view_to_save(renew=False).write(tmp_path / "m.xlda")
    loaded = xlda.load(tmp_path / "m.xlda")
    assert loaded._model.upkeep._weight == clf._model.upkeep._weight == weight
    assert loaded._model.upkeep.served.total == clf._model.upkeep.served.total
    np.testing.assert_array_equal(loaded.predict(queries), clf.predict(queries))
    np.testing.assert_array_equal(loaded.decision_function(queries), clf.decision_function(queries))
    for mine, theirs in zip(loaded.predict_topk(queries, 3), clf.predict_topk(queries, 3), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(
        loaded._current_head().top_and_unknown(queries, 2)[2],
        clf._current_head().top_and_unknown(queries, 2)[2],
    )


@pytest.mark.parametrize("parameters", [{}, {"search": "fisher"}, {"priors": "empirical"}])
def test_what_is_loaded_goes_on_and_is_renewed_as_it_would_have_been(parameters, rng, tmp_path):
    clf, queries = in_use(rng, **parameters)
    clf.view_to_save(renew=False).write(tmp_path / "m.xlda")
    both = [clf, xlda.load(tmp_path / "m.xlda")]
    both[1].renew = clf.renew
    totals = set()
    for start in range(0, 200, 10):
        for each in both:
            each.partial_fit(queries[start : start + 10], np.full(10, 600 + start // 40))
        np.testing.assert_allclose(
            *(each.decision_function(queries[:20]) for each in both), rtol=1e-4, atol=1e-2
        )
        mine, theirs = (each._model.upkeep.served.total for each in both)
        assert mine == theirs
        totals.add(mine)
    assert len(totals) > 1


def test_it_is_saved_again_and_again(rng, tmp_path, nothing_anew):
    clf, queries = in_use(rng)
    nothing_anew()
    before, loaded = clf.decision_function(queries), clf
    for _ in range(3):
        loaded.view_to_save(renew=False).write(tmp_path / "m.xlda")
        loaded = xlda.load(tmp_path / "m.xlda")
        np.testing.assert_array_equal(loaded.decision_function(queries), before)


def test_classes_that_lie_outside_keep_their_directions(rng, tmp_path):
    y = np.repeat(np.arange(20), 6)
    means = np.zeros((20, D))
    means[:, :3] = rng.normal(size=(20, 3)) * 6
    X = means[y] + rng.normal(size=(len(y), D))
    clf = XLDA(renew=0.5).fit(X, y)
    far = np.zeros((3, D))
    far[np.arange(3), [10, 12, 14]] = 40.0
    for label, sample in enumerate(far, 100):
        clf.partial_fit(sample[None], [label]).predict(X[:1])
    assert clf._current_head().space.directions.shape[1]
    clf.view_to_save(renew=False).write(tmp_path / "m.xlda")
    loaded = xlda.load(tmp_path / "m.xlda")
    queries = np.concatenate([X, far + rng.normal(size=far.shape)])
    np.testing.assert_allclose(loaded.decision_function(queries), clf.decision_function(queries), rtol=1e-12)
    for each in (clf, loaded):
        each.partial_fit(-far[:1], [200])
    np.testing.assert_allclose(loaded.decision_function(queries), clf.decision_function(queries), rtol=1e-9)


def test_a_plan_for_fewer_classes_is_used_on(rng, tmp_path, monkeypatch):
    X, y = drawn(rng)
    clf = XLDA(search="fisher", renew=10).partial_fit(X, y)
    clf.predict(X)
    more, labels = drawn(rng, 60, first=100)
    clf.partial_fit(more, labels).predict(X)
    plan = clf._current_head().index.plan
    assert not plan.is_for(140)
    clf.view_to_save(renew=False).write(tmp_path / "m.xlda")
    monkeypatch.setattr("xlda.search.fisher.tuned", lambda *_: pytest.fail("it was tuned anew"))
    loaded = xlda.load(tmp_path / "m.xlda")
    np.testing.assert_array_equal(loaded.predict(more), clf.predict(more))
    assert loaded._current_head().index.plan == plan
    assert isinstance(loaded._current_head().index.search, Planned)


def test_without_a_head_it_is_saved_without_one(rng, tmp_path):
    X, y = drawn(rng)
    clf = XLDA().partial_fit(X, y)
    clf.view_to_save(renew=False).write(tmp_path / "none.xlda")
    plain = XLDA(model="lda").fit(X, y)
    plain.view_to_save(renew=False).write(tmp_path / "plain.xlda")
    clf.predict(X[:1])
    clf.shrinkage = 0.4
    clf.view_to_save(renew=False).write(tmp_path / "other.xlda")
    for label in clf.classes_:
        clf.remove_class(label)
    clf.view_to_save(renew=False).write(tmp_path / "empty.xlda")
    for name in ("none", "plain", "other", "empty"):
        assert "head" not in storage.read(tmp_path / f"{name}.xlda", model_file.KNOWN)
        xlda.load(tmp_path / f"{name}.xlda")
    np.testing.assert_array_equal(xlda.load(tmp_path / "plain.xlda").predict(X), plain.predict(X))


def test_a_class_that_became_known_without_samples_after_the_renewal_can_be_loaded(rng, tmp_path):
    X, y = drawn(rng)
    clf = XLDA().fit(X, y).partial_fit(X[:0], [], classes=[700])
    clf.predict(X)
    clf.save(tmp_path / "m.xlda")
    np.testing.assert_array_equal(xlda.load(tmp_path / "m.xlda").predict(X), clf.predict(X))


def test_a_renewed_head_is_written_as_before(rng, tmp_path):
    clf, _ = in_use(rng)
    clf.save(tmp_path / "m.xlda")
    assert storage.read(tmp_path / "m.xlda", model_file.KNOWN)["head"].version == 1
    assert clf._model.upkeep._weight == 0


# -- later, in another thread


@pytest.mark.parametrize("renew", [True, False])
@pytest.mark.parametrize("background", [True, False])
def test_what_is_written_is_what_was_known_when_the_view_was_taken(renew, background, rng, tmp_path):
    clf, queries = in_use(rng, background=background)
    clf.class_ids_, clf.log_position_ = {500: "i500"}, {"at": [1]}
    clf.batch_keys_ = ["k"]
    view = clf.view_to_save(renew)
    then = copy.deepcopy(clf)
    clf.log_position_["at"].append(2)
    clf.class_ids_[501] = "i501"
    clf.batch_keys_.append("l")
    clf.rename_class(500, 800).remove_class(501).merge_classes(1, 2)
    clf.partial_fit(queries[:100].astype(np.float64), np.arange(100) + 1000).forget(
        queries[:3], [1000, 1001, 1002]
    )
    clf.predict(queries)
    view.write(tmp_path / "m.xlda")
    then.view_to_save(renew).write(tmp_path / "then.xlda")
    one, other = (storage.read(tmp_path / name, model_file.KNOWN) for name in ("m.xlda", "then.xlda"))
    assert set(one) == set(other) >= {"ids", "log", "keys", "head", "kept"}
    for name, section in one.items():
        assert (section.info, section.version) == (other[name].info, other[name].version)
        assert set(section.tensors) == set(other[name].tensors)
        for tensor in section.tensors:
            np.testing.assert_allclose(
                section.tensors[tensor], other[name].tensors[tensor], rtol=1e-6, atol=1e-6
            )
    loaded = xlda.load(tmp_path / "m.xlda")
    assert loaded.class_ids_ == {500: "i500"}
    assert loaded.log_position_ == {"at": [1]}
    assert loaded.batch_keys_ == ["k"]


def test_learning_and_asking_go_on_while_it_is_written(rng, tmp_path, monkeypatch):
    clf, queries = in_use(rng, background=True)
    written, go_on, write = threading.Event(), threading.Event(), storage.save_file

    def slowly(*arguments):
        written.set()
        assert go_on.wait(20)
        write(*arguments)

    monkeypatch.setattr(storage, "save_file", slowly)
    view, n_classes = clf.view_to_save(renew=False), len(clf.classes_)
    thread = threading.Thread(target=view.write, args=(tmp_path / "m.xlda",))
    thread.start()
    assert written.wait(20)
    clf.partial_fit(queries[:5], [1, 2, 900, 901, 902])
    assert clf.predict(queries[:1] + 100).shape == (1,)
    clf.view_to_save(renew=False)
    go_on.set()
    thread.join()
    assert len(xlda.load(tmp_path / "m.xlda").classes_) == n_classes == len(clf.classes_) - 3


def test_views_taken_while_another_thread_learns_are_whole(rng, tmp_path):
    clf = XLDA(background=True, check_samples=200)
    X, y = drawn(rng, 40)
    clf.partial_fit(X, y).predict(X[:1])
    end = threading.Event()

    def learn():
        chance, known = np.random.default_rng(1), 1000
        while not end.is_set():
            some = chance.integers(0, len(X), 7)
            clf.partial_fit(X[some], y[some])
            clf.partial_fit(X[:1], [known])
            clf.predict(X[:2])
            known += 1
            time.sleep(0)

    thread = threading.Thread(target=learn)
    thread.start()
    try:
        for _ in range(15):
            clf.view_to_save(renew=False).write(tmp_path / "m.xlda")
            loaded = xlda.load(tmp_path / "m.xlda")
            moments = loaded._model.moments
            assert moments.total == moments.n_samples
            assert len(loaded.classes_) == moments.n_seen
            loaded.predict(X)
    finally:
        end.set()
        thread.join()


# -- what cannot be


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("live", lambda tensor: np.ones(1000, np.uint8)),
        ("live", lambda tensor: tensor[:-1]),
        ("directions", lambda tensor: np.ones((65, D), np.float32)),
        ("directions", lambda tensor: np.ones((2, D + 1), np.float32)),
        ("changed", lambda tensor: tensor + 10**6),
        ("changed", lambda tensor: tensor[:-1]),
        ("changed_weights", lambda tensor: tensor[:, :-1]),
        ("changed_weights", lambda tensor: tensor * np.nan),
        ("changed_bias", lambda tensor: tensor.astype(np.float64)),
        ("changed_groups", lambda tensor: tensor + 10**6),
        ("changed_groups", lambda tensor: tensor - 10**6),
        ("changed_live", lambda tensor: tensor[:-1]),
        ("changed_apart", lambda tensor: tensor.astype(np.float32)),
        ("part_0_offsets", lambda tensor: tensor[:-1]),
        ("weight", -1.0),
        ("weight", "much"),
    ],
)
def test_a_head_in_use_that_cannot_be_is_refused(name, change, rng, tmp_path):
    clf, _ = in_use(rng)
    clf.view_to_save(renew=False).write(tmp_path / "m.xlda")
    sections = storage.read(tmp_path / "m.xlda", model_file.KNOWN)
    if callable(change):
        sections["head"].tensors[name] = change(sections["head"].tensors[name])
    else:
        sections["head"].info[name] = change
    storage.write(tmp_path / "m.xlda", sections.values())
    with pytest.raises(DamagedFileError, match="is damaged"):
        xlda.load(tmp_path / "m.xlda")


@pytest.mark.parametrize(
    ("section", "info"),
    [
        ("ids", {}),
        ("ids", {"ids": "abc"}),
        ("ids", {"ids": ["x"]}),
        ("ids", {"ids": ["x", "x", None]}),
        ("ids", {"ids": ["x", 1, None]}),
        ("ids", {"ids": ["x", "", None]}),
        ("ids", {"ids": ["x", "y" * 65, None]}),
        ("ids", {"ids": ["x", "y", "z"]}),  # the third has no label any more
        ("log", {}),
        ("log", {"position": [1]}),
    ],
)
def test_ids_and_positions_that_cannot_be_are_refused(section, info, rng, tmp_path):
    clf = XLDA().fit(rng.normal(size=(9, 4)), list("abcabcabc")).remove_class("c")
    clf.class_ids_, clf.log_position_ = {"a": "1" * 64, "nobody": "2"}, {"n": 1}
    clf.save(tmp_path / "m.xlda")
    loaded = xlda.load(tmp_path / "m.xlda")
    assert (loaded.class_ids_, loaded.log_position_) == ({"a": "1" * 64}, {"n": 1})
    sections = storage.read(tmp_path / "m.xlda", model_file.KNOWN)
    sections[section].info.clear()
    sections[section].info.update(info)
    storage.write(tmp_path / "m.xlda", sections.values())
    with pytest.raises(DamagedFileError, match="is damaged"):
        xlda.load(tmp_path / "m.xlda")


@pytest.mark.parametrize("ids", [{"a": ""}, {"a": "x" * 65}, {"a": "x", "b": "x"}, {"a": 7}])
def test_ids_that_could_not_be_read_are_not_written(ids, rng, tmp_path):
    clf = XLDA().fit(rng.normal(size=(9, 4)), list("abcabcabc"))
    clf.class_ids_ = ids
    with pytest.raises(ValueError, match="class_ids_"):
        clf.save(tmp_path / "m.xlda")
    clf.class_ids_, clf.log_position_ = {}, 7
    with pytest.raises(ValueError, match="log_position_"):
        clf.save(tmp_path / "m.xlda")
    assert not (tmp_path / "m.xlda").exists()
