from __future__ import annotations

import numpy as np
import pytest

import oracle
from conftest import blobs
from xlda import XLDA
from xlda.shards import ShardedXLDA, shard_of


@pytest.fixture
def many(rng):
    """More classes than features, with different numbers of samples."""
    centres = rng.normal(size=(60, 12))
    labels = np.concatenate([np.arange(60), rng.integers(0, 60, 400), rng.integers(0, 5, 200)])
    X = centres[labels] + 0.6 * rng.normal(size=(len(labels), 12)) @ rng.normal(size=(12, 12)) / 3
    return X, labels


def learned_in_pieces(clf, X, y):
    for part in np.array_split(np.arange(len(X)), 3):
        clf.partial_fit(X[part], y[part])
    return clf


@pytest.mark.parametrize("n_shards", [1, 2, 5])
@pytest.mark.parametrize(
    "params",
    [{}, {"priors": "empirical"}, {"model": "lda", "shrinkage": 0.3}, {"shrinkage": "oas", "power": None}],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shards_answer_as_the_whole_does(n_shards, params, dtype, many):
    X, y = many[0].astype(dtype), many[1]
    whole = learned_in_pieces(XLDA(renew=0, **params), X, y)
    sharded = learned_in_pieces(ShardedXLDA(n_shards, **params), X, y)
    labels, scores = whole.predict_topk(X, 5)
    found, of_shards = sharded.predict_topk(X, 5)
    tolerance = 2e-3 if dtype == np.float32 else 1e-8
    np.testing.assert_allclose(of_shards, scores, atol=tolerance)
    assert np.mean(found[:, 0] == labels[:, 0]) == 1.0
    assert sharded.predict(X).dtype == whole.predict(X).dtype


def test_shards_answer_as_the_formulas_do(many):
    X, y = many
    counts, means, covariance = oracle.pooled(X, y)
    expected = oracle.scores(X, list(means.values()), covariance, 0.3)
    labels, scores = learned_in_pieces(
        ShardedXLDA(4, model="lda", shrinkage=0.3, power=None), X, y
    ).predict_topk(X, 1)
    np.testing.assert_array_equal(labels[:, 0], np.array(list(counts))[expected.argmax(axis=1)])
    np.testing.assert_allclose(scores[:, 0], expected.max(axis=1), atol=1e-8)


def test_many_different_counts_are_rounded_in_every_shard(rng):
    counts = np.arange(1, 301)
    y = np.repeat(np.arange(300), counts)
    X = rng.normal(size=(300, 6))[y] * 3 + rng.normal(size=(len(y), 6))
    whole, sharded = XLDA(renew=0).partial_fit(X, y), ShardedXLDA(3).partial_fit(X, y)
    found, of_shards = sharded.predict_topk(X[::50], 3)
    labels, scores = whole.predict_topk(X[::50], 3)
    np.testing.assert_array_equal(found[:, 0], labels[:, 0])
    np.testing.assert_allclose(of_shards, scores, atol=0.05)  # a count may be 1.1 % off in the whole


def test_far_classes_are_found_in_any_shard(rng):
    X, y = blobs(rng, n_samples=900, n_classes=60, n_features=40, dtype=np.float64)
    X[:, 30:] *= 1e-3  # classes do not differ there
    X[y < 3, 39] += 100.0 + 10.0 * y[y < 3]  # but for a few
    whole, sharded = XLDA(renew=0).partial_fit(X, y), ShardedXLDA(4).partial_fit(X, y)
    np.testing.assert_array_equal(sharded.predict(X), whole.predict(X))


def test_classifiers_of_different_classes_become_shards(many):
    X, y = many
    parts = [np.flatnonzero([shard_of(int(label), 3) == home for label in y]) for home in range(3)]
    classifiers = [XLDA().partial_fit(X[part], y[part]) for part in parts]
    sent = [XLDA.from_bytes(clf.to_bytes()) for clf in classifiers]
    whole = XLDA(renew=0).partial_fit(X, y)
    np.testing.assert_array_equal(ShardedXLDA.of(sent).predict(X), whole.predict(X))


def test_learning_goes_on_and_what_is_missing_is_told(many):
    X, y = many
    sharded = ShardedXLDA(3)
    with pytest.raises(ValueError, match="learned no class"):
        sharded.predict(X)
    learned_in_pieces(sharded, X, y).predict(X[:1])
    new = X[:20] + 30.0
    sharded.partial_fit(new, np.full(20, 777))
    assert set(sharded.predict(new).tolist()) == {777}
    with pytest.raises(ValueError, match="more classes than features"):
        ShardedXLDA(2).partial_fit(X[:60, :], y[:60] % 3).predict(X)


def test_a_lift_is_refused():
    with pytest.raises(ValueError, match="ShardedXLDA has no lift"):
        ShardedXLDA(2, lift=64)
