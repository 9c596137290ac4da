from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from xlda.head.upper_triangle import UpperTriangle


def triangle(rng, d):
    """Well conditioned, so that solving by it can be looked at closely."""
    return np.triu(rng.normal(size=(d, d)) / d**0.5) + 2 * np.eye(d)


@pytest.mark.parametrize("n", [1, 3, 40])
@pytest.mark.parametrize("d", [1, 17, 32, 352, 353, 800])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-4), (np.float64, 1e-11)])
def test_it_multiplies_and_solves_as_the_matrix_does(d, n, dtype, tolerance, rng):
    matrix, rows = triangle(rng, d), rng.normal(size=(n, d))
    upper, given = UpperTriangle.of(matrix, np.dtype(dtype)), rows.astype(dtype)
    found = {
        "matrix": (upper.matrix(), matrix),
        "under": (upper.under(given), rows @ matrix),
        "columns": (upper @ given.T, matrix @ rows.T),
        "solved": (upper.solved(given), np.linalg.solve(matrix, rows.T).T),
    }
    for got, expected in found.values():
        assert got.dtype == dtype
        np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * max(np.abs(expected).max(), 1))
    np.testing.assert_array_equal(given, rows.astype(dtype))  # which are not worked in


def test_what_is_below_the_diagonal_is_left_out_and_its_memory_is_its_own(rng):
    matrix = rng.normal(size=(400, 400))
    upper = UpperTriangle.of(matrix)
    expected = np.triu(matrix)
    matrix[:] = 0.0
    np.testing.assert_array_equal(upper.matrix(), expected)


def test_it_takes_little_more_than_half_the_memory():
    matrix = np.eye(2048, dtype=np.float32)
    assert UpperTriangle.of(matrix).nbytes < 0.6 * matrix.nbytes


def test_it_is_copied_and_pickled(rng):
    upper = UpperTriangle.of(triangle(rng, 400))
    for other in (copy.deepcopy(upper), pickle.loads(pickle.dumps(upper))):
        np.testing.assert_array_equal(other.matrix(), upper.matrix())
