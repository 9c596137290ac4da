"""Factors of many small matrices, and inverses of these."""

from __future__ import annotations

import numpy as np
import pytest

from xlda._internal.small_factors import inverse_factors


@pytest.mark.parametrize("m", [1, 20, 21, 64, 65, 128, 131, 300])
def test_factors_give_the_inverse(m, rng):
    rows = rng.standard_normal((3, m, 2 * m))
    matrices = rows @ rows.transpose(0, 2, 1) + np.eye(m)
    factors = inverse_factors(matrices)
    np.testing.assert_array_equal(factors, np.tril(factors))
    np.testing.assert_allclose(factors.transpose(0, 2, 1) @ factors, np.linalg.inv(matrices), atol=1e-9)
