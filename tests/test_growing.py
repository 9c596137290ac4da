"""Arrays that grow: what they hold, what they copy, and what memory they take."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import oracle
import xlda
from xlda import XLDA
from xlda._internal import growing
from xlda.moments import Moments

WIDTH = 1024  # numbers a row: 4 KiB
KNOWS_ADDRESS_SPACE = growing._address_space() > 0
reserves = pytest.mark.skipif(not KNOWS_ADDRESS_SPACE, reason="address space is not free here")
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def resident():
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(params=["reserved", "doubled"])
def growth(request, monkeypatch):
    """Large arrays are those of more than two rows, and are reserved, or not."""
    if request.param == "reserved" and not KNOWS_ADDRESS_SPACE:
        pytest.skip("address space is not free here")
    monkeypatch.setattr(growing, "MOST_COPIED", 2 * 4 * WIDTH)
    if request.param == "doubled":
        monkeypatch.setattr(growing, "_address_space", lambda: 0)
    return request.param


@pytest.fixture
def n_copied(monkeypatch):
    """Bytes of each copy that is made of rows."""
    sizes, copied = [], growing.copied

    def noted(array, *args, **kwargs):
        sizes.append(array.nbytes)
        return copied(array, *args, **kwargs)

    monkeypatch.setattr(growing, "copied", noted)
    return sizes


def test_rows_stay_and_those_behind_them_are_zero(growth, rng):
    expected = rng.normal(size=(40, WIDTH)).astype(np.float32)
    array = np.empty((0, WIDTH), np.float32)
    for row in range(40):
        array = growing.lengthened(array, row + 1)
        assert not array[row].any()
        array[row] = expected[row]
        np.testing.assert_array_equal(array[: row + 1], expected[: row + 1])


@reserves
def test_nothing_large_is_ever_copied(n_copied):
    array = np.empty((0, WIDTH), np.float32)
    for row in range(3 * growing.MOST_COPIED // (4 * WIDTH)):
        array = growing.lengthened(array, row + 1)
        array[row] = row
    np.testing.assert_array_equal(array[: row + 1, -1], np.arange(row + 1))
    assert 2 < len(n_copied) < 30
    assert max(n_copied) <= growing.MOST_COPIED


@reserves
@linux
def test_what_is_reserved_takes_no_memory():
    before = resident()
    arrays = [growing.with_room((5000, WIDTH), np.float32) for _ in range(20)]
    arrays[0][:] = 1
    longer = growing.lengthened(arrays[0], 5001)
    longer[5000] = 2
    assert np.shares_memory(longer, arrays[0])
    assert resident() - before < 2 * arrays[0].nbytes


@reserves
@linux
def test_a_process_with_several_of_them_can_fork():
    program = (
        "import os, numpy as np\n"
        "from xlda._internal import growing\n"
        "arrays = [growing.with_room((5000, 1024), np.float32) for _ in range(5)]\n"
        "child = os.fork()\n"
        "if not child: os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.stdout == "7\n", ended.stderr


@linux
def test_where_address_space_is_limited_none_is_reserved():
    program = (
        "import resource\n"
        "from xlda._internal import growing\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34))\n"
        "print(growing._address_space(), growing.with_room((5000, 1024), 'f4').shape)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.stdout == "0 (5000, 1024)\n", ended.stderr


def test_memory_that_cannot_be_reserved_is_had_as_ever(monkeypatch):
    monkeypatch.setattr(growing, "_address_space", lambda: 2**62)
    assert growing.with_room((5000, WIDTH), np.float32).shape == (5000, WIDTH)


def test_only_the_first_rows_of_a_memory_grow_into_it(growth):
    array = growing.with_room((10, WIDTH), np.float32)
    array[:] = 1
    for part in (array[3:], array[:, ::2], array[::2], array[:1, :512]):
        longer = growing.lengthened(part, 11)
        assert not np.shares_memory(longer, array)
        np.testing.assert_array_equal(longer[: len(part)], part)
        assert not longer[len(part) :].any()


# -- class means


def learned(n_classes, dtype=np.float32):
    X = np.random.default_rng(3).normal(size=(2 * n_classes, WIDTH)).astype(dtype)
    return X, np.arange(2 * n_classes) % n_classes


def saved(clf, tmp_path):
    clf.save(tmp_path / "model")
    return xlda.load(tmp_path / "model")


WAYS = {
    "as it is": lambda clf, tmp_path: clf,
    "copied": lambda clf, tmp_path: copy.deepcopy(clf),
    "pickled": lambda clf, tmp_path: pickle.loads(pickle.dumps(clf)),
    "saved": saved,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_new_class_finds_room(way, growth, n_copied, tmp_path):
    X, y = learned(30)
    clf = WAYS[way](XLDA(power=None).partial_fit(X[:50], y[:50]), tmp_path)
    clf.classes_  # noqa: B018 - all that waits is in the moments
    n_copied.clear()
    clf.partial_fit(X[50:], y[50:]).partial_fit(X[:1], [99]).partial_fit(X[1:2], [100])
    counts, means, covariance = oracle.pooled(np.concatenate([X, X[:2]]), [*y.tolist(), 99, 100])
    assert clf.class_count_.tolist() == list(counts.values())
    np.testing.assert_allclose(clf.means_, list(means.values()), atol=1e-5)
    np.testing.assert_allclose(clf.covariance_, covariance, atol=1e-4)
    if growth == "reserved":
        assert max(n_copied, default=0) <= growing.MOST_COPIED


@pytest.mark.parametrize("half", [False, True])
def test_wider_numbers_and_more_classes(half, growth):
    moments = Moments(WIDTH, half=half)
    moments.update(np.full((20, WIDTH), 0.5, np.float32), np.arange(20))
    moments.update(np.full((20, WIDTH), 1.5), np.arange(10, 30))
    np.testing.assert_array_equal(moments.means[:, 0], np.repeat([0.5, 1.0, 1.5], 10))
    assert moments.nbytes["class means"] < 30 * WIDTH * (2 if half else 8) + 8 * 64


def test_a_pickle_has_what_is_used_and_no_more(growth):
    moments = Moments(WIDTH)
    moments.update(np.ones((33, WIDTH), np.float32), np.arange(33))
    others = moments.scatter.nbytes
    assert len(pickle.dumps(moments)) < others + 34 * 4 * WIDTH + 10_000
