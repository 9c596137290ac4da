"""Whole classes: what undoes their end is exact."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from xlda import XLDA
from xlda.moments.view import MomentsView

D = 6


def drawn(rng, n_classes=5, far=0.0):
    """Samples of classes "a", "b", ... of different sizes, and each kind of class among them."""
    y = np.repeat(np.arange(n_classes), rng.integers(2, 30, n_classes))
    X = (rng.normal(size=(n_classes, D)) * 3)[y] + rng.normal(size=(len(y), D)) + far
    order = rng.permutation(len(y))
    return X[order], np.array(list("abcdefghij"))[y[order]]


def assert_same_moments(one, other, rtol=1e-9):
    mine, theirs = one._model.moments, other._model.moments
    np.testing.assert_array_equal(one.classes_, other.classes_)
    np.testing.assert_allclose(one.class_count_, other.class_count_, rtol=rtol)
    np.testing.assert_allclose(one.means_, other.means_, rtol=rtol, atol=rtol)
    scale = np.abs(theirs.scatter).max()
    np.testing.assert_allclose(mine.scatter, theirs.scatter, rtol=0, atol=rtol * scale)
    assert mine.dof == pytest.approx(theirs.dof, rel=1e-12)
    assert mine.n_samples == theirs.n_samples
    assert mine.n_seen == theirs.n_seen


def assert_same(one, other, X, rtol=1e-9):
    assert_same_moments(one, other, rtol)
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    for each in (one, other):
        each._model.upkeep.start_over()
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), rtol=1e-6, atol=1e-6)


PARAMETERS = [
    {"renew": 0},
    {"model": "lda", "renew": 0},
    {"power": 0.5, "renew": 0},
    {"covariance": "fixed"},
    {"priors": "empirical"},
]


@pytest.mark.parametrize("parameters", PARAMETERS)
@pytest.mark.parametrize("far", [0.0, 1000.0])
def test_what_was_merged_comes_apart_again(parameters, far, rng):
    X, y = drawn(rng, far=far)
    never, clf = (XLDA(**parameters).fit(X, y) for _ in range(2))
    count, mean = clf.class_moments("b")
    assert count == (y == "b").sum()
    assert mean.dtype == np.float64
    clf.merge_classes("d", "b").predict(X[:1])
    clf.split_class("d", "b", count, mean)
    assert_same(clf, never, X)
    for each in (clf, never):  # and goes on as if nothing had been
        each.partial_fit(X[:7] + 1, y[:7]).forget(X[7:9], y[7:9])
    assert_same_moments(clf, never)


@pytest.mark.parametrize("parameters", PARAMETERS)
@pytest.mark.parametrize("known", [False, True])
def test_what_was_removed_comes_back(parameters, known, rng):
    X, y = drawn(rng, far=50.0)
    never, clf = (XLDA(**parameters).fit(X, y) for _ in range(2))
    count, mean = clf.class_moments("c")
    clf.remove_class("c").predict(X[:1])
    if known:
        clf.partial_fit(X[:0], [], classes=["c"])
    clf.restore_class("c", count, mean)
    assert_same(clf, never, X)


def test_the_last_class_comes_back_too(rng):
    X, y = drawn(rng, n_classes=1, far=9.0)
    never, clf = (XLDA().fit(X, y) for _ in range(2))
    block = clf.class_moments("a")
    clf.remove_class("a").restore_class("a", *block)
    assert_same_moments(clf, never)


def test_a_removed_class_comes_back_after_more_was_learned(rng):
    X, y = drawn(rng)
    late = (X + 2)[:20], np.where(y == "c", "a", y)[:20]
    never = XLDA().fit(X, y).partial_fit(*late)
    clf = XLDA().fit(X, y)
    block = clf.class_moments("c")
    clf.remove_class("c").partial_fit(*late).restore_class("c", *block)
    assert_same(clf, never, X)


def test_two_merges_are_undone_in_any_order(rng):
    X, y = drawn(rng)
    never, clf = (XLDA().fit(X, y) for _ in range(2))
    b, c = clf.class_moments("b"), clf.class_moments("c")
    clf.merge_classes("a", "b").merge_classes("a", "c")
    clf.split_class("a", "b", *b).split_class("a", "c", *c)
    assert_same(clf, never, X)


def test_all_of_a_class_is_moved(rng):
    X, y = drawn(rng)
    never, clf = (XLDA().fit(X, y) for _ in range(2))
    clf.split_class("b", "new", *clf.class_moments("b"))
    assert clf.class_count_[clf.classes_ == "b"] == 0
    assert np.isnan(clf.class_moments("b")[1]).all()
    assert "b" not in clf.predict(X)
    assert_same(clf.remove_class("b").rename_class("new", "b"), never, X)


def test_a_class_without_samples_can_be_merged_and_removed_and_come_back(rng):
    X, y = drawn(rng)
    clf = XLDA().fit(X, y).partial_fit(X[:0], [], classes=["none"])
    before = copy.deepcopy(clf)
    block = clf.class_moments("none")
    assert block[0] == 0
    clf.merge_classes("a", "none").split_class("a", "none", *block)
    assert_same(clf, before, X)
    clf.remove_class("none").restore_class("none", *block)
    assert_same(clf, before, X)


@pytest.mark.parametrize("precision", ["full", "half"])
def test_in_less_precision_it_comes_apart_to_rounding(precision, rng):
    X, y = drawn(rng)
    X = X.astype(np.float32)
    never, clf = (XLDA(precision=precision).fit(X, y) for _ in range(2))
    b, c = clf.class_moments("b"), clf.class_moments("c")
    clf.merge_classes("a", "b").split_class("a", "b", *b).remove_class("c").restore_class("c", *c)
    assert clf._model.moments.dtype == np.float32
    assert_same_moments(clf, never, 1e-5 if precision == "full" else 2e-2)
    np.testing.assert_array_equal(clf.predict(X), never.predict(X))


def test_samples_that_went_nobody_knows_where_are_kept_no_more(rng):
    X, y = drawn(rng)
    clf = XLDA().fit(X, y)
    b, c = clf.class_moments("b"), clf.class_moments("c")
    clf.merge_classes("a", "b").split_class("a", "b", *b).remove_class("c").restore_class("c", *c)
    clf.partial_fit(X[:40], y[:40])
    rows = clf._model.labels.rows(["a", "b", "c"])
    kept = clf._model.moments.kept.samples()
    assert len(kept.rows)
    assert not set(kept.rows) & set(rows.tolist())


def test_a_view_does_not_see_it(rng):
    X, y = drawn(rng)
    clf = XLDA(background=True).fit(X, y)
    view, before = MomentsView(clf._model.moments, True), copy.deepcopy(clf._model.moments)
    b, c = clf.class_moments("b"), clf.class_moments("c")
    clf.merge_classes("a", "b").split_class("a", "b", *b).remove_class("c").restore_class("c", *c)
    clf.split_class("d", "e2", 1.0, X[0])
    np.testing.assert_array_equal(view.means, before.means)
    np.testing.assert_array_equal(view.scatter, before.scatter)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda clf: clf.split_class("a", "b", 1, np.zeros(D)), "exists already"),
        (lambda clf: clf.split_class("nobody", "new", 1, np.zeros(D)), "Unknown class"),
        (lambda clf: clf.split_class("a", "new", 1e6, np.zeros(D)), "Cannot take 1e\\+06 of class 'a'"),
        (lambda clf: clf.split_class("a", "new", -1, np.zeros(D)), "count is"),
        (lambda clf: clf.split_class("a", "new", np.nan, np.zeros(D)), "count is"),
        (lambda clf: clf.split_class("a", "new", 1, np.zeros(D + 1)), "mean has the shape"),
        (lambda clf: clf.split_class("a", "new", 1, np.full(D, np.nan)), "mean contains NaN"),
        (lambda clf: clf.split_class("a", 7, 1, np.zeros(D)), "Got int labels"),
        (lambda clf: clf.restore_class("a", 1, np.zeros(D)), "has samples already"),
        (lambda clf: clf.restore_class("new", 1, np.full(D, 1e300)), "Scale them down"),
        (lambda clf: clf.restore_class(7, 1, np.zeros(D)), "Got int labels"),
        (lambda clf: clf.class_moments("nobody"), "Unknown class"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(call, message, rng):
    X, y = drawn(rng)
    clf = XLDA().fit(X, y)
    before = copy.deepcopy(clf)
    with pytest.raises(ValueError, match=message):
        call(clf)
    assert_same(clf, before, X, rtol=0)


def test_the_published_rule_cannot_be_split_and_its_classes_come_back(rng):
    X, y = drawn(rng)
    never, clf = (XLDA(rule="slda").fit(X, y) for _ in range(2))
    block = clf.class_moments("b")
    with pytest.raises(ValueError, match="split_class needs rule='exact'"):
        clf.split_class("a", "new", 1, X[0])
    clf.remove_class("b").restore_class("b", *block)
    assert_same(clf, never, X)


def test_rows_of_a_layer_cannot_be_split(rng):
    with pytest.warns(UserWarning, match="embeddings"):
        clf = XLDA.from_linear(rng.normal(size=(3, D)), labels=["a", "b", "c"])
    with pytest.raises(ValueError, match="cannot be split"):
        clf.split_class("a", "new", 0, np.zeros(D))


# -- ids


def test_ids_go_with_their_classes(rng):
    X, y = drawn(rng)
    clf = XLDA().fit(X, y)
    assert (clf.class_ids_, clf.log_position_) == ({}, None)
    clf.class_ids_ |= {label: f"id of {label}" for label in "abcd"}
    clf.log_position_ = {"segment": 3}
    clf.rename_class("a", "z").remove_class("b").merge_classes("c", "d").rename_class("e", "f")
    assert clf.class_ids_ == {"z": "id of a", "c": "id of c"}
    for other in (copy.deepcopy(clf), pickle.loads(pickle.dumps(clf))):
        assert other.class_ids_ == clf.class_ids_
        assert other.log_position_ == {"segment": 3}
    with pytest.raises(ValueError, match="Unknown class"):
        clf.remove_class("nobody")
    assert len(clf.class_ids_) == 2
    assert XLDA().merge(clf).class_ids_ == {}
    clf.fit(X, y)
    assert (clf.class_ids_, clf.log_position_) == ({}, None)
