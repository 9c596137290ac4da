"""The search by codes: what its tables say, how many candidates it keeps, and what changes it."""

from __future__ import annotations

import numpy as np
import pytest

import xlda
from test_search import characters, fast_scan
from test_search_unequal import long_tail
from xlda import XLDA
from xlda.search import FastScan
from xlda.search.class_rows import Columns, Squares
from xlda.search.codes import FARTHEST, MOST_SETS, N_POINTS, Codebook
from xlda.search.fast_scan import FastScanIndex

pytest.importorskip("faiss", reason="needs the extra faiss")


def numbers(codes):
    """Of 4 bits each, as whole numbers (n, MOST_SETS + N_DIGITS)."""
    return np.stack([codes & 15, codes >> 4], axis=2).reshape(len(codes), -1)


def scored(tables, codes):
    """What the tables say of classes, summed in 64 bits."""
    tables = tables.reshape(-1, N_POINTS).astype(np.float64)
    return tables[np.arange(len(tables)), numbers(codes)].sum(axis=1)


def drawn_classes(rng, n=3000, width=256, unequal=False):
    """Classes whose samples vary by v about their means, and the exact scores of queries, in 64 bits."""
    psi = 20.0 / np.arange(1, width + 1)
    counts = rng.zipf(1.8, n).clip(max=50) if unequal else np.full(n, 3)
    values, groups = np.unique(-counts, return_inverse=True)  # the most samples first
    v = 1.0 + psi / (-values[:, None] * psi + 1.0)
    means = rng.normal(size=(n, width)) * np.sqrt(psi)
    weights = means / v[groups]
    offsets = -0.5 * (means * weights).sum(axis=1) - 0.5 * np.log(v).sum(axis=1)[groups]
    squares = None
    if unequal:
        typical = (1.0 + psi).astype(np.float32)
        squares = Squares((0.5 / v[0] - 0.5 / v).astype(np.float32), groups, typical)
    seen = Columns(weights.astype(np.float32), offsets.astype(np.float32), squares)
    rows = rng.integers(0, n, 200)
    queries = means[rows] + rng.normal(size=(200, width)) * np.sqrt(v[groups[rows]])

    def exact(query):
        return -0.5 * ((query - means) ** 2 / v[groups]).sum(axis=1) - 0.5 * np.log(v).sum(axis=1)[groups]

    return seen, 0.5 / v[0], queries, exact


@pytest.mark.parametrize("unequal", [False, True])
def test_tables_and_codes_give_about_the_exact_score_of_those_that_can_win(unequal, rng):
    seen, steepness, queries, exact = drawn_classes(rng, unequal=unequal)
    book = Codebook.of(seen, steepness, seed=0)
    codes = book.codes(seen)
    places = []
    for query in queries:
        scores, about = exact(query), scored(book.tables(query[None].astype(np.float32)), codes)
        places.append((about >= about[scores.argmax()]).sum())
    assert np.quantile(places, 0.99) <= 30
    assert np.median(places) == 1


def test_tables_are_squared_distances_from_the_points_no_farther_than_they_tell(rng):
    seen, steepness, queries, _ = drawn_classes(rng, width=200)  # no multiple of the sets
    book = Codebook.of(seen, steepness, seed=0)
    for query in queries[:10]:
        scaled = np.zeros((2, MOST_SETS))
        scaled.ravel()[:200] = query * np.sqrt(2 * steepness)
        squared = ((scaled.T[:, None] - book.points) ** 2).sum(axis=2) / 2
        expected = -np.minimum(squared - squared.min(axis=1, keepdims=True), FARTHEST)
        told = book.tables(query[None].astype(np.float32))[0][: MOST_SETS * N_POINTS].reshape(
            MOST_SETS, N_POINTS
        )
        np.testing.assert_allclose(told, expected, atol=2e-3)


def test_points_are_where_k_means_leaves_them(rng):
    """The mean distance from the nearest point is about that of scikit-learn."""
    from sklearn.cluster import KMeans

    seen, steepness, _, _ = drawn_classes(rng)
    book = Codebook.of(seen, steepness, seed=0)
    means = seen.weights / (2 * steepness) * np.sqrt(2 * steepness)
    for number in (0, 5, MOST_SETS - 1):
        places = means[:, [number, number + MOST_SETS]]
        nearest = ((places[:, None] - book.points[number]) ** 2).sum(axis=2).min(axis=1).mean()
        wanted = -KMeans(N_POINTS, n_init=3, random_state=0).fit(places).score(places) / len(places)
        assert nearest < 1.25 * wanted


def test_what_faiss_finds_is_what_the_codes_say(rng):
    X, y, _ = characters(rng, n_classes=3000)
    index = XLDA(search=FastScan()).fit(X, y)._current_head().index
    assert isinstance(index, FastScanIndex)
    for query in rng.normal(size=(20, index.rows.width)).astype(np.float32):
        about = scored(index.coded.codebook.tables(query[None, : index.plan.prefixes[0]]), index.coded.codes)
        found = index.coded.best(query[None], 50)[0]
        least = np.sort(about)[-50]
        assert len(set(found)) == 50
        assert about[found].min() > least - 0.02 * FARTHEST * MOST_SETS**0.5  # tables are rounded to bytes


def test_rows_left_out_are_made_up_for_by_others(rng):
    X, y, queries = characters(rng, n_classes=1500)
    head = XLDA(search=FastScan()).fit(X, y)._current_head()
    points = head.space.queries(queries[:40])
    exact = head.index.rows.scores(points.astype(np.float64))
    without = np.sort(rng.permutation(1500)[:1000])
    still_there = ~np.isin(exact.argmax(axis=1), without)  # a class that is left out is scored elsewhere
    exact[:, without] = -np.inf
    rows, found = head.index.top(points, 1, without)
    assert still_there.sum() > 5
    assert (rows[:, 0] == exact.argmax(axis=1))[still_there].all()
    assert (rows[:, 0] == exact.argmax(axis=1)).mean() >= 0.9
    np.testing.assert_allclose(np.median(found[:, 0] / exact.max(axis=1)), 1.0, atol=1e-4)
    left_out, n = np.isin(np.arange(1500), without), head.index.plan.kept[0]
    for shortlist, point in zip(head.index.shortlists(points, 1, without), points, strict=True):
        assert not left_out[shortlist].any()
        found = head.index.coded.best(point[None], n)
        refilled = head.index._refilled(point[None], found, left_out, n)[0]
        assert (refilled >= 0).all()
        assert not left_out[refilled].any()


@pytest.mark.parametrize("make", [characters, long_tail])
def test_codes_of_old_classes_stay_as_they_are_when_new_ones_come(make, rng, monkeypatch):
    from xlda.head import head

    X, y, queries = make(rng)
    clf = XLDA(search=FastScan(), renew=1e9).fit(X, y)
    before = clf._current_head().index
    monkeypatch.setattr(head, "most_changed", lambda n_rows: 4)
    new = queries[:10] + 0.01
    clf.partial_fit(np.repeat(new, 3, axis=0), np.repeat(np.arange(5000, 5010), 3)).predict(X[:1])
    after = clf._current_head().index
    assert after.coded.codebook is before.coded.codebook
    assert len(after.coded.codes) > len(before.coded.codes)
    np.testing.assert_array_equal(after.coded.codes[: len(before.coded.codes)], before.coded.codes)
    assert (clf.predict(new) == np.arange(5000, 5010)).mean() >= 0.9


def test_the_plan_is_saved_and_not_picked_again(rng, tmp_path, monkeypatch):
    X, y, queries = characters(rng)
    clf = XLDA(search="fast scan").fit(X, y)
    clf.predict(queries)
    clf.save(tmp_path / "a.xlda")
    monkeypatch.setattr(FastScan, "_picked", lambda *given: pytest.fail("it was picked again"))
    loaded = xlda.load(tmp_path / "a.xlda")
    np.testing.assert_array_equal(loaded.predict(queries), clf.predict(queries))
    assert loaded.audit(queries).picked == clf.audit(queries).picked


def test_it_can_be_given_queries_and_refuses_those_that_do_not_fit(rng):
    X, y, queries = characters(rng)
    clf = XLDA(search=fast_scan(queries=queries[:100])).fit(X, y)
    assert clf._current_head().index.plan.n_queries == 100
    with pytest.raises(ValueError, match="queries that are finite"):
        XLDA(search=fast_scan(queries=queries[:, :3])).fit(X, y).predict(queries)


@pytest.mark.parametrize("make", [characters, long_tail])
@pytest.mark.parametrize("model", ["bayes", "lda"])
def test_many_queries_at_once_find_what_one_by_one_do(make, model, rng):
    X, y, queries = make(rng)
    head = XLDA(search=FastScan(), model=model).fit(X, y)._current_head()
    points = head.space.queries(queries[:50].astype(np.float32))
    without = np.sort(rng.permutation(len(head.index.rows))[:300])
    for k in (1, 7):
        rows, scores = head.index.top(points, k, without)
        for number in range(50):
            one, score = head.index.top(points[number : number + 1], k, without)
            np.testing.assert_array_equal(rows[number], one[0])
            np.testing.assert_allclose(scores[number], score[0], rtol=1e-3, atol=1e-3)
    shortlists = head.index.shortlists(points, 1, without)
    assert all(
        row in some for row, some in zip(head.index.top(points, 1, without)[0], shortlists, strict=True)
    )


@pytest.mark.parametrize("width", [100, 128, 192, 300])
def test_codes_tell_of_any_number_of_coordinates(width, rng):
    seen, steepness, queries, exact = drawn_classes(rng, n=500, width=width)
    book = Codebook.of(seen, steepness, seed=0)
    codes = book.codes(seen)
    assert codes.shape == (500, book.n_bytes)
    about = [scored(book.tables(query[None].astype(np.float32)), codes) for query in queries[:50]]
    winners = [exact(query).argmax() for query in queries[:50]]
    assert np.mean([some.argmax() == winner for some, winner in zip(about, winners, strict=True)]) > 0.5


def test_the_way_that_costs_least_is_picked(rng, monkeypatch):
    from xlda.search import fast_scan as module

    X, y, _ = long_tail(rng)  # 24 coordinates
    tried = []
    monkeypatch.setattr(module, "FIRST", (8, 12, 16))
    monkeypatch.setattr(module, "CLOSER", 20)
    monkeypatch.setattr(
        module, "_cost", lambda plan, n_bytes: tried.append((plan, n_bytes)) or plan.prefixes[0]
    )
    index = XLDA(search=FastScan()).fit(X, y)._current_head().index
    assert {plan.prefixes for plan, _ in tried} == {
        (8, 20),
        (8, 12, 20),
        (8, 16, 20),
        (12, 20),
        (12, 16, 20),
        (16, 20),
    }
    assert index.plan.prefixes == (8, 20)
    assert [part.width for part in index.parts] == [8, 12, 4]
