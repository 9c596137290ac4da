"""Random features: what they are, that they are the same everywhere, and that all else works with them."""

from __future__ import annotations

import copy
import json
import pickle
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_limits

import oracle
import xlda
from test_model_file import contents, craft
from xlda import XLDA
from xlda.calibration import parameter_trial
from xlda.errors import BadSampleError, DamagedFileError, NewerFileError
from xlda.head.covariance import Whitening, covariance_factor
from xlda.lifting import Lift
from xlda.lifting.drawing import Signs
from xlda.moments.kept_samples import Kept

WIDTH = 48
DATA = Path(__file__).parent / "data"


@pytest.fixture
def samples(rng):
    """Never negative, so that power="auto" takes the root; 12 classes, 8 of each, and as many to ask for."""
    centres = rng.random((12, 6)) * 3
    labels = np.repeat(np.arange(12), 16)
    X = np.abs(centres[labels] + 0.3 * rng.standard_normal((len(labels), 6))).astype(np.float32)
    return X[::2], labels[::2], X[1::2], labels[1::2]


@pytest.fixture
def clf(samples):
    return XLDA(lift=WIDTH, renew=0).fit(*samples[:2])


def scores_by_oracle(X, y, queries, width=WIDTH, seed=0):
    features, asked = (oracle.random_features(np.sqrt(some), width, seed) for some in (X, queries))
    counts, means, covariance = oracle.pooled(features, y)
    dof = len(y) - len(counts)
    beta, worth = oracle.lifted_shrinkage(covariance, dof), oracle.lifted_features(covariance, dof)
    each = np.array(list(counts.values()))
    return oracle.log_densities(asked, np.stack(list(means.values())), each, covariance, dof, beta, worth)


def assert_same_scores(got, expected, rtol=2e-3):
    got, expected = (scores - scores.max(axis=1, keepdims=True) for scores in (got, expected))
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol * np.abs(expected).max())


def test_how_class_means_differ_is_told_by_what_features_are_worth(rng):
    y = np.repeat(np.arange(90), 4)
    noise = rng.standard_normal((len(y), 6)) * np.geomspace(0.1, 1.0, 6)  # mostly along one of them
    X = (rng.standard_normal((90, 6))[y] + noise).astype(np.float32)
    features = oracle.random_features(X, 2 * WIDTH, 0)
    counts, means, covariance = oracle.pooled(features, y.tolist())
    dof = len(y) - len(counts)
    W = oracle.whitened(covariance, oracle.lifted_shrinkage(covariance, dof), dof)
    given = np.stack(list(means.values())) @ W, np.array(list(counts.values())), W.T @ covariance @ W
    *_, share = oracle.class_spread(*given, oracle.lifted_features(covariance, dof))
    found = XLDA(lift=2 * WIDTH, power=None, renew=0).fit(X, y).snapshot().head.space.spread.share
    assert found == pytest.approx(share, rel=0.01)
    assert found < 0.8 * oracle.class_spread(*given)[-1]  # which all features would give


# -- the features themselves


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1])
def test_random_signs_are_the_bits_of_the_published_generator(seed):
    words = oracle.philox_words(seed, 20)
    expected = [1 - 2 * (word >> bit & 1) for word in words for bit in range(64)]
    stream = Signs(seed)
    assert [*stream.next(64), *stream.next(19 * 64)] == expected


@pytest.mark.parametrize(
    ("d", "width"), [(1, 30), (7, 30), (8, 30), (13, 200), (64, 64), (65, 300), (200, 30)]
)
def test_features_are_what_is_written_of_them(d, width, rng):
    X = rng.standard_normal((70, d)).astype(np.float32)
    found = Lift(n_inputs=d, width=width, seed=3).features(X)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, oracle.random_features(X, width, 3), rtol=0, atol=3e-6)
    assert 0.2 < (found < 0).mean() < 0.8  # both sides of the bend are there


def test_what_all_numbers_have_in_common_is_left_out(rng):
    X = rng.standard_normal((3, 20))
    lift = Lift(20, 40)
    np.testing.assert_allclose(lift.features(X + 5), lift.features(X), atol=1e-5)


def test_directions_are_for_whoever_makes_a_product(rng):
    X, lift = rng.standard_normal((4, 70)).astype(np.float32), Lift(70, 300, seed=1)
    along = X @ lift.directions().T
    np.testing.assert_allclose(np.where(along < 0, 0.4 * along, along), lift.features(X), atol=1e-5)
    blocks = Lift(64, 128).directions()
    square = blocks.T @ blocks  # two rotations, of what is left where the mean is taken off
    np.testing.assert_allclose(square, 2 * (np.eye(64) - 1 / 64), atol=1e-5)


def test_more_features_begin_with_the_fewer(rng):
    X = rng.standard_normal((3, 5))
    few, many = (Lift(5, width).features(X) for width in (10, 300))
    np.testing.assert_allclose(many[:, :10], few, rtol=1e-6)


def test_a_centre_is_taken_off_first(rng):
    X, centre = rng.standard_normal((4, 5)).astype(np.float32), rng.standard_normal(5)
    off = X - centre.astype(np.float32)
    np.testing.assert_array_equal(Lift(5, 20, centre=centre).features(X), Lift(5, 20).features(off))


def test_a_centre_is_taken_off_before_numbers_are_rounded(rng):
    X, centre = rng.standard_normal((20, 16)), np.full(16, 2.0**20)
    about = Lift(16, WIDTH, centre=centre).features(X + centre)
    np.testing.assert_allclose(about, Lift(16, WIDTH).features(X), atol=1e-6)


def test_copies_share_the_random_numbers():
    lift = Lift(5, 20)
    assert copy.deepcopy(lift) is lift
    assert pickle.loads(pickle.dumps(lift))._shared is lift._shared
    assert len(pickle.dumps(lift)) < 500


# -- learning and predicting


def test_scores_are_those_of_the_model_over_the_features(clf, samples):
    X, y, queries, _ = samples
    assert clf.power_ == 0.5
    assert_same_scores(clf.decision_function(queries), scores_by_oracle(X, y, queries))


def test_means_and_covariance_are_those_of_the_features(clf, samples):
    X, y, _, _ = samples
    _, means, covariance = oracle.pooled(oracle.random_features(np.sqrt(X), WIDTH, 0), y)
    np.testing.assert_allclose(clf.means_, np.stack(list(means.values())), atol=1e-5)
    np.testing.assert_allclose(clf.covariance_, covariance, atol=1e-5)
    np.testing.assert_allclose(clf.lifted(X), oracle.random_features(np.sqrt(X), WIDTH, 0), atol=1e-5)


def test_the_prior_is_worth_samples_for_each_direction_not_for_each_feature(samples):
    X, y, _, _ = samples
    _, _, covariance = oracle.pooled(oracle.random_features(np.sqrt(X), 900, 0), y)
    dof = len(y) - 12
    found = XLDA(lift=900).fit(X, y).shrinkage_
    assert found == pytest.approx(oracle.lifted_shrinkage(covariance, dof), rel=1e-3)
    assert found < 0.8 * 1800 / (1800 + dof)  # of two samples a feature


@pytest.mark.parametrize("search", ["fisher", "lsh"])
def test_many_classes_are_searched(search, rng):
    y = np.repeat(np.arange(150), 4)
    X = np.abs(3 * rng.random((150, 8))[y] + 0.1 * rng.standard_normal((len(y), 8))).astype(np.float32)
    found, dense = (XLDA(lift=WIDTH, search=some).fit(X, y) for some in (search, "dense"))
    assert (found.predict(X) == dense.predict(X)).mean() > 0.95


def test_the_power_is_chosen_by_embeddings_not_by_features(samples):
    X, y, _, _ = samples
    assert XLDA(lift=WIDTH).fit(X - 1, y).power_ is None  # whose features are never negative all the same


def test_what_is_kept_for_checking_are_embeddings(clf, samples):
    kept = clf._model.moments.kept.samples().embeddings
    assert kept.shape == (len(samples[0]), 6)
    expected = np.sqrt(samples[0]).astype(np.float16)
    assert set(map(bytes, kept)) == set(map(bytes, expected))


def test_no_matrix_of_all_features_is_made(rng):
    """Of 20,000 samples these would be 80 MB; the file in tests/test_sources.py has the rest."""
    X = rng.random((20_000, 4)).astype(np.float32)
    y = np.arange(len(X)) % 5
    clf = XLDA(lift=1000, check_samples=0)
    clf.partial_fit(X[:10], y[:10]).predict(X[:1])
    clf.partial_fit(X[:3000], y[:3000]).predict(X[:1])  # memory that it works in is had by now
    tracemalloc.start()
    clf.partial_fit(X, y)
    learning = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    clf.snapshot().predict(X)
    asking = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert learning < 30e6
    assert asking < 60e6  # with the head, which is made anew


def test_one_sample_at_a_time_is_the_same_as_all_at_once(samples, clf):
    X, y, queries, _ = samples
    singly = XLDA(lift=WIDTH, renew=0)
    for sample, label in zip(X, y, strict=True):
        singly.partial_fit(sample[None], [label])
    assert_same_scores(singly.decision_function(queries), clf.decision_function(queries))


def test_doubles_are_learned_as_single_numbers(samples, clf):
    X, y, queries, _ = samples
    double = XLDA(lift=WIDTH, renew=0).fit(X.astype(np.float64), y)
    assert double._model.moments.dtype == np.float32
    assert_same_scores(double.decision_function(queries.astype(np.float64)), clf.decision_function(queries))


@pytest.mark.parametrize("power", [None, 0.5])
def test_doubles_that_single_numbers_cannot_hold_are_refused(power, samples):
    X, y, asked, _ = (some.astype(np.float64) for some in samples)
    clf = XLDA(lift=WIDTH, power=power).fit(X, y)
    before, huge = clf.decision_function(asked), X[:2] * 1e35
    large = X[:2] * 1e13 ** (1 / (power or 1))
    for work in (
        lambda: clf.partial_fit(huge, y[:2]),
        lambda: clf.forget(huge, y[:2]),
        lambda: clf.predict(huge),
        lambda: clf.snapshot().predict(huge),
        lambda: clf.partial_fit(large, y[:2], sample_weight=[1e12, 1e12]),
        lambda: XLDA(lift=WIDTH, power=power).fit(huge, y[:2]),
    ):
        with pytest.raises(BadSampleError, match="more than float32 can hold"):
            work()
    np.testing.assert_array_equal(clf.decision_function(asked), before)


def test_features_need_something_learned(samples):
    with pytest.raises(NotFittedError):
        XLDA(lift=WIDTH).lifted(samples[0])


@pytest.mark.parametrize("params", [{"model": "lda"}, {"rule": "slda"}, {"covariance": "fixed"}])
def test_other_kinds_of_classifiers_are_lifted_too(params, samples):
    X, y, queries, truth = samples
    clf = XLDA(lift=WIDTH, **params).fit(X, y)
    plain = XLDA(lift=None, power=None, shrinkage=clf.shrinkage_, **params).fit(clf.lifted(X), y)
    assert_same_scores(clf.decision_function(queries), plain.decision_function(clf.lifted(queries)), 1e-2)
    assert (clf.predict(queries) == truth).mean() > 0.7


def test_half_precision_keeps_the_means_of_features_as_float16(samples, clf):
    X, y, queries, _ = samples
    half = XLDA(lift=WIDTH, precision="half").fit(X, y)
    assert half._model.moments._offsets.dtype == np.float16
    assert (half.predict(queries) == clf.predict(queries)).mean() > 0.95
    with pytest.raises(ValueError, match="embeddings up to a length of"):
        half.partial_fit(np.full((1, 6), 7e6, np.float32), [0])
    assert np.isfinite(Lift(6, 4096).features(np.full((1, 6), 1500)).astype(np.float16)).all()


def exact(space, moments, shrinkage):
    """Whitening and basis of a head of these moments in float64, both whole."""
    factor, _ = covariance_factor(moments.covariance(), moments.dof, shrinkage)
    whitening = Whitening.by(factor).matrix
    return whitening, np.linalg.solve(whitening, space.rotation[:, : space.n_coordinates].astype(float))


def test_what_lies_outside_of_the_coordinates_is_told_by_half_of_the_whitening(rng):
    X, y = rng.random((150, 5)).astype(np.float32), np.repeat(np.arange(30), 5)
    clf = XLDA(lift=400, renew=100.0).fit(X, y)
    head = clf._current_head()
    space, moments = head.space, clf._model.moments
    assert 0 < space.n_coordinates < 30
    whitening, basis = exact(space, moments, head.shrinkage)
    np.testing.assert_allclose(basis.T @ basis, np.eye(space.n_coordinates), atol=1e-4)
    for n in (1, 3, 40):
        raw = space.centred(rng.random((n, 5)).astype(np.float32))
        white = raw.astype(float) @ whitening
        outside = white - white @ basis @ basis.T
        found = space._outside(raw, raw @ space.rotation[:, : space.n_coordinates])
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, outside, rtol=0, atol=1e-4 * np.abs(white).max())


def test_a_class_outside_of_the_coordinates_is_found_by_the_next_call(rng):
    centres = np.zeros((3, 40), np.float32)
    centres[0, :5] = centres[1, 5:10] = centres[2, 10:15] = 5
    y = np.repeat([0, 1, 2], 20)
    X = centres[y] + 0.1 * rng.random((60, 40), dtype=np.float32)
    clf = XLDA(lift=400, power=None, renew=100.0).fit(X[y < 2], y[y < 2])
    before = clf._current_head()
    clf.partial_fit(X[-1:], [2])
    np.testing.assert_array_equal(clf.predict(X), y)
    space = clf._current_head().space
    assert space.whitening is before.space.whitening  # nothing was inverted
    assert space.directions.shape[1] == before.space.directions.shape[1] + 1
    expected = space.whitening.matrix() @ space.directions
    atol = 1e-5 * np.abs(expected).max()
    np.testing.assert_allclose(space.rotation[:, space.n_coordinates :], expected, atol=atol)


def test_a_head_of_features_takes_half_of_the_memory_of_its_matrices(rng):
    X, y = rng.random((150, 5)).astype(np.float32), np.repeat(np.arange(30), 5)
    space = XLDA(lift=800).fit(X, y)._current_head().space
    others = (space.directions, space.rotation, space.probe)
    held = space.nbytes - sum(array.nbytes for array in others) - space.table.nbytes
    assert held == space.whitening.nbytes < 0.75 * 800**2 * 4


@pytest.mark.parametrize("width", [2048, 4096])
def test_learning_features_takes_hardly_more_than_means_and_a_covariance(width, rng):
    y = np.arange(1500) % 1000
    X = rng.random((len(y), 1280), dtype=np.float32)
    clf = XLDA(lift=width)
    with threadpool_limits(2):  # each thread takes some more
        for start in range(0, len(y), 500):
            clf.partial_fit(X[start : start + 500], y[start : start + 500])
        clf._model.moments.fold()
    assert sum(clf._model.nbytes.values()) < 1.05 * (1000 * width * 4 + width**2 * 8)


# -- undoing, merging, whole classes


def test_forgetting_undoes_learning(clf, samples):
    queries, truth = samples[2:]
    before = clf.decision_function(queries)
    clf.partial_fit(queries, truth + 5)
    clf.forget(queries, truth + 5)
    for label in range(12, 17):
        clf.remove_class(label)
    assert_same_scores(clf.decision_function(queries), before, 1e-2)


def test_classifiers_of_the_same_lift_are_merged(clf, samples):
    X, y, queries, _ = samples
    one, two = (XLDA(lift=WIDTH, renew=0).partial_fit(X[start::2], y[start::2]) for start in (0, 1))
    assert_same_scores(one.merge(two).decision_function(queries), clf.decision_function(queries))


@pytest.mark.parametrize("other", [{}, {"lift": 24}, {"lift": WIDTH, "lift_seed": 1}])
def test_classifiers_of_another_lift_are_not(other, clf, samples):
    with pytest.raises(ValueError, match="precision, lift and second_look"):
        clf.merge(XLDA(**other).fit(*samples[:2]))
    with pytest.raises(ValueError, match="precision, lift and second_look"):
        XLDA(**other).merge(clf)


def test_centres_are_compared_as_well(samples):
    X, y, _, _ = samples
    centre = np.sqrt(X).mean(axis=0)
    one, same, other = (
        XLDA(lift=WIDTH, lift_centre=some).fit(X, y) for some in (centre, centre.tolist(), centre + 1)
    )
    one.merge(same)
    with pytest.raises(ValueError, match="precision, lift and second_look"):
        one.merge(other)


def test_the_lift_cannot_change_once_something_was_learned(clf, samples):
    clf.set_params(lift_seed=5)
    with pytest.raises(ValueError, match="lift_seed changed after learning began: it was 0 and is 5"):
        clf.predict(samples[2])


def test_classes_are_joined_split_removed_and_had_again(clf, samples):
    X, y, queries, _ = samples
    before = clf.decision_function(queries)
    count, mean = clf.class_moments(3)
    assert mean.shape == (WIDTH,)
    clf.merge_classes(2, 3).split_class(2, 3, count, mean)
    count, mean = clf.class_moments(7)
    clf.remove_class(7).restore_class(7, count, mean)
    assert_same_scores(clf.decision_function(queries), before, 1e-2)
    joined = XLDA(lift=WIDTH, renew=0).fit(X, np.where(y == 3, 2, y))
    assert_same_scores(clf.merge_classes(2, 3).decision_function(queries), joined.decision_function(queries))


# -- how sure it is, and what is around it


def test_it_is_calibrated_assessed_and_confirmed(clf, samples):
    queries, truth = samples[2:]
    clf.calibrate()
    measured = clf.assess()
    asked = (clf.predict(queries) == truth).mean()
    assert abs(measured.same.accuracy.value - asked) < 0.1
    clf.confirm(queries[:20], truth[:20])
    assert clf.predict_proba(queries).sum(axis=1) == pytest.approx(1.0)
    assert np.isfinite(clf.p_known(queries)).all()
    assert (clf.predict(queries, unknown=0.05) == None).mean() < 0.5  # noqa: E711


def test_it_is_audited(clf, samples):
    assert clf.audit(samples[2]).agreement == 1.0
    assert clf.audit(n=50).n_queries == 50
    assert clf.memory()["covariance"] == WIDTH**2 * 8


def test_snapshots_and_views_are_of_one_moment(clf, samples, tmp_path):
    queries, truth = samples[2:]
    before = clf.decision_function(queries)
    snapshot, view = clf.snapshot(), clf.view_to_save()
    assert snapshot.n_features_in_ == 6
    clf.partial_fit(queries, truth[::-1])
    np.testing.assert_array_equal(snapshot.decision_function(queries), before)
    view.write(tmp_path / "then.xlda")
    np.testing.assert_array_equal(xlda.load(tmp_path / "then.xlda").decision_function(queries), before)


def test_a_head_is_made_in_the_background(samples):
    X, y, queries, _ = samples
    clf = XLDA(lift=WIDTH, background=True, renew=0.01).partial_fit(X[:48], y[:48])
    clf.predict(queries)
    clf.partial_fit(X[48:], y[48:]).predict(queries)
    for thread in threading.enumerate():
        if thread.name == "xlda-renewal":
            thread.join()
    at_once = XLDA(lift=WIDTH).fit(X, y)
    assert_same_scores(clf.decision_function(queries), at_once.decision_function(queries))


def test_a_source_is_learned_batch_after_batch(clf, samples, tmp_path):
    X, y, queries, _ = samples
    np.savez(tmp_path / "some.npz", embedding=X, label=y)
    found = XLDA(lift=WIDTH).fit_source(tmp_path / "some.npz", batch_size=10, progress=False)
    assert_same_scores(found.decision_function(queries), clf.decision_function(queries))


# -- what it would bring


def ring(rng, n_classes, of_each):
    """Classes that are rings about one point, so that no linear way tells them apart."""
    y = np.repeat(np.arange(n_classes), of_each)
    way = rng.standard_normal((len(y), 6))
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    return (way * (1 + y[:, None]) * (1 + 0.01 * rng.random((len(y), 1)))).astype(np.float32), y


def kept_of(X, y):
    return Kept(X, y, np.ones(len(y)), np.full(len(y), -1))


@pytest.mark.parametrize("lift", [None, Lift(30, 64)])
def test_a_trial_learns_samples_but_those_that_it_asks_for(rng, lift):
    y = np.repeat(np.arange(40), 6)
    X = rng.standard_normal((40, 30))[y] + rng.standard_normal((len(y), 30)) * np.geomspace(0.1, 3, 30)
    X = X.astype(np.float32)
    found, folds = parameter_trial.right(kept_of(X, y), lift), np.arange(len(y)) % 3
    features = X.astype(float) if lift is None else oracle.random_features(X, 64, 0)
    for number in range(3):
        learned, asked = folds != number, folds == number
        counts, means, covariance = oracle.pooled(features[learned], y[learned])
        dof, worth = learned.sum() - len(counts), 30
        if lift is not None:
            worth = oracle.lifted_features(covariance, dof)
        given = np.stack(list(means.values())), np.array(list(counts.values())), covariance, dof
        scores = oracle.log_densities(features[asked], *given, 2 * worth / (2 * worth + dof), worth)
        np.testing.assert_array_equal(found[asked], scores.argmax(axis=1) == y[asked])


def test_a_trial_says_that_a_lift_helps_where_it_does(rng):
    X, y = ring(rng, 10, 40)
    trial = XLDA(power=None).fit(X, y).assess(try_lift=300).lift
    assert trial.helps
    assert "a lift helps" in str(trial)
    queries, truth = ring(rng, 10, 40)
    plain, lifted = (XLDA(power=None, lift=lift).fit(X, y).score(queries, truth) for lift in (None, 300))
    assert lifted > plain + 0.2
    assert plain - 0.1 < trial.plain < plain + 0.1


def test_a_trial_says_that_a_lift_does_harm_where_it_does(rng):
    centres = rng.standard_normal((60, 30))
    y = np.repeat(np.arange(60), 5)
    X = centres[y] + 0.7 * rng.standard_normal((len(y), 30))
    trial = XLDA(power=None).fit(X, y).assess(try_lift=12).lift  # which cannot hold what 30 numbers say
    assert trial.helps is False
    assert "a lift does harm" in str(trial)


def test_a_trial_says_of_few_that_it_was_not_made(clf, rng):
    X, y = ring(rng, 5, 50)
    few = clf, XLDA(power=None).fit(X, y), XLDA(check_samples=0).fit(X, y)  # 96 samples; five classes; none
    for each in few:
        found = each.assess(try_lift=50, try_second_look=4)
        assert found.lift is found.second_look is None
        assert "a lift was not tried: that takes 200 kept samples or more" in str(found)
        assert "a second look was not tried" in str(found)
    assert "not tried" not in str(clf.assess())


def test_an_interval_is_that_of_paired_samples():
    plain, lifted = np.zeros(400, bool), np.zeros(400, bool)
    plain[:100] = lifted[:120] = True
    trial = parameter_trial.ParameterTrial.between("lift", 50, plain, lifted, 12)
    assert (trial.plain, trial.tried) == (0.25, 0.3)
    sd = (20 / 400 * (1 - 20 / 400) / 400) ** 0.5
    assert trial.low == pytest.approx(0.05 - 1.96 * sd, abs=0.002)
    assert trial.high == pytest.approx(0.05 + 1.96 * sd, abs=0.002)
    same = parameter_trial.ParameterTrial.between("lift", 50, plain, plain, 12)
    assert same.low < 0 < same.high  # all alike is no proof that they are


# -- in a file


def test_a_file_has_the_seed_and_gives_the_same_classifier(clf, samples, tmp_path):
    X, _, queries, truth = samples
    clf.save(tmp_path / "lifted.xlda")
    loaded = xlda.load(tmp_path / "lifted.xlda")
    assert (loaded.lift, loaded.lift_seed, loaded.n_features_in_) == (WIDTH, 0, 6)
    np.testing.assert_array_equal(loaded.decision_function(queries), clf.decision_function(queries))
    for one in (clf, loaded):
        one.partial_fit(queries, truth)
    assert_same_scores(loaded.decision_function(X), clf.decision_function(X))


def test_a_centre_comes_back(samples, tmp_path):
    X, y, queries, _ = samples
    clf = XLDA(lift=WIDTH, lift_centre=np.sqrt(X).mean(axis=0)).fit(X, y)
    clf.save(tmp_path / "lifted.xlda")
    loaded = xlda.load(tmp_path / "lifted.xlda")
    np.testing.assert_array_equal(loaded.decision_function(queries), clf.decision_function(queries))
    assert_same_scores(loaded.merge(clf).decision_function(queries), clf.decision_function(queries), 0.5)


def test_the_golden_file_answers_as_it_did_on_the_machine_that_made_it(tmp_path):
    expected = json.loads((DATA / "lifted-2.json").read_text())
    queries = np.array(expected["queries"], np.float32)
    clf = xlda.load(DATA / "lifted-2.xlda")
    assert (clf.lift, clf.lift_seed, len(clf.lift_centre), clf.power_) == (40, 7, 10, 0.5)
    for _ in range(2):
        labels, scores = clf.predict_topk(queries, 3)
        assert labels.tolist() == expected["labels"]
        np.testing.assert_allclose(scores, expected["scores"], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(clf.means_, expected["means"], rtol=1e-6)
        clf.save(tmp_path / "again.xlda")
        clf = xlda.load(tmp_path / "again.xlda")
    lifted = np.sqrt(queries[:1]) - 0.25
    clf.partial_fit(queries[:1], ["alone"])
    alone = clf.means_[clf.classes_ == "alone"]
    np.testing.assert_allclose(alone, oracle.random_features(lifted, 40, 7), atol=1e-5)


def changed(path, section, **entries):
    """Other entries in a section of a file, with the checksum that goes with them."""
    tensors, metadata = contents(path)
    sections = json.loads(metadata["sections"])
    for name, value in entries.items():
        sections[section]["info"][name] = value
    craft(path, tensors, {**metadata, "sections": json.dumps(sections)})


@pytest.mark.parametrize(
    ("section", "entries", "error", "said"),
    [
        ("lift", {"checksum": "0" * 64}, DamagedFileError, "random features are others"),
        ("lift", {"n_inputs": 7}, DamagedFileError, "random features are others|embeddings"),
        ("lift", {"n_inputs": 0}, DamagedFileError, "embeddings of 0 numbers"),
        ("lift", {"n_inputs": 10**9}, DamagedFileError, "embeddings of 1000000000 numbers"),
        ("lift", {"rule": 3}, NewerFileError, "a newer rule"),
        ("lift", {"rule": 1}, DamagedFileError, "an older rule"),
        ("params", {"lift_seed": 1}, DamagedFileError, "random features are others"),
        ("params", {"lift": 32}, DamagedFileError, "offsets"),
        ("params", {"lift": 60_000}, DamagedFileError, "offsets"),
        ("params", {"lift": None}, DamagedFileError, "both that its features are lifted"),
    ],
)
def test_a_file_that_says_another_lift_is_refused(section, entries, error, said, clf, tmp_path):
    clf.save(tmp_path / "lifted.xlda")
    changed(tmp_path / "lifted.xlda", section, **entries)
    with pytest.raises(error, match=said):
        xlda.load(tmp_path / "lifted.xlda")


def test_a_head_in_a_file_has_the_basis_that_is_not_kept_in_memory(rng, tmp_path):
    X, y = rng.random((180, 4)).astype(np.float32), np.repeat(np.arange(60), 3)
    clf = XLDA(lift=512, check_samples=0).fit(X, y)
    clf.save(tmp_path / "lifted.xlda")
    tensors, metadata = contents(tmp_path / "lifted.xlda")
    basis, half = (tensors[f"head/{name}"] for name in ("basis", "whitening"))
    space = xlda.load(tmp_path / "lifted.xlda")._model.upkeep.served.head.space
    assert space.basis is None
    assert basis.shape == (512, space.n_coordinates)
    np.testing.assert_allclose(basis.T @ basis, np.eye(space.n_coordinates), atol=1e-3)
    np.testing.assert_array_equal(space.whitening.matrix()[np.triu_indices(512)], half)
    half[0] = 0.0  # by which nothing could be solved
    craft(tmp_path / "lifted.xlda", tensors, metadata)
    with pytest.raises(DamagedFileError, match="a whitening that cannot be"):
        xlda.load(tmp_path / "lifted.xlda")


def test_half_of_the_scatter_is_in_the_file(clf, tmp_path):
    clf.save(tmp_path / "lifted.xlda")
    tensors, _ = contents(tmp_path / "lifted.xlda")
    [scatter] = [tensor for name, tensor in tensors.items() if name.endswith("scatter")]
    dof = clf.class_count_.sum() - 12
    np.testing.assert_allclose(scatter, (dof * clf.covariance_)[np.triu_indices(WIDTH)], rtol=1e-10)


def test_a_head_that_would_make_the_file_large_is_made_when_it_is_loaded(rng, tmp_path):
    y = np.repeat(np.arange(60), 3)
    X = rng.random((len(y), 4)).astype(np.float32)
    for width, check_samples in ((64, 0), (64, 200), (512, 0)):
        clf = XLDA(lift=width, check_samples=check_samples).fit(X, y)
        clf.save(tmp_path / "lifted.xlda")
        room = 1.05 * (60 * width * 4 + width**2 * 8) + 20_000  # of what is said about it
        assert (tmp_path / "lifted.xlda").stat().st_size < room
        loaded = xlda.load(tmp_path / "lifted.xlda")
        assert (loaded._model.upkeep.served is not None) == (width == 512)
        assert_same_scores(loaded.decision_function(X), clf.decision_function(X))


def test_it_is_pickled_and_copied(clf, samples):
    queries = samples[2]
    for other in (pickle.loads(pickle.dumps(clf)), copy.deepcopy(clf)):
        np.testing.assert_array_equal(other.decision_function(queries), clf.decision_function(queries))


# -- what is refused, and what others are given


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"lift": 0}, "lift is None or a whole number"),
        ({"lift": True}, "lift is None or a whole number"),
        ({"lift": 3.5}, "lift is None or a whole number"),
        ({"lift": 8, "lift_seed": -1}, "lift_seed is a whole number"),
        ({"lift": 8, "lift_centre": [[1.0]]}, "lift_centre is None, or finite"),
        ({"lift": 8, "lift_centre": [np.nan] * 6}, "lift_centre is None, or finite"),
        ({"lift": 8, "lift_centre": [1.0] * 5}, "lift_centre has 5 numbers; embeddings have 6"),
        ({"lift_centre": [1.0] * 6}, "lift_centre needs a lift"),
    ],
)
def test_a_lift_that_is_none_is_refused(params, said, samples):
    with pytest.raises(ValueError, match=said):
        XLDA(**params).fit(*samples[:2])


def test_a_layer_cannot_become_a_lifted_classifier(rng):
    with pytest.raises(ValueError, match="from_linear needs lift=None"):
        XLDA.from_linear(rng.normal(size=(3, 6)), lift=WIDTH)


def test_its_layer_is_over_the_features(clf, samples):
    queries = samples[2]
    weights, bias = clf.to_linear()
    assert weights.shape == (12, WIDTH)
    assert_same_scores(clf.lifted(queries) @ weights.T + bias, clf.decision_function(queries))


def test_formats_that_hold_a_layer_alone_refuse_it(samples, tmp_path):
    from xlda.extras import keras, tensors

    clf = XLDA(lift=WIDTH, power=None).fit(*samples[:2])
    for write in (keras.to_weights, lambda clf: tensors.write_layer(clf, tmp_path / "layer.npz")):
        with pytest.raises(ValueError, match="A layer cannot hold lift=48"):
            write(clf)


@pytest.mark.parametrize("params", [{}, {"lift_centre": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}, {"power": None}])
@pytest.mark.parametrize("unequal", [False, True])
def test_an_onnx_graph_has_the_lift_in_it(params, unequal, samples, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("xlda.extras.onnx")
    X, y, queries, _ = samples
    chosen = slice(5, None) if unequal else slice(None)
    clf = XLDA(lift=WIDTH, **params).fit(X[chosen], y[chosen])
    onnx.write(clf, tmp_path / "head.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "head.onnx", providers=["CPUExecutionProvider"])
    [logits] = session.run(["logits"], {"embedding": queries})
    assert_same_scores(logits, clf.decision_function(queries))
    with pytest.raises(ValueError, match="it is not a layer"):
        onnx.read_layer(tmp_path / "head.onnx")


def test_a_torch_module_has_the_lift_in_it(clf, samples):
    torch = pytest.importorskip("torch")
    from xlda.extras.torch import XLDAHead

    queries = samples[2]
    with torch.no_grad():
        logits = XLDAHead(clf)(torch.from_numpy(queries)).numpy()
    assert_same_scores(logits, clf.decision_function(queries))
