"""No signal cuts a change in two, and no fork leaves a lock held for ever."""
# ruff: noqa: PT012 (a signal is to come in the middle of a block)

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from weakref import WeakSet

import numpy as np
import pytest

import oracle
from conftest import blobs
from xlda import XLDA, upkeep
from xlda._internal import locks as locks_module
from xlda._internal.interrupts import interrupt_afterwards
from xlda._internal.locks import fork_safe_lock
from xlda.labels import Labels
from xlda.learner import learner
from xlda.moments import Moments
from xlda.moments import scatter as module


class AlarmError(Exception):
    """What a handler raises."""


@pytest.fixture
def alarm():
    """SIGALRM raises `AlarmError`, wherever the program is."""

    def ring(number, frame):
        raise AlarmError

    before = signal.signal(signal.SIGALRM, ring)
    yield ring
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_every_handler_waits_for_the_end_and_is_there_again(alarm):
    done = []
    with pytest.raises(AlarmError), interrupt_afterwards():
        signal.raise_signal(signal.SIGALRM)
        done.append("to the end")
    assert done == ["to the end"]
    assert signal.getsignal(signal.SIGALRM) is alarm
    with pytest.raises(KeyboardInterrupt), interrupt_afterwards():
        signal.raise_signal(signal.SIGINT)
        done.append("and again")
    assert len(done) == 2


def test_one_inside_another_waits_for_the_outer_one(alarm):
    done = []
    with pytest.raises(AlarmError), interrupt_afterwards():
        with interrupt_afterwards():
            signal.raise_signal(signal.SIGALRM)
        done.append("after the inner one")
    assert done


def test_an_error_inside_does_not_swallow_the_signal(alarm):
    with pytest.raises(AlarmError) as raised, interrupt_afterwards():
        signal.raise_signal(signal.SIGALRM)
        raise ZeroDivisionError
    assert isinstance(raised.value.__context__, ZeroDivisionError)
    with pytest.raises(AlarmError):
        signal.raise_signal(signal.SIGALRM)


def test_other_threads_are_left_alone():
    done = []

    def work():
        with interrupt_afterwards():
            done.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [1]


def test_handlers_are_there_again_whenever_a_signal_comes():
    is_armed, n_rung = False, 0

    def ring(number, frame):
        nonlocal is_armed
        if is_armed:
            is_armed = False
            raise AlarmError

    before = signal.signal(signal.SIGALRM, ring)
    gc.disable()  # an exception in what others have the garbage collector call would go nowhere
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-4, 7e-5)
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            try:
                is_armed = True
                with interrupt_afterwards():
                    pass
                is_armed = False
            except AlarmError:
                n_rung += 1
            assert signal.getsignal(signal.SIGALRM) is ring
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    assert n_rung > 100


def test_an_exception_from_any_handler_leaves_whole_batches(alarm, rng):
    X, y = blobs(rng, n_samples=8000, n_classes=40, n_features=24, dtype=np.float32)
    n_cut = 0
    for seconds in rng.uniform(2e-4, 8e-3, 40):
        clf = XLDA().partial_fit(X[:50], y[:50])
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            for start in range(50, len(X), 397):
                clf.partial_fit(X[start : start + 397], y[start : start + 397])
            signal.setitimer(signal.ITIMER_REAL, 0)
        except AlarmError:
            n_cut += 1
        n = clf.n_samples_seen_
        assert (n - 50) % 397 == 0 or n == len(X)
        counts, _, covariance = oracle.pooled(X[:n].astype(float), y[:n].tolist())
        assert clf.class_count_.tolist() == [counts[label] for label in clf.classes_]
        np.testing.assert_allclose(clf.covariance_, covariance, atol=1e-4)
    assert n_cut > 10


def test_new_classes_one_by_one_are_cut_between_two_of_them(alarm, rng):
    X, n_cut = rng.normal(size=(3000, 24)).astype(np.float32), 0
    for seconds in rng.uniform(2e-4, 3e-2, 40):
        clf = XLDA().partial_fit(X[:1], [0])
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            for row in range(1, len(X)):
                clf.partial_fit(X[row : row + 1], [row])
            signal.setitimer(signal.ITIMER_REAL, 0)
        except AlarmError:
            n_cut += 1
        n = clf.n_samples_seen_
        assert clf.classes_.tolist() == [*range(n)]
        assert clf.class_count_.tolist() == [1.0] * n
        np.testing.assert_allclose(clf.means_, X[:n], atol=1e-5)
    assert n_cut > 10


def test_a_change_that_fails_in_the_middle_is_told_to_whoever_reads(rng, monkeypatch):
    X, y = blobs(rng)
    clf = XLDA().fit(X, y)

    def no_memory(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(module, "shape_of_work", no_memory)
        with pytest.raises(MemoryError):
            clf.partial_fit(X, y)
    for read in (
        lambda: clf.covariance_,
        lambda: clf.partial_fit(X, y),
        lambda: clf.partial_fit(X[:1], y[:1]),
        lambda: clf.forget(X, y),
    ):
        with pytest.raises(RuntimeError, match="failed in the middle"):
            read()
    assert clf.fit(X, y).n_samples_seen_ == len(X)


def test_moments_that_failed_cannot_be_merged_either():
    moments, torn = Moments(2), Moments(2)
    with pytest.raises(ZeroDivisionError), torn._changing():
        raise ZeroDivisionError
    with pytest.raises(RuntimeError, match="failed in the middle"):
        moments.merge(torn)
    moments.update([[1.0, 2.0]], [0])
    assert moments.counts.tolist() == [1.0]


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def in_a_child(work):
    """Exit code of a forked process that does `work`; None where it is still at it after ten seconds."""
    child = os.fork()
    if not child:
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            os._exit(2)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_another_thread_learns_can_predict_and_learn(rng):
    X, y = blobs(rng, n_samples=4000, n_classes=30, n_features=16)
    clf, stop = XLDA(renew=0).fit(X, y), threading.Event()

    def learn():
        while not stop.is_set():
            clf.partial_fit(X, y)

    learner = threading.Thread(target=learn)
    learner.start()
    try:
        for _ in range(12):
            time.sleep(0.003)
            work = lambda: len(clf.predict(X[:5])) == 5 and clf.partial_fit(X, y).n_samples_seen_ % 4000 == 0  # noqa: E731
            assert in_a_child(work) == 0
    finally:
        stop.set()
        learner.join()


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_lock_that_the_forking_thread_holds_stays_its_own():
    lock = fork_safe_lock()
    with lock:
        assert in_a_child(lambda: lock.acquire()) == 0
    taken = []
    other = threading.Thread(target=lambda: taken.append(lock.acquire()))
    other.start()
    other.join(5)
    assert taken


@pytest.mark.parametrize("n", [1, 100])
def test_a_new_class_comes_with_its_samples_or_not_at_all(n, alarm, rng, monkeypatch):
    clf = XLDA().partial_fit(rng.normal(size=(4, 3)), list("abab"))
    give_rows = Labels.give_rows

    def rung(self, labels):
        signal.raise_signal(signal.SIGALRM)  # it waits for the end of what must not be cut in two
        return give_rows(self, labels)

    monkeypatch.setattr(Labels, "give_rows", rung)
    with pytest.raises(AlarmError):
        clf.partial_fit(rng.normal(size=(n, 3)), ["c"] * n)
        clf.n_samples_seen_  # noqa: B018 - one that waits is learned when somebody looks
    n_of_new = n if "c" in clf.classes_ else 0
    assert clf.n_samples_seen_ == clf.class_count_.sum() == 4 + n_of_new


def test_a_renewal_that_is_cut_short_is_still_due(alarm, rng, monkeypatch):
    embeddings, labels, queries = rng.normal(size=(40, 3)), list("ab") * 20, rng.normal(size=(5, 3))
    clf = XLDA().fit(embeddings, labels).partial_fit(9 * embeddings, labels)
    with monkeypatch.context() as patch, pytest.raises(AlarmError):
        # It is called once there is a head.
        patch.setattr(upkeep, "_n_others", lambda *_: signal.raise_signal(signal.SIGALRM))
        clf.predict(queries)
    anew = XLDA().partial_fit(embeddings, labels).partial_fit(9 * embeddings, labels)
    np.testing.assert_allclose(clf.decision_function(queries), anew.decision_function(queries))


def test_fit_that_a_signal_interrupts_forgets_nothing_or_learns_all(alarm, rng, monkeypatch):
    clf, is_learned = XLDA().fit(rng.normal(size=(4, 3)), list("abab")), learner._is_learned

    def rung(name):
        if name == "batch_keys_":  # the last one
            signal.raise_signal(signal.SIGALRM)
        return is_learned(name)

    monkeypatch.setattr(learner, "_is_learned", rung)
    with pytest.raises(AlarmError):
        clf.fit(rng.normal(size=(6, 3)), list("cdecde"))
    assert "".join(clf.classes_) in ("ab", "cde")


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_two_threads_that_fork_at_once_leave_no_lock_held():
    lock, learning, last = fork_safe_lock(), threading.Event(), fork_safe_lock()

    def hold():
        with lock, last:
            learning.set()
            time.sleep(0.3)  # both forks wait for this

    threads = [
        threading.Thread(target=hold),
        *(threading.Thread(target=in_a_child, args=[lambda: True]) for _ in range(2)),
    ]
    threads[0].start()
    learning.wait()
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one.acquire(timeout=1) for one in (lock, last))


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_while_a_fork_waits_leaves_no_lock_held(alarm):
    locks = [fork_safe_lock() for _ in range(3)]
    learning = threading.Event()

    def hold():
        with locks[1]:
            learning.set()
            time.sleep(0.5)

    learner = threading.Thread(target=hold)
    learner.start()
    learning.wait()
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    in_a_child(lambda: True)
    learner.join()
    taken = []
    other = threading.Thread(target=lambda: taken.extend(lock.acquire(timeout=1) for lock in locks))
    other.start()
    other.join()
    assert taken == [True, True, True]


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_lock_made_while_a_fork_begins_does_no_harm(monkeypatch):
    made = [fork_safe_lock(), fork_safe_lock()]

    class MadeMeanwhile(WeakSet):
        def __iter__(self):
            for lock in super().__iter__():
                if len(made) == 2:
                    made.append(threading.RLock())
                    self.add(made[-1])
                yield lock

    monkeypatch.setattr(locks_module, "_all", MadeMeanwhile(made))
    assert (
        in_a_child(lambda: True) == 0
    )  # or there is an exception that nobody raises, which is an error here
    assert len(made) == 3


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_signals_reach_a_child_that_another_thread_forks():
    codes = []

    def interrupted():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return True

    with interrupt_afterwards():
        forker = threading.Thread(target=lambda: codes.append(in_a_child(interrupted)))
        forker.start()
        forker.join()
    assert codes == [0]
