from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from xlda.moments.rank_k import add_outer_products


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 7), (50, 7), (300, 64), (20, 301)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-13)])
def test_it_is_the_matrix_product(dtype, tolerance, n, d, threads, sign, rng):
    rows = rng.normal(size=(n, d)).astype(dtype)
    before = rng.normal(size=(d, d))
    total = before.copy(order="F")
    product = np.full((d, d), np.nan, dtype, order="F")  # what was there does not matter
    with threadpool_limits(threads, user_api="blas"):
        add_outer_products(rows, sign, product, total)
    expected = before + sign * rows.astype(np.float64).T @ rows.astype(np.float64)
    np.testing.assert_allclose(np.triu(total), np.triu(expected), atol=tolerance * n)
