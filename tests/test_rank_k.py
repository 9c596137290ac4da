from __future__ import annotations

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from xlda._internal import threads
from xlda.moments.rank_k import add_outer_products, shape_of_room
from xlda.moments.triangle import Triangle


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("n", "d"), [(1, 1), (1, 7), (50, 7), (3000, 9), (2000, 12), (300, 64), (20, 301), (40, 1000)]
)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-13)])
def test_it_is_the_matrix_product(dtype, tolerance, n, d, threads, sign, rng):
    rows = rng.normal(size=(n, d)).astype(dtype)
    before = rng.normal(size=(d, d))
    before += before.T
    total = Triangle.of(before)
    with threadpool_limits(threads, user_api="blas"):
        room = np.empty(shape_of_room(d), rows.dtype)
        room[:] = np.nan  # what was there does not matter
        add_outer_products(rows, sign, room, total)
    expected = before + sign * rows.astype(np.float64).T @ rows.astype(np.float64)
    np.testing.assert_allclose(total.matrix(), expected, atol=tolerance * n)


D = 40
WRONG = {
    "room too small": lambda rows, room, total: (rows, room[:, :-1].copy(), total),
    "room of another type": lambda rows, room, total: (rows, np.zeros(room.shape, np.float32), total),
    "room with gaps": lambda rows, room, total: (rows, np.repeat(room, 2, axis=1)[:, ::2], total),
    "room for no thread": lambda rows, room, total: (rows, room[:0], total),
    "room in one row": lambda rows, room, total: (rows, room[0], total),
    "room not to be written": lambda rows, room, total: (rows, np.broadcast_to(0.0, room.shape), total),
    "total too small": lambda rows, room, total: (rows, room, Triangle(2)),
    "total too large": lambda rows, room, total: (rows, room, Triangle(D + 1)),
    "rows in Fortran order": lambda rows, room, total: (np.asfortranarray(rows), room, total),
    "rows with gaps": lambda rows, room, total: (rows[::2], room, total),
    "rows too narrow": lambda rows, room, total: (rows[:, :2].copy(), room, total),
    "rows of whole numbers": lambda rows, room, total: (rows.astype(np.int64), room, total),
    "one row": lambda rows, room, total: (rows[0], room, total),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_fit_never_reaches_blas(wrong, rng):
    arrays = rng.normal(size=(10, D)), np.empty(shape_of_room(D)), Triangle(D)
    rows, room, total = WRONG[wrong](*arrays)
    with pytest.raises(ValueError, match=r"add_outer_products needs rows \(n, d\)"):
        add_outer_products(rows, 1, room, total)
    assert not total.matrix().any()


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
        total = Triangle(200)
        add_outer_products(rows, 1, np.empty(shape_of_room(200), rows.dtype), total)
    finally:
        end.set()
        thread.join()
    exact = rows.astype(np.float64)
    np.testing.assert_allclose(total.matrix(), exact.T @ exact, rtol=1e-4, atol=1e-3)
