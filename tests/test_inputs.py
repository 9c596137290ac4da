from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from xlda import XLDA, inputs
from xlda.errors import BadSampleError
from xlda.inputs import signed_power


@pytest.mark.parametrize("power", [0.5, 0.3, 1.0, 2.0])
def test_signed_power_keeps_the_sign_and_the_input(power):
    X = np.array([[-4.0, 0.0, 9.0]])
    np.testing.assert_allclose(signed_power(X, power), [[-(4.0**power), 0.0, 9.0**power]])
    np.testing.assert_array_equal(X, [[-4.0, 0.0, 9.0]])


@pytest.mark.parametrize("power", [0.5, 0.7])
def test_power_is_the_same_as_raising_the_embeddings_first(power, data):
    X, y = data
    raised = np.sign(X) * np.abs(X) ** power
    one = XLDA(power=power).fit(X, y)
    np.testing.assert_allclose(one.decision_function(X), XLDA().fit(raised, y).decision_function(raised))


def test_a_data_frame_keeps_its_names(data):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    clf = XLDA(power=None).fit(frame, y)
    assert clf.feature_names_in_.tolist() == list("abcdefgh")
    clf.partial_fit(frame, y)
    np.testing.assert_array_equal(clf.predict(frame), XLDA(power=None).fit(X, y).partial_fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names should match"):
        clf.predict(frame[list("bacdefgh")])
    with pytest.raises(ValueError, match="feature names should match"):
        clf.predict(frame[list("abc")])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        clf.predict(X)
    clf.fit(X, y)
    assert not hasattr(clf, "feature_names_in_")


def test_values_whose_squares_would_overflow_are_refused():
    clf = XLDA(power=None).fit(np.eye(3, dtype=np.float32), [0, 1, 2])
    with pytest.raises(ValueError, match=r"values up to 1e\+20: their squares"):
        clf.partial_fit(np.full((1, 3), 1e20, np.float32), [1])
    clf.predict(np.full((1, 3), 1e14, np.float32))
    with pytest.raises(ValueError, match="their squares"):
        clf.predict(np.full((1, 3), 1e15, np.float32))
    with pytest.raises(ValueError, match=r"with weights up to 1e\+38: their squares"):
        clf.partial_fit(np.ones((1, 3), np.float32), [1], sample_weight=[1e38])
    with pytest.raises(ValueError, match="infinity"):
        XLDA(power=3.0).fit(np.full((2, 3), 1e20, np.float32), [0, 1])


def test_float16_learns_in_float32(rng):
    X = rng.normal(size=(50, 4)).astype(np.float16)
    clf = XLDA().fit(X, np.arange(50) % 3).partial_fit(X, np.arange(50) % 3)
    assert clf.means_.dtype == np.float32
    np.testing.assert_array_equal(clf.predict(X), clf.predict(X.astype(np.float64)))


def test_one_weight_is_for_all_and_infinity_for_none(data):
    X, y = data
    assert XLDA().fit(X, y, sample_weight=2.0).class_count_.sum() == 2 * len(X)
    with pytest.raises(ValueError, match="infinity"):
        XLDA().fit(X[:2], y[:2], sample_weight=[1, np.inf])


def masked(values, where):
    return np.ma.masked_array(values, mask=np.zeros(np.shape(values), bool) | where)


def test_what_is_masked_is_refused_and_a_mask_that_hides_nothing_is_not():
    X, y = np.arange(8.0).reshape(4, 2), np.array([0, 0, 1, 1])
    clf = XLDA().fit(X, y)
    hidden = np.arange(4) == 2
    for call in (
        lambda: clf.partial_fit(masked(X, hidden[:, None]), y),
        lambda: clf.partial_fit(X, masked(y, hidden)),
        lambda: clf.partial_fit(X, y, sample_weight=masked(np.ones(4), hidden)),
        lambda: clf.predict(masked(X, hidden[:, None])),
    ):
        with pytest.raises(BadSampleError, match=r"masked array with [12] masked"):
            call()
    assert clf.n_samples_seen_ == 4
    np.testing.assert_array_equal(clf.predict(masked(X, False)), clf.predict(X))


@pytest.mark.parametrize("X", [np.full((1, 2), np.nan), np.ones((1, 3)), np.full((1, 2), 1e200), [1.0, 2.0]])
def test_a_bad_sample_has_a_type_of_its_own(X):
    clf = XLDA(power=None).fit(np.eye(2), [0, 1])
    with pytest.raises(BadSampleError):
        clf.predict(X)
    with pytest.raises(BadSampleError):
        clf.partial_fit(X, [0] * len(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 7), (1, 4096), (1, 4097), (40, 1280)])  # few numbers, and many
def test_one_value_that_is_too_large_or_none_is_found_among_any_number(shape, dtype):
    most = float(np.finfo(dtype).max) ** 0.375
    X = np.full(shape, 0.99 * most, dtype)
    X[:, ::2] *= -1
    inputs.check_magnitude(X)  # each may be that large, and all of them
    for value in (1.01 * most, -1.01 * most, np.nan, np.inf, -np.inf):
        wrong = np.zeros(shape, dtype)
        wrong[-1, -1] = value
        with pytest.raises(ValueError, match="X"):
            inputs.check_magnitude(wrong)
