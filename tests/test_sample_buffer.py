from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import oracle
from conftest import blobs
from xlda import XLDA
from xlda.labels import Labels
from xlda.moments.sample_buffer import A_FEW, CAPACITY, SampleBuffer


def test_what_goes_in_comes_out_in_order(rng):
    buffer, X = SampleBuffer(), rng.normal(size=(CAPACITY, 3))
    for start in range(0, CAPACITY, A_FEW):
        assert buffer.has_room_for(X[start : start + A_FEW])
        buffer.add(X[start : start + A_FEW], range(start, start + A_FEW))
    assert not buffer.has_room_for(X[:1])  # full
    embeddings, labels = buffer.samples()
    np.testing.assert_array_equal(embeddings, X)
    assert labels == [*range(CAPACITY)]
    buffer.clear()
    assert len(buffer) == 0
    assert buffer.has_room_for(X[:1])
    buffer.add(X[7:8], ["seven"])
    assert buffer.samples()[1] == ["seven"]


def test_samples_of_another_type_have_to_wait_until_it_is_empty():
    buffer = SampleBuffer()
    buffer.add(np.ones((1, 2), np.float32), [0])
    assert not buffer.has_room_for(np.ones((1, 2)))
    assert buffer.samples()[0].dtype == np.float32
    buffer.clear()
    assert buffer.has_room_for(np.ones((1, 2)))
    buffer.add(np.full((1, 2), 1e-300), [0])
    np.testing.assert_array_equal(buffer.samples()[0], np.full((1, 2), 1e-300))


def test_the_array_that_was_given_may_change_afterwards():
    buffer, X, labels = SampleBuffer(), np.ones((1, 2)), ["a"]
    buffer.add(X, labels)
    X[:], labels[0] = 7, "b"
    np.testing.assert_array_equal(buffer.samples()[0], [[1, 1]])
    assert buffer.samples()[1] == ["a"]


READERS = {
    "class_count_": lambda clf, X: clf.class_count_,
    "means_": lambda clf, X: clf.means_,
    "covariance_": lambda clf, X: clf.covariance_,
    "n_samples_seen_": lambda clf, X: clf.n_samples_seen_,
    "decision_function": lambda clf, X: clf.decision_function(X),
    "to_linear": lambda clf, X: clf.to_linear()[0],
}


@pytest.mark.filterwarnings("ignore:Classes have different numbers of samples")
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("size", [1, 7, A_FEW])
def test_nobody_can_tell_that_samples_were_kept_back(size, read, rng):
    X, y = blobs(rng, n_samples=CAPACITY + 100)
    clf = XLDA(renew=0)
    for start in range(0, len(X), size):
        clf.partial_fit(X[start : start + size], y[start : start + size])
    np.testing.assert_allclose(read(clf, X), read(XLDA(renew=0).fit(X, y), X), rtol=1e-9, atol=1e-9)


def test_every_change_sees_the_samples_kept_back(rng, tmp_path):
    X, y = blobs(rng)
    clf = XLDA().fit(X[:200], y[:200])
    for row in range(200, 210):
        clf.partial_fit(X[row : row + 1], y[row : row + 1])
    clf.forget(X[205:210], y[205:210])
    clf.partial_fit(X[205:206], y[205:206])
    clf.merge(XLDA().partial_fit(X[206:208], y[206:208]))
    clf.partial_fit(X[208:209], y[208:209]).merge_classes(0, 1)
    clf.partial_fit(X[209:210], np.where(y[209:210] == 1, 0, y[209:210]), sample_weight=[1.0])
    counts, means, covariance = oracle.pooled(X[:210], np.where(y[:210] == 1, 0, y[:210]).tolist())
    assert dict(zip(clf.classes_.tolist(), clf.class_count_, strict=True)) == counts
    np.testing.assert_allclose(clf.covariance_, covariance)
    np.testing.assert_allclose(clf.means_, [means[label] for label in clf.classes_])


def test_a_removed_class_takes_its_kept_samples_along(rng):
    X, y = blobs(rng)
    clf = XLDA().fit(X, y).partial_fit(X[:1], [0]).remove_class(0)
    assert 0 not in clf.classes_
    clf.partial_fit(X[:1], [0])
    assert clf.class_count_[clf.classes_.tolist().index(0)] == 1


@pytest.mark.parametrize("kind", [int, str])
def test_new_classes_one_by_one_are_what_they_are_at_once(kind, rng):
    X, y = blobs(rng, n_samples=3 * CAPACITY, n_classes=CAPACITY + 50)
    order = rng.permutation(len(y))
    X, y = X[order], [kind(label) for label in y[order]]
    clf, once = XLDA(), XLDA().fit(X, y)
    for row in range(len(X)):
        clf.partial_fit(X[row : row + 1], y[row : row + 1])
    counts, means, covariance = oracle.pooled(X, y)
    assert clf.classes_.tolist() == sorted(counts)
    assert clf.class_count_.tolist() == [counts[label] for label in clf.classes_.tolist()]
    np.testing.assert_allclose(clf.means_, [means[label] for label in clf.classes_.tolist()])
    np.testing.assert_allclose(clf.covariance_, covariance)
    assert clf.predict(X).tolist() == once.predict(X).tolist()


def test_a_class_learned_one_call_ago_is_found_by_the_next(rng):
    X = 10 * rng.normal(size=(40, 6))
    clf = XLDA(power=None).partial_fit(np.repeat(X[:2], 3, axis=0) + rng.normal(size=(6, 6)), list("aaabbb"))
    for row in range(2, 40):
        clf.partial_fit(X[row : row + 1], [f"class {row}"])
        assert clf.predict(X[row : row + 1]) == [f"class {row}"]
        assert clf.n_samples_seen_ == 5 + row
        assert clf.snapshot().predict(X[row : row + 1]) == [f"class {row}"]


@pytest.mark.parametrize(
    ("labels", "message"),
    [([7], "Got int labels beside str ones"), (["x" * 1001], "A label has 1,001 characters")],
)
def test_what_is_wrong_with_a_few_is_said_at_once_and_changes_nothing(labels, message, rng):
    X, _ = blobs(rng)
    clf = XLDA().partial_fit(X[:2], ["a", "b"]).partial_fit(X[2:3], ["c"])
    with pytest.raises(ValueError, match=message):
        clf.partial_fit(X[3:4], labels)
    assert clf.classes_.tolist() == ["a", "b", "c"]
    assert clf.n_samples_seen_ == 3


def test_where_memory_cannot_be_had_a_few_samples_are_not_lost(rng, monkeypatch):
    X, _ = blobs(rng)
    clf = XLDA().partial_fit(X[:2], ["a", "b"]).partial_fit(X[2:3], ["c"])

    def no_memory(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Labels, "give_rows", no_memory)
        with pytest.raises(MemoryError):
            clf.predict(X[:1])
    assert clf.classes_.tolist() == ["a", "b", "c"]
    assert clf.class_count_.tolist() == [1, 1, 1]


def test_copies_have_what_waits_and_wait_for_themselves(rng):
    X, _ = blobs(rng)
    clf = XLDA().partial_fit(X[:2], ["a", "b"]).partial_fit(X[2:3], ["c"])
    for other in (copy.deepcopy(clf), pickle.loads(pickle.dumps(clf))):
        other.partial_fit(X[3:4], ["d"])
        assert other.classes_.tolist() == ["a", "b", "c", "d"]
    clf.merge(XLDA().partial_fit(X[:2], ["a", "b"]).partial_fit(X[4:5], ["e"]))
    assert clf.classes_.tolist() == ["a", "b", "c", "e"]
    assert clf.class_count_.tolist() == [2, 2, 1, 1]
