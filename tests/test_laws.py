"""The algebra: what must hold for every stream. Values are compared with a two-pass float64 loop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from conftest import log_posteriors
from xlda import XLDA
from xlda.moments import Moments

TOLERANCE = {np.float32: 1e-5, np.float64: 1e-10}


@dataclass
class Stream:
    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    rng: np.random.Generator
    tolerance: float

    def __len__(self):
        return len(self.y)

    def part(self, chosen):
        return self.X[chosen], self.y[chosen], None if self.weights is None else self.weights[chosen]

    def batches(self):
        """The samples in a random order, in batches of random sizes from 1 to all."""
        order = self.rng.permutation(len(self))
        n_cuts = self.rng.integers(0, len(self) + 1)
        cuts = np.sort(self.rng.integers(0, len(self) + 1, n_cuts))
        return [part for part in np.split(order, cuts) if self.rng.random() < 0.9 or len(part)]


@st.composite
def streams(draw, weighted=True):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d, n_classes = draw(st.integers(2, 70)), draw(st.integers(1, 6)), draw(st.integers(1, 9))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    y = rng.integers(0, n_classes, n)
    X = rng.normal(size=(n, d)) + 3 * rng.normal(size=(n_classes, d))[y]
    if draw(st.booleans()):
        X = np.round(X)  # ties: equal samples, equal classes, features without variance
    X = (X + draw(st.sampled_from([0, 1e3]))).astype(dtype)
    kinds = ["none", "whole", "any"] if weighted else ["none"]
    kind = draw(st.sampled_from(kinds))
    weights = {"none": None, "whole": rng.integers(1, 4, n).astype(float), "any": rng.uniform(0.1, 5, n)}[
        kind
    ]
    return Stream(X, y, weights, rng, TOLERANCE[dtype])


MODELS = pytest.mark.parametrize("model", ["bayes", "lda"])


def learned(stream, parts, clf=None):
    clf = XLDA(power=None) if clf is None else clf
    for chosen in parts:
        X, y, weights = stream.part(chosen)
        clf.partial_fit(X, y, sample_weight=weights)
    return clf


def assert_same_matrix(got, expected, tolerance, X):
    """Relative to the largest entry; where that is rounding itself, to the squared rounding of the data."""
    scale = max(np.abs(expected).max(), tolerance * np.ptp(X) ** 2, (1e-10 * np.abs(X).max()) ** 2)
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * scale)


def assert_learned(clf, stream, X=None, y=None, weights=None):
    X, y, weights = stream.part(slice(None)) if X is None else (X, y, weights)
    counts, means, covariance = oracle.pooled(X, y, weights)
    order = np.argsort(clf.classes_)
    assert clf.classes_[order].tolist() == sorted(counts)
    np.testing.assert_allclose(clf.class_count_[order], list(counts.values()), rtol=1e-12)
    np.testing.assert_allclose(
        clf.means_[order], list(means.values()), rtol=0, atol=stream.tolerance * np.abs(X).max()
    )
    assert_same_matrix(clf.covariance_, covariance, stream.tolerance, X)


def assert_same_predictions(one, other, X, tolerance):
    """Same posteriors, and the same winner wherever the two best are not tied to rounding."""
    mine, theirs = (log_posteriors(clf, X) for clf in (one, other))
    rounding = 10 * tolerance * (1 + np.abs(mine).max())
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=rounding)
    best_two = np.sort(np.c_[mine, np.full(len(X), -np.inf)], axis=1)[:, -2:]
    clear = best_two[:, 1] - best_two[:, 0] > 2 * rounding
    assert (one.predict(X)[clear] == other.predict(X)[clear]).all()


@given(streams())
def test_any_order_and_any_batches_give_the_pooled_moments(stream):
    assert_learned(learned(stream, stream.batches()), stream)


@MODELS
@given(stream=streams())
def test_any_order_and_any_batches_give_the_same_predictions(model, stream):
    at_once, in_parts = (XLDA(model=model, power=None, renew=0) for _ in range(2))
    learned(stream, [np.arange(len(stream))], at_once)
    learned(stream, stream.batches(), in_parts)
    assert_same_predictions(at_once, in_parts, stream.X, stream.tolerance)


@given(streams())
def test_streams_of_one_sign_choose_one_power(stream):
    stream.X = np.abs(stream.X)
    at_once, in_parts = (
        learned(stream, parts, XLDA()) for parts in ([np.arange(len(stream))], stream.batches())
    )
    assert at_once.power_ == in_parts.power_ == 0.5
    assert_same_predictions(at_once, in_parts, stream.X, stream.tolerance)


@given(streams())
def test_shards_merged_in_any_order_are_one_stream(stream):
    n_shards = stream.rng.integers(1, 5)
    owner = stream.rng.integers(0, n_shards, len(stream))
    shards = [learned(stream, [np.flatnonzero(owner == i)]) for i in range(n_shards)]
    while len(shards) > 1:
        first, second = (shards.pop(stream.rng.integers(len(shards))) for _ in range(2))
        shards.append(first.merge(second))
    assert_learned(shards[0], stream)
    at_once = learned(stream, [np.arange(len(stream))])
    shards[0]._model.upkeep.start_over()
    assert_same_predictions(at_once, shards[0], stream.X, stream.tolerance)


@given(streams())
def test_merging_leaves_the_other_as_it_was(stream):
    half = len(stream) // 2
    one, other = learned(stream, [np.arange(half)]), learned(stream, [np.arange(half, len(stream))])
    before = other.classes_, other.class_count_, other.means_, other.covariance_
    one.merge(other)
    for was, now in zip(
        before, (other.classes_, other.class_count_, other.means_, other.covariance_), strict=True
    ):
        np.testing.assert_array_equal(was, now)


@given(streams())
def test_empty_moments_are_the_identity(stream):
    some = Moments(stream.X.shape[1])
    some.update(*stream.part(slice(None)))
    for total in (some + Moments(stream.X.shape[1]), Moments(stream.X.shape[1]) + some):
        np.testing.assert_array_equal(total.counts, some.counts)
        np.testing.assert_array_equal(total.means, some.means)
        np.testing.assert_array_equal(total.scatter, some.scatter)
        assert total.n_samples == some.n_samples == len(stream)


@given(streams())
def test_addition_commutes(stream):
    one, other = Moments(stream.X.shape[1]), Moments(stream.X.shape[1])
    one.update(*stream.part(slice(0, None, 2)))
    other.update(*stream.part(slice(1, None, 2)))
    there, back = one + other, other + one
    np.testing.assert_allclose(there.counts, back.counts)
    np.testing.assert_allclose(there.means, back.means, rtol=stream.tolerance, atol=stream.tolerance * 10)
    assert_same_matrix(there.scatter, back.scatter, stream.tolerance, stream.X)


def test_nothing_plus_nothing_is_nothing():
    nothing = Moments(3) + Moments(3)
    assert (nothing.n_samples, nothing.n_classes, nothing.dof) == (0, 0, 0.0)
    np.testing.assert_array_equal(nothing.covariance(), np.zeros((3, 3)))


@given(streams())
def test_forget_undoes_partial_fit(stream):
    n_kept = stream.rng.integers(1, len(stream))
    kept, gone = np.arange(n_kept), np.arange(n_kept, len(stream))
    clf = learned(stream, [kept, gone])
    for chosen in np.array_split(stream.rng.permutation(gone), stream.rng.integers(1, len(gone) + 1)):
        X, y, weights = stream.part(chosen)
        clf.forget(X, y, weights)
    everything = oracle.pooled(*stream.part(slice(None)))[2] * len(stream)
    counts, means, covariance = oracle.pooled(*stream.part(kept))
    seen = clf.class_count_ > 0
    assert sorted(clf.classes_[seen]) == sorted(counts)
    for label, mean in zip(clf.classes_[seen], clf.means_[seen], strict=True):
        np.testing.assert_allclose(
            mean, means[label], rtol=0, atol=30 * stream.tolerance * np.abs(stream.X).max()
        )
    # What rounding leaves behind is relative to all that was ever learned.
    atol = 10 * stream.tolerance * max(np.abs(everything).max(), np.ptp(stream.X) ** 2)
    np.testing.assert_allclose(clf.covariance_, covariance, rtol=0, atol=atol)


@MODELS
@given(stream=streams())
def test_a_class_that_is_forgotten_leaves_no_trace_in_the_scores(model, stream):
    gone = stream.y == stream.y[0]
    if not np.bincount(stream.y[~gone], minlength=1).max() > 2:
        return  # what rounding leaves may be all that varies
    clf, never = (XLDA(model=model, power=None, renew=0) for _ in range(2))
    learned(stream, stream.batches(), clf).predict(stream.X)
    learned(stream, [np.flatnonzero(~gone)], never)
    X, y, weights = stream.part(gone)
    clf.forget(X, y, weights)
    scores = clf.predict_log_proba(stream.X)
    assert (scores[:, clf.classes_ == stream.y[0]] == -np.inf).all()
    scores, expected = scores[:, clf.classes_ != stream.y[0]], never.predict_log_proba(stream.X)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-3 * (1 + np.abs(expected).max()))


@given(streams())
def test_forgetting_all_leaves_exactly_nothing(stream):
    clf = learned(stream, stream.batches())
    order = stream.rng.permutation(len(stream))
    X, y, weights = stream.part(order)
    clf.forget(X, y, weights)
    assert not clf.class_count_.any()
    assert not clf.covariance_.any()
    assert clf.n_samples_seen_ == 0
    assert_learned(learned(stream, stream.batches(), clf), stream)


@given(streams(weighted=False))
def test_a_weight_is_a_number_of_repetitions(stream):
    times = stream.rng.integers(0, 4, len(stream))
    times[0] = 1
    weighted = XLDA(power=None).partial_fit(stream.X, stream.y, sample_weight=times)
    assert_learned(weighted, stream, np.repeat(stream.X, times, axis=0), np.repeat(stream.y, times))


@given(streams())
def test_new_classes_leave_old_means_untouched(stream):
    clf = learned(stream, [np.arange(len(stream))])
    before = dict(zip(clf.classes_.tolist(), clf.means_, strict=True))
    clf.partial_fit(stream.X, stream.y + 100)
    after = dict(zip(clf.classes_.tolist(), clf.means_, strict=True))
    for label, mean in before.items():
        np.testing.assert_array_equal(after[label], mean)


@given(streams())
def test_merged_classes_are_one_class_from_the_start(stream):
    y = stream.y.copy()
    y[0], y[1] = 0, 1
    clf = XLDA(power=None).partial_fit(stream.X, y, sample_weight=stream.weights).merge_classes(0, 1)
    assert_learned(clf, stream, stream.X, np.where(y == 1, 0, y), stream.weights)


@given(streams())
def test_a_class_without_samples_never_wins(stream):
    clf = learned(stream, [np.arange(len(stream))])
    clf.partial_fit(stream.X[:0], [], classes=[1000, -5])
    if len(set(stream.y)) > 1:
        clf.remove_class(stream.y[0])
    queries = np.concatenate([stream.X, np.zeros_like(stream.X[:1]), -10 * stream.X])
    winners = set(clf.predict(queries)) | set(clf.predict_topk(queries, 99)[0].ravel())
    assert winners <= set(stream.y.tolist())
    if len(set(stream.y)) > 1:
        assert stream.y[0] not in winners


@given(streams(weighted=False))
def test_single_sample_classes_predict_themselves(stream):
    X = np.unique(np.round(stream.X, 1), axis=0)  # as far apart as linear scores in float32 can tell
    clf = XLDA(power=None)
    for row in stream.rng.permutation(len(X)):
        clf.partial_fit(X[row : row + 1], [f"class {row}"])
    assert clf.predict(X).tolist() == [f"class {row}" for row in range(len(X))]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_long_streams_keep_the_tolerance(dtype, rng):
    """Many folds, many samples of one class, one at a time and in batches."""
    n, d = 30_000, 4
    y = np.where(rng.random(n) < 0.6, 0, rng.integers(1, 50, n))
    X = (rng.normal(size=(n, d)) * [1, 2, 0.1, 5] + rng.normal(size=(50, d))[y] + 1e3).astype(dtype)
    stream = Stream(X, y, None, rng, TOLERANCE[dtype])
    singly = np.split(np.arange(n // 2), n // 2)
    assert_learned(learned(stream, [*singly, *np.array_split(np.arange(n // 2, n), 7)]), stream)


# -- the same of lifted features, which are float32 whatever embeddings are

LIFT = 24


@st.composite
def lifted_streams(draw):
    """Embeddings as far from zero as networks' are, not a thousand times as far."""
    stream = draw(streams())
    stream.X = (stream.X - stream.X.mean(axis=0)).astype(stream.X.dtype)
    stream.tolerance = 1e-4
    return stream


def assert_learned_lifted(clf, stream, chosen=slice(None)):
    X, y, weights = stream.part(chosen)
    assert_learned(clf, stream, oracle.random_features(X, LIFT, 0), y, weights)


@settings(max_examples=30)
@given(lifted_streams())
def test_lifted_any_order_and_any_batches_are_the_pooled_moments_of_the_features(stream):
    assert_learned_lifted(learned(stream, stream.batches(), XLDA(power=None, lift=LIFT)), stream)


@MODELS
@settings(max_examples=30)
@given(stream=lifted_streams())
def test_lifted_any_order_and_any_batches_give_the_same_predictions(model, stream):
    at_once, in_parts = (XLDA(model=model, power=None, renew=0, lift=LIFT, shrinkage=0.3) for _ in range(2))
    learned(stream, [np.arange(len(stream))], at_once)
    learned(stream, stream.batches(), in_parts)
    assert_same_predictions(at_once, in_parts, stream.X, stream.tolerance)


@settings(max_examples=30)
@given(lifted_streams())
def test_lifted_shards_merged_in_any_order_are_one_stream(stream):
    owner = stream.rng.integers(0, 3, len(stream))
    shards = [learned(stream, [np.flatnonzero(owner == i)], XLDA(power=None, lift=LIFT)) for i in range(3)]
    whole = XLDA(power=None, lift=LIFT)
    for number in stream.rng.permutation(3):
        whole.merge(shards[number])
    assert_learned_lifted(whole, stream)


@settings(max_examples=30)
@given(lifted_streams())
def test_lifted_forget_undoes_partial_fit(stream):
    n_kept = stream.rng.integers(1, len(stream))
    kept, gone = np.arange(n_kept), np.arange(n_kept, len(stream))
    clf = learned(stream, [kept, gone], XLDA(power=None, lift=LIFT))
    for chosen in np.array_split(stream.rng.permutation(gone), stream.rng.integers(1, len(gone) + 1)):
        clf.forget(*stream.part(chosen))
    features = oracle.random_features(stream.X, LIFT, 0)
    counts, means, covariance = oracle.pooled(features[kept], *stream.part(kept)[1:])
    seen = clf.class_count_ > 0
    assert sorted(clf.classes_[seen]) == sorted(counts)
    for label, mean in zip(clf.classes_[seen], clf.means_[seen], strict=True):
        np.testing.assert_allclose(mean, means[label], rtol=0, atol=1e-3 * (1 + np.abs(features).max()))
    atol = 1e-4 * max(np.ptp(features) ** 2 * len(stream), 1.0)
    np.testing.assert_allclose(clf.covariance_, covariance, rtol=0, atol=atol)
    X, y, weights = stream.part(kept)
    clf.forget(X, y, weights)
    assert not clf.class_count_.any()
    assert not clf.covariance_.any()
