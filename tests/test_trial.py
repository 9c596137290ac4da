from __future__ import annotations

import copy
from contextlib import suppress

import numpy as np
import pytest

from conftest import blobs
from xlda import XLDA
from xlda.moments.restored import arrays_of
from xlda.moments.trial import undone_afterwards


@pytest.fixture
def moments(rng):
    X, rows = blobs(rng, n_samples=300, n_classes=9)
    X = X.astype(np.float32)
    clf = XLDA(check_samples=40, power=None).fit(X, rows)
    return clf._model.moments, X, rows


def state(moments):
    tensors, numbers = arrays_of(moments)
    kept = moments.kept.samples()
    return {**tensors, **numbers, "n_seen": moments.n_seen, "kept": kept.embeddings, "of": kept.rows}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


def test_what_was_forgotten_is_there_again_to_the_bit(moments):
    learned, X, rows = moments
    before, other = state(learned), copy.deepcopy(learned)
    for some in (np.flatnonzero(rows < 3), np.arange(20), np.arange(100, 250)):
        with undone_afterwards(learned, rows[some]):
            learned.forget(X[some], rows[some])
            alone = copy.deepcopy(other)
            alone.forget(X[some], rows[some])
            assert_same(state(learned), state(alone))
        assert_same(state(learned), before)
    learned.update(X[:7], rows[:7])  # and it goes on
    other.update(X[:7], rows[:7])
    np.testing.assert_allclose(learned.scatter, other.scatter, rtol=1e-6, atol=1e-6)


def test_classes_that_were_dropped_are_there_again(moments):
    learned, _, _ = moments
    before = state(learned)
    with undone_afterwards(learned, [2, 5]):
        learned.drop(2)
        learned.drop(5)
        assert learned.n_seen == 7
        assert learned.dof > 0
    assert_same(state(learned), before)


def test_it_is_undone_where_something_fails(moments):
    learned, X, rows = moments
    before = state(learned)
    with suppress(ZeroDivisionError), undone_afterwards(learned, rows):
        learned.forget(X, rows)
        assert not learned.n_seen
        raise ZeroDivisionError
    assert_same(state(learned), before)
