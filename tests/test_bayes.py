"""The Bayesian model against a plain loop over classes, and what holds between two renewals."""

from __future__ import annotations

import numpy as np
import pytest

import oracle
from conftest import lda
from xlda import XLDA
from xlda.head import count_table
from xlda.head.bayes_space import BayesSpace
from xlda.head.plain_space import PlainSpace


def unequal(rng, counts, n_features, dtype=np.float64, rank=None):
    """Samples of as many classes as there are counts, whose means differ along `rank` directions."""
    mixing = np.eye(n_features) + rng.normal(size=(n_features, n_features)) / n_features
    rank = n_features if rank is None else rank
    centres = 2 * rng.normal(size=(len(counts), rank)) @ rng.normal(size=(rank, n_features)) / rank**0.5
    y = np.repeat(np.arange(len(counts)), counts)
    X = centres[y] + rng.normal(size=(len(y), n_features)) @ mixing
    queries = centres + rng.normal(size=centres.shape) @ mixing
    return X.astype(dtype), y, queries[:200].astype(dtype)


def expected(X, y, queries, weights=None, shrinkage="auto"):
    counts, means, covariance = oracle.pooled(X, y.tolist(), weights)
    counts, means = np.array(list(counts.values())), np.array(list(means.values()))
    dof = max(counts.sum() - len(counts), min(counts.sum(), 1.0))
    return oracle.log_densities(queries, means, counts, covariance, dof, shrinkage), counts


def differences(scores):
    """Between classes; of two classes there is one score."""
    return scores if scores.ndim == 1 else scores - scores[:, :1]


def assert_same_differences(got, wanted, tolerance=1e-7):
    wanted = wanted[:, 1] - wanted[:, 0] if got.ndim == 1 else differences(wanted)
    np.testing.assert_allclose(differences(got), wanted, rtol=0, atol=tolerance * (1 + np.abs(wanted).max()))


CASES = {
    "two classes": ([5, 4], 8, None),
    "two classes, one of one sample": ([30, 1], 8, None),
    "three classes": ([1, 2, 40], 8, None),
    "fewer classes than features": ([1, 1, 3, 8, 20, 20], 24, None),
    "as many classes as features": ([1, 2, 3, 4, 5, 6, 7, 8], 8, None),
    "one more than features": ([1, 2, 3, 4, 5, 6, 7, 8, 9], 8, None),
    "more classes than features": ([1, 2, 5, 9] * 20, 8, None),
    "equal counts": ([3] * 40, 8, None),
    "classes that differ in few directions": ([1, 2, 5] * 100, 16, 4),
    "fewer directions than classes, both few": ([6, 1, 2, 3, 9], 12, 2),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_are_the_predictive_densities(case, dtype, rng):
    counts, n_features, rank = CASES[case]
    X, y, queries = unequal(rng, counts, n_features, dtype, rank)
    clf = XLDA(power=None).fit(X, y)
    assert not len(clf._current_head().changed)  # no class so far off that it has a direction of its own
    wanted, _ = expected(X, y, queries)
    assert_same_differences(
        clf.decision_function(queries), wanted, {np.float32: 2e-4, np.float64: 1e-7}[dtype]
    )


def test_directions_that_chance_may_have_made_are_left_out(rng):
    counts, n_features, rank = CASES["classes that differ in few directions"]
    X, y, _ = unequal(rng, counts, n_features, rank=rank)
    assert rank <= XLDA(power=None).fit(X, y)._current_head().space.n_coordinates <= rank + 2
    X, y, _ = unequal(rng, [6, 1, 2, 3, 9], 64, rank=2)  # too few classes to tell
    assert XLDA(power=None).fit(X, y)._current_head().space.n_coordinates == 4


@pytest.mark.parametrize("kind", ["thousands", "fractions", "small fractions"])
def test_any_weights_will_do(kind, rng):
    X, y, queries = unequal(rng, [2, 3, 4, 5, 6, 7, 2, 3], 6)
    weights = {
        "thousands": np.where(y % 2, 4000.0, 1.0),
        "fractions": rng.uniform(0.1, 3.0, len(y)),
        "small fractions": rng.uniform(0.001, 0.02, len(y)),
    }[kind]
    clf = XLDA(power=None).fit(X, y, sample_weight=weights)
    wanted, _ = expected(X, y, queries, weights)
    assert_same_differences(clf.decision_function(queries), wanted)


@pytest.mark.parametrize("shrinkage", [0.1, 0.7, 1.0])
def test_the_covariance_is_shrunk_as_one_says(shrinkage, rng):
    X, y, queries = unequal(rng, [1, 2, 40, 9], 6)
    clf = XLDA(power=None, shrinkage=shrinkage).fit(X, y)
    assert_same_differences(clf.decision_function(queries), expected(X, y, queries, shrinkage=shrinkage)[0])


def test_by_default_the_shrinkage_is_a_prior_worth_two_samples_a_feature(rng):
    X, y, _ = unequal(rng, [10, 6, 4], 8)
    assert XLDA(power=None).fit(X, y).shrinkage_ == pytest.approx(16 / (16 + 17))


def test_empirical_priors_add_the_logarithm_of_the_counts(rng):
    X, y, queries = unequal(rng, [1, 2, 40, 9], 6)
    wanted, counts = expected(X, y, queries)
    clf = XLDA(power=None, priors="empirical").fit(X, y)
    assert_same_differences(clf.decision_function(queries), wanted + np.log(counts))


def test_half_precision_is_right_to_its_digits(rng):
    X, y, queries = unequal(rng, [1, 2, 5, 9] * 20, 8, np.float32)
    half = XLDA(power=None, precision="half").fit(X, y)
    wanted, _ = expected(X, y, queries)
    assert_same_differences(half.decision_function(queries), wanted, 0.01)
    assert half._current_head().index.rows.parts[0].dtype == np.float16


def test_many_samples_a_class_are_plain_lda(rng):
    X, y, queries = unequal(rng, [5] * 8, 6)
    many = np.full(len(y), 1e7)
    bayes, plain = (
        clf.fit(X, y, sample_weight=many).decision_function(queries)
        for clf in (XLDA(power=None, shrinkage=0.3), lda())
    )
    np.testing.assert_allclose(differences(bayes), differences(plain), atol=1e-3)


# -- bad input


def test_a_class_without_samples_is_not_the_unknown_class(rng):
    """With a count of 0 it would have the widest density of all, and win far away from all others."""
    X, y, queries = unequal(rng, [4, 2, 9], 6)
    clf = XLDA(power=None, renew=100.0).partial_fit(X, y, classes=np.arange(9))
    clf.partial_fit(X[:1] + 1, [7]).predict(queries)
    clf.forget(X[:1] + 1, [7])
    centre = clf._current_head().centre  # where a class of which nothing is known would be
    far = np.concatenate([queries, 1e3 * queries, -X, centre + 1e-3 * queries, [centre]])
    assert set(clf.predict(far)) <= {0, 1, 2}
    clf._model.upkeep.start_over()
    assert set(clf.predict(far)) <= {0, 1, 2}


def test_one_class_always_wins(rng):
    X, _, _ = unequal(rng, [20], 6)
    clf = XLDA(power=None).fit(X, ["only"] * 20)
    assert set(clf.predict(100 * X)) == {"only"}
    clf.partial_fit(X[:0], [], classes=["never"])
    np.testing.assert_array_equal(clf.predict_proba(-50 * X), np.tile([0.0, 1.0], (20, 1)))


def test_with_one_sample_each_the_nearest_mean_wins(rng):
    X, queries = rng.normal(size=(30, 5)), rng.normal(size=(200, 5))
    clf = XLDA(power=None).fit(X, np.arange(30))
    nearest = ((queries[:, None] - X) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(clf.predict(queries), nearest)
    assert isinstance(clf._current_head().space, PlainSpace)


def test_a_second_sample_of_one_class_is_enough_to_begin_with(rng):
    X, y, queries = unequal(rng, [1, 1, 2], 4)
    clf = XLDA(power=None, renew=100.0).fit(X[:3], y[:3])
    clf.predict(queries)
    clf.partial_fit(X[3:], y[3:])
    assert_same_differences(clf.decision_function(queries), expected(X, y, queries)[0])
    assert isinstance(clf._current_head().space, BayesSpace)


@pytest.mark.parametrize("n_classes", [2, 40])
def test_equal_means_give_finite_scores(n_classes):
    X = np.tile([[0.0, 1.0, 4.0], [0.0, 3.0, 2.0]], (n_classes, 1))
    clf = XLDA(power=None).fit(X, np.repeat(np.arange(n_classes), 2))
    scores = clf.decision_function(X + 5)
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(
        scores, 0.0 if n_classes == 2 else scores[:, :1] * np.ones(n_classes), atol=1e-9
    )


def test_one_class_apart_from_many_equal_ones():
    X = np.tile([[0.0, 1.0, 4.0], [0.0, 3.0, 2.0]], (20, 1))
    X[-2:] += 9
    clf = XLDA(power=None).fit(X, np.repeat(np.arange(20), 2))
    assert (clf.predict(X[-2:]) == 19).all()
    assert (clf.predict(X[:-2]) < 19).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_is_refused(bad, rng):
    X, y, _ = unequal(rng, [4, 2, 9], 6)
    clf = XLDA().fit(X, y)
    with pytest.raises(ValueError, match="contains"):
        clf.predict(np.full((1, 6), bad))
    with pytest.raises(ValueError, match="contains"):
        XLDA().fit(np.full((2, 6), bad), [0, 1])


# -- no direction is lost


def assert_found_without_a_renewal(clf, new, label):
    """By the very next call, and among the others there are."""
    before = clf._current_head()
    clf.partial_fit(new, [label])
    assert clf.predict(new) == [label]
    after = clf._current_head()
    assert after.index is before.index
    assert after.space.basis is before.space.basis
    assert after.space.directions.shape[1] == before.space.directions.shape[1] + 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_third_class_orthogonal_to_two_is_found_by_the_next_call(dtype, rng):
    X = 0.1 * rng.normal(size=(40, 64)).astype(dtype)
    X[:20, 0] += 5
    X[20:, 1] += 5
    new = np.zeros((1, 64), dtype)
    new[0, 2] = 5
    clf = XLDA(power=None, renew=100.0).fit(X, np.repeat([0, 1], 20))
    then = clf.predict(X)
    assert_found_without_a_renewal(clf, new, 2)
    np.testing.assert_array_equal(clf.predict(X), then)
    clf._model.upkeep.start_over()
    assert clf.predict(new) == [2]


def flat(rng, dtype=np.float32):
    """300 classes that differ in 4 of 16 directions, of 1 to 5 samples."""
    X, y, _ = unequal(rng, [1, 2, 5] * 100, 16, dtype, rank=4)
    return X, y


def orthogonal(clf, length, rng):
    """An embedding so far off that is at the centre in all the coordinates there are."""
    space = clf._current_head().space
    white = rng.normal(size=space.basis.shape[0])
    white -= space.basis @ (space.basis.T @ white)
    raw = np.linalg.solve(space.whitening.T.astype(float), length * white / np.linalg.norm(white))
    return (space.centre + raw)[None].astype(space.centre.dtype)


@pytest.mark.parametrize("distance", [10.0, 20.0, 60.0])
def test_a_class_where_directions_were_left_out_is_found_by_the_next_call(distance, rng):
    X, y = flat(rng)
    clf = XLDA(power=None, renew=100.0).fit(X, y)
    assert clf._current_head().space.spread.left_out is not None
    new = orthogonal(clf, distance, rng)
    assert_found_without_a_renewal(clf, new, 999)
    clf._model.upkeep.start_over()
    assert clf.predict(new) == [999]


def test_out_there_a_class_is_where_it_was_seen_as_far_as_that_is_true(rng):
    """Along its direction samples vary by 1, and its mean is n psi / (n psi + 1) of what is seen.

    There psi is b t, and (1 - b) times what T will measure with it: rho^2 r^2 / sum rho^2.
    """
    X = rng.normal(size=(40, 64))
    X[:20, 0] += 9
    clf = XLDA(power=None, renew=100.0).fit(X, np.repeat([0, 1], 20))
    new = orthogonal(clf, 30.0, rng)
    head = clf.partial_fit(np.repeat(new, 2, axis=0), [2, 2])._current_head()
    psi, spread = head.space.table.psi, head.space.spread
    rho, others = (
        2 * spread.size / (2 * spread.size + 1),
        2 * (20 * spread.size / (20 * spread.size + 1)) ** 2,
    )
    known = 2 * (spread.share * spread.size + (1 - spread.share) * rho**2 * 30.0**2 / others)
    log_variances = [0.5 * np.log(1 + psi / (n * psi + 1)).sum() for n in (2, 20)]
    mean, at_centre = 30.0 * known / (known + 1), log_variances[1] - log_variances[0]
    points = head.centre + np.array([[0.0], [0.5], [1.0]]) * (new - head.centre)
    expected = [at_centre - 0.5 * mean**2 + mean * along for along in (0.0, 15.0, 30.0)]
    np.testing.assert_allclose(head.scores(points)[:, 2], expected, rtol=1e-6)


def test_more_new_directions_than_there_is_room_for_are_a_renewal(rng):
    X = 0.1 * rng.normal(size=(40, 128))
    X[:20, 0] += 5
    X[20:, 1] += 5
    clf = XLDA(power=None, renew=100.0).fit(X, np.repeat([0, 1], 20))
    first = clf._current_head().space
    for label in range(2, 90):
        new = np.zeros((1, 128))
        new[0, label] = 5
        assert clf.partial_fit(new, [label]).predict(new) == [label]
    assert clf._current_head().space.basis is not first.basis
    corners = 5 * np.eye(128)[:90]
    np.testing.assert_array_equal(clf.predict(corners), np.arange(90))


# -- rounded counts


def test_many_counts_are_rounded_by_little():
    counts = np.concatenate([np.arange(1.0, 400.0), np.geomspace(400, 1e9, 3000), np.geomspace(1e-6, 1, 99)])
    values, groups = count_table.groups_of(counts)
    assert len(values) < 1200
    assert np.abs(values[groups] / counts - 1).max() <= 0.011
    np.testing.assert_array_equal(values[groups][:16], counts[:16])
    np.testing.assert_array_equal(np.sort(values), values)


def test_few_counts_are_as_they_are():
    counts = np.geomspace(1, 1e6, 256)
    values, groups = count_table.groups_of(counts)
    np.testing.assert_array_equal(values[groups], counts)


def test_rounded_counts_answer_as_exact_ones(rng, monkeypatch):
    X, y, queries = unequal(rng, rng.integers(1, 200, 100).tolist(), 12)
    exact = XLDA(power=None).fit(X, y)
    scores = exact.decision_function(queries)
    monkeypatch.setattr(count_table, "MOST_EXACT", 8)
    rounded = XLDA(power=None).fit(X, y)
    assert len(rounded._current_head().space.table) < len(exact._current_head().space.table)
    np.testing.assert_array_equal(rounded.predict(queries), exact.predict(queries))
    assert 0 < np.abs(rounded.decision_function(queries) - scores).max() < 0.2
    rounded.partial_fit(X[:5], y[:5]).predict(queries)
    assert len(rounded._current_head().space.table) < 150
