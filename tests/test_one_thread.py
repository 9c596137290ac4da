from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from xlda._internal.one_thread import ALONE, inner_products, times_vector

OTHERS_WORK = """
import time
import numpy as np
from threadpoolctl import threadpool_info
from xlda._internal.one_thread import times_vector
from xlda.head.near_spread import near_spread

threads = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
matrix, vector = np.ones((20_000, 96), np.float32), np.ones(96, np.float32)
by_columns = np.asfortranarray(matrix)
Y = np.random.default_rng(0).standard_normal((1, 8, 16, 698)).astype(np.float32)
u, squares, worth = Y[0, 0, None].repeat(2, 1), np.full((1, 32), 698.0), np.ones((1, 32))
is_there = worth[:, :8] > 0


def share_of_others(product):
    for warm in range(3):
        product()
    time.sleep(0.3)  # threads of the BLAS go on spinning for a while
    in_all, here = time.process_time(), time.thread_time()
    for again in range(200):
        product()
    return (time.process_time() - in_all) / (time.thread_time() - here) - 1


print(max(threads, default=1), share_of_others(lambda: {product}))
"""


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("n_rows", "width"),
    [(0, 3), (1, 1), (ALONE // 64, 64), (ALONE // 64 + 1, 64), (3 * (ALONE // 97) + 5, 97), (3, ALONE)],
)
def test_it_is_the_product_summed_in_64_bits(n_rows, width, dtype, order):
    rng = np.random.default_rng(n_rows + width)
    matrix = np.asarray(rng.standard_normal((n_rows, width)), dtype, order=order)
    vector = rng.standard_normal(width).astype(dtype)
    expected = (matrix.astype(np.float64) * vector).sum(axis=1)
    product = times_vector(matrix, vector)
    assert product.dtype == dtype
    np.testing.assert_allclose(product, expected, atol=width**0.5 * 4e-6)


@pytest.mark.parametrize(
    "product",
    [
        "times_vector(matrix, vector)",
        "times_vector(by_columns, vector)",
        "near_spread(Y, u, squares, worth, is_there)",
    ],
)
def test_no_other_thread_works_for_it(product):
    unlimited = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    asked = [sys.executable, "-c", OTHERS_WORK.format(product=product)]
    said = subprocess.run(asked, env=unlimited, check=True, capture_output=True, text=True).stdout.split()
    if int(said[0]) < 2:
        pytest.skip("the BLAS has one thread here")
    assert float(said[1]) < 0.1


@pytest.mark.parametrize(
    ("n", "a", "b", "width"),
    [(1, 80, 80, 462), (3, 80, 21, 5000), (2, 200, 130, 99), (20, 80, 80, 100), (0, 4, 4, 4)],
)
def test_inner_products_are_those_of_float64(n, a, b, width, rng):
    left, right = rng.standard_normal((n, a, width)), rng.standard_normal((n, b, width))
    wanted = np.einsum("nap,nbp->nab", left, right)
    np.testing.assert_allclose(inner_products(left, right), wanted, atol=1e-9)


@pytest.mark.parametrize(("n", "a", "width"), [(1, 130, 698), (2, 256, 256), (20, 130, 50)])
def test_products_of_vectors_with_themselves_are_those_of_float64(n, a, width, rng):
    vectors = rng.standard_normal((n, width, a)).transpose(0, 2, 1)
    wanted = np.einsum("nap,nbp->nab", vectors, vectors)
    np.testing.assert_allclose(inner_products(vectors, vectors), wanted, atol=1e-9)
