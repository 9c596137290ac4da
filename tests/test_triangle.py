from __future__ import annotations

import numpy as np
import pytest

from xlda.moments.triangle import ALIGNED, WIDEST, Triangle, edges


def symmetric(rng, d):
    matrix = rng.normal(size=(d, d))
    return matrix + matrix.T


@pytest.mark.parametrize("d", [1, 2, 16, 17, 351, 352, 353, 800])
def test_it_is_the_matrix(d, rng):
    one, other = symmetric(rng, d), symmetric(rng, d)
    triangle = Triangle.of(one)
    np.testing.assert_array_equal(triangle.matrix(), one)
    apart = triangle.copy()
    triangle += Triangle.of(other)
    np.testing.assert_array_equal(triangle.matrix(), one + other)
    triangle -= Triangle.of(one)
    np.testing.assert_allclose(triangle.matrix(), other, atol=1e-12)
    np.testing.assert_array_equal(apart.matrix(), one)
    triangle.clear()
    assert not triangle.matrix().any()


@pytest.mark.parametrize("d", [0, 1, 352, 353, 1280, 2048, 4096, 5000])
def test_panels_are_of_all_columns_and_none_is_too_wide(d):
    found = edges(d)
    assert found[0] == 0
    assert found[-1] == d
    assert max(np.diff(found), default=0) <= WIDEST
    assert all(edge % ALIGNED == 0 for edge in found[:-1])


def test_it_takes_little_more_than_half_the_memory():
    assert Triangle(4096).nbytes < 0.56 * 4096**2 * 8


def test_a_panel_is_split_into_narrower_ones_in_the_same_memory(rng):
    triangle = Triangle.of(symmetric(rng, 100))
    [panel] = triangle.panels
    pieces = panel.split(3)
    assert [piece.first for piece in pieces] == [0, 48, 96]
    assert [piece.values.shape for piece in pieces] == [(48, 48), (96, 48), (100, 4)]
    for piece in pieces:
        piece.values[:] = 1.0
    np.testing.assert_array_equal(triangle.matrix(), np.ones((100, 100)))
