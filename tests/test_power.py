"""power="auto": which power is taken is decided once, by the first samples."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import xlda
from conftest import blobs
from xlda import XLDA


@pytest.fixture
def positive(rng):
    X, y = blobs(rng)
    return np.abs(X), y


def signed(X):
    return X - X.mean()


def test_it_is_the_root_for_embeddings_that_are_never_negative(positive):
    X, y = positive
    clf = XLDA().fit(X, y)
    assert (clf.power, clf.power_) == ("auto", 0.5)
    np.testing.assert_array_equal(clf.decision_function(X), XLDA(power=0.5).fit(X, y).decision_function(X))


def test_it_is_none_for_others(positive):
    X, y = positive
    clf = XLDA().fit(signed(X), y)
    assert clf.power_ is None
    with warnings.catch_warnings(action="error"):
        clf.partial_fit(X, y)  # without a negative value by chance, which says nothing
    assert clf.power_ is None


@pytest.mark.parametrize("power", [None, 0.5, 0.7, 1])
def test_what_one_chooses_is_taken(power, positive):
    X, y = positive
    for embeddings in (X, signed(X)):
        with warnings.catch_warnings(action="error"):
            clf = XLDA(power=power).fit(X, y).partial_fit(embeddings, y)
        assert clf.power_ == power


def test_a_later_batch_of_another_sign_is_a_warning_that_names_the_cure(positive):
    X, y = positive
    clf = XLDA().fit(X, y)
    with pytest.warns(UserWarning, match="have negative values.* chosen 0.5.* start anew with power=None"):
        clf.partial_fit(signed(X), y)
    assert clf.power_ == 0.5
    assert clf.n_samples_seen_ == 2 * len(X)


def test_it_is_decided_by_the_first_samples_and_not_by_names(positive):
    X, y = positive
    clf = XLDA().partial_fit(X[:0], [], classes=np.arange(9))
    assert not hasattr(clf, "power_")
    clf.partial_fit(signed(X), y)
    assert clf.power_ is None
    clf.partial_fit(X, y).predict(X)
    assert XLDA().partial_fit(X[:0], [], classes=np.arange(9)).partial_fit(X, y).power_ == 0.5


def test_samples_that_are_refused_decide_nothing(positive):
    X, y = positive
    clf = XLDA().partial_fit(X[:0], [], classes=np.arange(9))
    with pytest.raises(ValueError, match="inconsistent numbers"):
        clf.partial_fit(signed(X), y[:5])
    assert clf.partial_fit(X, y).power_ == 0.5


def test_fit_decides_anew(positive):
    X, y = positive
    clf = XLDA().fit(X, y)
    assert clf.fit(signed(X), y).power_ is None
    assert clf.fit(X, y).power_ == 0.5


def test_it_is_saved(positive, tmp_path):
    X, y = positive
    for embeddings, power in ((X, 0.5), (signed(X), None)):
        clf = XLDA().fit(embeddings, y)
        clf.save(tmp_path / "m.xlda")
        loaded = xlda.load(tmp_path / "m.xlda")
        assert (loaded.power, loaded.power_) == ("auto", power)
        np.testing.assert_array_equal(loaded.decision_function(embeddings), clf.decision_function(embeddings))
        np.testing.assert_array_equal(
            loaded.partial_fit(embeddings, y).predict(X), clf.partial_fit(embeddings, y).predict(X)
        )


def test_names_without_samples_are_saved_undecided(positive, tmp_path):
    X, y = positive
    XLDA().partial_fit(X[:0], [], classes=np.arange(9)).save(tmp_path / "m.xlda")
    assert xlda.load(tmp_path / "m.xlda").partial_fit(X, y).power_ == 0.5


def test_a_file_that_does_not_say_is_refused(positive, tmp_path):
    from xlda import model_file, storage

    XLDA().fit(*positive).save(tmp_path / "m.xlda")
    sections = storage.read(tmp_path / "m.xlda", model_file.KNOWN)
    for power in ("auto", -1.0, 0.0, True, [0.5]):
        sections["chosen"].info["power"] = power
        storage.write(tmp_path / "m.xlda", list(sections.values()))
        with pytest.raises(ValueError, match=r"m\.xlda"):
            xlda.load(tmp_path / "m.xlda")
    del sections["chosen"]
    storage.write(tmp_path / "m.xlda", list(sections.values()))
    with pytest.raises(ValueError, match="does not say which power was chosen"):
        xlda.load(tmp_path / "m.xlda")


# -- merging


def test_two_powers_are_not_merged(positive):
    X, y = positive
    root, plain = XLDA().fit(X, y), XLDA().fit(signed(X), y)
    for one, other in ((root, plain), (plain, root), (root, XLDA(power=None).fit(X, y))):
        with pytest.raises(ValueError, match="merge needs the same rule, covariance, power"):
            one.merge(other)
        assert one.n_samples_seen_ == len(X)


def test_the_same_power_is_merged_however_it_was_chosen(positive):
    X, y = positive
    merged = XLDA().fit(X[:100], y[:100]).merge(XLDA(power=0.5).fit(X[100:], y[100:]))
    np.testing.assert_allclose(merged.means_, XLDA().fit(X, y).means_)


@pytest.mark.parametrize("named", [False, True])
def test_one_without_samples_takes_the_power_of_the_other(named, positive):
    X, y = positive
    clf = XLDA()
    if named:
        clf.partial_fit(X[:0], [], classes=np.arange(6))
    clf.merge(XLDA().fit(X, y))
    assert clf.power_ == 0.5
    np.testing.assert_array_equal(clf.predict(X), XLDA().fit(X, y).predict(X))
    np.testing.assert_array_equal(clf.partial_fit(X, y).class_count_, 2 * np.bincount(y))


def test_names_alone_can_be_merged_into_any(positive):
    X, y = positive
    names = XLDA().partial_fit(X[:0], [], classes=[70, 71])
    for power in (0.5, None):
        clf = XLDA(power=power).fit(X, y).merge(names)
        assert clf.classes_.tolist() == [*range(6), 70, 71]
        assert XLDA(power=power).merge(names).partial_fit(X, y).power_ == power
