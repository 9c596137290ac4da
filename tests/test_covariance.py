from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
import sklearn.covariance

from xlda.head.covariance import (
    check_shrinkage,
    inverse_covariance,
    ledoit_wolf_shrinkage,
    oas_shrinkage,
    shrunk_covariance,
)


@pytest.fixture
def rows(rng):
    """Residuals of 60 degrees of freedom in 20 correlated features."""
    return rng.normal(size=(60, 20)) @ rng.normal(size=(20, 20))


def covariance_of(rows):
    return rows.T @ rows / len(rows)


def test_oas_is_scikit_learns(rows):
    oracle = sklearn.covariance.OAS(assume_centered=True).fit(rows)
    assert oas_shrinkage(covariance_of(rows), len(rows)) == pytest.approx(oracle.shrinkage_, rel=1e-12)


def test_ledoit_wolf_is_near_the_original_on_gaussian_residuals(rng):
    spread = rng.normal(size=(20, 20))
    for n in (40, 200, 2000):
        rows = rng.normal(size=(n, 20)) @ spread
        original = sklearn.covariance.ledoit_wolf_shrinkage(rows, assume_centered=True)
        assert ledoit_wolf_shrinkage(covariance_of(rows), n) == pytest.approx(original, rel=0.15)


def test_equal_variances_are_shrunk_all_the_way():
    assert oas_shrinkage(np.eye(3), 10) == ledoit_wolf_shrinkage(np.eye(3), 10) == 1.0


def test_shrinking_is_scikit_learns(rows):
    oracle = sklearn.covariance.shrunk_covariance(covariance_of(rows), shrinkage=0.3)
    np.testing.assert_allclose(shrunk_covariance(covariance_of(rows), 0.3, "trace"), oracle)


def test_the_published_target_is_the_identity(rows):
    covariance = covariance_of(rows)
    np.testing.assert_allclose(
        shrunk_covariance(covariance, 1e-4, "identity"), (1 - 1e-4) * covariance + 1e-4 * np.eye(20)
    )


@pytest.mark.parametrize("target", ["trace", "identity"])
@pytest.mark.parametrize("shrinkage", [0.0, 0.3, 1.0, "oas", "ledoit-wolf"])
def test_precision_is_the_inverse(shrinkage, target, rows):
    covariance = covariance_of(rows)
    precision, used = inverse_covariance(covariance, len(rows), shrinkage, target)
    np.testing.assert_allclose(precision @ shrunk_covariance(covariance, used, target), np.eye(20), atol=1e-8)
    np.testing.assert_array_equal(precision, precision.T)
    assert used == shrinkage or isinstance(shrinkage, str)


def test_the_input_is_not_modified(rows):
    covariance = covariance_of(rows)
    before = covariance.copy()
    inverse_covariance(covariance, len(rows))
    np.testing.assert_array_equal(covariance, before)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_a_singular_covariance_gets_more_shrinkage_and_a_warning(scale, rows):
    singular = scale * covariance_of(rows[:5])
    with pytest.warns(UserWarning, match="not positive definite with shrinkage 0; .* is used"):
        precision, used = inverse_covariance(singular, 5, 0.0)
    assert 0 < used < 1e-3
    assert np.isfinite(precision).all()
    with warnings.catch_warnings(action="error"):
        inverse_covariance(singular, 5, 0.3)


def test_a_negative_covariance_never_gives_nan():
    with pytest.warns(UserWarning, match="not positive definite"):
        precision, used = inverse_covariance(np.diag([5.0, -1.0]), 5, 0.1)
    assert np.isfinite(precision).all()
    assert used > 0.1


def test_a_covariance_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        inverse_covariance(np.diag([1.0, np.inf]), 5)


@pytest.mark.parametrize("shrinkage", ["oas", "ledoit-wolf"])
@pytest.mark.parametrize("scale", [1e-200, 1e150])
def test_the_scale_does_not_change_an_estimated_shrinkage(shrinkage, scale, rows):
    covariance = covariance_of(rows)
    _, used = inverse_covariance(covariance, len(rows), shrinkage)
    _, scaled = inverse_covariance(scale * covariance, len(rows), shrinkage)
    assert scaled == pytest.approx(used)


@pytest.mark.parametrize("target", ["trace", "identity"])
def test_without_any_variance_the_nearest_mean_wins(target):
    precision, _ = inverse_covariance(np.zeros((3, 3)), 0, 1.0, target)
    np.testing.assert_array_equal(precision, np.eye(3))


@pytest.mark.parametrize("shrinkage", [-0.1, 1.1, np.nan, "automatic", None, True, [0.3]])
def test_a_shrinkage_that_is_none_is_refused(shrinkage):
    with pytest.raises(ValueError, match="shrinkage is"):
        check_shrinkage(shrinkage, "trace")


def test_a_target_that_is_none_is_refused():
    with pytest.raises(ValueError, match="shrinkage_target is"):
        check_shrinkage(0.3, "diagonal")


def test_edges_of_shrinkage():
    for shrinkage in (0, 1, 0.3, "oas", "ledoit-wolf"):
        check_shrinkage(shrinkage, "trace")
    assert ledoit_wolf_shrinkage(np.diag([1.0, 0.0, 0.0]), 0.5) == 0.0
    assert inverse_covariance(np.zeros((3, 3)), 0, 0.3)[1] == 0.3


@pytest.mark.parametrize(
    ("diagonal", "asked", "message"),
    [
        ([1.0, 0.0], 0.0, "1e-08 is used"),
        ([5.0, -1.0], 0.1, r"0\.1; 1 is used"),
        ([1e20, 1.0], 0.0, "not positive"),
    ],
)
def test_how_much_more_shrinkage_is_used(diagonal, asked, message):
    with pytest.warns(UserWarning, match=message):
        inverse_covariance(np.diag(diagonal), 5, asked)


@pytest.mark.parametrize("shrinkage", [0.3, "oas", "ledoit-wolf"])
def test_inverting_takes_the_memory_of_one_matrix_more(shrinkage, rng):
    d = 1600
    covariance = np.cov(rng.normal(size=(2 * d, d)), rowvar=False)
    tracemalloc.start()
    try:
        inverse, _ = inverse_covariance(covariance, 2.0 * d, shrinkage)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < (2.4 if shrinkage != 0.3 else 1.4) * covariance.nbytes
    assert np.array_equal(inverse, inverse.T)
