"""What benchmarks/dozens.py compares: each method learns a case at once and says what that took."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from cases import Case
from fc_layer import FCLayer, Training, to_convergence
from learners import PLAIN, RandomFeatureRidge

from xlda import XLDA

RATES, DECAYS = (0.001, 0.003), (0.0, 0.1)
STEPS = 15_000  # of training a layer to convergence
SHORT = 1_500  # or 20 epochs, where those are more: too few
CHOOSE_BY = 100  # classes, at most, whose held-out samples choose
RIDGE_CHOOSE_BY = 2_000  # samples, or as many as ten classes have
STRENGTHS = (0.01, 0.1, 1.0)  # of scikit-learn's logistic regression: one over the penalty
MOST_LOGISTIC = 12_000  # samples: beyond, it takes too long

Found = dict[str, float]
Method = Callable[[Case, int], Found]


def methods(lifts: Sequence[int], second_looks: Sequence[int]) -> dict[str, Method]:
    """All of them by name."""
    found: dict[str, Method] = {"plain LDA": partial(streaming, **PLAIN), "XLDA": streaming}
    for n_rows in second_looks:
        found[f"XLDA, second_look={n_rows}"] = partial(streaming, second_look=n_rows)
    for width in lifts:
        found[f"XLDA, lift={width}"] = partial(streaming, lift=width)
    found["FC"] = partial(layer, change=_as_they_are)
    found["FC, square root"] = partial(layer, change=_roots)
    found["FC, standardised square root"] = partial(layer, change=_roots, is_standardised=True)
    for name in ("FC", "FC, square root", "FC, standardised square root"):
        found[f"{name}, 20 epochs"] = partial(found[name], steps=SHORT)
    found["ridge on random features"] = ridge
    found["logistic regression"] = logistic
    return found


def streaming(case: Case, seed: int, **parameters: Any) -> Found:
    """XLDA, in one pass."""
    clf = XLDA(**parameters)
    begin = time.perf_counter()
    clf.fit(case.X, case.rows)
    clf.predict(case.queries[:1])
    seconds = time.perf_counter() - begin
    return told(case, clf.predict(case.queries), seconds, sum(clf.memory().values()))


def layer(
    case: Case,
    seed: int,
    change: Callable[[np.ndarray], np.ndarray],
    is_standardised: bool = False,
    steps: int = STEPS,
) -> Found:
    """An FC layer to convergence; rate and weight decay are the best for held-out samples of some classes."""
    X, queries = change(case.X), change(case.queries)
    if is_standardised:
        mean, spread = X.mean(axis=0), X.std(axis=0) + 1e-6
        X, queries = (X - mean) / spread, (queries - mean) / spread
    how = chosen_training(X, case.rows, seed, steps)
    fc = FCLayer(case.n_classes, X.shape[1], seed)
    seconds = fc.train(X, case.rows, how)
    found = told(case, fc.predict(queries), seconds, fc.nbytes + X.nbytes)
    return {**found, "rate": how.rate, "decay": how.decay}


def chosen_training(X: np.ndarray, rows: np.ndarray, seed: int, steps: int = STEPS) -> Training:
    """The best of some rates and weight decays."""
    some = np.flatnonzero(rows < CHOOSE_BY)
    known, held = split(rows[some], seed)
    known, held = some[known], some[held]
    usual, right = to_convergence(len(rows), steps=steps), {}
    for rate in RATES:
        for decay in DECAYS:
            trial = to_convergence(len(known), steps=steps)
            how = Training(rate, trial.epochs, trial.batch, decay)
            fc = FCLayer(int(rows[some].max()) + 1, X.shape[1], seed)
            fc.train(X[known], rows[known], how)
            right[rate, decay] = int((fc.predict(X[held]) == rows[held]).sum())
    rate, decay = max(right, key=lambda pair: right[pair])
    return Training(rate, usual.epochs, usual.batch, decay)


def split(rows: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Samples to learn, and a quarter of each class, or one sample of it, to choose by."""
    rng = np.random.default_rng(seed)
    known, held = [], []
    for row in np.unique(rows):
        members = rng.permutation(np.flatnonzero(rows == row))
        n = max(len(members) // 4, 1) if len(members) > 1 else 0
        held.append(members[:n])
        known.append(members[n:])
    return np.concatenate(known), np.concatenate(held)


class AtOnce(Case):
    """A case whose first group is that by which the ridge is chosen."""

    def groups(self) -> list[np.ndarray]:
        """One group, of the first classes."""
        per_class = len(self.rows) // self.n_classes
        return [np.arange(min(max(RIDGE_CHOOSE_BY // per_class, 10), self.n_classes))]


def ridge(case: Case, seed: int) -> Found:
    """Ridge regression on random features, over square roots."""
    rooted = AtOnce(_roots(case.X), case.rows, _roots(case.queries), case.query_rows, case.n_classes)
    begin = time.perf_counter()
    learner = RandomFeatureRidge(rooted, seed)
    for start in range(0, len(rooted.X), 4096):
        learner.learn(rooted.X[start : start + 4096], rooted.rows[start : start + 4096])
    learner.end_of_group()
    seconds = time.perf_counter() - begin
    answers = learner.predict(rooted.queries, np.ones(case.n_classes, bool))
    return told(case, answers, seconds, learner.nbytes)


def logistic(case: Case, seed: int) -> Found:
    """Multinomial logistic regression of scikit-learn over standardised square roots, penalty chosen."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    if len(case.rows) > MOST_LOGISTIC:
        return {"right": float("nan"), "seconds": float("nan"), "bytes": float("nan")}
    scaler = StandardScaler().fit(_roots(case.X))
    X, queries = (scaler.transform(_roots(some)) for some in (case.X, case.queries))
    some = np.flatnonzero(case.rows < CHOOSE_BY)
    known, held = split(case.rows[some], seed)
    known, held = some[known], some[held]
    scores = {
        C: LogisticRegression(C=C, max_iter=200, tol=1e-3)
        .fit(X[known], case.rows[known])
        .score(X[held], case.rows[held])
        for C in STRENGTHS
    }
    best = max(scores, key=lambda C: scores[C])
    begin = time.perf_counter()
    model = LogisticRegression(C=best, max_iter=200, tol=1e-3).fit(X, case.rows)
    seconds = time.perf_counter() - begin
    return told(case, model.predict(queries), seconds, model.coef_.nbytes + X.nbytes)


def told(case: Case, answers: np.ndarray, seconds: float, kept: int) -> Found:
    """What is stored of a run."""
    return {"right": int((answers == case.query_rows).sum()), "seconds": seconds, "bytes": kept}


def _as_they_are(X: np.ndarray) -> np.ndarray:
    return X


def _roots(X: np.ndarray) -> np.ndarray:
    return np.sign(X) * np.sqrt(np.abs(X))
