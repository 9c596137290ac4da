from __future__ import annotations

import functools

import numpy as np
import pytest
from safetensors.numpy import load

import oracle
from conftest import blobs
from test_storage import PARAMS, assert_same, reload
from xlda import XLDA, storage
from xlda._internal.section import Section
from xlda.errors import DamagedFileError, NewerFileError
from xlda.moments import Moments
from xlda.moments.in_bytes import moments_from_bytes, moments_to_bytes
from xlda.moments.published_rule import PublishedMoments


@pytest.mark.parametrize("params", PARAMS)
def test_a_classifier_comes_back_as_from_a_file(params, rng, tmp_path):
    X, y = blobs(rng)
    clf = XLDA(**params).fit(X[:200], y[:200]).partial_fit(X[200:250], y[200:250])
    other = XLDA.from_bytes(clf.to_bytes())
    loaded = reload(clf, tmp_path)
    assert_same(clf, other)
    for _ in range(2):
        np.testing.assert_allclose(loaded.decision_function(X), other.decision_function(X), atol=1e-9)
        loaded.partial_fit(X[250:], y[250:])
        other.partial_fit(X[250:], y[250:])


def test_parts_that_were_sent_add_up_to_the_whole(rng):
    X, y = blobs(rng, n_samples=400)
    sent = [XLDA().partial_fit(X[part], y[part]).to_bytes() for part in np.array_split(np.arange(400), 5)]
    clf = functools.reduce(XLDA.merge, map(XLDA.from_bytes, sent))
    counts, means, covariance = oracle.pooled(X, y)
    np.testing.assert_array_equal(clf.class_count_, [counts[label] for label in clf.classes_])
    np.testing.assert_allclose(clf.means_, [means[label] for label in clf.classes_], atol=1e-12)
    np.testing.assert_allclose(clf.covariance_, covariance, atol=1e-12)


def test_the_bytes_are_those_of_the_file_and_of_safetensors(rng, tmp_path):
    X, y = blobs(rng)
    clf = XLDA().fit(X, y)
    clf.save(tmp_path / "shop.xlda")
    assert clf.view_to_save().to_bytes() == (tmp_path / "shop.xlda").read_bytes()
    np.testing.assert_array_equal(load(clf.to_bytes())["moments/counts"], np.bincount(y))


def test_a_head_is_sent_only_where_it_is_wanted(rng):
    X, y = blobs(rng)
    clf = XLDA().fit(X, y)
    assert not any(name.startswith("head/") for name in load(clf.to_bytes()))
    assert any(name.startswith("head/") for name in load(clf.view_to_save().to_bytes()))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)])
def test_bytes_of_every_kind_are_read_and_kept(kind, rng):
    X, y = blobs(rng)
    sent = XLDA().partial_fit(X, y).to_bytes()
    given = kind(sent)
    clf = XLDA.from_bytes(given).partial_fit(X, y)
    assert bytes(given) == sent
    np.testing.assert_array_equal(clf.class_count_, 2 * np.bincount(y))


@pytest.mark.parametrize("half", [False, True])
def test_moments_come_back_and_go_on(half, rng):
    X, rows = blobs(rng, dtype=np.float32)
    moments, whole = (Moments(X.shape[1], half, check_samples=64) for _ in range(2))
    for some in (moments, whole):
        some.kept.name(range(6), [3, 1, 4, 15, 9, 2])
    moments.update(X[:200], rows[:200])
    moments = moments_from_bytes(moments_to_bytes(moments))
    moments.update(X[200:], rows[200:])
    whole.update(X[:200], rows[:200])
    whole.update(X[200:], rows[200:])
    for name in ("counts", "means", "n_samples", "half", "dtype"):
        np.testing.assert_array_equal(getattr(moments, name), getattr(whole, name))
    np.testing.assert_allclose(moments.scatter, whole.scatter, rtol=1e-4)  # rows waited for another fold
    assert moments.kept.most == 64
    ours, theirs = (some.kept.to_arrays(some.n_classes) for some in (moments, whole))
    np.testing.assert_array_equal(ours["embeddings"], theirs["embeddings"])


def test_moments_of_the_published_rule_stay_such(rng):
    X, rows = blobs(rng)
    moments = PublishedMoments(X.shape[1])
    moments.update(X, rows)
    assert type(moments_from_bytes(moments_to_bytes(moments))) is PublishedMoments


@pytest.mark.parametrize("place", [0, 40, 1000, -1])
def test_one_wrong_byte_is_noticed(place, rng):
    X, rows = blobs(rng)
    moments = Moments(X.shape[1])
    moments.update(X, rows)
    for read, sent in (
        (moments_from_bytes, moments_to_bytes(moments)),
        (XLDA.from_bytes, XLDA().partial_fit(X, rows).to_bytes()),
    ):
        bad = bytearray(sent)
        bad[place] ^= 1
        with pytest.raises((DamagedFileError, NewerFileError), match=r"^A model in memory "):
            read(bad)
        with pytest.raises(DamagedFileError, match="complete"):
            read(sent[: len(sent) // 2])


def test_what_is_no_moments_is_refused(rng):
    X, rows = blobs(rng)
    moments = Moments(X.shape[1])
    moments.update(X, rows)
    whole = storage.from_bytes(moments_to_bytes(moments), {"kind": 1, "moments": 2})
    for kind in ({"rule": "best", "check_samples": 0}, {"rule": ["exact"]}, {}):
        made = storage.to_bytes([Section("kind", info=kind), whole["moments"]])
        with pytest.raises(DamagedFileError, match="rule"):
            moments_from_bytes(made)
    with pytest.raises(DamagedFileError, match="no moments"):
        moments_from_bytes(storage.to_bytes([whole["kind"]]))
    with pytest.raises(NewerFileError, match="a section"):
        moments_from_bytes(XLDA().partial_fit(X, rows).to_bytes())
