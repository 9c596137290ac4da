"""How class means differ, by itself: t, psi and the directions."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import oracle
import xlda
from conftest import blobs
from test_bayes import assert_same_differences, expected, unequal
from xlda import XLDA
from xlda.head import class_spread as module
from xlda.head.class_spread import LEAST, class_spread
from xlda.head.covariance import Whitening, covariance_factor
from xlda.head.head import spread_to_keep
from xlda.moments import Moments


def spread_of(X, y, kept=None, weights=None):
    moments = Moments(X.shape[1])
    moments.update(X, y, weights)
    covariance = moments.covariance()
    factor, _ = covariance_factor(covariance, moments.dof, "auto", "trace")
    whitening = Whitening.by(factor)
    return class_spread(moments, whitening, covariance, kept), whitening


def by_the_loop(X, y):
    counts, means, covariance = oracle.pooled(X, y.tolist())
    counts = np.array(list(counts.values()))
    W = oracle.whitened(covariance, "auto", counts.sum() - len(counts))
    k = np.array(list(means.values())) @ W
    return oracle.class_spread(k, counts, W.T @ covariance @ W)


@pytest.mark.parametrize("counts", [[3, 1], [1, 2, 40], [1, 5, 9] * 2, [1, 2, 5, 9] * 20, [1, 2] * 200])
def test_it_is_that_of_the_loop(counts, rng):
    X, y, _ = unequal(rng, counts, 10)
    spread, _ = spread_of(X, y)
    _, _, psi, t, b = by_the_loop(X, y)
    assert spread.size == pytest.approx(t, rel=1e-7)
    assert spread.share == pytest.approx(b, rel=1e-7)
    assert spread.elsewhere == pytest.approx(b * t, rel=1e-7)
    np.testing.assert_allclose(spread.psi, psi, rtol=1e-6)
    np.testing.assert_allclose(spread.basis.T @ spread.basis, np.eye(len(psi)), atol=1e-9)
    assert (np.diff(spread.psi) <= 1e-12).all()


def test_it_finds_what_was_drawn(rng):
    """Means of variance 4 in 6 of 12 directions, of 1 to 4 samples."""
    deviations = np.repeat([2.0, 0.0], 6)
    y = np.repeat(np.arange(4000), rng.integers(1, 5, 4000))
    X = (rng.normal(size=(4000, 12)) * deviations)[y] + rng.normal(size=(len(y), 12))
    spread, _ = spread_of(X, y)
    assert spread.size == pytest.approx(2.0, rel=0.05)
    np.testing.assert_allclose(spread.psi, 4.0, rtol=0.15)
    assert len(spread.psi) == 6
    assert spread.left_out.true == pytest.approx(0.0, abs=0.2)
    assert spread.left_out.noise == pytest.approx(6.0, rel=0.05)


def test_means_that_do_not_differ_have_the_least_spread(rng):
    y = np.repeat(np.arange(20), 3)
    spread, _ = spread_of(rng.normal(size=(60, 6)), y)
    none, _ = spread_of(np.tile(rng.normal(size=(3, 6)), (20, 1)), y)
    assert none.size == LEAST
    assert (none.psi >= LEAST).all()
    assert (spread.psi >= 0).all()


def test_at_the_least_spread_psi_is_what_was_measured(rng):
    """Means that differ by chance alone: in some of the draws nothing is left of it."""
    seen = [spread_of(rng.normal(size=(21, 30)), np.repeat([0, 1], [20, 1]))[0] for _ in range(20)]
    least = [spread for spread in seen if spread.size == LEAST]
    assert least
    for spread in least:
        np.testing.assert_array_equal(spread.psi, np.maximum(spread.measured, LEAST))


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_the_unit_of_the_embeddings_does_not_matter(scale, rng):
    X, y, _ = unequal(rng, [1, 2, 5, 9] * 20, 8)
    one, other = spread_of(X, y)[0], spread_of(scale * X + 7, y)[0]
    np.testing.assert_allclose(other.psi, one.psi, rtol=1e-6)
    assert other.size == pytest.approx(one.size, rel=1e-7)


@pytest.mark.parametrize("n_classes", [6, 80])
def test_blocks_and_threads_change_nothing(n_classes, rng, monkeypatch):
    X, y, _ = unequal(rng, ([1, 2, 5, 9] * 20)[:n_classes], 8)
    before = spread_of(X, y)[0]
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(module, "COLUMNS_AT_ONCE", 3)
    after = spread_of(X, y)[0]
    assert after.size == pytest.approx(before.size, rel=1e-9)
    assert after.outside == pytest.approx(before.outside, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(after.psi, before.psi, rtol=1e-9)
    np.testing.assert_allclose(after.centre, before.centre, atol=1e-9)


def test_lengths_that_are_estimated_are_right_on_average(rng, monkeypatch):
    X, y, _ = unequal(rng, [1, 2, 5] * 200, 40)
    exact = spread_of(X, y)[0]
    monkeypatch.setattr(module, "N_PROBES", 16)
    few = spread_of(X, y)[0]
    assert few.size != exact.size
    assert few.size == pytest.approx(exact.size, rel=0.1)


def test_nothing_of_it_waits_for_the_garbage_collector(rng, monkeypatch):
    X, y, _ = unequal(rng, [1, 2, 5, 9] * 20, 8)
    seen = []

    class Watched(module._Whitened):
        def __init__(self, *given):
            super().__init__(*given)
            seen.append(weakref.ref(self))

    monkeypatch.setattr(module, "_Whitened", Watched)
    gc.disable()
    try:
        spread_of(X, y)
        assert [one() for one in seen] == [None]
    finally:
        gc.enable()


# -- kept for ever


def test_what_is_kept_gives_the_same_again(rng):
    X, y, _ = unequal(rng, [1, 2, 5, 9] * 20, 8)
    spread, whitening = spread_of(X, y)
    again, _ = spread_of(X, y, spread.kept(whitening))
    np.testing.assert_allclose(again.psi[: len(spread.psi)], spread.psi, rtol=1e-6)
    assert (again.size, again.share) == (spread.size, spread.share)


def test_nothing_is_kept_of_what_nobody_can_tell(rng):
    moments = Moments(3)
    moments.update(rng.normal(size=(5, 3)), np.arange(5), None)
    assert spread_to_keep(moments, "auto", "trace") is None


@pytest.mark.parametrize("counts", [[4, 2, 9], [1, 2, 5, 9] * 20])
def test_a_fixed_covariance_fixes_how_means_differ(counts, rng):
    X, y, queries = unequal(rng, counts, 8)
    fixed = XLDA(power=None, covariance="fixed").fit(X, y)
    assert_same_differences(fixed.decision_function(queries), expected(X, y, queries)[0])
    kept = fixed._model.moments.kept_spread
    far = 30 * rng.normal(size=(20, 8))
    fixed.partial_fit(far, np.arange(1000, 1020))
    assert fixed._model.moments.kept_spread is kept
    fixed._model.upkeep.start_over()
    assert fixed._current_head().space.table.psi.max() < 30  # with the new classes it would be some hundreds
    plastic = XLDA(power=None, renew=0).fit(X, y).partial_fit(far, np.arange(1000, 1020))
    assert plastic._current_head().space.table.psi.max() > 100
    np.testing.assert_array_equal(fixed.predict(far), np.arange(1000, 1020))


def test_a_fixed_spread_survives_saving(rng, tmp_path):
    X, y = blobs(rng, n_samples=400, n_classes=30)
    clf = XLDA(power=None, covariance="fixed").fit(X, y).partial_fit(X[:50] + 4, y[:50] + 100)
    clf.save(tmp_path / "m.xlda")
    loaded = xlda.load(tmp_path / "m.xlda")
    np.testing.assert_array_equal(
        loaded._model.moments.kept_spread.matrix, clf._model.moments.kept_spread.matrix
    )
    clf._model.upkeep.start_over()
    np.testing.assert_allclose(loaded.decision_function(X), clf.decision_function(X), atol=1e-9)
    sections = xlda.storage.read(tmp_path / "m.xlda", xlda.model_file.KNOWN)
    assert sections["moments"].version == 2
    assert sections["moments"].tensors["spread"].shape == (8, 8)
