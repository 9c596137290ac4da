"""Means and weights kept as float16."""

from __future__ import annotations

import numpy as np
import pytest

import oracle
import xlda
from conftest import blobs
from xlda import XLDA
from xlda._internal.half_precision import times_weights
from xlda.errors import BadSampleError
from xlda.moments.assumed import set_covariance


@pytest.mark.parametrize("sizes", [(300,), (1,) * 300, (100, 7, 193)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_learns_what_full_precision_learns_but_for_rounding(sizes, dtype, rng):
    X, y = blobs(rng, dtype=dtype)
    half, start = XLDA(precision="half", search="dense"), 0
    for size in sizes:
        half.partial_fit(X[start : start + size], y[start : start + size])
        start += size
    _, means, covariance = oracle.pooled(X.astype(float), y.tolist())
    expected = np.array([means[label] for label in half.classes_])
    np.testing.assert_allclose(half.means_, expected, atol=0.02 * np.abs(expected).max())
    np.testing.assert_allclose(half.covariance_, covariance, atol=0.02 * np.abs(covariance).max())
    assert (half.predict(X) == XLDA().fit(X, y).predict(X)).mean() >= 0.99


@pytest.mark.parametrize("search", ["dense", "fisher", "lsh"])
def test_it_takes_half_the_memory(search, rng):
    X, y = rng.normal(size=(5000, 64)).astype(np.float32), np.arange(5000)
    full, half = (XLDA(precision=precision, search=search).fit(X, y) for precision in ("full", "half"))
    audits = [clf.audit(X[:50]) for clf in (full, half)]
    for part in ("class means", "weights"):
        assert audits[1].nbytes[part] < 0.55 * audits[0].nbytes[part]
    assert audits[1].agreement >= 0.98
    assert half.decision_function(X[:3]).dtype == full.decision_function(X[:3]).dtype


def test_files_are_half_the_size_and_go_on_learning(rng, tmp_path):
    X, y = blobs(rng, n_samples=2000, n_classes=900, n_features=64, dtype=np.float32)
    for precision in ("full", "half"):
        XLDA(precision=precision, check_samples=0).fit(X, y).save(tmp_path / precision)
    sizes = [(tmp_path / precision).stat().st_size for precision in ("full", "half")]
    assert sizes[1] < 0.62 * sizes[0]
    again, there = xlda.load(tmp_path / "half"), XLDA(precision="half", check_samples=0).fit(X, y)
    for clf in (again, there):
        clf.partial_fit(X[:100] + 1, y[:100])
    np.testing.assert_array_equal(again.means_, there.means_)


def test_forget_and_merge_work_too(rng):
    X, y = blobs(rng, dtype=np.float32)
    clf = XLDA(precision="half").fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    clf.forget(X[200:], y[200:]).merge(XLDA(precision="half").fit(X[200:], y[200:]))
    assert (clf.predict(X) == XLDA().fit(X, y).predict(X)).mean() >= 0.99
    with pytest.raises(ValueError, match="same rule, covariance, power, precision, lift and second_look"):
        clf.merge(XLDA().fit(X, y))


def test_what_float16_cannot_hold_is_refused_and_nothing_changes(rng):
    X, y = blobs(rng, dtype=np.float32)
    clf = XLDA(precision="half").fit(X, y)
    before = clf.means_
    with pytest.raises(ValueError, match="precision='half' holds up to 30000"):
        clf.partial_fit(X * 1e5, y)
    np.testing.assert_array_equal(clf.means_, before)
    with pytest.raises(ValueError, match="precision is one of"):
        XLDA(precision="quarter").fit(X, y)


def test_products_with_float16_are_those_of_the_rounded_weights(rng):
    weights, points = (
        rng.normal(size=(9000, 5)).astype(np.float16),
        rng.normal(size=(3, 5)).astype(np.float32),
    )
    expected = points.astype(float) @ weights.astype(float).T
    np.testing.assert_allclose(times_weights(points, weights), expected, atol=1e-5)
    np.testing.assert_allclose(times_weights(points[0], weights), expected[0], atol=1e-5)


@pytest.mark.parametrize("scale", [100.0, 1e-2, 2e-3])
def test_the_scale_of_the_embeddings_does_not_matter(scale, rng):
    X, y = blobs(rng, dtype=np.float32)
    half, full = XLDA(precision="half").fit(scale * X, y), XLDA().fit(X, y)
    assert (half.predict(scale * X) == full.predict(X)).mean() >= 0.98


def test_numbers_too_small_for_it_are_refused(rng):
    X, y = blobs(rng, dtype=np.float32)
    for call in ("fit", "partial_fit"):
        with pytest.raises(BadSampleError, match="too few digits"):
            getattr(XLDA(precision="half"), call)(1e-4 * X, y)
    clf = XLDA(precision="half").fit(X, y)
    clf.partial_fit(1e-4 * X[:1], y[:1])  # among others it may be a small one
    assert clf.n_samples_seen_ == len(X) + 1


@pytest.mark.parametrize(("model", "variance"), [("lda", 1e-8), ("bayes", 1e-12)])
def test_weights_too_large_for_it_are_refused(model, variance, rng):
    X, y = blobs(rng, dtype=np.float32)
    clf = XLDA(model=model, precision="half", shrinkage=0.0).fit(X, y)
    set_covariance(clf._model.moments, variance * np.eye(X.shape[1]), 100.0)
    clf._model.upkeep.start_over()
    with pytest.raises(ValueError, match="cannot hold the weights"):
        clf.predict(X)
