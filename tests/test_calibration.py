"""How sure answers are, and what is unknown."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

import oracle
import xlda
from conftest import lda
from test_bayes import unequal
from xlda import XLDA
from xlda.calibration import figures
from xlda.calibration.calibration import FEWEST, Calibration
from xlda.calibration.evidence import Evidence, padded
from xlda.calibration.folds import random_folds, visit_folds, without_classes, without_samples
from xlda.calibration.share import Share
from xlda.errors import UnknownClassError
from xlda.head.nearness import nearness
from xlda.moments.restored import arrays_of

N_CLASSES, D = 40, 12


def drawn(rng, n_classes=N_CLASSES, per_class=12, spread=1.5, dtype=np.float32):
    """Classes, and as many samples of each again to ask for, float16 holds them all."""
    means = spread * rng.normal(size=(n_classes, D))
    y = np.repeat(np.arange(n_classes), 2 * per_class)
    X = (means[y] + rng.normal(size=(len(y), D))).astype(np.float16).astype(dtype)
    asked = np.arange(len(y)) % 2 == 0
    return X[~asked], y[~asked], X[asked], y[asked]


@pytest.fixture
def data(rng):
    return drawn(rng)


@pytest.fixture
def clf(data):
    return XLDA(power=None, like="same").fit(*data[:2])


# -- scores


@pytest.mark.parametrize("counts", [[6, 1, 2, 3, 9], [1, 2, 5, 9] * 20])
def test_beside_a_class_without_samples_scores_are_ratios_of_densities(counts, rng):
    X, y, queries = unequal(rng, counts, 6)
    clf = XLDA(power=None, renew=0).fit(X, y)
    n, means, covariance = oracle.pooled(X, y.tolist())
    n = np.array(list(n.values()), float)
    W = oracle.whitened(covariance, "auto", n.sum() - len(n))
    k = np.array(list(means.values())) @ W
    centre, directions, psi, _, _ = oracle.class_spread(k, n, W.T @ covariance @ W)
    z = (queries @ W - centre) @ directions
    unknown = -0.5 * (z**2 / (1 + psi) + np.log(1 + psi)).sum(axis=1)
    known = oracle.log_densities(queries, list(means.values()), n, covariance, n.sum() - len(n))
    head = clf._current_head()
    got = head.scores(queries) - head.top_and_unknown(queries, 1)[2][:, None]
    np.testing.assert_allclose(got, known - unknown[:, None], atol=1e-6)
    best = np.sort(got, axis=1)[:, ::-1]
    np.testing.assert_allclose(clf.score_samples(queries), best[:, 0] + 0.25 * (best[:, 0] - best[:, 1]))


def test_what_lies_far_outside_of_all_classes_is_not_known(rng):
    """Classes differ in two of 40 directions; along the others, their samples are alike."""
    means = np.zeros((30, 40))
    means[:, :2] = 5 * rng.normal(size=(30, 2))
    y = np.repeat(np.arange(30), 10)
    clf = XLDA(power=None).fit(means[y] + rng.normal(size=(300, 40)), y)
    queries = means[y] + rng.normal(size=(300, 40))
    away = queries.copy()
    away[:, 5] += 60
    assert clf.score_samples(away).max() < np.quantile(clf.score_samples(queries), 0.01)


# -- folds


def moments_of(clf):
    return clf._model.moments


def dense_head(clf):
    table = clf._model.labels.table()
    return lambda moments: clf._scoring().dense_head(moments, table, None)


def refitted(X, y, queries, of_row):
    """Scores of a classifier fitted anew, in the columns of these labels."""
    clf = XLDA(power=None, renew=0).fit(X, y)
    head = clf._current_head()
    scores = head.scores(queries) - head.top_and_unknown(queries, 1)[2][:, None]
    wide = np.full((len(queries), len(of_row)), -np.inf)
    wide[:, clf._model.labels.table().names.astype(int)] = scores
    return wide


def test_a_fold_that_is_taken_out_is_as_if_never_learned(rng):
    X, y, _, _ = drawn(rng, n_classes=8, dtype=np.float64)
    clf = XLDA(power=None).fit(X, y)
    moments = moments_of(clf)
    kept = moments.kept.samples()
    before = arrays_of(moments)[0]["scatter"].copy()
    folds = random_folds(kept, moments.total, moments.n_seen)
    n_scored = 0
    for number, scored in enumerate(without_samples(moments, kept, folds, dense_head(clf))):
        out = folds.of_sample == number
        gone = {one.tobytes() for one in kept.embeddings[out].astype(np.float64)}
        stays = np.array([one.tobytes() not in gone for one in X])
        queries = kept.embeddings[scored.places].astype(np.float64)
        wanted = refitted(X[stays], y[stays], queries, np.arange(8))
        got = np.take_along_axis(wanted, scored.best, axis=1)
        np.testing.assert_allclose(scored.scores, got, rtol=1e-6, atol=1e-6)
        n_scored += len(scored.places)
    assert n_scored == len(kept.rows) == len(X)
    np.testing.assert_array_equal(arrays_of(moments)[0]["scatter"], before)


def test_samples_of_a_class_that_is_taken_out_are_scored_by_the_others(rng):
    X, y, _, _ = drawn(rng, n_classes=10, dtype=np.float64)
    clf = XLDA(power=None).fit(X, y)
    moments = moments_of(clf)
    kept = moments.kept.samples()
    seen = np.zeros(len(kept.rows), int)
    for scored in without_classes(moments, kept, dense_head(clf)):
        gone = np.unique(kept.rows[scored.places])
        assert not np.isin(scored.best, gone).any()
        removed = XLDA(power=None, renew=0).fit(X, y)
        for row in gone:
            removed.remove_class(int(row))
        queries = kept.embeddings[scored.places].astype(np.float64)
        head = removed._current_head()
        best = head.scores(queries).max(axis=1) - head.top_and_unknown(queries, 1)[2]
        np.testing.assert_allclose(scored.scores[:, 0], best, rtol=1e-6, atol=1e-6)
        seen[scored.places] += 1
    assert (seen == 1).all()


def test_folds_spread_every_class_and_keep_groups_together(rng):
    X, y, _, _ = drawn(rng)
    groups = np.arange(len(y)) % 3
    clf = XLDA(power=None).partial_fit(X, y, groups=groups)
    kept = moments_of(clf).kept.samples()
    folds = random_folds(kept, 10 * len(y), 10)
    largest = np.bincount(kept.rows).max()
    assert folds.n == min(10, largest)
    per_class = np.array(
        [np.bincount(folds.of_sample[kept.rows == row], minlength=folds.n) for row in range(40)]
    )
    assert (np.ptp(per_class, axis=1) <= 1).all()
    assert random_folds(kept, len(y), 10).n == 10  # or too much would be taken out at once
    assert random_folds(kept, 10 * len(y), 40_000).n == 3  # among so many classes each fold takes long
    by_group = visit_folds(kept)
    for row in range(3):
        of_class = kept.rows == row
        pairs = set(zip(kept.groups[of_class].tolist(), by_group.of_sample[of_class].tolist(), strict=True))
        assert len(pairs) == 3
    plain = visit_folds(moments_of(XLDA(power=None).fit(X, y)).kept.samples())
    assert len(np.unique(plain.of_sample)) == 4


# -- figures


def evidence(scores, place, counts=None, weights=None):
    n = len(scores)
    counts = np.full(n, 9.0) if counts is None else counts
    weights = np.ones(n) if weights is None else weights
    nobody = np.full(len(scores), -1)
    return Evidence(padded(scores), np.asarray(place), counts, weights, nobody, nobody)


@pytest.mark.parametrize("wanted", [0.5, 3.0, 20.0])
def test_the_temperature_is_found_again(wanted, rng):
    scores = -np.sort(-wanted * 2 * rng.normal(size=(20_000, 8)), axis=1)
    chances = softmax(scores / wanted, axis=1)
    place = (rng.random(len(scores))[:, None] > np.cumsum(chances, axis=1)).sum(axis=1)
    found = figures.temperature(evidence(scores, place))
    assert found == pytest.approx(wanted, rel=0.05)
    line = figures.correction(evidence(scores, place), found)
    assert (line.at_zero, line.slope) == (pytest.approx(0, abs=0.1), pytest.approx(1, abs=0.1))
    best = figures.shares(scores, found)[:, 0]
    assert figures.calibration_error(best, place == 0, np.ones(len(best))) < 0.02
    raw = figures.shares(scores, wanted / 10)[:, 0]
    assert figures.calibration_error(raw, place == 0, np.ones(len(best))) > 0.1


def test_weights_count_as_repetitions(rng):
    scores = -np.sort(-rng.normal(size=(300, 5)), axis=1)
    place, times = rng.integers(0, 3, 300), rng.integers(1, 4, 300)
    weighted = evidence(scores, place, weights=times.astype(float))
    repeated = evidence(np.repeat(scores, times, axis=0), np.repeat(place, times))
    assert figures.temperature(weighted) == pytest.approx(figures.temperature(repeated), rel=1e-3)


def test_probabilities_that_are_corrected_add_up_and_keep_their_order(rng):
    p = -np.sort(-rng.dirichlet(np.full(6, 0.3), 500), axis=1)
    p[0] = [1, 0, 0, 0, 0, 0]
    for line in (
        figures.Line(-3.0, 0.4),
        figures.Line(2.0, 1.5),
        figures.Line(1.0, 1.0, 0.9),
        figures.AS_IT_IS,
    ):
        got = figures.corrected(p, line)
        np.testing.assert_allclose(got.sum(axis=1), 1)
        assert (got[:, 0] > got[:, 1]).all()
        assert (np.diff(got[:, 1:], axis=1) <= 1e-12).all()
    np.testing.assert_allclose(figures.corrected(p, figures.AS_IT_IS)[1:], p[1:], atol=1e-5)


def test_probabilities_add_up_however_sure_the_best_is():
    p = figures.shares(-np.linspace(0, 40, 400)[:, None] * np.arange(3.0), 1.0)
    got = figures.corrected(p, figures.Line(0.5, 1.0, 0.9))
    np.testing.assert_allclose(got.sum(axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize("model", ["bayes", "lda"])
def test_more_classes_can_be_asked_for_than_share_a_probability(rng, model):
    X, y = rng.normal(size=(120, 5)), np.arange(120) % 30
    clf = XLDA(model=model).fit(X, y)
    judged = clf.judge(X[:4], 25)
    assert judged.labels.shape == judged.scores.shape == judged.probabilities.shape == (4, 25)
    np.testing.assert_allclose(judged.probabilities[:, :20].sum(axis=1), 1)
    np.testing.assert_array_equal(judged.probabilities[:, 20:], 0)
    labels, probabilities = clf.predict_topk(X[:4], 25, proba=True)
    np.testing.assert_array_equal(labels, judged.labels)
    np.testing.assert_array_equal(probabilities, judged.probabilities)


def test_a_best_class_may_be_as_unlikely_as_it_is_wanted():
    p = np.array([[0.45, 0.40, 0.10, 0.05], [0.3, 0.3, 0.2, 0.2]])
    got = figures.corrected(p, figures.Line(-0.5, 0.5))
    wanted = 1 / (1 + np.exp(0.5 - 0.5 * np.log(p[:, 0] / (1 - p[:, 0]))))
    np.testing.assert_allclose(got[:, 0], wanted, atol=1e-4)
    assert (got[:, 0] > got[:, 1]).all()
    alike = figures.corrected(p, figures.Line(-9.0, 0.5))
    np.testing.assert_allclose(alike, 0.25, atol=1e-4)  # less likely than the others it cannot be
    assert (alike[:, 0] > alike[:, 1]).all()


@pytest.mark.parametrize("end", [1.0, 0.93])
def test_answers_that_are_wrong_however_sure_do_not_make_the_others_less_sure(rng, end):
    lead = rng.exponential(4.0, (20_000, 1))  # of the best of two classes, in units of their logits
    scores = np.concatenate([np.full_like(lead, 30.0), 30.0 - lead], axis=1)
    is_right = rng.random(len(lead)) < end / (1 + np.exp(-lead[:, 0]))
    told = figures.correction(evidence(scores, np.where(is_right, 0, 1)), temperature=1.0)
    assert told.at_zero == pytest.approx(0.0, abs=0.15)
    assert told.slope == pytest.approx(1.0, abs=0.15)
    assert told.most == pytest.approx(end, abs=0.01)


@pytest.mark.parametrize(("n", "share"), [(19, 0.05), (20, 0.05), (99, 0.1), (1000, 0.033)])
def test_the_threshold_is_that_of_conformal_prediction(n, share, rng):
    scores = rng.normal(size=n)
    rank = int(np.floor(share * (n + 1)))
    wanted = np.sort(scores)[rank - 1] if rank else -np.inf
    assert figures.threshold(scores, np.ones(n), share) == wanted


def test_classes_of_few_samples_have_a_threshold_of_their_own_where_there_is_enough(rng):
    scores = np.concatenate(
        [rng.normal(0, 1, (400, 1)), rng.normal(50, 1, (400, 1)), rng.normal(9, 1, (5, 1))]
    )
    counts = np.repeat([1.0, 30.0, 4.0], [400, 400, 5])
    thresholds = figures.Thresholds.of(evidence(scores, np.zeros(805), counts), 0.05)
    poor, rich, other = thresholds.at(np.array([1.0, 30.0, 4.0]))
    assert -3 < poor < 0 < 45 < rich < 50
    assert other == thresholds.common


def test_the_odds_of_being_known_are_those_of_logistic_regression(rng):
    known, unknown = rng.normal(30, 10, (900, 1)), rng.normal(10, 10, (300, 1))
    line = figures.known_line(evidence(known, np.zeros(900)), evidence(unknown, np.full(300, -1)))
    X = np.concatenate([known, unknown])
    y = np.arange(1200) < 900
    fitted = LogisticRegression(C=1e9, class_weight="balanced", tol=1e-8).fit(X, y)
    np.testing.assert_allclose(line.of(X[:, 0]), fitted.predict_proba(X)[:, 1], atol=0.03)


# -- as it is used


def test_probabilities_mean_what_they_say(clf, data):
    _, _, queries, truth = data
    p = clf.predict_proba(queries)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(clf.classes_[p.argmax(axis=1)], clf.predict(queries))
    best, right = p.max(axis=1), clf.predict(queries) == truth
    assert 0.5 < right.mean() < 0.97
    assert best.mean() == pytest.approx(right.mean(), abs=0.05)
    assert figures.calibration_error(best, right, np.ones(len(best))) < 0.06
    labels, shares = clf.predict_topk(queries, 3, proba=True)
    np.testing.assert_allclose(shares, -np.sort(-p, axis=1)[:, :3])
    np.testing.assert_array_equal(labels[:, 0], clf.predict(queries))
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(clf.predict_log_proba(queries), np.log(p))


def test_so_many_of_the_known_are_rejected_as_one_says(clf, data, rng):
    queries = data[2]
    for share in (0.05, 0.2):
        rejected = np.array([label is None for label in clf.predict(queries, unknown=share)])
        assert 0.4 * share < rejected.mean() < 1.6 * share
    strange = drawn(np.random.default_rng(5), spread=8.0)[0]
    rejected = np.array([label is None for label in clf.predict(strange, unknown=0.05)])
    assert rejected.mean() > 0.9
    assert clf.p_known(strange).mean() < 0.1
    assert clf.p_known(queries).mean() > 0.6
    assert (clf.p_known(queries, unknown_prior=0.99) < clf.p_known(queries)).all()


def test_the_unknown_has_a_label_or_none(clf, data):
    queries = data[2]
    plain = clf.predict(queries)
    objects = clf.predict(queries, unknown=0.2)
    assert objects.dtype == object
    rejected = np.array([label is None for label in objects])
    assert (objects[~rejected] == plain[~rejected]).all()
    numbers = clf.predict(queries, unknown=0.2, unknown_label=-1)
    assert numbers.dtype == np.int64
    np.testing.assert_array_equal(numbers, np.where(rejected, -1, plain))
    labels, _ = clf.predict_topk(queries, 2, unknown=0.2, unknown_label=-1)
    assert ((labels == -1).all(axis=1) == rejected).all()
    named = XLDA(power=None, like="same").fit(data[0], np.char.mod("c%d", data[1]))
    texts = named.predict(queries, unknown=0.2, unknown_label="something else entirely")
    assert 0.5 < (texts == "something else entirely").sum() / rejected.sum() < 2
    for wrong, message in (
        ({"unknown": 0.0}, "in \\(0, 1\\)"),
        ({"unknown": 1.0}, "in \\(0, 1\\)"),
        ({"unknown": True}, "in \\(0, 1\\)"),
        ({"unknown": 0.1, "unknown_label": "x"}, "of the labels' type"),
        ({"unknown": 0.1, "unknown_label": 3}, "is no known label"),
        ({"unknown": 0.1, "like": "other"}, "like is one of"),
    ):
        with pytest.raises(ValueError, match=message):
            clf.predict(queries, **wrong)


def test_another_visit_is_asked_for_by_default(data, rng):
    """Samples of a class come in bursts that are alike: left out together, they are less like the rest."""
    X, y, _, _ = data
    bursts = 2.0 * rng.normal(size=(len(X) // 4 + 1, D))
    X = X + bursts[np.arange(len(X)) // 4]
    groups = np.arange(len(X)) // 4
    clf = XLDA(power=None).partial_fit(X, y, groups=groups).calibrate(progress=False)
    same, visit = clf._model.calibration.of("same"), clf._model.calibration.of("visit")
    assert visit.accuracy < same.accuracy - 0.05
    assert clf.predict_proba(X).max(axis=1).mean() < clf.predict_proba(X, like="same").max(axis=1).mean()


def test_only_some_labels_can_win(data):
    X, y, queries, _ = data
    some = [3, 7, 8, 30]
    for search in ("dense", "fisher"):
        clf = XLDA(power=None, search=search, renew=1e9).fit(X, y)
        clf.predict(queries)
        clf.partial_fit(X[y == 7] + 0.5, y[y == 7]).partial_fit(X[:2] + 40, [99, 99])
        every = clf.decision_function(queries)
        columns = np.searchsorted(clf.classes_, some)
        wanted = np.array(some)[every[:, columns].argmax(axis=1)]
        np.testing.assert_array_equal(clf.predict(queries, among=some), wanted)
        labels, scores = clf.predict_topk(queries, 9, among=some)
        assert labels.shape == (len(queries), 4)
        np.testing.assert_allclose(scores, -np.sort(-every[:, columns], axis=1), rtol=1e-4, atol=1e-3)
        assert (clf.predict(X[:2] + 40, among=[99, 3]) == 99).all()
    with pytest.raises(ValueError, match="is no known label"):
        clf.predict(queries, among=some, unknown=0.1, unknown_label=5)
    with pytest.raises(ValueError, match="among has the label 1000, which is not known"):
        clf.predict(queries, among=[3, 1000])
    with pytest.raises(ValueError, match="among needs at least one label"):
        clf.predict(queries, among=[])
    clf.partial_fit(X[:1], y[:1], classes=[500])
    with pytest.raises(ValueError, match="a class that has samples"):
        clf.predict(queries, among=[500])


def test_confirmed_answers_move_it(clf, data, tmp_path, rng):
    """The world drifts: samples come that are farther from their classes than those learned."""
    queries, truth = data[2], data[3]
    drifted = (queries + 1.2 * rng.normal(size=queries.shape)).astype(np.float32)
    half = np.arange(len(queries)) % 2 == 0

    def rejected(some):
        return np.mean([label is None for label in some.predict(drifted[half], unknown=0.05)])

    before, error = rejected(clf), None
    best = clf.predict_proba(drifted[half]).max(axis=1)
    error = best.mean() - (clf.predict(drifted[half]) == truth[half]).mean()
    clf.confirm(drifted[~half], truth[~half])
    assert before > 0.15
    assert rejected(clf) < 0.1
    best = clf.predict_proba(drifted[half]).max(axis=1)
    assert abs(best.mean() - (clf.predict(drifted[half]) == truth[half]).mean()) < error
    other = XLDA(power=None, like="same").fit(*data[:2])
    order = rng.permutation(np.flatnonzero(~half))
    for some in np.array_split(order, 7):
        other.confirm(drifted[some], truth[some])
    np.testing.assert_allclose(
        other.predict_proba(drifted[half]), clf.predict_proba(drifted[half]), atol=1e-3
    )
    clf.save(tmp_path / "model")
    again = xlda.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(drifted), clf.predict_proba(drifted))
    snapshot = clf.snapshot()
    np.testing.assert_array_equal(snapshot.predict_proba(drifted), clf.predict_proba(drifted))
    unknown = clf.p_known(drifted[half]).mean()
    clf.confirm(drifted[half], [None] * half.sum())
    assert clf.p_known(drifted[half]).mean() < unknown
    clf._unconfirm(drifted[half], [None] * half.sum())
    assert clf.p_known(drifted[half]).mean() == pytest.approx(unknown, abs=1e-6)
    clf._unconfirm(drifted[~half][::-1], truth[~half][::-1])
    assert rejected(clf) == before
    clf._unconfirm(drifted[half], truth[half])  # of which nobody has said anything
    assert rejected(clf) == before
    with pytest.raises(UnknownClassError, match="which is not known"):
        clf.confirm(queries[:1], [12345])
    with pytest.raises(ValueError, match="y has 2 entries; X has 1"):
        clf.confirm(queries[:1], [1, 2])


def test_it_tells_how_good_it_is(clf, data):
    _, _, queries, truth = data
    found = clf.assess()
    right = (clf.predict(queries) == truth).mean()
    assert found.same.accuracy.low < right < found.same.accuracy.high
    assert found.same.accuracy.value < found.same.top_five.value <= 1
    assert found.n_samples == len(data[0])
    assert "480 samples kept for checking" in str(found)
    assert "at least" not in str(found)
    clf.partial_fit(data[0][:240], data[1][:240])
    assert "50% more was learned since" in str(clf.assess())
    few = XLDA(power=None).fit(data[0][::3], data[1][::3])
    assert "at least" in str(few.assess())
    with pytest.raises(ValueError, match="assess needs model='bayes'"):
        lda().fit(*data[:2]).assess()


def test_without_samples_to_check_with_it_is_estimated(data):
    X, y, queries, truth = data
    clf = XLDA(power=None, check_samples=0).fit(X, y)
    found = clf.assess()
    assert found.same is None
    assert found.visit is None
    assert "estimated from distances between class means and from counts" in str(found)
    assert abs(found.classes.estimate - (clf.predict(queries) == truth).mean()) < 0.15
    assert all(one.samples is None and one.label != one.taken_for for one in found.classes.confused)


@pytest.mark.parametrize("counts", [[3, 40, 40, 40], [5] * 12, [1, 2, 30, 30, 30, 30]])
def test_how_often_a_class_is_taken_for_another_is_what_draws_from_the_model_say(counts, rng):
    X, y, _ = unequal(rng, counts, 6)
    clf = XLDA(power=None, renew=0).fit(X / 4, y)
    head = clf._current_head()
    rows = np.arange(len(counts))
    found = nearness(head, rows, temperature=3.0)
    table, weights = head.space.table, head.all_rows().weights.astype(np.float64)
    for row in rows:
        variance = table.variance[np.flatnonzero(table.counts == counts[row])[0]]
        drawn = weights[row] * variance + np.sqrt(variance) * rng.normal(size=(20_000, len(variance)))
        scores = head.all_rows().scores(drawn.astype(head.centre.dtype))
        pairwise = (scores[:, [row]] < scores).mean(axis=0)  # without the temperature: of each other class
        lead = scores[:, [row]] - scores
        middle, spread = lead.mean(axis=0), lead.std(axis=0)
        others = rows[rows != row]
        odds = norm.cdf(-middle[others] / spread[others])
        np.testing.assert_allclose(odds, pairwise[others], atol=0.06)  # leads are about normal
        wanted = 1 - np.prod(norm.cdf(middle[others] / (spread[others] * np.sqrt(3.0))))
        assert found.wrong[row] == pytest.approx(wanted, abs=0.03)
        assert found.neighbour[row] == others[odds.argmax()]
    assert (found.wrong_at_best <= found.wrong).all()
    gains = found.wrong - found.wrong_at_best
    if len(set(counts)) > 1:
        assert gains.argmax() == np.argmin(counts)


def test_classes_that_need_samples_and_those_that_are_confused_are_named(rng):
    means = 6 * rng.normal(size=(30, D))
    means[1] = means[0] + 0.8 * np.eye(D)[0]  # these two are hard to tell apart
    y = np.repeat(np.arange(30), 20)
    X = means[y] + rng.normal(size=(len(y), D))
    poor = y == 7
    poor[np.flatnonzero(poor)[0]] = False
    found = XLDA(power=None).fit(X[~poor], y[~poor]).assess().classes
    assert {found.confused[0].label, found.confused[0].taken_for} == {0, 1}
    assert found.confused[0].samples == 20
    assert 0.1 < found.confused[0].share < 0.7
    assert found.n_enough > 20
    assert found.n_looked_at == 30
    needy = {one.label: one for one in found.need_samples}
    assert needy.keys() <= {0, 1, 7}
    for one in needy.values():
        assert one.measured is None or one.measured.low <= one.measured.value <= one.measured.high


def test_what_was_measured_of_a_class_goes_where_the_class_goes(clf, data, tmp_path):
    X, _, queries, truth = data
    clf.calibrate(progress=False).confirm(queries[:60], truth[:60])
    before = clf._model.calibration
    clf.rename_class(3, 103).merge_classes(5, 4).remove_class(8)
    rows = clf._model.labels.table().row_of
    now = clf._model.calibration
    names = clf._model.labels.table().names
    for kind in ("same", "visit", "unknown", "confirmed"):
        was, moved = getattr(before, kind).truth, getattr(now, kind).truth
        assert (moved[was == 8] == -1).all()
        assert (moved[was == 4] == rows[5]).all()
        assert set(names[moved[was == 3]]) <= {103}
    clf.partial_fit(X[:2], [500, 500])  # it gets the row that 8 had
    assert rows.get(500) is None
    assert not (now.same.truth == clf._model.labels.table().row_of[500]).any()
    assert all(one.label != 500 for one in clf.assess().classes.confused)
    clf.save(tmp_path / "model.xlda")
    again = xlda.load(tmp_path / "model.xlda")
    np.testing.assert_array_equal(again._model.calibration.same.best, clf._model.calibration.same.best)
    assert str(again.assess()) == str(clf.assess())


def test_merging_brings_along_what_was_confirmed(data):
    X, y, queries, truth = data
    half = y < 20
    one, two = (XLDA(power=None).fit(X[some], y[some]) for some in (half, ~half))
    asked = truth >= 20
    two.confirm(queries[asked], truth[asked]).confirm(queries[~asked][:5], [None] * 5)
    one.merge(two)
    known, unknown = one._model.calibration.confirmed, one._model.calibration.confirmed_unknown
    assert len(known) == asked.sum()
    assert len(unknown) == 5
    names = one._model.labels.table().names
    assert (names[known.truth] == truth[asked]).all()
    one.predict_proba(queries[:1])
    assert len(one._model.calibration.same) > 0
    assert len(one._model.calibration.confirmed) == asked.sum()


def test_intervals_are_those_of_wilson():
    share = Share.of(np.arange(50) < 40, np.ones(50))
    low, high = proportion_interval(40, 50)
    assert (share.low, share.high) == (pytest.approx(low), pytest.approx(high))


def proportion_interval(hits, n, z=1.96):
    """Roots of (p - hits / n)^2 = z^2 p (1 - p) / n."""
    share = hits / n
    return np.sort(np.roots([1 + z**2 / n, -2 * share - z**2 / n, share**2]))


def test_it_is_measured_once_and_changes_nothing_else(clf, data, monkeypatch):
    X, y, queries, _ = data
    before = clf.decision_function(queries)
    first = clf.predict_proba(queries)
    measured = clf._model.calibration
    assert len(measured.same) == len(X)
    np.testing.assert_array_equal(clf.decision_function(queries), before)
    clf.partial_fit(X[:50], y[:50])
    clf.predict_proba(queries)
    assert clf._model.calibration is measured
    assert clf.calibrate(progress=False)._model.calibration is not measured
    fresh = XLDA(power=None, like="same")
    for label in np.unique(y)[::-1]:  # classes have other rows
        fresh.partial_fit(X[y == label][::-1], y[y == label])
    np.testing.assert_allclose(fresh.predict_proba(queries), first, atol=1e-4)


def test_it_is_measured_in_the_background_while_others_go_on(clf, data, monkeypatch, caplog):
    X, y, queries, _ = data
    first = clf.calibrate(progress=False)._model.calibration
    may_go_on, begun = threading.Event(), threading.Event()
    measured = Calibration.measured

    def slow(*arguments):
        begun.set()
        assert may_go_on.wait(60)
        return measured(*arguments)

    monkeypatch.setattr(Calibration, "measured", slow)
    assert not clf.calibrate_if_due(background=True)
    clf.partial_fit(X, y)
    assert clf.calibrate_if_due(background=True)
    assert begun.wait(60)
    clf.calibrate(background=True)  # one is enough
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("xlda-calibrate") == 1
    clf.partial_fit(X[:1], y[:1]).predict(queries, unknown=0.05)
    assert clf._model.calibration is first
    clf.confirm(queries[:7], data[3][:7])  # and classes come and go
    row = clf._model.labels.table().row_of[8]
    clf.remove_class(8).partial_fit(X[:2] + 9, [500, 500])
    assert clf._model.labels.table().row_of[500] == row
    may_go_on.set()
    for thread in threading.enumerate():
        if thread.name == "xlda-calibrate":
            thread.join(60)
    assert clf._model.calibration is not first
    assert clf._model.calibration.learned == 2 * len(X)
    assert len(clf._model.calibration.confirmed) == 7
    assert not (clf._model.calibration.same.truth == row).any()
    monkeypatch.setattr(Calibration, "measured", None)
    with caplog.at_level("ERROR", logger="xlda"):
        clf.calibrate(background=True)
        for thread in threading.enumerate():
            if thread.name == "xlda-calibrate":
                thread.join(60)
    assert "calibrating in the background failed" in caplog.text


def test_a_snapshot_takes_along_what_is_for_it(clf, data):
    X, y, queries, _ = data
    clf.predict_proba(queries)
    rows = np.arange(40)
    clf.partial_fit(X[:3], y[:3]).partial_fit(X[:1] + 30, [77])
    head = clf._current_head()
    np.testing.assert_allclose(head.counts_of(np.append(rows, 40)), clf.class_count_)
    plain = clf.set_params(model="lda")
    for some in (plain, plain.snapshot()):
        posteriors = softmax(some.decision_function(queries), axis=1)
        np.testing.assert_allclose(some.predict_proba(queries), posteriors, rtol=1e-5)


def test_without_samples_to_check_with_it_says_so(data):
    X, y, queries, _ = data
    for clf in (
        XLDA(power=None, check_samples=0).fit(X, y),
        XLDA(power=None).fit(X[: FEWEST - 9], y[: FEWEST - 9]),
    ):
        p = clf.predict_proba(queries)
        logits = clf.decision_function(queries)
        logits = logits if logits.ndim == 2 else np.c_[np.zeros(len(logits)), logits]
        np.testing.assert_allclose(p, softmax(logits / figures.TEMPERATURE, axis=1), atol=1e-6)
        for call in (
            lambda clf=clf: clf.predict(queries, unknown=0.05),
            lambda clf=clf: clf.p_known(queries),
        ):
            with pytest.raises(ValueError, match="48 samples or more are needed"):
                call()
    plain = lda().fit(X, y)
    assert not hasattr(plain, "score_samples")
    with pytest.raises(ValueError, match="model='bayes' alone"):
        plain.predict(queries, unknown=0.05)
    with pytest.raises(ValueError, match="calibrate needs model='bayes'"):
        plain.calibrate()
    one = XLDA(power=None).fit(X, np.zeros(len(X), int))
    with pytest.raises(ValueError, match="calibrate needs two classes"):
        one.calibrate()
    with pytest.raises(ValueError, match="of two classes or more"):
        one.predict(queries, unknown=0.05)
    with pytest.raises(ValueError, match="unknown_prior is a share between 0 and 1"):
        XLDA(power=None).fit(X, y).p_known(queries, unknown_prior=0)


def test_samples_taken_out_are_answered_as_by_a_classifier_that_never_had_them():
    rng = np.random.default_rng(3)
    centres = rng.normal(scale=2.5, size=(4, 8))
    numbers = np.arange(80) % 4
    X = (centres[numbers] + rng.normal(size=(80, 8))).astype(np.float32)
    y = np.array(list("abcd"))[numbers]
    clf = XLDA().fit(X, y)
    before = clf.means_.copy()
    folds = np.arange(80) // 4 % 5
    found = np.array(clf._labels_without(X, y.tolist(), folds), object)
    for fold in range(5):
        out = folds == fold
        other = XLDA().fit(X[~out], y[~out])
        sure = found[out] != None  # noqa: E711 (an array)
        assert sure.mean() > 0.5
        np.testing.assert_array_equal(found[out][sure], other.predict(X[out])[sure])
    np.testing.assert_array_equal(clf.means_, before)
    assert clf._labels_without(X, y.tolist(), numbers) == [None] * 80  # no class has any left
    assert clf._labels_without(X, y.tolist(), folds, lambda: True) == [None] * 80


@pytest.mark.parametrize("model", ["bayes", "lda"])
def test_of_many_classes_samples_are_taken_out_without_a_copy(model):
    rng = np.random.default_rng(4)
    n_classes, of_each, width = 300, 4, 16
    numbers = np.repeat(np.arange(n_classes), of_each)
    centres = rng.normal(scale=4.0, size=(n_classes, width))
    X = (centres[numbers] + rng.normal(size=(len(numbers), width))).astype(np.float32)
    wrong = rng.choice(len(X), 30, replace=False)
    y = numbers.copy()
    y[wrong] = (y[wrong] + 7) % n_classes
    clf = XLDA(model=model, power=None).fit(X, y)
    clf.partial_fit(X[:40] + 0.1, y[:40])  # some rows have changed since the head was made
    asked = X[40:]
    before = clf.predict_proba(asked[:20])
    folds = np.arange(len(asked)) % 10
    found = np.array(clf._labels_about_without(asked, y[40:].tolist(), folds), object)
    for fold in range(10):
        out = np.flatnonzero(folds == fold)
        rest = np.setdiff1d(np.arange(len(X)), 40 + out)
        other = XLDA(model=model, power=None).fit(X[rest], y[rest]).partial_fit(X[:40] + 0.1, y[:40])
        sure = found[out] != None  # noqa: E711 (an array)
        assert sure.mean() > 0.5
        assert (found[out][sure] == other.predict(asked[out])[sure]).mean() > 0.97
    late = wrong[wrong >= 40]
    is_told = [found[place - 40] is not None and found[place - 40] != y[place] for place in late]
    assert np.mean(is_told) > 0.6
    np.testing.assert_array_equal(clf.predict_proba(asked[:20]), before)
    alone = np.arange(n_classes)
    one_each = XLDA(model=model, power=None).fit(centres.astype(np.float32), alone)
    assert one_each._labels_about_without(centres[:9], alone[:9].tolist(), alone[:9]) == [None] * 9
