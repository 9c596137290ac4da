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
from xlda.search.codes import FARTHEST, N_DIGITS, N_POINTS, N_SETS, Codebook
from xlda.search.fast_scan import FastScanIndex

pytest.importorskip("faiss", reason="needs the extra faiss")


def numbers(codes):
    """Of 4 bits each, as whole numbers (n, N_SETS + N_DIGITS)."""
    return np.stack([codes & 15, codes >> 4], axis=2).reshape(len(codes), -1)


def scored(tables, codes):
    """What the tables say of classes, summed in 64 bits."""
    tables = tables.reshape(N_SETS + N_DIGITS, N_POINTS).astype(np.float64)
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
        scores, about = exact(query), scored(book.tables(query.astype(np.float32)), codes)
        places.append((about >= about[scores.argmax()]).sum())
    assert np.quantile(places, 0.99) <= 30
    assert np.median(places) == 1


def test_tables_are_squared_distances_from_the_points_no_farther_than_they_tell(rng):
    seen, steepness, queries, _ = drawn_classes(rng, width=200)  # no multiple of the sets
    book = Codebook.of(seen, steepness, seed=0)
    for query in queries[:10]:
        scaled = np.zeros((2, N_SETS))
        scaled.ravel()[:200] = query * np.sqrt(2 * steepness)
        squared = ((scaled.T[:, None] - book.points) ** 2).sum(axis=2) / 2
        expected = -np.minimum(squared - squared.min(axis=1, keepdims=True), FARTHEST)
        told = book.tables(query.astype(np.float32))[0][: N_SETS * N_POINTS].reshape(N_SETS, N_POINTS)
        np.testing.assert_allclose(told, expected, atol=2e-3)


def test_points_are_where_k_means_leaves_them(rng):
    """The mean distance from the nearest point is about that of scikit-learn."""
    from sklearn.cluster import KMeans

    seen, steepness, _, _ = drawn_classes(rng)
    book = Codebook.of(seen, steepness, seed=0)
    means = seen.weights / (2 * steepness) * np.sqrt(2 * steepness)
    for number in (0, 5, N_SETS - 1):
        places = means[:, [number, number + N_SETS]]
        nearest = ((places[:, None] - book.points[number]) ** 2).sum(axis=2).min(axis=1).mean()
        wanted = -KMeans(N_POINTS, n_init=3, random_state=0).fit(places).score(places) / len(places)
        assert nearest < 1.25 * wanted


def test_what_faiss_finds_is_what_the_codes_say(rng):
    X, y, _ = characters(rng, n_classes=3000)
    index = XLDA(search=FastScan()).fit(X, y)._current_head().index
    assert isinstance(index, FastScanIndex)
    for query in rng.normal(size=(20, index.rows.width)).astype(np.float32):
        about = scored(index.codebook.tables(query[: index.plan.prefixes[0]]), index.codes)
        found = index.scanned(query, 50)
        least = np.sort(about)[-50]
        assert len(set(found)) == 50
        assert about[found].min() > least - 0.02 * FARTHEST * N_SETS**0.5  # tables are rounded to bytes


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
        refilled = head.index._refilled(point, head.index.scanned(point, n), n, left_out, n)
        assert n <= len(refilled) < 500


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
    assert after.codebook is before.codebook
    assert len(after.codes) > len(before.codes)
    np.testing.assert_array_equal(after.codes[: len(before.codes)], before.codes)
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
