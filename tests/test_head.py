from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import oracle
from conftest import blobs, lda, log_posteriors
from xlda import XLDA
from xlda.head import head as module
from xlda.head.changed_rows import ChangedRows, NewRows
from xlda.search import dense
from xlda.search.ranking import best_columns


@pytest.fixture(params=[XLDA, lda])
def many(request, rng):
    """100 classes, so that changed rows are kept beside the others for a while."""
    X, y = blobs(rng, n_samples=2000, n_classes=100)
    return X, y, request.param(renew=100.0).fit(X, y)


@pytest.fixture
def plain(rng):
    X, y = blobs(rng, n_samples=2000, n_classes=100)
    return X, y, lda(renew=100.0).fit(X, y)


def published_scores(clf, X, covariance):
    return oracle.scores(X, clf.means_, covariance, clf.shrinkage)


def test_to_linear_is_exact_enough_for_a_large_offset(rng):
    X, y = blobs(rng, dtype=np.float32)
    X += np.float32(1e4)
    clf = lda().fit(X, y)
    weights, bias = clf.to_linear()
    logits = X.astype(np.float64) @ weights.T + bias
    np.testing.assert_array_equal(clf.classes_[logits.argmax(axis=1)], clf.predict(X))


def test_scores_are_the_published_logits(plain):
    X, _, clf = plain
    expected = published_scores(clf, X, clf.covariance_)
    np.testing.assert_allclose(clf.decision_function(X), expected, atol=1e-9)
    weights, bias = clf.to_linear()
    np.testing.assert_allclose(X @ weights.T + bias, expected, atol=1e-9)


def test_changed_rows_use_their_current_means_and_the_kept_covariance(plain):
    X, y, clf = plain
    kept = clf.covariance_
    shared = clf._current_head().index
    for i in range(5):
        clf.partial_fit(X[i : i + 1] + 1, y[i : i + 1])
        clf.partial_fit(X[i : i + 1] - 2, y[:1])  # the same class again and again
    clf.partial_fit(X[:1] + 9, [100])
    scores = clf.decision_function(X)
    assert clf._current_head().index is shared
    assert len(clf._current_head().changed) > 0
    np.testing.assert_allclose(scores, published_scores(clf, X, kept), atol=1e-9)


def test_many_changed_rows_are_brought_together(plain):
    X, y, clf = plain
    kept = clf.covariance_
    for i in range(60):
        clf.partial_fit(X[i : i + 1] + 1, [y[i] + 3 * (i % 40)])
        clf.predict(X[:1])
    assert len(clf._current_head().changed) <= module.most_changed(220) < 60
    expected = published_scores(clf, X, kept)
    np.testing.assert_allclose(clf.decision_function(X), expected, atol=1e-9)


def test_a_head_never_changes_while_learning_goes_on(many):
    X, y, clf = many
    clf.partial_fit(X[:1], y[:1])
    heads = []
    for i in range(40):
        head = clf._current_head()
        heads.append((head, head.scores(X[:20]), head.table.of(head.top(X[:20], 3)[0])))
        clf.partial_fit(X[i : i + 1] + i, [y[i] if i % 3 else 200 + i])
        if i == 20:
            clf.rename_class(y[0], 999)
            clf.remove_class(y[1])
    for head, scores, labels in heads:
        np.testing.assert_array_equal(head.scores(X[:20]), scores)
        np.testing.assert_array_equal(head.table.of(head.top(X[:20], 3)[0]), labels)


def test_two_heads_grown_from_one_do_not_disturb_each_other():
    rows, one = np.array([3]), np.ones(1)
    trunk = ChangedRows.none_of(2, np.dtype(float)).extended(rows, NewRows(np.ones((1, 2)), one, one))
    branches = [trunk.extended(rows, NewRows(np.full((1, 2), value), one, one)) for value in (2.0, 5.0)]
    assert [late.weights[late.newest[1]].max() for late in (trunk, *branches)] == [1.0, 2.0, 5.0]
    for late in branches:
        np.testing.assert_array_equal(late.bias, [-np.inf, 1.0])
    np.testing.assert_array_equal(trunk.bias, [1.0])


def test_top_works_in_blocks_that_do_not_grow_with_the_samples(many, monkeypatch):
    X, _, clf = many
    whole = clf.predict_topk(X, 4)
    seen = []

    def spy(scores, k):
        seen.append(scores.size)
        return best_columns(scores, k)

    monkeypatch.setattr(dense, "SCORES_AT_ONCE", 1000)
    monkeypatch.setattr(dense, "best_columns", spy)
    labels, best = clf.predict_topk(X, 4)
    assert max(seen) <= 1000
    np.testing.assert_array_equal(labels, whole[0])
    np.testing.assert_allclose(best, whole[1])


def test_an_offset_costs_float32_scores_nothing(rng):
    X, y = blobs(rng, dtype=np.float32)
    X = np.round(X * 8) / 8  # so that the offset itself rounds nothing
    near, far = (XLDA(power=None).fit(X + offset, y) for offset in (np.float32(0), np.float32(1e3)))
    np.testing.assert_allclose(log_posteriors(near, X), log_posteriors(far, X + np.float32(1e3)), atol=1e-3)
    logits = far.decision_function(X + np.float32(1e3))
    np.testing.assert_array_equal(far.classes_[logits.argmax(axis=1)], far.predict(X + np.float32(1e3)))


def test_new_rows_are_known_before_a_renewal(plain):
    X, _, clf = plain
    clf.partial_fit(X[:0], [], classes=[1000])
    assert (clf.decision_function(X)[:, -1] == -np.inf).all()
    weights, bias = clf.to_linear()
    assert len(weights) == 101
    assert bias[-1] == -np.inf
    clf.partial_fit(X[:1] + 9, [1000])
    assert clf.predict_topk(X, 999)[0].shape == (len(X), 101)


def test_sizes_of_blocks_change_nothing(many, monkeypatch):
    X, y, clf = many
    labels, scores = clf.predict(X), clf.decision_function(X)
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(dense, "SCORES_AT_ONCE", 10)  # less than one sample's
    monkeypatch.setattr(module, "MOST_CHANGED", 3)
    np.testing.assert_allclose(clone(clf).fit(X, y).decision_function(X), scores, atol=1e-9)
    np.testing.assert_array_equal(clf.predict(X), labels)
    for i in range(5):
        clf.partial_fit(X[i : i + 1], y[i : i + 1]).predict(X[:1])
    assert len(clf._current_head().changed) <= 3
