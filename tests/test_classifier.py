from __future__ import annotations

import copy
import pickle
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import get_scorer

import oracle
from conftest import blobs, lda, log_posteriors
from xlda import XLDA, load
from xlda.labels import Labels
from xlda.learner import learner
from xlda.model import Model
from xlda.moments import Moments

NAMES = np.array(["apple", "pear", "kiwi", "fig", "plum", "lime"])


@pytest.fixture
def named(data):
    X, y = data
    return X, NAMES[y]


@pytest.fixture
def clf(named):
    return XLDA().fit(*named)


def state(clf):
    """All that a caller can see of what was learned."""
    return (
        clf.classes_.tolist(),
        clf.class_count_.tolist(),
        clf.means_.tolist(),
        clf.covariance_.tolist(),
        clf.n_samples_seen_,
        clf.decision_function(np.eye(clf.n_features_in_)).tolist(),
    )


# -- bad input


GOOD = np.ones((2, 8))
BAD_CALLS = {
    "nan": (lambda c: c.partial_fit([[np.nan] * 8], ["fig"]), "contains NaN"),
    "infinity": (lambda c: c.partial_fit([[np.inf] * 8], ["fig"]), "contains infinity"),
    "nan in a plain array": (lambda c: c.partial_fit(np.full((1, 8), np.nan), ["fig"]), "contains NaN"),
    "features": (
        lambda c: c.partial_fit(np.ones((2, 7)), ["fig"] * 2),
        "X has 7 features, but XLDA is expecting 8",
    ),
    "dimensions": (lambda c: c.partial_fit(np.ones(8), ["fig"]), "Expected 2D array, got 1D array"),
    "three dimensions": (lambda c: c.partial_fit(np.ones((1, 1, 8)), ["fig"]), "dim 3"),
    "lengths": (
        lambda c: c.partial_fit(GOOD, ["fig"] * 3),
        "inconsistent numbers of samples: X has 2, y has 3",
    ),
    "label type": (lambda c: c.partial_fit(GOOD, [1, 2]), "Got int labels beside str ones"),
    "mixed labels": (lambda c: c.partial_fit(GOOD, ["new", 2]), "mixes int and str"),
    "float labels": (lambda c: c.partial_fit(GOOD, [0.5, 2.5]), "holds float"),
    "classes of another type": (lambda c: c.partial_fit(GOOD, ["new", "fig"], classes=[1]), "Got int labels"),
    "no labels": (lambda c: c.partial_fit(GOOD, None), "target y is None"),
    "text": (lambda c: c.partial_fit([["a"] * 8], ["fig"]), "could not convert"),
    "negative weight": (lambda c: c.partial_fit(GOOD, ["new", "fig"], sample_weight=[1, -1]), "negative"),
    "nan weight": (lambda c: c.partial_fit(GOOD, ["new", "fig"], sample_weight=[1, np.nan]), "NaN"),
    "weights": (lambda c: c.partial_fit(GOOD, ["new", "fig"], sample_weight=[1]), r"expected \(2,\)"),
    "2d weights": (lambda c: c.partial_fit(GOOD, ["new", "fig"], sample_weight=GOOD), "must be 1D"),
    "fit with nan": (lambda c: c.fit([[np.nan] * 8], ["fig"]), "contains NaN"),
    "fit with nothing": (lambda c: c.fit(np.ones((0, 8)), []), "0 sample"),
    "fit with no weight": (
        lambda c: c.fit(GOOD, ["a", "b"], sample_weight=[0, 0]),
        "every sample_weight is zero",
    ),
    "forget too much": (
        lambda c: c.forget(np.ones((99, 8)), ["fig"] * 99),
        "Cannot forget 99 of class 'fig'",
    ),
    "forget unknown": (lambda c: c.forget(GOOD, ["fig", "quince"]), "Unknown class 'quince'"),
    "remove unknown": (lambda c: c.remove_class("quince"), "Unknown class 'quince'"),
    "rename unknown": (lambda c: c.rename_class("quince", "x"), "Unknown class 'quince'"),
    "rename to a known": (lambda c: c.rename_class("fig", "pear"), "Class 'pear' exists already"),
    "rename to an int": (lambda c: c.rename_class("fig", 3), "Got int labels"),
    "merge unknown": (lambda c: c.merge_classes("fig", "quince"), "Unknown class 'quince'"),
    "merge with itself": (lambda c: c.merge_classes("fig", "fig"), "needs two classes"),
    "merge other width": (
        lambda c: c.merge(XLDA().fit(-np.eye(3), ["a", "b", "c"])),
        "3 features; this one has 8",
    ),
    "merge other labels": (lambda c: c.merge(XLDA().fit(-np.eye(8), range(8))), "Got int labels"),
    "merge other power": (lambda c: c.merge(XLDA(power=0.5).fit(np.eye(8), list("abcdefgh"))), "same rule"),
    "predict width": (lambda c: c.predict(np.ones((2, 7))), "X has 7 features"),
    "predict nan": (lambda c: c.predict(np.full((2, 8), np.nan)), "contains NaN"),
    "k": (lambda c: c.predict_topk(GOOD, 0), "at least 1"),
    "k of bool": (lambda c: c.predict_topk(GOOD, True), "whole number"),
    "k of another type": (lambda c: c.predict_topk(GOOD, 2.5), "whole number"),
}


@pytest.mark.parametrize("bad", BAD_CALLS)
def test_bad_input_is_named_and_changes_nothing(bad, clf):
    call, message = BAD_CALLS[bad]
    before, params = state(clf), clf.get_params()
    with pytest.raises(ValueError, match=message):
        call(clf)
    assert state(clf) == before
    assert clf.get_params() == params
    clf.set_params(shrinkage=0.31).predict(GOOD)  # a head made anew, from all rows there are
    assert clf._model.moments.n_classes == clf._model.labels.n_rows == 6


def test_only_another_classifier_can_be_merged(clf):
    with pytest.raises(TypeError, match="needs another XLDA; got dict"):
        clf.merge({})


@pytest.mark.parametrize(
    "params",
    [
        {"shrinkage": 2},
        {"shrinkage_target": "x"},
        {"covariance": "x"},
        {"rule": "x"},
        {"priors": [0.5, 0.5]},
        {"power": 0},
        {"power": "x"},
        {"power": np.inf},
        {"renew": np.inf},
        {"renew": -1},
    ],
)
def test_bad_parameters_are_named_before_anything_is_learned(params, data):
    clf = XLDA(**params)
    (name,) = params
    for learn in (clf.fit, clf.partial_fit):
        with pytest.raises(ValueError, match=name):
            learn(*data)
    assert not hasattr(clf, "classes_")
    assert not hasattr(clf, "n_features_in_")


@pytest.mark.parametrize("change", [{"power": 0.5}, {"rule": "slda"}, {"covariance": "fixed"}])
def test_parameters_of_learning_cannot_change_half_way(change, clf, named):
    clf.set_params(**change)
    for call in (lambda: clf.partial_fit(*named), lambda: clf.predict(GOOD), lambda: clf.means_):
        with pytest.raises(ValueError, match=re.escape("changed after learning began")):
            call()
    clf.fit(*named).predict(GOOD)


@pytest.mark.parametrize("params", [{"renew": None}, {"renew": np.nan}, {"shrinkage": 2}, {"priors": "x"}])
def test_a_bad_parameter_set_later_is_named(params, clf):
    with pytest.raises(ValueError, match=next(iter(params))):
        clf.set_params(**params).predict(GOOD)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function", "predict_topk"])
def test_predicting_before_any_class_is_refused(method, clf, named):
    with pytest.raises(NotFittedError, match="learned no class yet"):
        getattr(XLDA(), method)(GOOD)
    only_known = XLDA().partial_fit(GOOD[:0], [], classes=["a"])
    with pytest.raises(NotFittedError, match="No class of this XLDA has samples"):
        getattr(only_known, method)(GOOD)
    clf.forget(*named)
    with pytest.raises(NotFittedError, match="No class of this XLDA has samples"):
        getattr(clf, method)(GOOD)


@pytest.mark.parametrize("params", [{"covariance": "fixed"}, {"renew": 1.0}, {"shrinkage": "ledoit-wolf"}])
def test_predicting_too_early_does_no_harm(params, named):
    X, y = named
    clf = XLDA(**params).partial_fit(X[:0], [], classes=NAMES)
    with pytest.raises(NotFittedError):
        clf.predict(X)
    np.testing.assert_array_equal(clf.partial_fit(X, y).predict(X), XLDA(**params).fit(X, y).predict(X))


def test_an_empty_batch_changes_nothing(clf):
    before = state(clf)
    clf.partial_fit(np.ones((0, 8)), []).forget(np.ones((0, 8)), [])
    clf.partial_fit(GOOD, ["new", "fig"], sample_weight=[0, 0])
    assert state(clf) == before
    assert clf.predict(np.ones((0, 8))).shape == (0,)
    assert not hasattr(XLDA().partial_fit(np.ones((0, 8)), []), "classes_")


# -- classes


def test_classes_come_at_any_time_and_are_sorted(named):
    X, y = named
    clf = XLDA()
    for name in NAMES:
        clf.partial_fit(X[y == name], y[y == name])
    assert clf.classes_.tolist() == sorted(NAMES) != NAMES.tolist()
    assert clf.class_count_.tolist() == [(y == name).sum() for name in clf.classes_]
    np.testing.assert_allclose(clf.means_, [X[y == name].mean(axis=0) for name in clf.classes_])
    best = clf.classes_[clf.decision_function(X).argmax(axis=1)]
    np.testing.assert_array_equal(best, clf.predict(X))
    np.testing.assert_array_equal(clf.predict(X), XLDA().fit(X, y).predict(X))


@pytest.mark.parametrize("scorer", ["neg_log_loss", "roc_auc_ovr", "top_k_accuracy"])
def test_scorers_of_scikit_learn_do_not_mind_classes_that_came_late(scorer, named):
    X, y = named
    late = np.isin(y, sorted(NAMES)[:2])
    in_parts = XLDA().partial_fit(X[~late], y[~late]).partial_fit(X[late], y[late])
    score = get_scorer(scorer)
    assert score(in_parts, X, y) == pytest.approx(score(XLDA().fit(X, y), X, y))


def test_every_column_and_row_is_in_the_order_of_the_labels(named):
    X, y = named
    clf = lda()
    for name in NAMES[::-1]:
        clf.partial_fit(X[y == name], y[y == name])
    clf.remove_class(NAMES[0]).partial_fit(X[y == NAMES[0]], y[y == NAMES[0]])
    whole = lda(renew=0).fit(X, y)
    layer = clf.to_layer()
    assert layer.labels == clf.classes_.tolist() == clf.snapshot().classes_.tolist() == sorted(NAMES)
    np.testing.assert_allclose(layer.weight, clf.to_linear()[0])
    for one, other in (
        (clf.predict_proba(X).argmax(axis=1), whole.predict_proba(X).argmax(axis=1)),
        (clf.snapshot().decision_function(X).argmax(axis=1), whole.decision_function(X).argmax(axis=1)),
        (layer.logits(X).argmax(axis=1), whole.decision_function(X).argmax(axis=1)),
    ):
        assert (one == other).mean() > 0.97  # what the class taught before it was removed is still known


def test_classes_named_ahead_have_a_column_and_no_chance(data):
    X, y = data
    clf = XLDA().partial_fit(X, y, classes=np.arange(8))
    assert clf.classes_.tolist() == list(range(8))
    assert np.isnan(clf.means_[6:]).all()
    assert (clf.decision_function(X)[:, 6:] == -np.inf).all()
    assert (clf.predict_proba(X)[:, 6:] == 0).all()
    np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1)
    assert clf.predict_topk(X, 99)[0].shape == (len(X), 6)
    clf.partial_fit(X[:1] + 50, [7])
    assert clf.predict(X[:1] + 50) == [7]


def test_two_classes_have_one_score_as_in_scikit_learn(data):
    X, y = data
    clf = XLDA().fit(X, y % 2)
    scores = clf.decision_function(X)
    assert scores.shape == (len(X),)
    np.testing.assert_array_equal(scores > 0, clf.predict(X) == 1)
    np.testing.assert_array_equal(scores > 0, clf.predict_proba(X)[:, 1] > 0.5)
    scores = (plain := lda().fit(X, y % 2)).decision_function(X)
    np.testing.assert_allclose(1 / (1 + np.exp(-scores)), plain.predict_proba(X)[:, 1])


def test_one_class_is_enough(data):
    X, _ = data
    clf = XLDA().fit(X, ["only"] * len(X))
    assert set(clf.predict(X)) == {"only"}
    np.testing.assert_array_equal(clf.predict_proba(X), np.ones((len(X), 1)))


def test_topk_is_best_first_and_agrees_with_the_scores(clf, named):
    X, _ = named
    labels, scores = clf.predict_topk(X, k=4)
    every = clf.decision_function(X)
    np.testing.assert_array_equal(labels, clf.classes_[np.argsort(-every, axis=1)[:, :4]])
    np.testing.assert_allclose(scores, -np.sort(-every, axis=1)[:, :4])
    np.testing.assert_array_equal(clf.predict_topk(X, k=60)[0].shape, (len(X), 6))


def test_a_removed_class_is_gone_and_can_come_back(clf, named):
    X, y = named
    covariance = clf.covariance_
    clf.predict(X)
    clf.remove_class("kiwi")
    assert "kiwi" not in clf.classes_
    assert "kiwi" not in clf.predict(X)
    assert clf.decision_function(X).shape == (len(X), 5)
    np.testing.assert_array_equal(clf.covariance_, covariance)
    clf.partial_fit(X[y == "kiwi"], y[y == "kiwi"])
    np.testing.assert_allclose(clf.means_[clf.classes_ == "kiwi"][0], X[y == "kiwi"].mean(axis=0))
    assert "kiwi" in clf.predict(X)


def test_rows_of_removed_classes_are_used_again(clf, named):
    X, _ = named
    for i in range(50):
        clf.partial_fit(X[:1], [f"seasonal {i}"]).remove_class(f"seasonal {i}")
    assert clf._model.moments.n_classes == 7
    assert clf.classes_.tolist() == sorted(NAMES)


def test_a_renamed_class_keeps_all_but_its_name(clf, named):
    X, _ = named
    before = clf.predict(X)
    clf.rename_class("fig", "Fig, dried")
    assert clf.classes_.tolist() == sorted({"fig": "Fig, dried"}.get(name, name) for name in NAMES)
    np.testing.assert_array_equal(clf.predict(X), np.where(before == "fig", "Fig, dried", before))
    clf.partial_fit(X[:1], ["Fig, dried"])
    assert len(clf.classes_) == 6


def test_merged_classes_win_as_one(clf, named):
    X, y = named
    clf.merge_classes("fig", "plum")
    relabelled = np.where(y == "plum", "fig", y)
    np.testing.assert_array_equal(clf.predict(X), XLDA().fit(X, relabelled).predict(X))
    assert "plum" not in clf.classes_


def test_numpy_labels_are_labels(clf):
    clf.rename_class(np.str_("fig"), np.str_("figs")).remove_class(np.str_("figs"))
    assert "figs" not in clf.classes_
    ints = XLDA().fit(np.eye(3), np.arange(3, dtype=np.int32))
    ints.remove_class(np.int64(2))
    assert ints.classes_.tolist() == [0, 1]
    assert ints.predict(np.eye(3)[:1]).dtype == np.int64


# -- parameters


@pytest.mark.parametrize("covariance", ["plastic", "fixed"])
def test_fixed_covariance_is_that_of_the_first_call(covariance, named):
    X, y = named
    for first in ("fit", "partial_fit"):
        clf = lda(covariance=covariance)
        getattr(clf, first)(X[:200], y[:200])
        base = clf.covariance_
        clf.partial_fit(X[200:], y[200:])
        assert np.array_equal(clf.covariance_, base) == (covariance == "fixed")
        plastic = XLDA().fit(X, y)
        np.testing.assert_allclose(clf.means_, plastic.means_)
        weights, bias = clf.to_linear()
        np.testing.assert_allclose(clf.decision_function(X), X @ weights.T + bias, atol=1e-9)


def test_empirical_priors_add_the_log_of_the_counts(data):
    X, y = data
    y = np.where(y < 3, 0, y)
    equal, empirical = XLDA().fit(X, y), XLDA(priors="empirical").fit(X, y)
    difference = log_posteriors(empirical, X) - log_posteriors(equal, X)
    expected = np.log(np.unique(y, return_counts=True)[1])
    np.testing.assert_allclose(
        difference - difference[:, :1], np.tile(expected - expected[0], (len(X), 1)), atol=1e-9
    )


def test_empirical_priors_stay_right_between_renewals(rng):
    X, y = blobs(rng, n_samples=1000, n_classes=40)
    clf = lda(priors="empirical", covariance="fixed").fit(X, y)
    clf.predict(X)
    clf.partial_fit(X[:60], np.repeat([0, 1, 70], 20)).predict(X)
    kept = clf._current_head()
    fresh = copy.deepcopy(clf)
    fresh._model.upkeep.start_over()
    np.testing.assert_allclose(clf.decision_function(X), fresh.decision_function(X), atol=1e-9)
    assert fresh._current_head() is not kept is clf._current_head()
    shares = np.log(clf.class_count_ / clf.class_count_.sum())
    equal = fresh.set_params(priors="equal").decision_function(X)
    np.testing.assert_allclose(clf.decision_function(X), equal + shares, atol=1e-9)


def test_the_slda_rule_is_the_published_one(named):
    X, y = named
    clf = XLDA(rule="slda", shrinkage=1e-4, shrinkage_target="identity")
    for start in range(0, len(X), 70):
        clf.partial_fit(X[start : start + 70], y[start : start + 70])
    means, sigma = oracle.published_rule(X, y.tolist())
    np.testing.assert_allclose(clf.covariance_, sigma, atol=1e-6)
    expected = oracle.scores(X, [means[name] for name in clf.classes_], sigma, 1e-4, "identity")
    np.testing.assert_array_equal(clf.predict(X), clf.classes_[expected.argmax(axis=1)])
    with pytest.raises(ValueError, match="no sample weights"):
        clf.partial_fit(X, y, sample_weight=np.ones(len(X)))
    with pytest.raises(ValueError, match="cannot be undone"):
        clf.forget(X, y)
    with pytest.raises(ValueError, match="cannot be merged"):
        clf.merge(clf)


def test_renew_says_when_the_covariance_in_use_changes(data):
    X, y = data
    scale = 200 / (10 * X.shape[1])  # the share is larger with many samples for each feature
    always, seldom = (XLDA(renew=renew).fit(X[:200], y[:200]) for renew in (0, 0.1 / scale))
    kept = seldom._current_head().space.centre
    for clf in (always, seldom):
        clf.partial_fit(X[200:220], y[200:220])
    assert seldom._current_head().space.centre is kept
    fresh = XLDA().fit(X[:220], y[:220])
    np.testing.assert_allclose(always.decision_function(X), fresh.decision_function(X), atol=1e-9)
    assert not np.allclose(seldom.decision_function(X), fresh.decision_function(X), atol=1e-6)
    seldom.partial_fit(X[220:230], y[220:230])
    assert seldom._current_head().space.centre is not kept


def test_parameters_of_scoring_take_effect_at_once(data):
    X, y = data
    clf = XLDA().fit(X, y).set_params(shrinkage=0.9, priors="empirical")
    expected = XLDA(shrinkage=0.9, priors="empirical").fit(X, y)
    np.testing.assert_array_equal(clf.decision_function(X), expected.decision_function(X))
    assert clf.shrinkage_ == 0.9
    clf.set_params(shrinkage="oas")
    assert 0 < clf.shrinkage_ < 0.9


# -- the equal linear layer, copies


def test_to_linear_is_the_decision_function(named):
    X, _ = named
    clf = lda().fit(*named)
    clf.partial_fit(X[:2] + 1, ["new", "fig"])
    clf.remove_class("plum")
    weights, bias = clf.to_linear()
    assert weights.shape == (6, 8)
    np.testing.assert_allclose(X @ weights.T + bias, clf.decision_function(X), atol=1e-9)


def test_to_linear_uses_all_that_was_learned(data):
    X, y = data
    clf = lda(renew=10.0).fit(X[:100], y[:100])
    clf.partial_fit(X[100:], y[100:])
    for mine, theirs in zip(clf.to_linear(), lda().fit(X, y).to_linear(), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-9)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda clf: pickle.loads(pickle.dumps(clf))])
def test_a_copy_goes_its_own_way(copied, clf, named):
    before = state(clf)
    other = copied(clf)
    assert state(other) == before
    other.partial_fit(*named).remove_class("fig")
    assert state(clf) == before


def test_merging_into_a_new_classifier_keeps_its_parameters(clf, named):
    X, _ = named
    new = XLDA(shrinkage=0.8).merge(clf)
    np.testing.assert_array_equal(
        new.decision_function(X), XLDA(shrinkage=0.8).fit(*named).decision_function(X)
    )
    before = state(clf)
    new.partial_fit(X[:1], ["x"])
    assert state(clf.merge(XLDA())) == before


@pytest.mark.parametrize("n_removed", [0, 6])
def test_merging_what_only_the_covariance_remembers(n_removed, clf, named, tmp_path):
    X, y = named
    other = XLDA().fit(100 * X[:100], y[:100])
    for name in other.classes_[:n_removed]:
        other.remove_class(name)
    clf.set_params(renew=0).merge(other)
    clf.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(X), clf.predict_proba(X))
    np.testing.assert_array_equal(copy.deepcopy(clf).predict_proba(X), clf.predict_proba(X))


def test_merging_a_fixed_covariance_into_an_empty_classifier_keeps_it(named):
    X, y = named
    base = XLDA(covariance="fixed").fit(X[:100], y[:100]).partial_fit(X, y)
    empty = XLDA(covariance="fixed").partial_fit(X[:0], [], classes=NAMES).merge(base)
    np.testing.assert_allclose(empty.covariance_, base.covariance_)
    np.testing.assert_allclose(empty.partial_fit(X, y).covariance_, base.covariance_)


def test_features_of_other_names_are_not_merged(named):
    X, y = named
    one, other = (XLDA().fit(pd.DataFrame(X, columns=list(names)), y) for names in ("abcdefgh", "bacdefgh"))
    before = one.means_
    with pytest.raises(ValueError, match="other names or another order"):
        one.merge(other)
    np.testing.assert_array_equal(one.means_, before)


@pytest.mark.parametrize(("kind", "distance"), [(XLDA, 1e3), (lda, 1e5)])
def test_one_far_sample_does_not_blur_the_rest(kind, distance, rng):
    X, y = blobs(rng, n_samples=2000, n_classes=20, dtype=np.float32)
    clf = kind().fit(X, y)
    outlier = np.full((1, 8), distance, np.float32)
    with_outlier = kind().fit(np.r_[X, outlier], np.r_[y, 99])
    precise = kind().fit(np.r_[X, outlier].astype(np.float64), np.r_[y, 99])
    assert (with_outlier.predict(X) == precise.predict(X)).mean() > 0.99
    with_outlier.remove_class(99)._model.upkeep.start_over()
    assert (with_outlier.predict(X) == clf.predict(X)).mean() > 0.99


# -- threads and interrupts


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_predicting_in_many_threads_counts_nothing_twice(dtype, rng):
    X, y = blobs(rng, n_samples=3000, n_features=200, dtype=dtype)
    expected = XLDA().fit(X, y)
    for _ in range(5):
        clf = XLDA().partial_fit(X, y)
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(clf.predict, [X[:50]] * 8))
        np.testing.assert_allclose(clf.covariance_, expected.covariance_, atol=1e-5)
        assert all((answer == expected.predict(X[:50])).all() for answer in answers)


def test_learning_and_predicting_in_threads_lose_nothing(rng):
    X, y = blobs(rng, n_samples=2000, n_classes=40, n_features=30)
    clf = XLDA().fit(X[:100], y[:100])

    def learn(start):
        for i in range(start, 2000, 2):
            clf.partial_fit(X[i : i + 1], y[i : i + 1])

    with ThreadPoolExecutor(4) as pool:
        work = [pool.submit(learn, start) for start in (100, 101)]
        while not all(each.done() for each in work):
            assert set(clf.predict(X[:20])) <= set(range(40))
        for each in work:
            each.result()
    np.testing.assert_array_equal(clf.class_count_, np.bincount(y)[clf.classes_])
    np.testing.assert_allclose(clf.covariance_, XLDA().fit(X, y).covariance_)


@pytest.mark.parametrize("method", ["partial_fit", "forget", "predict"])
@pytest.mark.parametrize("delay", [1, 3, 10, 30, 100])
def test_ctrl_c_leaves_all_or_nothing(method, delay, rng):
    """An interrupt after `delay` milliseconds of work that takes longer than most of them."""
    X, y = blobs(rng, n_samples=2500, n_features=400)
    clf = XLDA().fit(X, y).partial_fit(X, y + 3)
    n = clf.class_count_.sum()
    trace = {n: np.trace(copy.deepcopy(clf).covariance_)}
    done = copy.deepcopy(clf)
    getattr(done, method)(*((X, y) if method != "predict" else (X,)))
    trace[done.class_count_.sum()] = np.trace(done.covariance_)
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        signal.setitimer(signal.ITIMER_REAL, delay / 1000)
        getattr(clf, method)(*((X, y) if method != "predict" else (X,)))
        time.sleep(
            0.2
        )  # it was faster; or Python lost the interrupt in a finaliser, where nobody can catch it
    except KeyboardInterrupt:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert np.trace(clf.covariance_) == pytest.approx(trace[clf.class_count_.sum()])
    assert len(clf.predict(X)) == len(X)


def test_one_thousand_classes_of_one_sample_each(rng):
    X = rng.normal(size=(1000, 16)).astype(np.float32)
    clf = XLDA()
    for start in range(0, 1000, 100):
        clf.partial_fit(X[start : start + 100], np.arange(start, start + 100))
        assert (clf.predict(X[: start + 100]) == np.arange(start + 100)).all()
    assert not clf.covariance_.any()


# -- between two renewals, and at them


@pytest.mark.parametrize("change", ["forget", "merge"])
def test_renew_0_follows_every_change(change, data):
    X, y = data
    if change == "forget":
        clf, fresh = XLDA(renew=0).fit(X, y).forget(X[200:], y[200:]), XLDA().fit(X[:200], y[:200])
    else:
        clf = XLDA(renew=0).fit(X[:200], y[:200]).merge(XLDA().fit(X[200:], y[200:]))
        fresh = XLDA().fit(X, y)
    np.testing.assert_allclose(clf.decision_function(X), fresh.decision_function(X), atol=1e-9)


def test_renew_counts_weights(data):
    X, y = data
    clf = XLDA(renew=0.1).fit(X, y)
    kept = clf._current_head().space.centre
    clf.partial_fit(X[:1], y[:1], sample_weight=[200])
    assert clf._current_head().space.centre is not kept


def test_merging_takes_effect_before_a_renewal(named):
    X, y = named
    clf = XLDA(renew=100.0).fit(X, y).merge_classes("fig", "plum")
    assert set(clf.predict(X)) <= set(clf.classes_)
    one = XLDA(renew=100.0).fit(X[:200], y[:200]).merge(XLDA(power=None).fit(X[200:] + 50, ["new"] * 100))
    assert (one.predict(X[200:] + 50) == "new").all()


def test_many_small_changes_are_all_remembered(rng):
    X, y = blobs(rng, n_samples=300, n_classes=30)
    clf = XLDA(renew=1e9).fit(X, y)
    for _ in range(60):  # more rows than are kept one by one
        clf.partial_fit(X, y)
    clf.partial_fit(X[:1] + 9, [99])
    assert sum(map(len, clf._model.upkeep._changed)) < 11_000
    np.testing.assert_array_equal(clf.classes_[clf.decision_function(X).argmax(axis=1)], clf.predict(X))
    assert clf.predict(X[:1] + 9) == [99]


def test_the_target_takes_effect_at_once(clf, named):
    X, y = named
    expected = XLDA(shrinkage_target="identity").fit(X, y).decision_function(X)
    np.testing.assert_array_equal(clf.set_params(shrinkage_target="identity").decision_function(X), expected)


def test_classes_named_ahead_do_not_fix_the_covariance(data):
    X, y = data
    clf = XLDA(covariance="fixed").partial_fit(X[:0], [], classes=np.arange(6)).partial_fit(X, y)
    np.testing.assert_allclose(clf.covariance_, XLDA().fit(X, y).covariance_)


def test_empirical_priors_allow_classes_without_samples(data):
    X, y = data
    clf = XLDA(priors="empirical").partial_fit(X, y, classes=np.arange(8))
    assert (clf.predict_proba(X)[:, 6:] == 0).all()


def test_labels_of_another_kind_are_welcome_once_all_are_gone():
    clf = XLDA(renew=100.0).fit(np.eye(2), [0, 1]).remove_class(0).remove_class(1)
    assert clf.partial_fit(np.eye(2), ["a", "b"]).predict(np.eye(2)).tolist() == ["a", "b"]


def test_samples_seen_are_never_negative():
    clf = XLDA().partial_fit([[1.0], [2.0]], ["a", "a"], sample_weight=[2, 1])
    clf.forget([[1.0], [1.0], [2.0]], ["a"] * 3)
    assert clf.n_samples_seen_ == 0


# -- what a refused merge leaves


def test_merging_into_a_new_classifier_checks_it_first(clf):
    with pytest.raises(ValueError, match="shrinkage is in"):
        XLDA(shrinkage=2).merge(clf)
    new = XLDA(power=0.5)
    with pytest.raises(ValueError, match="same rule"):
        new.merge(clf)
    assert not hasattr(new, "classes_")


def test_merge_goes_by_what_was_learned_with(clf, named):
    with pytest.raises(ValueError, match="same rule"):
        clf.merge(XLDA(power=0.5).fit(*named).set_params(power="auto"))
    with pytest.raises(ValueError, match="changed after learning began"):
        clf.set_params(power=0.5).merge(XLDA(power=0.5).fit(*named))


def test_what_slda_refuses_changes_nothing(named):
    X, y = named
    one, other = (XLDA(rule="slda").fit(X, names) for names in (y, np.char.add(y, "s")))
    with pytest.raises(ValueError, match="cannot be merged"):
        one.merge(other)
    with pytest.raises(ValueError, match="no sample weights"):
        one.partial_fit(GOOD, ["new", "new"], sample_weight=[1, 2])
    assert one.classes_.tolist() == sorted(set(y))


def test_without_memory_nothing_changes(clf, monkeypatch):
    def full(self, n_classes):
        raise MemoryError

    other, before = XLDA().fit(-np.eye(8), list("abcdefgh")), clf.classes_.tolist()
    monkeypatch.setattr(Moments, "reserve", full)
    for call in (lambda: clf.merge(other), lambda: clf.partial_fit(GOOD, ["x", "y"])):
        with pytest.raises(MemoryError):
            call()
    assert clf.classes_.tolist() == before


def test_a_layer_has_the_labels_that_its_rows_had(rng, monkeypatch):
    clf = XLDA().fit(rng.normal(size=(6, 3)), list("bcd") * 2)
    linear_layer = learner.linear_layer

    def while_somebody_learns(*given):
        clf.partial_fit(rng.normal(size=(1, 3)), ["a"])  # which moves all others
        return linear_layer(*given)

    monkeypatch.setattr(learner, "linear_layer", while_somebody_learns)
    assert clf.to_layer().labels == ["b", "c", "d"]


def test_whoever_reads_the_classes_hides_none_that_comes_meanwhile(rng, monkeypatch):
    clf = XLDA().fit(rng.normal(size=(6, 3)), list("bcdbcd")).rename_class("d", "e")
    reading, learned, kind = threading.Event(), threading.Event(), Labels._kind

    def slow(labels):
        if threading.current_thread() is reader:
            reading.set()
            learned.wait(0.5)
        return kind(labels)

    monkeypatch.setattr(Labels, "_kind", slow)
    reader = threading.Thread(target=lambda: clf.classes_)
    reader.start()
    reading.wait()
    clf.partial_fit([[50.0, 0.0, 0.0]], ["a"])
    learned.set()
    reader.join()
    assert clf.classes_.tolist() == ["a", "b", "c", "e"]
    assert clf.predict([[50.0, 0.0, 0.0]]) == ["a"]


def test_two_that_are_the_first_to_teach_are_both_learned_from(rng, monkeypatch):
    clf, both, waited, learn = XLDA(), threading.Barrier(2), set(), Model.learn

    def at_once(self, *args):
        if threading.current_thread() not in waited:
            waited.add(threading.current_thread())
            both.wait(5)
        learn(self, *args)

    def teach(name):
        clf.partial_fit(rng.normal(size=(3, 2)), [name] * 3)

    monkeypatch.setattr(Model, "learn", at_once)
    threads = [threading.Thread(target=teach, args=[name]) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clf.class_count_.tolist() == [3.0, 3.0]
