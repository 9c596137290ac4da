"""The scikit-learn contract, and agreement with its LinearDiscriminantAnalysis."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from conftest import blobs, lda
from xlda import XLDA

# Every check of scikit-learn's passes. What it does not check, and is different here on purpose:
# - labels need not be known at the first partial_fit: learning new ones later is what XLDA is for;
# - `classes_` is in the order of arrival (sorted within one call): a row once given never moves, so that
#   files, layers and indices made from a model stay valid when it learns more.
DEVIATIONS: dict[str, str] = {}


@parametrize_with_checks(
    [
        XLDA(),
        lda(),
        XLDA(power=0.5, priors="empirical", renew=0),
        XLDA(covariance="fixed", shrinkage="oas"),
        XLDA(shrinkage="ledoit-wolf", shrinkage_target="identity"),
    ],
    expected_failed_checks=lambda estimator: DEVIATIONS,
)
@pytest.mark.filterwarnings("ignore:Skipping check check_array_api_input")
def test_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("shrinkage", [0.0, 0.1, 0.3, 0.9])
@pytest.mark.parametrize("n_features", [3, 8, 30])
def test_same_as_scikit_learns_lda(shrinkage, n_features, rng):
    X, y = blobs(rng, n_samples=400, n_features=n_features)
    y = np.where(y == 5, 0, y)  # classes of different sizes
    queries = rng.normal(size=(500, n_features)) * 2
    oracle = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage).fit(X, y)
    # scikit-learn divides the scatter by n, XLDA by n - C: the same once every sample counts a billion times.
    clf = lda(priors="empirical", shrinkage=shrinkage).fit(X, y, sample_weight=np.full(len(X), 1e9))
    np.testing.assert_array_equal(clf.predict(queries), oracle.predict(queries))
    np.testing.assert_allclose(clf.predict_proba(queries), oracle.predict_proba(queries), atol=1e-6)
    np.testing.assert_allclose(clf.decision_function(queries), oracle.decision_function(queries), atol=1e-6)
    weights, bias = clf.to_linear()
    np.testing.assert_allclose(weights, oracle.coef_, atol=1e-6)
    np.testing.assert_allclose(bias, oracle.intercept_, atol=1e-6)
    np.testing.assert_allclose(clf.covariance_, plain_covariance(X, y), atol=1e-8)


def plain_covariance(X, y):
    """What scikit-learn estimates without shrinkage."""
    plain = LinearDiscriminantAnalysis(solver="lsqr", store_covariance=True).fit(X, y)
    return plain.covariance_


def test_same_predictions_as_scikit_learns_lda_with_plain_samples(rng):
    X, y = blobs(rng, n_samples=600)
    y = np.arange(600) % 6
    oracle = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.3).fit(X, y)
    clf = lda(priors="empirical").fit(X, y)
    np.testing.assert_array_equal(clf.predict(X), oracle.predict(X))
    np.testing.assert_allclose(clf.covariance_ * (600 - 6) / 600, plain_covariance(X, y), atol=1e-10)


def test_works_in_a_pipeline_and_a_search(data):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), XLDA())
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.5
    search = GridSearchCV(pipeline, {"xlda__shrinkage": [0.1, 0.9], "xlda__power": [None, 0.5]}, cv=3)
    assert search.fit(X, y).best_score_ > 0.5


def test_clone_has_learned_nothing(data):
    clf = clone(XLDA(shrinkage=0.1, power=0.5).fit(*data))
    assert clf.get_params() == XLDA(shrinkage=0.1, power=0.5).get_params()
    assert not hasattr(clf, "classes_")
