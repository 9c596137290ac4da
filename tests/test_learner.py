"""What a service needs of a learner: without scikit-learn, and without waiting."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.cluster import KMeans

from conftest import blobs
from xlda import XLDA, renewal, upkeep
from xlda.calibration.clusters import clusters
from xlda.learner.learner import Learner

# -- without scikit-learn

WITHOUT = """
import sys, time
import numpy as np
from xlda.learner.learner import Learner
rng = np.random.default_rng(0)
y = np.arange(300) % 10
X = ((rng.normal(size=(10, 8)) * 4)[y] + rng.normal(size=(300, 8))).astype(np.float32)
learner = Learner(background=True).partial_fit(X, y)
learner.snapshot().judge(X[:3])
assert learner.calibrate_if_due(background=True)
while learner._model.calibration is None:
    time.sleep(0.01)
judged = learner.snapshot().judge(X, unknown=0.05, among=[1, 3])
assert set(judged.labels.ravel()) == {1, 3}
assert judged.is_unknown[(y != 1) & (y != 3)].mean() > 0.8
assert not [name for name in sys.modules if name.split(".")[0] == "sklearn"]
"""


def test_a_learner_learns_calibrates_and_judges_without_scikit_learn():
    subprocess.run([sys.executable, "-c", WITHOUT], check=True)


def test_a_snapshot_of_the_estimator_is_one_and_that_of_a_learner_takes_anything_too(rng):
    X, y = blobs(rng, n_classes=4, n_features=6)
    estimator, plain = XLDA().fit(X, y).snapshot(), Learner().fit(X, y).snapshot()
    assert is_classifier(estimator)
    assert estimator.score(X, y) > 0.5
    np.testing.assert_array_equal(estimator.predict(X), plain.predict(X.tolist()))  # by scikit-learn's way


@pytest.mark.parametrize("n_samples", [2, 5, 40, 120])
def test_clusters_are_those_of_scikit_learn(n_samples, rng):
    samples = (rng.normal(size=(4, 12)) * 2)[rng.integers(0, 4, n_samples)] + rng.normal(size=(n_samples, 12))
    n = min(4, n_samples)
    expected = KMeans(n, n_init=1, random_state=0).fit_predict(samples.astype(np.float32))
    np.testing.assert_array_equal(clusters(samples.astype(np.float32), n), expected)


def test_samples_that_are_all_the_same_are_one_cluster():
    assert set(clusters(np.ones((5, 3), np.float32), 4)) == {0}


# -- without waiting


def test_snapshots_beside_learning_never_make_a_head_or_calibrate_themselves(rng, monkeypatch):
    y = np.arange(400) % 20
    X = ((rng.normal(size=(20, 16)) * 4)[y] + rng.normal(size=(400, 16))).astype(np.float32)
    learner = Learner(background=True).partial_fit(X, y)
    learner.snapshot()
    makers, new_head, end = set(), upkeep.new_head, threading.Event()

    def made(*arguments, **parameters):
        makers.add(threading.current_thread().name)
        return new_head(*arguments, **parameters)

    monkeypatch.setattr(upkeep, "new_head", made)
    monkeypatch.setattr(Learner, "calibrate", lambda *_, **__: pytest.fail("it was calibrated"))
    monkeypatch.setattr(renewal, "REST", 0.0)

    def learn():
        for number in range(2000):
            if end.is_set():
                break
            some = slice(number % 400, number % 400 + 1)
            learner.partial_fit(X[some] + 0.1, y[some] if number % 10 else [1000 + number])
            if number % 100 == 50:
                learner.partial_fit(X, y)  # so much that a renewal is due

    thread = threading.Thread(target=learn, name="learning")
    thread.start()
    n_asked = 0
    while thread.is_alive() or n_asked < 50:
        assert learner.snapshot().judge(X[:2]).labels.shape == (2, 5)
        n_asked += 1
    end.set()
    thread.join()
    assert makers == {"xlda-renewal"}


# -- judging among some


def test_judging_among_some_is_predicting_among_them(rng):
    X, y = blobs(rng, n_classes=6, n_features=8)
    clf = XLDA().fit(X, y)
    some = np.unique(y)[1:4]
    judged = clf.judge(X, 2, among=some)
    labels, scores = clf.predict_topk(X, 2, among=some)
    np.testing.assert_array_equal(judged.labels, labels)
    np.testing.assert_array_equal(judged.scores, scores)
    with pytest.raises(ValueError, match="not known"):
        clf.judge(X, among=[10**6])
