from __future__ import annotations

import numpy as np
import pytest

from xlda.rank_k import sum_of_outer_products


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 7), (50, 7), (300, 64)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-13)])
def test_it_is_the_matrix_product(dtype, tolerance, n, d, sign, rng):
    rows = rng.normal(size=(n, d)).astype(dtype)
    upper = np.full((d, d), 7, dtype, order="F")  # what was there is overwritten, but not the other triangle
    sum_of_outer_products(rows, sign, upper)
    expected = sign * rows.astype(np.float64).T @ rows.astype(np.float64)
    np.testing.assert_allclose(np.triu(upper), np.triu(expected), atol=tolerance * n)
    assert (upper[np.tril_indices(d, -1)] == 7).all()
