from __future__ import annotations

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from xlda._internal import threads
from xlda.moments.rank_k import add_outer_products


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 7), (50, 7), (3000, 9), (2000, 12), (300, 64), (20, 301)])
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


D = 40
WRONG = {
    "product too small": lambda rows, product, total: (rows, product[:2, :2], total),
    "product another type": lambda rows, product, total: (rows, product.astype(np.float32), total),
    "product in C order": lambda rows, product, total: (rows, product.copy(order="C"), total),
    "product with gaps": lambda rows, product, total: (rows, np.zeros((2 * D, D), order="F")[::2], total),
    "product not to be written": lambda rows, product, total: (rows, np.broadcast_to(0.0, (D, D)), total),
    "total too small": lambda rows, product, total: (rows, product, np.eye(2)),
    "total too narrow": lambda rows, product, total: (rows, product, total[:, :-1]),
    "total another type": lambda rows, product, total: (rows, product, total.astype(np.float32)),
    "total in C order": lambda rows, product, total: (rows, product, np.zeros((D, D))),
    "rows in Fortran order": lambda rows, product, total: (np.asfortranarray(rows), product, total),
    "rows with gaps": lambda rows, product, total: (rows[::2], product, total),
    "rows too narrow": lambda rows, product, total: (rows[:, :2].copy(), product, total),
    "rows of whole numbers": lambda rows, product, total: (rows.astype(np.int64), product, total),
    "one row": lambda rows, product, total: (rows[0], product, total),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_fit_never_reaches_blas(wrong, rng):
    arrays = rng.normal(size=(10, D)), np.zeros((D, D), order="F"), np.zeros((D, D), order="F")
    rows, product, total = WRONG[wrong](*arrays)
    before = total.copy()
    with pytest.raises(ValueError, match=r"add_outer_products needs rows \(n, d\)"):
        add_outer_products(rows, 1, product, total)
    np.testing.assert_array_equal(total, before)


def test_all_panels_are_multiplied_while_another_thread_is_alone_with_the_blas(rng):
    began, end = threading.Event(), threading.Event()

    def beside():
        with threads.alone():
            began.set()
            assert end.wait(20)

    thread = threading.Thread(target=beside)
    thread.start()
    assert began.wait(20)
    try:
        rows = rng.normal(size=(300, 200)).astype(np.float32)
        total = np.zeros((200, 200), order="F")
        add_outer_products(rows, 1, np.zeros((200, 200), np.float32, order="F"), total)
    finally:
        end.set()
        thread.join()
    exact = rows.astype(np.float64)
    np.testing.assert_allclose(np.triu(total), np.triu(exact.T @ exact), rtol=1e-4, atol=1e-3)
