"""Samples that are kept for checking: always the same ones, whatever way they came."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import xlda
from conftest import blobs
from test_laws import streams
from xlda import XLDA
from xlda.labels import label_hash
from xlda.moments.kept_samples import KeptSamples, embedding_hashes

MOST = 32


def kept(clf):
    """What is kept, by label, as a sorted list."""
    moments = clf._model.moments
    samples = moments.kept.samples()
    names = clf._model.labels.table().names[samples.rows]
    parts = (names, samples.embeddings, samples.weights, samples.groups)
    return sorted(
        (str(name), one.tobytes(), round(float(weight), 6), int(group))
        for name, one, weight, group in zip(*parts, strict=True)
    )


def learned(stream, parts):
    clf = XLDA(power=None, check_samples=MOST)
    for chosen in parts:
        X, y, weights = stream.part(chosen)
        clf.partial_fit(X, y, sample_weight=weights)
    return clf


@given(streams())
def test_any_order_and_any_batches_keep_the_same(stream):
    once = learned(stream, [np.arange(len(stream))])
    assert kept(learned(stream, stream.batches())) == kept(once)
    assert len(kept(once)) <= MOST


@given(streams())
def test_shards_merged_in_any_order_keep_the_same(stream):
    owner = stream.rng.integers(0, 4, len(stream))
    shards = [learned(stream, [part]) for i in range(4) if len(part := np.flatnonzero(owner == i))]
    while len(shards) > 1:
        first, second = (shards.pop(stream.rng.integers(len(shards))) for _ in range(2))
        shards.append(first.merge(second))
    assert kept(shards[0]) == kept(learned(stream, [np.arange(len(stream))]))


def many(rng, n_classes=40, per_class=6):
    y = np.repeat(np.arange(n_classes), per_class)
    return np.round(rng.normal(size=(len(y), 5)), 2).astype(np.float32), y


def test_classes_are_whole_and_those_with_the_smallest_hashes(rng):
    X, y = many(rng)
    clf = XLDA(power=None, check_samples=100).fit(X, y)
    labels = sorted({int(name) for name, *_ in kept(clf)})
    assert labels == sorted(sorted(range(40), key=label_hash)[: 100 // 6])
    assert len(kept(clf)) == 6 * len(labels)
    np.testing.assert_array_equal(
        sorted(one for _, one, *_ in kept(clf)),
        sorted(x.astype(np.float16).tobytes() for x in X[np.isin(y, labels)]),
    )


def test_a_class_of_very_many_keeps_those_with_the_smallest_hashes(rng):
    X = rng.normal(size=(500, 3)).astype(np.float32)
    clf = XLDA(power=None, check_samples=64).fit(X, np.arange(500) % 2)
    samples = clf._model.moments.kept.samples()
    assert np.bincount(samples.rows).tolist() == [4, 4]
    for row in (0, 1):
        of_row = X[row::2]
        smallest = of_row[np.argsort(embedding_hashes(of_row))[:4]].astype(np.float16)
        np.testing.assert_array_equal(
            np.sort(samples.embeddings[samples.rows == row], axis=0), np.sort(smallest, axis=0)
        )


def test_equal_embeddings_are_one_with_the_weight_of_all():
    X, y = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 0.0], [1.0, 2.0]]), ["a", "a", "a", "b"]
    clf = XLDA(power=None).fit(X, y, sample_weight=[1, 2.5, 1, 1])
    found = sorted((name, weight) for name, _, weight, _ in kept(clf))
    assert found == [("a", 1.0), ("a", 3.5), ("b", 1.0)]


def test_forgetting_takes_out_and_never_puts_in(rng):
    X, y = many(rng)
    clf = XLDA(power=None, check_samples=100).fit(X, y)
    before = kept(clf)
    gone = np.isin(y, [int(before[0][0])])
    clf.forget(X[gone], y[gone])
    assert kept(clf) == [one for one in before if one[0] != before[0][0]]
    clf.partial_fit(X[:6] + 1, np.full(6, 999))
    assert set(kept(clf)) - set(before) <= {one for one in kept(clf) if one[0] == "999"}


def test_they_follow_their_classes(rng):
    X, y = many(rng, n_classes=6)
    clf = XLDA(power=None).fit(X, y)
    clf.rename_class(2, 77)
    assert sum(name == "77" for name, *_ in kept(clf)) == 6
    clf.merge_classes(77, 3)
    assert sum(name == "77" for name, *_ in kept(clf)) == 12
    clf.remove_class(77)
    assert {name for name, *_ in kept(clf)} == {"0", "1", "4", "5"}
    clf.partial_fit(X[:3], [77] * 3)
    assert sum(name == "77" for name, *_ in kept(clf)) == 3


def test_a_class_that_is_not_whole_is_not_kept(rng):
    """One of two classes that become one was not kept: half of its samples would be."""
    X, y = many(rng)
    clf = XLDA(power=None, check_samples=100).fit(X, y)
    labels = {int(name) for name, *_ in kept(clf)}
    inside, outside = min(labels), min(set(range(40)) - labels)
    clf.merge_classes(inside, outside)
    clf.partial_fit(X[:2] + 3, [inside] * 2)
    assert str(inside) not in {name for name, *_ in kept(clf)}


def test_they_are_saved(rng, tmp_path):
    X, y = many(rng)
    clf = XLDA(power=None, check_samples=100).fit(X[:150], y[:150])
    clf.save(tmp_path / "model")
    again = xlda.load(tmp_path / "model")
    assert kept(again) == kept(clf)
    for one in (clf, again):
        one.partial_fit(X[150:], y[150:])
    assert kept(again) == kept(clf) == kept(XLDA(power=None, check_samples=100).fit(X, y))


def test_none_are_kept_where_none_are_wanted(rng, tmp_path):
    X, y = many(rng)
    clf = XLDA(power=None, check_samples=0).fit(X, y)
    assert kept(clf) == []
    clf.save(tmp_path / "model")
    assert kept(xlda.load(tmp_path / "model").merge(XLDA(power=None).fit(X, y))) == []
    for wrong in (-1, 2.5, True, "many"):
        with pytest.raises(ValueError, match="check_samples is a whole number of at least 0"):
            XLDA(check_samples=wrong).fit(X, y)


def test_what_float16_cannot_hold_is_kept_as_it_is():
    X = np.array([[1e6, 2.0], [3.0, 4.0]], np.float32)
    clf = XLDA(power=None).fit(X, [0, 1])
    samples = clf._model.moments.kept.samples()
    np.testing.assert_array_equal(samples.embeddings[np.argsort(samples.rows)], X)


def test_groups_are_kept_with_them(rng):
    X, y = many(rng, n_classes=3)
    names = np.array(["monday", "tuesday"])[np.arange(len(y)) % 2]
    once = XLDA(power=None).partial_fit(X, y, groups=names)
    parts = XLDA(power=None)
    for i in range(len(y)):
        parts.partial_fit(X[i : i + 1], y[i : i + 1], groups=names[i : i + 1])
    assert kept(once) == kept(parts)
    assert len({group for *_, group in kept(once)}) == 2
    assert all(group == -1 for *_, group in kept(XLDA(power=None).fit(X, y)))
    with pytest.raises(ValueError, match="groups has 2 entries; X has 18 samples"):
        once.partial_fit(X, y, groups=["a", "b"])
    weightless = XLDA(power=None).partial_fit(X, y, sample_weight=np.arange(len(y)) % 2, groups=names)
    assert {group for *_, group in kept(weightless)} == {label_hash("tuesday") >> 1}


def test_they_take_little_memory(rng):
    X, y = blobs(rng, n_samples=6000, n_classes=300, n_features=1280, dtype=np.float32)
    clf = XLDA().partial_fit(X, y)
    assert 2000 < len(clf._model.moments.kept) <= 2048
    assert clf.memory()["samples kept for checking"] < 6e6


def test_hashes_see_every_number(rng):
    X = rng.normal(size=(1, 7)).astype(np.float32)
    others = np.repeat(X, 7, axis=0) + 1e-3 * np.eye(7, dtype=np.float32)
    hashes = embedding_hashes(np.concatenate([X, others, X.astype(np.float64)]))
    assert len(set(hashes.tolist())) == 8
    assert hashes[0] == hashes[-1]


def test_a_stream_that_says_nothing_of_labels_keeps_nothing():
    samples = KeptSamples(n_features=2, most=0)
    samples.add(np.ones((3, 2)), np.arange(3))
    assert len(samples) == 0


def test_a_few_wait_to_be_brought_in_together_and_are_there_for_whoever_looks(rng, monkeypatch):
    X, y = many(rng, n_classes=30)
    clf, n_times, take = XLDA(power=None), 0, KeptSamples._take

    def counted(self, *args):
        nonlocal n_times
        n_times += 1
        take(self, *args)

    monkeypatch.setattr(KeptSamples, "_take", counted)
    for row in rng.permutation(len(X)):
        clf.partial_fit(X[row : row + 1], y[row : row + 1])
        clf.n_samples_seen_  # noqa: B018 - so that each comes alone
    assert n_times < 5
    assert kept(clf) == kept(XLDA(power=None).fit(X, y))
    clf.partial_fit(X[:1] + 5, y[:1]).forget(X[:1] + 5, y[:1])
    clf.partial_fit(X[:1] + 1, [3]).remove_class(3)
    clf.partial_fit(X[:1] + 1, [77]).merge_classes(5, 77)
    expected = XLDA(power=None).fit(np.concatenate([X, X[:1] + 1]), [*y.tolist(), 77]).merge_classes(5, 77)
    assert kept(clf) == kept(expected.remove_class(3))
