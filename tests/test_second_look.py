"""The nearest classes compared once more, by rows that tell how their own samples vary."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest
from sklearn.base import clone

import xlda
from test_model_file import contents, craft
from xlda import XLDA
from xlda._internal import growing
from xlda.calibration.parameter_trial import ParameterTrial
from xlda.errors import DamagedFileError
from xlda.head.near_spread import PRIOR
from xlda.head.second_look import CANDIDATES, NEAREST, SecondLook
from xlda.moments import Moments
from xlda.moments.in_bytes import moments_from_bytes, moments_to_bytes
from xlda.moments.kept_samples import embedding_hashes
from xlda.moments.view import MomentsView

N_ROWS = 6


def varying_apart(rng, n_classes=40, of_each=30, n_features=24):
    """Classes whose samples vary along directions of their own; as many to learn as to ask for."""
    centres = 0.5 * rng.standard_normal((n_classes, n_features))
    directions = rng.standard_normal((n_classes, 2, n_features))
    labels = np.repeat(np.arange(n_classes), 2 * of_each)
    along = rng.standard_normal((len(labels), 1, 2))
    X = (
        centres[labels]
        + (along @ directions[labels])[:, 0]
        + 0.3 * rng.standard_normal((len(labels), n_features))
    )
    X = X.astype(np.float32)
    return X[::2], labels[::2], X[1::2], labels[1::2]


@pytest.fixture
def samples(rng):
    return varying_apart(rng)


@pytest.fixture
def clf(samples):
    return XLDA(second_look=N_ROWS, renew=0).fit(*samples[:2])


def rows_of(clf, label):
    """The rows of a class, and how many samples are in them."""
    row = clf._model.labels.rows([label])
    residuals, weights = clf._model.moments.residuals_of(row)
    return residuals[0], weights[0]


def by_hand(X, y, label, n_rows=N_ROWS):
    """The rows of a class from its samples, in two passes, float64."""
    mine = X[y == label].astype(np.float64)
    rows = np.zeros((n_rows, X.shape[1]))
    for x, number in zip(mine, embedding_hashes(X[y == label].astype(np.float16)).tolist(), strict=True):
        rows[number % n_rows] += (-1.0 if number >> 63 else 1.0) * (x - mine.mean(axis=0))
    return rows


def looked_twice(head, X, y, query, scores, n_rows=N_ROWS):
    """Scores of the best classes by the formula of the docs: whole matrices, inverted, float64."""
    psi = head.space.table.psi
    z = head.space.queries(query[None])[0, : len(psi)].astype(np.float64)
    rotation = head.space.rotation[:, : len(psi)].astype(np.float64)
    best = np.argsort(-scores)
    scatters, worths = {}, {}
    for label in best[:CANDIDATES]:
        free = (y == label).sum() - 1.0
        rows = by_hand(X, y, label, n_rows) @ rotation
        scatters[label] = n_rows / (free + n_rows) * rows.T @ rows
        worths[label] = free * n_rows / (free + n_rows)
    scatter, worth = (sum(some[label] for label in best[:NEAREST]) for some in (scatters, worths))
    least = min(worths[label] for label in best[:NEAREST])
    found = {}
    for label in best[:CANDIDATES]:
        once_more = least / worths[label] if label in best[:NEAREST] and least else 0.0
        together = scatter + once_more * scatters[label] + PRIOR * np.eye(len(psi))
        covariance = together / (worth + once_more * worths[label] + PRIOR)
        if label not in best[:NEAREST]:
            scatters[label] = scatter * worths[label] / worth
        own = (scatters[label] + PRIOR * np.eye(len(psi))) / (worths[label] + PRIOR)
        expected = np.trace(np.linalg.inv(covariance) @ own)
        n, mean = (y == label).sum(), (X[y == label].astype(np.float64).mean(0) - head.centre) @ rotation
        u = (z - n * psi / (n * psi + 1) * mean) / np.sqrt(1 + psi / (n * psi + 1))
        more = u @ np.linalg.inv(covariance) @ u - u @ u
        found[label] = scores[label] - 0.5 * (more - (expected - len(psi)))
    return found


@pytest.mark.parametrize("few", [None, 4, 1])
def test_scores_are_those_of_the_formula(samples, few):
    X, y, asked, _ = samples
    X, y = np.concatenate([X, X[y == 3] + 0.01]), np.concatenate([y, np.full((y == 3).sum(), 3)])
    if few is not None:  # of every fifth class
        place = np.concatenate([np.arange((y == label).sum()) for label in np.unique(y)])
        order = np.argsort(y, kind="stable")
        kept = order[(y[order] % 5 != 2) | (place < few)]
        X, y = X[kept], y[kept]
    clf = XLDA(second_look=N_ROWS).fit(X, y)
    plain = XLDA().fit(X, y)
    once, twice = plain.decision_function(asked[::50]), clf.decision_function(asked[::50])
    head = clf.snapshot().head
    for query, before, after in zip(asked[::50], once, twice, strict=True):
        wanted = looked_twice(head, X, y, query, before.astype(np.float64))
        np.testing.assert_allclose([after[label] for label in wanted], list(wanted.values()), atol=2e-3)
        others = np.delete(after, list(wanted))
        assert (others <= min(wanted.values()) + 2e-3).all()


def test_more_rows_than_coordinates_are_looked_at_as_so_many(samples):
    X, y, asked, _ = samples
    n_rows, asked = 3 * X.shape[1], asked[::50]
    once = XLDA().fit(X, y).decision_function(asked)
    clf = XLDA(second_look=n_rows).fit(X, y)
    twice, head = clf.decision_function(asked), clf.snapshot().head
    width = len(head.space.table.psi)
    assert width < n_rows
    assert all(rows.shape == (width, width) for rows in head.second_look.rows)
    for query, before, after in zip(asked, once, twice, strict=True):
        wanted = looked_twice(head, X, y, query, before.astype(np.float64), n_rows)
        np.testing.assert_allclose([after[label] for label in wanted], list(wanted.values()), atol=2e-3)


def test_it_is_better_where_classes_vary_in_their_own_ways(samples):
    X, y, asked, truth = samples
    once, twice = (XLDA(second_look=rows).fit(X, y).score(asked, truth) for rows in (None, 16))
    assert twice > once + 0.03


def test_the_best_class_is_that_of_all_scores(samples, clf):
    asked = samples[2]
    scores = clf.decision_function(asked)
    np.testing.assert_array_equal(clf.predict(asked), clf.classes_[scores.argmax(axis=1)])
    many, few = clf.predict_topk(asked, 30), clf.predict_topk(asked, 3)
    np.testing.assert_array_equal(many[0][:, :3], few[0])
    assert (np.diff(many[1], axis=1) <= 0).all()


def test_rows_are_those_of_the_samples_by_hand(samples, clf):
    X, y = samples[:2]
    for label in (0, 7):
        found, weight = rows_of(clf, label)
        assert weight == (y == label).sum()
        np.testing.assert_allclose(found, by_hand(X, y, label), atol=1e-4)


def test_on_average_rows_have_the_scatter_of_their_class(rng):
    X = rng.standard_normal((4000, 3)) @ np.diag([3.0, 1.0, 0.2])
    ratios = []
    for part in range(200):
        moments = Moments(3, sketch_rows=4)
        some = X[20 * part : 20 * part + 20]
        moments.update(some, np.zeros(20, int))
        rows = moments.residuals_of(np.array([0]))[0][0]
        ratios.append(np.diag(rows.T @ rows) / ((some - some.mean(0)) ** 2).sum(0))
    np.testing.assert_allclose(np.mean(ratios, axis=0), 1.0, atol=0.15)


@pytest.mark.parametrize("batch", [1, 7, 400])
def test_order_and_batches_do_not_matter(batch, samples, clf, rng):
    X, y, asked, _ = samples
    order = rng.permutation(len(y))
    other = XLDA(second_look=N_ROWS, renew=0)
    for start in range(0, len(y), batch):
        some = order[start : start + batch]
        other.partial_fit(X[some], y[some])
    for label in (0, 39):
        np.testing.assert_allclose(rows_of(other, label)[0], rows_of(clf, label)[0], atol=2e-4)
    np.testing.assert_allclose(other.decision_function(asked), clf.decision_function(asked), atol=0.05)
    assert (other.predict(asked) == clf.predict(asked)).mean() > 0.999


def test_parts_that_were_merged_are_the_whole(samples, clf):
    X, y, asked, _ = samples
    first, second = (XLDA(second_look=N_ROWS, renew=0).fit(X[part], y[part]) for part in (y < 25, y > 20))
    whole = XLDA(second_look=N_ROWS, renew=0)
    whole.partial_fit(X[y < 25], y[y < 25]).partial_fit(X[y > 20], y[y > 20])
    first.merge(second)
    for label in (0, 22, 39):
        np.testing.assert_allclose(rows_of(first, label)[0], rows_of(whole, label)[0], atol=2e-4)
    assert (first.predict(asked) == whole.predict(asked)).mean() > 0.999
    with pytest.raises(ValueError, match="second_look"):
        first.merge(XLDA(second_look=N_ROWS + 1).fit(X, y))


def test_samples_that_were_forgotten_leave_nothing(samples, clf):
    X, y, asked, _ = samples
    more = X[::3] + 5.0
    before = clf.decision_function(asked)
    clf.partial_fit(more, y[::3])
    assert np.abs(clf.decision_function(asked) - before).max() > 1.0
    clf.forget(more, y[::3])
    off = np.abs(clf.decision_function(asked) - before).max(axis=1)
    assert np.count_nonzero(off > 0.05) <= 2  # where rounding decides who is among the nearest
    clf.forget(X[y == 4], y[y == 4])
    found, weight = rows_of(clf, 4)
    assert not found.any()
    assert not weight


def test_samples_kept_as_float16_are_found_again(samples):
    X, y = samples[:2]
    clf = XLDA(second_look=N_ROWS, power=None).fit(X, y)
    moments = clf._model.moments
    kept = moments.kept.samples()
    assert len(kept.rows) == len(y)
    moments.forget(kept.embeddings.astype(np.float32), kept.rows, kept.weights)
    assert np.abs(moments.sketches.sums).max() < 1e-2


def test_weights_count_as_repetitions_do(samples, rng):
    X, y = samples[:2]
    weights = rng.integers(1, 4, len(y))
    weighted = XLDA(second_look=64, renew=0).fit(X, y, weights)
    rows, count = weighted._model.moments.residuals_of(np.array([2]))
    mean = np.average(X[y == 2], axis=0, weights=weights[y == 2])
    assert count[0] == weights[y == 2].sum()
    wanted = (weights[y == 2, None] * (X[y == 2] - mean) ** 2).sum()
    assert 0.7 * wanted < (rows**2).sum() < 1.4 * wanted


def test_classes_that_are_joined_have_rows_about_their_common_mean(samples, clf):
    X, y = samples[:2]
    clf.merge_classes(1, 2)
    joined = np.where(y == 2, 1, y)
    np.testing.assert_allclose(rows_of(clf, 1)[0], by_hand(X, joined, 1), atol=2e-4)


def test_a_class_of_which_nobody_has_seen_the_samples_has_none(samples, clf):
    X, y, asked, _ = samples
    known = clf.class_moments(5)
    clf.remove_class(5).restore_class(5, *known)
    assert not rows_of(clf, 5)[0].any()
    assert not rows_of(clf, 5)[1]
    clf.partial_fit(X[y == 5], y[y == 5])  # half of its samples are not in the rows
    assert not rows_of(clf, 5)[0].any()
    other = clf.class_moments(7)
    clf.merge_classes(6, 7).split_class(6, 7, *other)
    assert not rows_of(clf, 6)[0].any()
    assert not rows_of(clf, 7)[0].any()
    assert (clf.predict(asked) == samples[3]).mean() > 0.4
    clf.forget(np.concatenate([X[y == 5], X[y == 5]]), np.full(2 * (y == 5).sum(), 5))
    clf.partial_fit(X[y == 5], y[y == 5])  # which begins anew
    assert rows_of(clf, 5)[1] == (y == 5).sum()


@pytest.mark.parametrize("way", ["file", "bytes", "pickle", "copy"])
def test_it_comes_back_as_it_was(way, samples, clf, tmp_path):
    X, y, asked, _ = samples
    clf.partial_fit(X[:9] + 1.0, y[:9])
    if way == "file":
        clf.save(tmp_path / "a.xlda")
        other = xlda.load(tmp_path / "a.xlda")
    elif way == "bytes":
        other = XLDA.from_bytes(clf.to_bytes())
    else:
        other = pickle.loads(pickle.dumps(clf)) if way == "pickle" else copy.deepcopy(clf)
    np.testing.assert_allclose(other.decision_function(asked), clf.decision_function(asked), atol=1e-3)
    for each in (clf, other):
        each.partial_fit(X[:50] + 2.0, y[:50])
    np.testing.assert_allclose(other.decision_function(asked), clf.decision_function(asked), atol=0.05)


def test_moments_with_rows_as_bytes(samples, clf):
    moments = clf._model.moments
    other = moments_from_bytes(moments_to_bytes(moments))
    np.testing.assert_array_equal(
        other.residuals_of(np.arange(40))[0], moments.residuals_of(np.arange(40))[0]
    )


def test_files_that_make_no_sense_are_refused(samples, clf, tmp_path):
    clf.save(tmp_path / "a.xlda")
    tensors, header = contents(tmp_path / "a.xlda")
    name = next(name for name in tensors if name.endswith("sums"))
    for wrong in (tensors[name][:, :-1], tensors[name][:-1], tensors[name].astype(np.float64)):
        craft(tmp_path / "b.xlda", {**tensors, name: wrong}, header)
        with pytest.raises(DamagedFileError):
            xlda.load(tmp_path / "b.xlda")


def test_rows_that_changed_are_looked_at_as_they_are(samples):
    X, y, asked, _ = samples
    clf = XLDA(second_look=N_ROWS, renew=10.0).fit(X[y < 38], y[y < 38])
    clf.predict(asked)
    clf.partial_fit(X[y >= 36] + 0.5, y[y >= 36])  # two classes are new, two have changed
    clf.predict(asked)
    head, moments = clf.snapshot().head, clf._model.moments
    anew = SecondLook.where_kept(head.space, moments)
    late = set(head.second_look.late)
    assert late
    for found in (head.second_look.taken(np.arange(40)), head.settled(moments).second_look):
        np.testing.assert_allclose(found.rows, anew.rows, atol=1e-3)
        np.testing.assert_allclose(found.worth, anew.worth)
        np.testing.assert_allclose(found.means, anew.means, atol=1e-3)
        np.testing.assert_array_equal(found.counts, anew.counts)
    settled = head.settled(moments).second_look
    assert not settled.late
    copied = {row for row in range(36) if settled.rows[row] is not head.second_look.rows[row]}
    assert copied <= late  # all else would make whoever predicts wait


def test_a_view_stays_as_it_was(samples, clf):
    X, y = samples[:2]
    moments = clf._model.moments
    before = moments.residuals_of(np.arange(40))
    view = MomentsView(moments, with_covariance=True)
    clf.partial_fit(X[y < 3] + 1.0, y[y < 3]).remove_class(9).merge_classes(10, 11)
    clf.partial_fit(X[:3], [100, 101, 102])
    for found in (view, view.copied()):
        for now, then in zip(found.residuals_of(np.arange(40)), before, strict=True):
            np.testing.assert_allclose(now, then, atol=1e-4)


def test_learning_in_the_background(samples):
    X, y, asked, truth = samples
    clf = XLDA(second_look=N_ROWS, background=True).fit(X[::4], y[::4])
    stop = threading.Event()
    errors = []

    def ask():
        while not stop.is_set():
            try:
                clf.predict(asked[:5])
            except Exception as error:
                errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    for start in range(len(y)):
        if start % 4:
            clf.partial_fit(X[start : start + 1], y[start : start + 1])
    stop.set()
    thread.join()
    assert not errors
    clf.background, clf.renew = False, 0.0  # so that it is as one that was made at once
    clf.partial_fit(X[:1], y[:1]).forget(X[:1], y[:1])
    assert clf.score(asked, truth) > XLDA().fit(X, y).score(asked, truth)
    np.testing.assert_allclose(rows_of(clf, 3)[0], by_hand(X, y, 3), atol=1e-3)


def test_what_assess_says_is_what_folds_give_that_are_learned_anew(samples):
    X, y = samples[:2]
    folds = np.arange(len(y)) % 10
    right = [
        XLDA(second_look=16).fit(X[folds != one], y[folds != one]).predict(X[folds == one]) == y[folds == one]
        for one in range(10)
    ]
    found = XLDA(second_look=16, like="same").fit(X, y).assess().same.accuracy.value
    assert found == pytest.approx(np.concatenate(right).mean(), abs=0.03)


@pytest.mark.parametrize("rows", [None, 16])
def test_probabilities_are_honest(rows):
    sure, right = [], []
    for seed in range(3):
        X, y, asked, truth = varying_apart(np.random.default_rng(seed))
        clf = XLDA(second_look=rows, like="same").fit(X, y).calibrate(progress=False)
        sure.append(clf.predict_proba(asked).max(axis=1).mean())
        right.append(clf.score(asked, truth))
    assert np.mean(sure) == pytest.approx(np.mean(right), abs=0.04)


def test_the_unknown_is_told_as_well_as_without(samples, rng):
    X, y, asked, truth = samples
    known, asked_of_known, unknown = y < 30, asked[truth < 30], asked[truth >= 30]
    found = {}
    for rows in (None, 16):
        clf = XLDA(second_look=rows).fit(X[known], y[known])
        inside, outside = clf.score_samples(asked_of_known), clf.score_samples(unknown)
        found[rows] = (inside[:, None] > outside[None]).mean()
    assert found[16] > found[None] - 0.02


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True, "many", 100_000])
def test_what_is_no_number_of_rows_is_refused(wrong, samples):
    with pytest.raises(ValueError, match="second_look is None or a whole number"):
        XLDA(second_look=wrong).fit(*samples[:2])


@pytest.mark.parametrize("other", [{"model": "lda"}, {"rule": "slda"}, {"lift": 64}])
def test_what_cannot_look_twice_is_refused(other, samples):
    with pytest.raises(ValueError, match="second_look needs"):
        XLDA(second_look=4, **other).fit(*samples[:2])


def test_what_has_only_scores_refuses_it(samples, clf, tmp_path):
    from xlda.fleet.start import space_of
    from xlda.shards import ShardedXLDA

    for work in (
        clf.to_linear,
        clf.to_layer,
        lambda: space_of(clf),
        lambda: ShardedXLDA(2, second_look=4),
        lambda: XLDA.from_linear(np.eye(3), second_look=4),
    ):
        with pytest.raises(ValueError, match=r"second.look"):
            work()
    how = r"set_params\(second_look=None\) drops the rows"
    with pytest.raises(ValueError, match=how):
        clf.to_linear()
    onnx = pytest.importorskip("xlda.extras.onnx")
    with pytest.raises(ValueError, match=how):
        onnx.write(clf, tmp_path / "a.onnx")


@pytest.mark.parametrize("way", ["set_params", "attribute", "background", "loaded"])
def test_rows_can_be_dropped(way, samples, tmp_path):
    X, y, asked, _ = samples
    plain = XLDA().fit(X, y)
    clf = XLDA(second_look=N_ROWS, background=way == "background").fit(X, y)
    if way == "loaded":
        clf.save(tmp_path / "a.xlda")
        clf = xlda.load(tmp_path / "a.xlda")
    snapshot, before = clf.snapshot(), clf.decision_function(asked)
    if way == "attribute":
        clf.second_look = None
    else:
        clf.set_params(second_look=None)
    np.testing.assert_allclose(clf.decision_function(asked), plain.decision_function(asked), atol=1e-5)
    assert clf._model.moments.sketches is None
    assert not any("second look" in part for part in clf.memory())
    np.testing.assert_array_equal(snapshot.decision_function(asked), before)  # which is as it was
    assert len(clf._model.moments.kept) == len(plain._model.moments.kept)
    clf.to_linear()
    clf.save(tmp_path / "b.xlda")
    assert xlda.load(tmp_path / "b.xlda").second_look is None
    for each in (clf, plain):
        each.set_params(background=False, renew=0)
        each.partial_fit(X[:5] + 1, y[:5]).merge(XLDA().fit(X[:99], y[:99]))
    np.testing.assert_allclose(clf.decision_function(asked), plain.decision_function(asked), atol=1e-5)
    clf.set_params(second_look=N_ROWS)  # for good
    with pytest.raises(ValueError, match="second_look changed after learning began: it was None and is 6"):
        clf.predict(asked)
    clf.set_params(second_look=None)
    clf.predict(asked)
    clf.set_params(second_look=N_ROWS).fit(X, y)
    np.testing.assert_allclose(clf.decision_function(asked), before, atol=1e-3)


def test_rows_are_not_dropped_by_other_numbers_or_copies(samples, clf):
    asked = samples[2]
    clf.set_params(second_look=N_ROWS + 1)
    with pytest.raises(ValueError, match="second_look changed after learning began: it was 6 and is 7"):
        clf.predict(asked)
    clf.set_params(second_look=N_ROWS)
    before = clf.decision_function(asked)
    other = copy.deepcopy(clf).set_params(second_look=None)
    other.predict(asked)
    pickle.loads(pickle.dumps(clf)).set_params(second_look=None).predict(asked)
    np.testing.assert_array_equal(clf.decision_function(asked), before)
    assert other._model.moments.sketches is None
    assert clone(clf).second_look == N_ROWS
    assert XLDA(second_look=4).set_params(second_look=None).second_look is None


@pytest.mark.parametrize("wrong", [{"nonsense": 3}, {"lift": 32}, {"shrinkage": "x"}])
def test_rows_are_not_dropped_by_what_is_refused(wrong, samples, clf):
    asked = samples[2]
    before = clf.decision_function(asked)
    with pytest.raises(ValueError, match=r"nonsense|lift|shrinkage"):
        clf.set_params(second_look=None, **wrong).predict(asked)
    clf.set_params(second_look=N_ROWS, lift=None, shrinkage="auto")
    np.testing.assert_array_equal(clf.decision_function(asked), before)


def test_merging_takes_no_rows_that_the_other_is_to_drop(samples):
    X, y, asked, _ = samples
    plain, other = XLDA().fit(X[:99], y[:99]), XLDA(second_look=N_ROWS).fit(X[99:], y[99:])
    other.set_params(second_look=None)
    empty = XLDA().merge(other)
    assert not any("second look" in part for clf in (empty, other) for part in clf.memory())
    merged = plain.merge(other).decision_function(asked)
    np.testing.assert_allclose(merged, XLDA().fit(X, y).decision_function(asked), atol=1e-3)


def test_a_graph_and_a_layer_of_what_has_no_rows_any_more(samples, clf, tmp_path):
    onnx = pytest.importorskip("xlda.extras.onnx")
    onnx.write(clf.set_params(second_look=None), tmp_path / "a.onnx")
    assert (tmp_path / "a.onnx").stat().st_size


def test_what_changed_is_named(samples):
    X, y, asked, _ = samples
    for before, after, said in (
        ({"precision": "full"}, {"precision": "half"}, "precision changed .*: it was 'full' and is 'half'"),
        ({}, {"lift": 64}, "lift changed .*: it was None and is 64. Call fit"),
        ({"lift": 64}, {"lift": None}, "lift changed .*: it was 64 and is None. Call fit"),
        ({"lift": 64}, {"lift_seed": 3}, "lift_seed changed .*: it was 0 and is 3. Call fit"),
        ({"lift": 64}, {"lift_centre": np.zeros(24)}, r"lift_centre changed after learning began\. Call fit"),
        (
            {"power": None},
            {"power": 0.5, "rule": "slda"},
            "rule changed .* 'slda'; power changed .* 0.5. Call",
        ),
    ):
        clf = XLDA(**before).fit(X, y)
        with pytest.raises(ValueError, match=said):
            clf.set_params(**after).predict(asked)


def test_few_classes_and_few_samples_are_no_trouble(rng):
    X = rng.standard_normal((5, 3)).astype(np.float32)
    clf = XLDA(second_look=4).partial_fit(X[:1], ["a"])
    assert clf.predict(X[:1]).tolist() == ["a"]
    clf.partial_fit(X[1:4], ["b", "a", "b"], classes=["c"])
    assert set(clf.predict(X).tolist()) <= {"a", "b"}
    assert clf.decision_function(X).shape[0] == 5


def test_rows_as_long_as_rounding_allows_are_no_trouble(samples, rng):
    X, y, asked, _ = samples
    clf = XLDA(second_look=N_ROWS, covariance="fixed").fit(X, y)
    clf.predict(asked[:1])
    far = np.repeat([[9e6], [-9e6]], 20, axis=0) * rng.standard_normal((1, 24))
    clf.partial_fit(far.astype(np.float32), [3, 4] * 20)  # as nothing that the covariance knows of
    assert np.isfinite(clf.decision_function(asked)).all()


def test_memory_is_told(clf):
    assert clf.memory()["rows for a second look"] >= 40 * N_ROWS * 24 * 4
    assert clf.memory()["second look"] > 0


def test_room_for_more_classes_is_neither_told_nor_copied(samples, monkeypatch):
    X, y, asked, _ = samples
    room = 2**24
    monkeypatch.setattr(growing, "MOST_COPIED", 1000)
    monkeypatch.setattr(growing, "_address_space", lambda: room)
    clf = XLDA(second_look=N_ROWS)
    for some in (y < 20, y >= 20):  # the second time into the room that was reserved
        clf.partial_fit(X[some], y[some])
    assert clf._model.moments.sketches.sums.nbytes > room / 2
    used = 40 * N_ROWS * 24 * 4
    assert used <= clf.memory()["rows for a second look"] < 2 * used
    assert len(pickle.dumps(clf)) < room / 8
    other = copy.deepcopy(clf)
    assert other._model.moments.sketches.sums.nbytes == used
    small = XLDA(second_look=N_ROWS).fit(X, y).partial_fit(asked[:2], [50, 51])
    for one in (clf, other, pickle.loads(pickle.dumps(clf))):
        one.partial_fit(asked[:2], [50, 51])  # which needs room again
        for label in (3, 30, 51):
            np.testing.assert_allclose(rows_of(one, label)[0], rows_of(small, label)[0], atol=1e-4)


def test_a_trial_says_whether_it_helps(samples, rng):
    X, y, asked, truth = samples
    found = XLDA().fit(X, y).assess(try_second_look=16)
    some = np.arange(len(y)) % 3 > 0  # as a trial learns two thirds and asks for the others
    once, twice = (XLDA(second_look=rows).fit(X[some], y[some]).score(asked, truth) for rows in (None, 16))
    assert found.second_look.helps
    assert found.lift is None
    assert found.second_look.tried == pytest.approx(twice, abs=0.06)
    assert found.second_look.plain == pytest.approx(once, abs=0.06)
    assert "a second look helps" in str(found)
    alike = rng.standard_normal((40, 24))[y] + rng.standard_normal(X.shape)
    assert XLDA().fit(alike, y).assess(try_second_look=16).second_look.helps is not True


@pytest.mark.parametrize("name", ["try_second_look", "try_lift"])
@pytest.mark.parametrize("wrong", [0, -1, 16.0, "16", np.nan, True, 10**6])
def test_what_cannot_be_tried_is_refused_as_fit_does(name, wrong, clf):
    with pytest.raises(ValueError, match=rf"^{name} is None or a whole number from 1 to [\d,]+; got"):
        clf.assess(**{name: wrong})


def test_more_rows_than_a_classifier_may_have_are_not_tried(clf):
    with pytest.raises(ValueError, match="from 1 to 1,024; got 4096"):
        clf.assess(try_second_look=4096)
    assert clf.assess(try_second_look=np.int64(2)).second_look.value == 2


def test_a_verdict_is_what_its_interval_shows():
    helps = ParameterTrial("second_look", 16, 0.5, 0.52, 0.0003, 0.04, 300, 12)
    assert helps.helps
    assert "(+0.03 to +4.00 points)" in str(helps)
    harms = ParameterTrial("lift", 16, 0.52, 0.5, -0.04, -0.0003, 300, 12)
    assert "does harm" in str(harms)
    assert "(-4.00 to -0.03 points)" in str(harms)
    assert "(-1.0 to +2.0 points)" in str(ParameterTrial("lift", 16, 0.5, 0.505, -0.01, 0.02, 300, 12))


def assert_same_look(clf, never, X, y, asked):
    """Rows by hand, and answers as those of a classifier to which nothing was done."""
    for label in np.unique(y).tolist():
        found, weight = rows_of(clf, label)
        assert weight == (y == label).sum()
        np.testing.assert_allclose(found, by_hand(X, y, label), atol=2e-3)
    np.testing.assert_array_equal(clf.predict(asked), never.predict(asked))
    off = np.abs(clf.decision_function(asked) - never.decision_function(asked)).max(axis=1)
    assert np.count_nonzero(off > 0.05) <= 2  # where rounding decides who is among the nearest


@pytest.mark.parametrize("far", [0.0, 100.0])
def test_what_was_removed_or_merged_comes_back_with_its_rows(far, samples):
    X, y, asked, _ = samples
    X, asked = X + np.float32(far), asked + np.float32(far)
    never, clf = (XLDA(second_look=N_ROWS, power=None, renew=0).fit(X, y) for _ in range(2))
    removed, merged = ((*clf.class_moments(label), clf.class_rows(label)) for label in (5, 7))
    clf.remove_class(5).merge_classes(6, 7).predict(asked)
    clf.restore_class(5, *removed).split_class(6, 7, *merged)
    assert_same_look(clf, never, X, y, asked)
    X, y = np.concatenate([X, X[:200] + 1]), np.concatenate([y, y[:200]])  # and goes on
    for each in (clf, never):
        each.partial_fit(X[-200:], y[-200:]).forget(X[:30], y[:30])
    assert_same_look(clf, never, X[30:], y[30:], asked)


def test_rows_come_apart_after_more_was_learned(samples):
    X, y, asked, _ = samples
    X, y = (np.concatenate([part[::2], part[1::2]]) for part in (X, y))
    never, clf = (XLDA(second_look=N_ROWS, renew=0).fit(X[:-300], y[:-300]) for _ in range(2))
    last = int(y[-1])  # of which samples come while it is a part of another
    merged = *clf.class_moments(last), clf.class_rows(last)
    clf.merge_classes(0, last).partial_fit(X[-300:], np.where(y[-300:] == last, 0, y[-300:]))
    clf.split_class(0, last, *merged)
    never.partial_fit(X[-300:], np.where(y[-300:] == last, 0, y[-300:]))
    moved = np.concatenate([y[:-300], np.where(y[-300:] == last, 0, y[-300:])])
    assert_same_look(clf, never, X, moved, asked)


def test_a_class_whose_rows_nobody_knows_takes_them_from_no_other(samples, clf):
    known, unknown = (clf.class_moments(label) for label in (5, 6))
    clf.remove_class(6).restore_class(6, *unknown)
    rows = clf.class_rows(6)
    clf.merge_classes(5, 6)
    assert not rows_of(clf, 5)[1]
    clf.split_class(5, 6, *unknown, rows)
    assert rows_of(clf, 5)[1] == known[0]
    assert not rows_of(clf, 6)[1]


def test_a_class_that_takes_over_all_samples_has_their_rows(samples, clf):
    X, y = samples[:2]
    clf.split_class(5, 50, *clf.class_moments(5))
    np.testing.assert_allclose(rows_of(clf, 50)[0], by_hand(X, y, 5), atol=1e-4)
    assert not rows_of(clf, 5)[1]
    assert not clf._model.moments.sketches.sums[clf._model.labels.rows([5])].any()


def test_a_view_stays_as_it_was_while_classes_come_back(samples, clf):
    removed, merged = ((*clf.class_moments(label), clf.class_rows(label)) for label in (5, 7))
    clf.remove_class(5).merge_classes(6, 7)
    moments = clf._model.moments
    before = moments.residuals_of(np.arange(40))
    view = MomentsView(moments, with_covariance=True)
    clf.restore_class(5, *removed).split_class(6, 7, *merged)
    for now, then in zip(view.residuals_of(np.arange(40)), before, strict=True):
        np.testing.assert_allclose(now, then, atol=1e-4)


def test_rows_that_are_none_are_refused_and_change_nothing(samples, clf):
    X, y, asked, _ = samples
    count, mean = clf.class_moments(5)
    rows = clf.class_rows(5)
    clf.remove_class(5)
    before = clf.decision_function(asked)
    nowhere = np.full_like(rows.sums, np.nan)
    for wrong in (
        rows._replace(sums=rows.sums[1:]),
        rows._replace(sums=nowhere),
        rows._replace(signs=rows.sums),
    ):
        with pytest.raises(ValueError, match="rows are"):
            clf.restore_class(5, count, mean, wrong)
        with pytest.raises(ValueError, match="rows are"):
            clf.split_class(6, 5, 3.0, mean, wrong)
    with pytest.raises(ValueError, match="rows have a weight of at least 0"):
        clf.restore_class(5, count, mean, rows._replace(weight=-1.0))
    for any_kind in (clf, XLDA().fit(X, y).remove_class(5)):
        with pytest.raises(TypeError, match="class_rows"):
            any_kind.restore_class(5, count, mean, "rows")
    np.testing.assert_array_equal(clf.decision_function(asked), before)
    plain = XLDA().fit(X, y)
    assert plain.class_rows(5) is None
    plain.remove_class(5).restore_class(5, count, mean, rows)  # which has no use for them
    assert plain.class_count_[5] == count


@pytest.mark.parametrize("number", [4, 30])
def test_equal_samples_count_as_their_square_in_the_rows(number, samples):
    X, y = samples[0][:40], samples[1][:40]
    far = X[:1] + 1e4  # beside which all others are nothing

    def squares(copies, weight):
        clf = XLDA(second_look=64, power=None).fit(X, y)
        weights = np.full(copies, float(weight))
        clf.partial_fit(np.repeat(far, copies, axis=0), np.zeros(copies, int), sample_weight=weights)
        sums = clf._model.moments.sketches.sums[clf._model.labels.rows([0])[0]]
        return (sums**2).sum() / (far**2).sum()

    assert squares(number, 1) == pytest.approx(number**2, rel=0.02)
    assert squares(1, number) == pytest.approx(number, rel=0.02)


def test_an_embedding_that_rounds_otherwise_changes_other_rows(samples, clf):
    X, y = samples[:2]
    before = rows_of(clf, 3)[0]
    more = X[:1] + 5.0
    clf.partial_fit(more, [3]).forget(more * np.float32(1 + 1e-7), [3])
    np.testing.assert_allclose(rows_of(clf, 3)[0], before, atol=1e-3)  # as float16 it is the same
    clf.partial_fit(more, [3]).forget(more * 1.002, [3])
    found, weight = rows_of(clf, 3)
    assert weight == (y == 3).sum()
    assert np.abs(found - before).max() > 1.0


@pytest.mark.parametrize("scale", [1e-9, 1e9])  # as float16 all are 0, or infinite
def test_embeddings_that_float16_does_not_have_get_no_second_look(scale, samples):
    X, asked = (np.float32(scale) * (np.abs(some) + np.float32(1e-3)) for some in samples[::2])
    clf, plain = (XLDA(second_look=rows, power=None).fit(X, samples[1]) for rows in (N_ROWS, None))
    assert np.abs(clf._model.moments.residuals_of(np.arange(40))[0]).max() < 1e-3 * X.max()
    np.testing.assert_allclose(clf.decision_function(asked), plain.decision_function(asked), atol=1e-4)


def test_equal_samples_tell_nothing(samples):
    X, y, _asked, _ = samples
    firsts = np.unique(y, return_index=True)[1]
    twice = np.concatenate([np.repeat(firsts[:20], 9), np.flatnonzero(y >= 20)])
    clf = XLDA(second_look=N_ROWS).fit(X[twice], y[twice])
    look = clf.snapshot().head.second_look
    rows = np.stack(look.rows)
    assert (look.worth[:20] == 0).all()
    assert (rows[:20] == 0).all()
    assert (look.worth[20:] > 1).all()
    assert np.abs(rows[20:]).max(axis=(1, 2)).min() > 0


def test_what_cannot_win_is_no_candidate(samples, clf):
    asked = samples[2][:20]
    head = clf.snapshot().head
    queries = head.space.queries(asked)
    rows = np.tile([7, 3, 9, 1, 4], (20, 1))
    scores = np.tile([-1.0, -2.0, -3.0, -np.inf, -np.inf], (20, 1)).astype(np.float32)
    unknown = np.zeros(20)
    wanted, of_none = head.second_look.scores(queries, rows[:, :3], scores[:, :3], unknown)
    found, of_nobody = head.second_look.scores(queries, rows, scores, unknown)
    np.testing.assert_array_equal(found[:, 3:], -np.inf)
    np.testing.assert_allclose(found[:, :3], wanted, atol=1e-4)
    np.testing.assert_allclose(of_nobody, of_none, atol=1e-4)
    assert np.abs(found[:, :3] - scores[:, :3]).max() > 0.1


def test_classes_that_are_no_candidates_stay_in_order_below_these(samples, clf):
    X, y, asked, _ = samples
    once, twice = XLDA(renew=0).fit(X, y).decision_function(asked), clf.decision_function(asked)
    ranked = np.argsort(-once, axis=1)
    candidates, others = ranked[:, :CANDIDATES], ranked[:, CANDIDATES:]
    below = np.take_along_axis(twice, others, axis=1)
    assert (below.max(axis=1) < np.take_along_axis(twice, candidates, axis=1).min(axis=1)).all()
    differences = np.diff(below, axis=1)
    np.testing.assert_allclose(
        differences, np.diff(np.take_along_axis(once, others, axis=1), axis=1), atol=1e-3
    )
    labels, scores = clf.predict_topk(asked, 40)
    np.testing.assert_array_equal(np.take_along_axis(twice, labels, axis=1), scores)
    assert (np.diff(scores, axis=1) <= 0).all()


def test_scores_that_are_none_stay_so(samples, clf):
    head = clf.snapshot().head
    queries = head.space.queries(samples[2][:3])
    once = np.linspace(-9, 0, 120, dtype=np.float32).reshape(3, 40)
    once[1] = np.nan
    once[2, 5:] = -np.inf
    twice = head.second_look.of_all(queries, once)
    np.testing.assert_array_equal(np.isnan(twice), np.isnan(once))
    np.testing.assert_array_equal(np.isfinite(twice), np.isfinite(once))
