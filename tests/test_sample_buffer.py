from __future__ import annotations

import numpy as np
import pytest

import oracle
from conftest import blobs
from xlda import XLDA
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
