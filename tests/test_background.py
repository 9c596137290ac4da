"""Renewals beside the serving: what is promised while one is under way, and when it takes over."""

import copy
import logging
import os
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from xlda import XLDA, load, renewal, upkeep
from xlda.moments import Moments
from xlda.moments.view import MomentsView

D = 12


def drawn(rng, n_classes, per_class, first=0):
    means = np.random.default_rng(99).normal(size=(500, D)) * 4
    y = np.repeat(np.arange(first, first + n_classes), per_class)
    return means[y] + rng.normal(size=(len(y), D)), y


def wait_for(condition):
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("it never happened")


def is_idle(clf):
    return clf._model.upkeep._renewal is None


@pytest.fixture
def gate(monkeypatch):
    """Heads are made only once it is opened, and it says how many were begun."""

    class Gate(threading.Event):
        n_begun = 0

    opened = Gate()
    new_head = upkeep.new_head

    def made_late(*args, **kwargs):
        opened.n_begun += 1
        if threading.current_thread().name == "xlda-renewal":
            assert opened.wait(20)
        return new_head(*args, **kwargs)

    monkeypatch.setattr(upkeep, "new_head", made_late)
    yield opened
    opened.set()


def started(rng, **parameters):
    """A classifier that serves, and has so much to learn that a renewal is under way."""
    clf = XLDA(background=True, **parameters)
    X, y = drawn(rng, 20, 5)
    clf.partial_fit(X, y).predict(X[:1])
    more, labels = drawn(rng, 20, 6)
    clf.partial_fit(more, labels).predict(X[:1])
    return clf, np.concatenate([X, more]), np.concatenate([y, labels])


# -- a view of the moments


def test_a_view_is_what_the_moments_were_whatever_happens_to_them(rng):
    moments = Moments(D)
    X, y = drawn(rng, 30, 4)
    moments.update(X, y)
    then, view = copy.deepcopy(moments), MomentsView(moments, with_covariance=True)
    moments.update(*drawn(rng, 10, 1))
    moments.update(rng.normal(size=(1, D)), [3])
    moments.forget(X[:40], y[:40])
    moments.join(11, 12)
    moments.drop(15)
    moments.update(*drawn(rng, 200, 2, first=25))  # which needs more memory
    assert view.n_classes == then.n_classes
    np.testing.assert_array_equal(view.counts, then.counts)
    np.testing.assert_array_equal(view.means, then.means)
    np.testing.assert_array_equal(view.covariance(), then.covariance())
    np.testing.assert_array_equal(view.centre(), then.centre())
    point, rows = rng.normal(size=D), np.array([3, 29, 0, 12])
    np.testing.assert_array_equal(view.means_from(point, rows), then.means_from(point, rows))
    assert (view.dof, view.n_seen, view.total) == (then.dof, then.n_seen, then.total)
    assert not np.array_equal(moments.means[:30], then.means)
    copied = view.copied()
    for each in (copied, then):
        each.forget(X[7:9], y[7:9])
    np.testing.assert_array_equal(copied.means, then.means)
    np.testing.assert_allclose(copied.scatter, then.scatter, rtol=1e-12, atol=1e-9)


def test_a_view_that_nobody_looks_at_costs_nothing(rng):
    moments = Moments(D)
    moments.update(*drawn(rng, 5, 2))
    view = MomentsView(moments, with_covariance=False)
    assert list(moments.views) == [view]
    del view
    assert not moments.views


def test_a_mean_that_changes_while_all_are_read_is_as_it_was(rng):
    moments = Moments(D)
    moments.update(rng.normal(size=(30, D)), np.arange(30) % 10)
    view, before = MomentsView(moments, with_covariance=False), moments.means
    moments.update(rng.normal(size=(1, D)), [3])

    class Meanwhile(dict):
        def __getitem__(self, row):
            found = dict.__getitem__(self, row)
            moments.update(rng.normal(size=(1, D)), [7])
            return found

    view._kept = Meanwhile(view._kept)
    np.testing.assert_array_equal(view.means, before)


def test_a_view_read_while_another_thread_learns(rng):
    moments = Moments(D)
    X, y = drawn(rng, 400, 1)
    moments.update(X, y)
    then, view = moments.means, MomentsView(moments, with_covariance=False)
    stop = threading.Event()

    def learn():
        while not stop.is_set():
            moments.update(np.full((400, D), 1e6), np.arange(400))

    thread = threading.Thread(target=learn)
    thread.start()
    try:
        for _ in range(200):
            np.testing.assert_array_equal(view.means, then)
    finally:
        stop.set()
        thread.join()


# -- while a renewal is under way


def test_the_head_there_is_serves_on_and_knows_every_class(rng, gate):
    clf, _, _ = started(rng)
    whitening = clf._current_head().space.whitening
    far = {label: 5 * drawn(rng, 1, 1, first=label)[0] for label in range(30, 60)}
    for label, new in far.items():
        assert clf.partial_fit(new, [label]).predict(new)[0] == label
        assert clf._current_head().space.whitening is whitening  # nothing was inverted meanwhile
    assert gate.n_begun == 2  # the first, and the one under way
    assert not is_idle(clf)
    clf.rename_class(30, 130)
    clf.remove_class(31)
    assert clf.predict(far[30])[0] == 130
    gate.set()
    wait_for(lambda: clf._current_head().space.whitening is not whitening)
    found = [clf.predict(new)[0] for new in far.values()]
    assert found[0] == 130
    assert found[1] != 31
    assert found[2:] == list(range(32, 60))


def test_what_takes_over_is_what_would_have_been_made_in_the_call(rng, gate):
    clf, X, y = started(rng)
    late, labels = drawn(rng, 30, 3)
    clf.partial_fit(late, labels)
    queries = rng.normal(size=(50, D)) * 4
    now = clf.decision_function(queries)
    gate.set()
    wait_for(lambda: is_idle(clf))
    inline = XLDA().partial_fit(X, y)
    inline.predict(X[:1])  # the covariance that the renewal had,
    inline.renew = 1e9
    inline.partial_fit(late, labels)  # and the means that came later
    np.testing.assert_allclose(clf.decision_function(queries), inline.decision_function(queries), rtol=1e-9)
    assert not np.allclose(clf.decision_function(queries), now)


@pytest.mark.parametrize("n_late", [1, renewal.A_FEW + 5])
def test_rows_learned_meanwhile_are_brought_in_once(rng, gate, n_late):
    clf, _, _ = started(rng)
    for label in range(n_late):
        clf.partial_fit(*drawn(rng, 1, 3, first=label))
    wanted = clf.means_.copy()
    gate.set()
    wait_for(lambda: is_idle(clf))
    head = clf._current_head()
    rows = np.arange(20)
    _, new = head.space.with_rows(clf._model.moments, rows, with_priors=False)
    np.testing.assert_allclose(head.all_rows().weights[rows], new.weights, rtol=1e-9)
    np.testing.assert_array_equal(clf.means_, wanted)


def test_the_weight_learned_meanwhile_counts_for_the_next_renewal(rng, gate):
    clf, X, y = started(rng)
    clf.partial_fit(X, y).predict(X[:1])
    gate.set()
    wait_for(lambda: is_idle(clf))
    assert clf._model.upkeep._weight == len(y)


def test_changed_rows_are_brought_among_the_others_beside_the_serving(rng, gate):
    gate.set()
    clf = XLDA(background=True, renew=1e9)
    X, y = drawn(rng, 200, 3)
    clf.partial_fit(X, y).predict(X[:1])
    far = {label: 5 * drawn(rng, 1, 1, first=label)[0] for label in range(200, 300)}
    for label, new in far.items():
        assert clf.partial_fit(new, [label]).predict(new)[0] == label
    wait_for(lambda: is_idle(clf))
    clf.predict(X[:1])
    wait_for(lambda: is_idle(clf))
    assert len(clf._current_head().index.rows) > 200
    for label, new in far.items():
        assert clf.predict(new)[0] == label


def test_a_head_that_nobody_wants_any_more_does_not_take_over(rng, gate):
    clf, X, y = started(rng)
    clf.to_linear()  # renews at once
    head = clf._current_head()
    gate.set()
    time.sleep(0.2)
    assert clf._current_head() is head
    clf.fit(X, y)
    assert clf.predict(X[:1]).shape == (1,)


def test_the_same_calls_give_the_same_bits_where_it_is_not_asked_for(rng):
    X, y = drawn(rng, 20, 8)
    scores = []
    for _ in range(2):
        clf = XLDA()
        for start in range(0, len(y), 16):
            clf.partial_fit(X[start : start + 16], y[start : start + 16])
            clf.predict(X[:2])
        assert is_idle(clf)
        scores.append(clf.decision_function(X))
    np.testing.assert_array_equal(*scores)


# -- copies, failures and ends


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda clf: pickle.loads(pickle.dumps(clf))])
def test_a_copy_has_its_own_renewals(rng, gate, copied):
    clf, _, _ = started(rng)
    other = copied(clf)
    assert is_idle(other)
    gate.set()
    new = np.full((1, D), 77.0)
    assert other.partial_fit(new, [400]).predict(new)[0] == 400
    wait_for(lambda: is_idle(other) and is_idle(clf))
    assert 400 not in clf.classes_


def test_a_failure_is_logged_and_the_head_there_is_serves_on(rng, monkeypatch, caplog):
    clf = XLDA(background=True)
    X, y = drawn(rng, 20, 5)
    clf.partial_fit(X, y).predict(X[:1])

    def fails(*_args, **_kwargs):
        raise MemoryError("there is no more")

    monkeypatch.setattr(upkeep, "new_head", fails)
    with caplog.at_level(logging.ERROR, "xlda"):
        clf.partial_fit(*drawn(rng, 20, 6)).predict(X[:1])
        wait_for(lambda: is_idle(clf))
    assert "there is no more" in caplog.text
    rests = clf._model.upkeep._rest_until, clf._model.upkeep._rest_until_much
    assert min(rests) > time.monotonic() + 30.0  # however much was learned
    new = np.full((1, D), 70.0)
    assert clf.partial_fit(new, [30]).predict(new)[0] == 30
    assert len(caplog.records) == 1  # it is not tried again with every call
    monkeypatch.undo()
    clf._model.upkeep._rest_until = clf._model.upkeep._rest_until_much = 0.0
    whitening = clf._current_head().space.whitening
    clf.partial_fit(new, [30]).predict(new)
    wait_for(lambda: clf._current_head().space.whitening is not whitening)


def test_a_renewal_that_had_to_wait_begins_though_nothing_is_learned_any_more(rng, gate):
    clf, X, y = started(rng)
    gate.set()
    wait_for(lambda: is_idle(clf))
    model, whitening = clf._model, clf._current_head().space.whitening
    model.upkeep._rest_until = time.monotonic() + 0.2
    few = len(X) // 30  # more than a hundredth, so that one is due, and less than a twentieth
    clf.partial_fit(X[:few], y[:few]).predict(X[:1])
    assert is_idle(clf)
    assert clf._current_head().space.whitening is whitening
    wait_for(lambda: clf._current_head().space.whitening is not whitening)
    assert model.upkeep._weight == 0.0
    wait_for(lambda: is_idle(clf))
    n_begun, head = gate.n_begun, clf._current_head()
    model.upkeep._rest_until = 0.0
    clf.predict(X[:1])
    assert (gate.n_begun, clf._current_head()) == (n_begun, head)  # nothing is due any more


@pytest.mark.parametrize("has_rested", [False, True])
def test_a_renewal_waits_less_where_much_was_learned(rng, gate, has_rested):
    clf, X, y = started(rng)
    gate.set()
    wait_for(lambda: is_idle(clf))
    upkeep = clf._model.upkeep
    assert upkeep._rest_until_much < upkeep._rest_until
    upkeep._rest_until = time.monotonic() + 100.0
    upkeep._rest_until_much = 0.0 if has_rested else upkeep._rest_until
    n_begun = gate.n_begun
    clf.partial_fit(X, y).predict(X[:1])
    wait_for(lambda: is_idle(clf))
    assert gate.n_begun == n_begun + (1 if has_rested else 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_serves_and_renews_on_its_own(rng, gate):
    clf, X, y = started(rng)
    child = os.fork()
    if not child:
        try:
            gate.set()
            new = np.full((1, D), 70.0)
            found = clf.partial_fit(new, [30]).predict(new)[0] == 30
            whitening = clf._current_head().space.whitening
            clf.partial_fit(X, y).predict(X[:1])
            wait_for(lambda: clf._current_head().space.whitening is not whitening)
            os._exit(0 if found else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def test_an_interpreter_ends_while_a_renewal_is_under_way(tmp_path):
    code = """
import numpy as np
from xlda import XLDA
rng = np.random.default_rng(0)
X, y = rng.normal(size=(900, 700)), np.arange(900) % 300
clf = XLDA(background=True).partial_fit(X[:600], y[:600])
clf.predict(X[:1])
clf.partial_fit(X, y).predict(X[:1])
assert clf._model.upkeep._renewal is not None
print("ends")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")


def test_it_is_not_saved_and_not_anything_but_yes_or_no(rng, tmp_path):
    X, y = drawn(rng, 5, 3)
    clf = XLDA(background=True).fit(X, y)
    clf.save(tmp_path / "model.xlda")
    assert load(tmp_path / "model.xlda").background is False
    with pytest.raises(ValueError, match="background is True or False; got 'yes'"):
        XLDA(background="yes").fit(X, y)
