"""Every way to search, where what the squares of a query add differs from class to class."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from test_search import SEARCHES, TwoStages, characters
from xlda import XLDA
from xlda.head import head
from xlda.search import LSH, Fisher
from xlda.search.class_rows import ClassRows, Squares, rows_of
from xlda.search.ranking import about_the_best
from xlda.search.short_weights import ShortWeights
from xlda.search.tuning import Plan


@pytest.fixture(autouse=True)
def search_for_batches_too(monkeypatch):
    monkeypatch.setattr("xlda.search.fisher.SEARCHED", -np.inf)


@pytest.fixture(params=SEARCHES.values(), ids=SEARCHES)
def search(request):
    return request.param()


def long_tail(rng, n_classes=600, dtype=np.float32):
    """Classes of 1 to 40 samples, most of them of few, and queries of all."""
    X, y, queries = characters(rng, n_classes, per_class=40, dtype=dtype)
    counts = np.minimum(40, rng.zipf(1.6, n_classes))
    kept = np.arange(len(y)) % 40 < counts[y]
    return X[kept], y[kept], queries


def exact(clf):
    return clone(clf).set_params(search="dense").merge(clf)


@pytest.mark.parametrize("precision", ["full", "half"])
@pytest.mark.parametrize("priors", ["equal", "empirical"])
def test_it_agrees_with_looking_at_all(search, priors, precision, rng):
    X, y, queries = long_tail(rng)
    clf = XLDA(search=search, priors=priors, precision=precision).fit(X, y)
    assert clf._current_head().index.rows.squares is not None
    dense = exact(clf)
    labels, logits = clf.predict_topk(queries, 3)
    wanted, wanted_logits = dense.predict_topk(queries, 3)
    assert (labels[:, 0] == wanted[:, 0]).mean() >= (0.9 if isinstance(search, LSH) else 0.98)
    same = (labels == wanted).all(axis=1)
    assert same.mean() > 0.5
    np.testing.assert_allclose(logits[same], wanted_logits[same], rtol=1e-4, atol=1e-3)


def test_one_query_at_a_time(search, rng):
    X, y, queries = long_tail(rng)
    clf = XLDA(search=search).fit(X, y)
    one_by_one = np.concatenate([clf.predict(queries[i : i + 1]) for i in range(100)])
    assert (one_by_one == exact(clf).predict(queries[:100])).mean() >= (
        0.9 if isinstance(search, LSH) else 0.97
    )


def test_classes_that_get_more_samples_are_searched_with_their_new_counts(search, rng, monkeypatch):
    """Rows are brought into the index, and with them counts that it has not seen; or they stay beside it."""
    X, y, queries = long_tail(rng)
    new = 30 * rng.normal(size=(60, 2, X.shape[1])).astype(np.float32)
    clf, beside = (XLDA(search=way, renew=1e9).fit(X, y) for way in (search, "dense"))
    first = clf._current_head()
    for some, most in ((clf, 20), (beside, 10_000)):
        monkeypatch.setattr(head, "most_changed", lambda _, most=most: most)
        for number in range(60):
            chosen = y == number
            some.partial_fit(np.repeat(X[chosen], 3, axis=0), np.repeat(y[chosen], 3))
            some.partial_fit(new[number], [1000 + number] * 2).predict(X[:1])
    now = clf._current_head()
    assert len(now.index.rows) > len(first.index.rows) == len(beside._current_head().index.rows)
    assert len(now.space.table) > len(first.space.table)
    scores = beside._current_head().scores(queries)
    if not isinstance(search, LSH):
        np.testing.assert_allclose(now.scores(queries), scores, rtol=1e-4, atol=1e-2)
    rows, best = now.top(queries, 1)
    assert (rows[:, 0] == scores.argmax(axis=1)).mean() >= (0.9 if isinstance(search, LSH) else 0.98)
    np.testing.assert_allclose(best[:, 0], scores[np.arange(len(rows)), rows[:, 0]], rtol=1e-4, atol=1e-3)


def test_stages_have_all_that_the_rows_have(rng, monkeypatch):
    """Offsets and squares of the parts add up to those of the whole."""
    X, y, queries = long_tail(rng, dtype=np.float64)
    whole = XLDA(search="dense", renew=1e9).fit(X, y)
    d = whole._current_head().space.n_coordinates
    plan = Plan((2, 5, d), (300, 60, 20), (600, 300, 60), 600, 0.999, 1, 1.0)
    staged = XLDA(search=Fisher(plan=plan), renew=1e9).fit(X, y)
    index = staged._current_head().index
    assert [stage.width for stage in index.stages] == [2, 3, d - 5]
    points = staged._current_head().space.queries(queries)

    def summed(stages):
        edges = zip(stages, (0, 2, 5), (2, 5, d), strict=True)
        return sum(stage.scores(points[:, start:stop]) for stage, start, stop in edges)

    wanted = whole._current_head().index.rows.scores(points)
    np.testing.assert_allclose(summed(index.stages), wanted, atol=1e-8)
    np.testing.assert_allclose(rows_of(index.stages).scores(points), wanted, atol=1e-8)
    monkeypatch.setattr(head, "most_changed", lambda _: 10)
    for clf in (whole, staged):
        for number in range(200):
            clf.partial_fit(X[number : number + 1] + 1, y[number : number + 1]).predict(X[:1])
    index, wanted = staged._current_head().index, whole._current_head().index.rows.scores(points)
    np.testing.assert_allclose(summed(index.stages), wanted, atol=1e-8)
    np.testing.assert_allclose(index.rows.scores(points), wanted, atol=1e-8)


def test_two_stages_are_what_they_say(rng):
    X, y, _ = long_tail(rng)
    clf = XLDA(search=TwoStages()).fit(X, y)
    assert len(clf._current_head().index.stages) == 2


@pytest.mark.parametrize("n_rows", [3, 30])
def test_scores_of_some_rows_are_those_among_all(n_rows, rng):
    curvature, groups = rng.normal(size=(4, 6)), rng.integers(0, 4, 40)
    parts = rng.normal(size=(40, 2)), rng.normal(size=(40, 4))
    rows = ClassRows(parts, rng.normal(size=40), Squares(curvature, groups, np.ones(6)))
    query, some = rng.normal(size=6), rng.choice(40, n_rows, replace=False)
    expected = [
        rows.weights[row] @ query + rows.bias[row] + curvature[groups[row]] @ query**2 for row in range(40)
    ]
    np.testing.assert_allclose(rows.scores(query), expected)
    np.testing.assert_allclose(rows.scores(np.stack([query, query]))[1], expected)
    np.testing.assert_allclose(rows.scores_of(query, some), np.array(expected)[some])
    np.testing.assert_allclose(rows.taken(some).scores(query), np.array(expected)[some])


# -- the coordinates after those of all stages


def staged(X, y):
    plan = Plan((8,), (600,), (600,), 600, 0.999, 10, 1.0)
    return XLDA(search=Fisher(plan=plan), renew=1e9).fit(X, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_only_float32_is_kept_shorter(dtype, rng):
    X, y, queries = long_tail(rng, dtype=dtype)
    clf = staged(X, y)
    rows = clf._current_head().index.rows
    assert isinstance(rows.parts[1], ShortWeights) == (dtype == np.float32)
    assert rows.width == clf._current_head().space.n_coordinates > 12
    wanted = exact(clf).decision_function(queries)
    atol = 0.02 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(clf.decision_function(queries), wanted, atol=atol)
    clear = np.diff(np.sort(wanted, axis=1)[:, -2:]).ravel() > 0.1
    best = clf.classes_[wanted.argmax(axis=1)]
    np.testing.assert_array_equal(clf.predict(queries)[clear], best[clear])
    one_by_one = np.concatenate([clf.predict(queries[i : i + 1]) for i in range(100)])
    np.testing.assert_array_equal(one_by_one[clear[:100]], best[:100][clear[:100]])


@pytest.mark.parametrize("size", [1.0, 1e4])
def test_new_rows_come_among_short_ones_and_make_them_longer_where_they_must(size, rng, monkeypatch):
    X, y, queries = long_tail(rng)
    clf, dense = staged(X, y), XLDA(search="dense", renew=1e9).fit(X, y)
    clf.predict(queries[:1])
    monkeypatch.setattr(head, "most_changed", lambda _: 1)
    monkeypatch.setattr("xlda.head.bayes_space.BayesSpace._with_directions", no_directions)
    new = (X[:20] * size).astype(np.float32)
    for one in (clf, dense):
        one.partial_fit(new, 1000 + np.arange(20)).predict(queries[:1])
    rows = clf._current_head().index.rows
    assert len(rows) == len(clf.classes_)
    assert isinstance(rows.parts[1], ShortWeights) == (size == 1)
    assert rows.width == clf._current_head().space.n_coordinates
    assert (clf.predict(queries) == dense.predict(queries)).mean() > 0.99
    assert (clf.predict(new) == dense.predict(new)).mean() >= 0.95  # some are as others: rounding decides


def no_directions(self, raw, means, counts):
    return self, np.zeros((len(raw), self.directions.shape[1]), raw.dtype)


def test_short_weights_are_weights_but_for_rounding(rng):
    weights = (rng.normal(size=(5000, 7)) * 10.0 ** np.arange(-3, 4)).astype(np.float32)
    weights[:, 3] = 0.0
    short = ShortWeights.of(weights)
    step = np.abs(weights).max(axis=0) / 32_767
    assert (np.abs(short.whole() - weights) <= 0.51 * step).all()
    queries, some = rng.normal(size=(6, 7)).astype(np.float32), np.array([4999, 3, 3])
    products = queries @ short.whole().T
    np.testing.assert_allclose(short.scores(queries), products, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(short.scores_of(queries[0], some), products[0, some], rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(short[some].whole(), short.whole()[some])
    patched = short.with_rows(weights[:2] / 2, np.array([7, 5001]), 5002)
    assert (np.abs(patched.whole()[[7, 5001]] - weights[:2] / 2) <= 0.51 * step).all()
    assert not patched.numbers[5000].any()
    larger = 3 * np.abs(weights).max(axis=0)[None]
    wider = short.with_rows(larger, np.array([0]), 5000)
    assert (np.abs(wider.whole()[1:] - weights[1:]) <= 4 * step).all()
    assert (np.abs(wider.whole()[0] - larger[0]) <= 4 * step).all()
    assert wider.with_rows(2 * larger, np.array([1]), 5000).scale is not wider.scale
    np.testing.assert_array_equal(wider.with_rows(2 * larger, np.array([1]), 5000).scale, wider.scale)
    assert short.with_rows(5 * np.abs(weights).max(axis=0)[None], np.array([0]), 5000) is None


# -- the first coordinates, all in one product


def test_few_columns_stand_for_the_table_of_squares(rng):
    X, y, queries = long_tail(rng, dtype=np.float64)
    plan = Plan((8,), (600,), (600,), 600, 0.999, 10, 1.0)
    clf = XLDA(search=Fisher(plan=plan)).fit(X, y)
    head = clf._current_head()
    first, points = head.index.first, head.space.queries(queries)
    columns, squares = first.columns, first.columns.squares
    looked_up = np.array([squares.curvature[group] @ np.square(points[:, :8]).T for group in squares.groups])
    wanted = points[:, :8] @ columns.weights.T + columns.offsets + looked_up.T
    n_groups = len(squares.curvature)
    assert 1 <= len(first.terms) <= 3 < n_groups
    about = first.scores(points[:, :8])
    assert 1e-9 < np.abs(about - wanted).max() < 0.1
    np.testing.assert_allclose(first.scores(points[0, :8]), about[0])
    # what the columns miss is not missing in the end
    scores = exact(clf).decision_function(queries)
    for n in (1, 100):
        _, logits = clf.predict_topk(queries[:n], 2)
        np.testing.assert_allclose(logits, -np.sort(-scores[:n], axis=1)[:, :2], rtol=0, atol=1e-9)


def test_the_best_of_a_first_look_are_all_among_those_kept(rng):
    for scores in (rng.normal(size=20_000), np.repeat(rng.normal(size=100), 200), np.zeros(20_000)):
        kept = about_the_best(scores, 700)
        assert (np.diff(kept) > 0).all()
        assert set(np.flatnonzero(scores > np.sort(scores)[-700])) <= set(kept)
        assert len(kept) >= 700
    assert len(about_the_best(rng.normal(size=20_000), 700)) < 1400
