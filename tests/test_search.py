"""One suite for every way to search."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from sklearn.base import clone

import xlda
from conftest import lda
from xlda import XLDA
from xlda.head import head
from xlda.search import LSH, Dense, Faiss, FastScan, Fisher, chosen_search
from xlda.search.class_rows import ClassRows
from xlda.search.coordinates import fisher_coordinates
from xlda.search.dense import DenseIndex
from xlda.search.ranking import best_columns, best_places, merged, top_of_shortlists
from xlda.search.tuning import Plan


def faiss(**settings):
    pytest.importorskip("faiss", reason="needs the extra faiss")
    return Faiss(**settings)


def fast_scan(**settings):
    pytest.importorskip("faiss", reason="needs the extra faiss")
    return FastScan(**settings)


SEARCHES = {
    "dense": Dense,
    "fisher": Fisher,
    "fisher, two stages": lambda: TwoStages(),
    "fast scan": fast_scan,
    "lsh": LSH,
    "hnsw": faiss,
    "ivf": lambda: faiss(kind="ivf"),
    "hnsw over means": lambda: faiss(over="means"),
}


class TwoStages(Fisher):
    """Fisher with a plan that has two stages and keeps few."""

    def index(self, classes, previous=None):
        d, n = len(classes.centre), int(classes.live.sum())
        prefixes = (d // 2, d) if d > 1 else (1,)
        plan = Plan(prefixes, (max(n // 2, 1), 20), (n, 40), n, 0.999, 1, 1.0)
        return Fisher(plan=plan).index(classes)


class Kept(Dense):
    """Keeps the classes that it is given."""

    def __init__(self, kept):
        object.__setattr__(self, "kept", kept)

    def index(self, classes, previous=None):
        self.kept.append(classes)
        return super().index(classes, previous)


@pytest.fixture(autouse=True)
def search_for_batches_too(monkeypatch):
    """Among as few classes as here, Fisher would take a batch of queries to all of them."""
    monkeypatch.setattr("xlda.search.fisher.SEARCHED", -np.inf)


@pytest.fixture(params=SEARCHES.values(), ids=SEARCHES)
def search(request):
    return request.param()


def characters(rng, n_classes=600, n_features=24, per_class=4, dtype=np.float32):
    """Classes that come in groups of similar ones, with correlated noise, and queries of them."""
    mixing = rng.normal(size=(n_features, n_features)) / n_features**0.5
    groups = 4 * rng.normal(size=(n_classes // 10 + 1, n_features))
    centres = groups[np.arange(n_classes) // 10] + rng.normal(size=(n_classes, n_features))

    def draw(labels):
        return (centres[labels] + rng.normal(size=(len(labels), n_features)) @ mixing).astype(dtype)

    y = np.repeat(np.arange(n_classes), per_class)
    return draw(y), y, draw(rng.integers(0, n_classes, 400))


def agreement(clf, X):
    exact = clone(clf).set_params(search="dense")
    exact.merge(clf)
    return (clf.predict(X) == exact.predict(X)).mean()


# -- all of them


@pytest.mark.parametrize("priors", ["equal", "empirical"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_agrees_with_exact_lda(search, dtype, priors, rng):
    X, y, queries = characters(rng, dtype=dtype)
    clf = XLDA(search=search, priors=priors).fit(X, y)
    least = {LSH: 0.95}.get(type(search), 0.99)
    assert agreement(clf, queries) >= least
    exact = XLDA(search="dense", priors=priors).fit(X, y)
    labels, logits = clf.predict_topk(queries, 5)
    same = (labels == exact.predict_topk(queries, 5)[0]).all(axis=1)
    np.testing.assert_allclose(logits[same], exact.predict_topk(queries, 5)[1][same], rtol=1e-4, atol=1e-3)
    assert logits.dtype == exact.predict_topk(queries, 5)[1].dtype
    assert (np.diff(logits, axis=1) <= 0).all()


def test_one_query_at_a_time_is_the_same_as_many(search, rng):
    X, y, queries = characters(rng)
    clf = XLDA(search=search).fit(X, y)
    one_by_one = np.concatenate([clf.predict(queries[i : i + 1]) for i in range(100)])
    assert (one_by_one == clf.predict(queries[:100])).mean() >= 0.98  # two plans, so not all
    assert clf.predict(queries[:0]).shape == (0,)


def test_a_class_learned_by_the_last_call_is_found_by_the_next(search, rng, monkeypatch):
    monkeypatch.setattr(head, "MOST_CHANGED", 40)
    X, y, _ = characters(rng)
    clf = XLDA(search=search, renew=1e9).fit(X, y)
    first = clf._current_head()
    for new in range(700, 800):
        sample = 40 * rng.normal(size=(1, X.shape[1])).astype(np.float32)
        assert clf.partial_fit(sample, [new]).predict(sample) == [new]
        assert clf.predict_topk(sample, 3)[0][0, 0] == new
    assert len(clf._current_head().index.rows) > len(first.index.rows)  # some have been brought in by now
    assert clf._current_head().space.centre is first.space.centre


def test_a_class_that_moves_is_found_where_it_is_now(search, rng, monkeypatch):
    monkeypatch.setattr(head, "MOST_CHANGED", 40)
    X, y, _ = characters(rng)
    clf = XLDA(search=search, renew=1e9).fit(X, y)
    for label in range(60):  # more than are kept beside the others
        there = 60 * rng.normal(size=(1, X.shape[1])).astype(np.float32)
        clf.partial_fit(np.repeat(there, 200, axis=0), [label] * 200)
        clf.predict(X[:1])
        assert clf.predict(there) == [label]
        was_here = X[y == label].mean(axis=0, keepdims=True)
        assert clf.predict(was_here) != [label]


def test_a_removed_class_never_wins_again(search, rng, monkeypatch):
    monkeypatch.setattr(head, "MOST_CHANGED", 40)
    X, y, _ = characters(rng)
    clf = XLDA(search=search, renew=1e9).fit(X, y)
    clf.predict(X[:1])
    for label in range(80):
        clf.remove_class(label)
        assert label not in clf.predict_topk(X[y == label], 5)[0]
    clf.set_params(renew=0).partial_fit(X[-1:], y[-1:])
    assert not set(range(80)) & set(clf.predict_topk(X, 5)[0].ravel())


def test_more_classes_than_there_are_give_all_there_are(search, rng):
    X, y, _ = characters(rng, n_classes=7)
    labels, logits = XLDA(search=search).fit(X, y).predict_topk(X, 50)
    assert labels.shape == (len(X), 7)
    assert (np.sort(labels, axis=1) == np.arange(7)).all()
    assert np.isfinite(logits).all()


def test_one_class_only(search, rng):
    X = rng.normal(size=(5, 3)).astype(np.float32)
    clf = XLDA(search=search).fit(X, ["only"] * 5)
    assert set(clf.predict(X)) == {"only"}
    assert clf.predict_topk(X, 3)[0].shape == (5, 1)


def test_an_empty_model_says_so(search):
    with pytest.raises(ValueError, match="has learned no class yet"):
        XLDA(search=search).predict([[1.0]])
    clf = XLDA(search=search).partial_fit(np.ones((1, 2)), ["a"]).forget(np.ones((1, 2)), ["a"])
    with pytest.raises(ValueError, match="No class of this XLDA has samples"):
        clf.predict(np.ones((1, 2)))


@pytest.mark.filterwarnings("ignore:The covariance")
def test_equal_means_and_equal_embeddings(search):
    X = np.tile(np.arange(4, dtype=np.float32), (60, 1))
    labels, logits = XLDA(search=search).fit(X, np.arange(60)).predict_topk(X[:3], 2)
    assert np.isfinite(logits).all()
    assert set(labels.ravel()) <= set(range(60))
    X[:30] += 5
    clf = XLDA(search=search).fit(X, np.arange(60))
    assert (clf.predict(X[:1]) < 30).all()
    assert (clf.predict(X[-1:]) >= 30).all()


def test_unseen_classes_never_win(search, rng):
    X, y, _ = characters(rng, n_classes=40)
    clf = XLDA(search=search).partial_fit(X, y, classes=np.arange(100))
    assert clf.predict_topk(X, 40)[0].max() < 40
    assert clf.predict(X).max() < 40


def test_it_can_be_cloned_saved_and_loaded(search, rng, tmp_path):
    if isinstance(search, TwoStages):
        pytest.skip("a search of one's own cannot be saved")
    X, y, queries = characters(rng, n_classes=50)
    clf = clone(XLDA(search=search)).fit(X, y)
    clf.save(tmp_path / "model.xlda")
    again = xlda.load(tmp_path / "model.xlda")
    assert type(again.search) is type(search)
    assert {**vars(again.search), "queries": None} == {**vars(search), "queries": None}
    np.testing.assert_array_equal(again.predict(queries), clf.predict(queries))


def test_it_can_be_pickled(search, rng):
    X, y, queries = characters(rng, n_classes=50)
    clf = XLDA(search=search).fit(X, y)
    clf.partial_fit(X[:1], [99]).predict(queries[:1])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(clf)).predict(queries), clf.predict(queries))


def test_what_it_took_and_found_is_told(search, rng):
    X, y, queries = characters(rng)
    clf = XLDA(search=search).fit(X, y)
    for audit in (clf.audit(queries), clf.audit(n=50)):
        assert audit.found >= audit.agreement - 1e-9
        assert 0.5 < audit.agreement <= 1
        assert audit.seconds["median"] <= audit.seconds["p95"]
        assert audit.nbytes["weights"] >= 600 * 24 * 2  # or twice that
        assert "agrees with exact LDA" in str(audit)
        assert str(audit.picked["search"]) in str(audit)
    assert audit.drawn
    assert audit.n_queries == 50
    with pytest.raises(ValueError, match="n is at least 1"):
        clf.audit(n=0)


# -- readers beside a learner


def test_readers_see_whole_states_while_another_thread_learns(search, rng):
    """Classes come in pairs, both at once; who sees one of a pair must see the other."""
    X, y, _ = characters(rng, n_classes=100)
    clf = XLDA(search=search, renew=0.05).fit(X, y)
    spots = 50 * rng.normal(size=(60, X.shape[1])).astype(np.float32)
    done, wrong = threading.Event(), []

    def read():
        try:
            while not done.is_set():
                served = clf.snapshot()
                known = len(served.classes_)
                if (known - 100) % 2:
                    wrong.append(f"half a pair: {known}")
                before = served.predict(spots)
                if (served.predict(spots) != before).any() or len(served.classes_) != known:
                    wrong.append("a snapshot changed")
                n_pairs = (known - 100) // 2
                if n_pairs and (before[: 2 * n_pairs] < 1000).any():
                    wrong.append("a learned class was not found")
                clf.predict(spots[:3])
        except Exception as error:
            wrong.append(repr(error))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for pair in range(30):
        both = slice(2 * pair, 2 * pair + 2)
        clf.partial_fit(spots[both], [1000 + 2 * pair, 1001 + 2 * pair])
        clf.partial_fit(X[:64], y[:64])
        assert clf.predict(spots[both]).tolist() == [1000 + 2 * pair, 1001 + 2 * pair]
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong, wrong[:3]


def test_predicting_takes_no_lock_where_nothing_was_learned(search, rng):
    X, y, queries = characters(rng, n_classes=50)
    clf = XLDA(search=search).fit(X, y)
    expected, snapshot = clf.predict(queries), clf.snapshot()
    held = threading.Event()
    release = threading.Event()

    def hold():
        with clf._model.lock:
            held.set()
            release.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(30)
    np.testing.assert_array_equal(clf.predict(queries), expected)
    np.testing.assert_array_equal(snapshot.predict(queries), expected)
    release.set()
    holder.join()


def test_a_snapshot_predicts_as_the_classifier_did(search, rng):
    X, y, queries = characters(rng, n_classes=50)
    clf = XLDA(search=search, power=0.5).fit(np.abs(X), y)
    snapshot, then = clf.snapshot(), clf.decision_function(np.abs(queries))
    clf.partial_fit(np.abs(X[:100]) + 9, y[:100])
    np.testing.assert_array_equal(snapshot.decision_function(np.abs(queries)), then)
    np.testing.assert_array_equal(snapshot.classes_, np.arange(50))
    with pytest.raises(ValueError, match="expecting 24 features"):
        snapshot.predict(queries[:, :5])


# -- each of them


def test_fisher_keeps_the_agreement_it_is_asked_for(rng):
    X, y, queries = characters(rng, n_classes=3000, n_features=60, per_class=2)
    clf = XLDA(search=Fisher(target=0.99)).fit(X, y)
    picked = clf.audit(n=100).picked
    assert picked["coordinates"][0] < 60
    assert picked["candidates"][-1] < 1500
    assert picked["agreement when it was picked"] >= 0.99
    assert agreement(clf, queries) >= 0.98


def test_fisher_can_be_given_queries(rng):
    X, y, queries = characters(rng)
    clf = XLDA(search=Fisher(queries=queries)).fit(X, y)
    assert clf.audit(queries).picked["queries it was picked on"] == len(queries)
    assert agreement(clf, queries) >= 0.999


@pytest.mark.parametrize("bad", [np.ones((3, 5)), np.ones(24), np.ones((0, 24)), np.full((2, 24), np.nan)])
def test_fisher_refuses_queries_that_do_not_fit(bad, rng):
    X, y, _ = characters(rng, n_classes=50)
    with pytest.raises(ValueError, match=r"queries that are finite and of shape \(n, n_features\)"):
        XLDA(search=Fisher(queries=bad)).fit(X, y)


def test_fisher_makes_a_new_plan_only_when_classes_have_grown(rng):
    X, y, _ = characters(rng)
    search = Fisher()
    clf = XLDA(search=search, renew=0).fit(X, y)
    plan = clf._current_head().index.plan
    clf.partial_fit(X[:5], np.arange(700, 705)).predict(X[:1])
    assert clf._current_head().index.plan is plan
    clf.partial_fit(X[:700], np.arange(800, 1500)).predict(X[:1])
    assert clf._current_head().index.plan is not plan


def test_coordinates_are_those_of_scikit_learn(rng):
    """Distances in all coordinates rank classes as LDA does; the spread is largest first."""
    X, y, queries = characters(rng, n_classes=30, dtype=np.float64)
    kept = []
    search = Kept(kept)
    head = lda(shrinkage=0.1, search=search).fit(X, y)._current_head()
    coordinates = fisher_coordinates(kept[0], 24)
    assert (np.diff(coordinates.spread) <= 1e-9).all()
    points = (queries - head.centre) @ coordinates.of_queries
    means = head.index.rows.weights @ coordinates.of_weights
    np.testing.assert_allclose((means**2).mean(axis=0), coordinates.spread, rtol=1e-6)
    distances = ((points[:, None] - means[None]) ** 2).sum(axis=2)
    scores = head.scores(queries)
    np.testing.assert_allclose(
        -0.5 * (distances - distances[:, :1]), scores - scores[:, :1], atol=1e-6 * np.abs(scores).max()
    )


def test_lsh_is_the_published_way(rng):
    """Against the formulas as written: hyperplanes over raw means, C/10 nearest by Hamming distance."""
    X, y, queries = characters(rng, n_classes=200)
    clf = lda(search=LSH(n_bits=128, inactive="zero"), renew=0).fit(X, y)
    logits = clf.decision_function(queries)
    exact = clone(clf).set_params(search="dense").fit(X, y).decision_function(queries)
    planes = np.random.default_rng(0).standard_normal((24, 128))
    of_means, of_queries = clf.means_ @ planes > 0, queries @ planes > 0
    for number, query in enumerate(of_queries[:100]):
        distance = (of_means != query).sum(axis=1)
        active = logits[number] != 0
        assert active.sum() == 20
        assert distance[active].max() <= distance[~active].min()
        np.testing.assert_allclose(logits[number, active], exact[number, active], rtol=1e-3, atol=1e-2)
    clf.set_params(search=LSH(n_bits=128))
    np.testing.assert_array_equal(np.isneginf(clf.decision_function(queries)), logits == 0)
    assert np.isfinite(clf.predict_log_proba(queries)).sum(axis=1).tolist() == [20] * len(queries)


def test_with_zeros_for_the_inactive_probabilities_are_those_of_the_logits(rng):
    X, y, queries = characters(rng, n_classes=50)
    clf = lda(search=LSH(inactive="zero")).fit(X, y)
    logits = clf.decision_function(queries)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(clf.predict_proba(queries), odds / odds.sum(axis=1, keepdims=True), atol=1e-5)
    two = XLDA(search=LSH(inactive="zero")).fit(X[:8], y[:8])
    assert two.decision_function(X[:8]).shape == (8,)


@pytest.mark.parametrize("has_faiss", [True, False])
def test_auto_is_dense_for_few_and_for_many_the_fast_scan_or_fisher_without_faiss(has_faiss, monkeypatch):
    monkeypatch.setattr("xlda.search._has_faiss", lambda: has_faiss)
    searched = FastScan if has_faiss else Fisher
    assert isinstance(chosen_search("auto", 1000, 1280), Dense)
    assert isinstance(chosen_search("auto", 8142, 1280), searched)
    assert isinstance(chosen_search("auto", 1000, 1280, half=True), searched)
    assert isinstance(chosen_search("auto", 500, 1280, half=True), Dense)
    assert isinstance(chosen_search("lsh", 8142, 1280), LSH)


@pytest.mark.parametrize("bad", ["nearest", 7, None, object()])
def test_what_is_no_search_is_refused(bad):
    with pytest.raises(ValueError, match="search is 'auto', one of"):
        XLDA(search=bad).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Fisher(target=1.0), "target is a share"),
        (lambda: FastScan(target=0.0), "target is a share"),
        (lambda: LSH(n_bits=100), "multiple of 64"),
        (lambda: LSH(share=0), "share is above 0"),
        (lambda: LSH(inactive="one"), "inactive is"),
        (lambda: Faiss(kind="tree"), "kind is"),
        (lambda: Faiss(effort=0), "effort is at least 1"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("search", ["faiss", "fast scan"])
def test_faiss_says_how_to_install_it(search, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(ImportError, match=r"needs FAISS: pip install .*\[faiss\]"):
        XLDA(search=search).fit([[0.0], [1.0]], [0, 1])


def test_a_search_of_ones_own_can_be_used_but_not_saved(rng, tmp_path):
    X, y, _ = characters(rng, n_classes=50)
    clf = XLDA(search=TwoStages()).fit(X, y)
    with pytest.raises(ValueError, match="cannot be saved"):
        clf.save(tmp_path / "model.xlda")
    assert not (tmp_path / "model.xlda").exists()


# -- ranking


@pytest.mark.parametrize("k", [1, 2, 5, 32, 33, 60, 80])
def test_the_best_are_sorted_and_ties_go_to_the_lower_row(k, rng):
    scores = rng.integers(0, 9, size=(50, 60)).astype(float)
    columns, best = best_columns(scores.copy(), k)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(columns[:, :60], expected)
    np.testing.assert_array_equal(best[:, :60], np.take_along_axis(scores, expected, axis=1))
    assert (best[:, 60:] == -np.inf).all()


@pytest.mark.parametrize("m", [1, 10, 600, 5000])
@pytest.mark.parametrize("n", [1, 7, 100, 600])
@pytest.mark.parametrize("kind", ["normal", "ties", "sorted", "backwards", "mostly -inf"])
def test_the_best_places_are_the_largest_scores(n, m, kind, rng):
    scores = rng.normal(size=m)
    if kind == "ties":
        scores = rng.integers(0, 3, m).astype(float)
    if kind in ("sorted", "backwards"):
        scores = np.sort(scores)[:: 1 if kind == "sorted" else -1].copy()
    if kind == "mostly -inf":
        scores[: m * 9 // 10] = -np.inf
    places = best_places(scores, n)
    assert (np.diff(places) > 0).all()
    assert len(places) >= min(n, m)
    left_out = np.delete(scores, places)
    if len(left_out):
        assert left_out.max() < scores[places].min()
    if kind == "normal":
        assert len(places) == min(n, m)


def test_shortlists_are_ranked_by_exact_scores(rng):
    weights, bias, queries = rng.normal(size=(50, 4)), rng.normal(size=50), rng.normal(size=(20, 4))
    shortlists = [np.sort(rng.choice(50, size, replace=False)) for size in [0, 1, 2, *[40] * 17]]
    rows, scores = top_of_shortlists(ClassRows((weights,), bias), queries, shortlists, 3)
    for number, shortlist in enumerate(shortlists):
        exact = weights[shortlist] @ queries[number] + bias[shortlist]
        order = np.argsort(-exact)[:3]
        np.testing.assert_array_equal(rows[number, : len(order)], shortlist[order])
        np.testing.assert_allclose(scores[number, : len(order)], exact[order])
        assert (scores[number, len(order) :] == -np.inf).all()


def test_two_rankings_become_one():
    rows, more_rows = np.array([[4, 9]]), np.array([[2, 7]])
    scores, more_scores = np.array([[5.0, 1.0]]), np.array([[5.0, 3.0]])
    best_rows, best = merged(rows, scores, more_rows, more_scores, 3)
    assert best_rows.tolist() == [[2, 4, 7]]
    assert best.tolist() == [[5.0, 5.0, 3.0]]


def test_fisher_takes_batches_to_all_of_few_classes(rng, monkeypatch):
    X, y, queries = characters(rng)
    clf = XLDA(search=TwoStages()).fit(X, y)
    exact = XLDA(search="dense").fit(X, y)
    calls = []

    class Watched(DenseIndex):
        def top(self, queries, k, without):
            calls.append(len(queries))
            return super().top(queries, k, without)

    monkeypatch.setattr("xlda.search.fisher.DenseIndex", Watched)
    clf.predict(queries)
    monkeypatch.setattr("xlda.search.fisher.SEARCHED", np.inf)
    clf.predict(queries[:1])
    assert not calls
    np.testing.assert_array_equal(clf.predict(queries), exact.predict(queries))
    assert calls == [len(queries)]


def test_directions_are_found_another_way_where_the_first_fails(monkeypatch, rng):
    """LAPACK's quick way of finding some eigenvalues gives up on some matrices."""
    from scipy import linalg

    from xlda.search import coordinates

    matrix = rng.normal(size=(20, 20))
    matrix = matrix @ matrix.T
    plain, eigh = coordinates._largest(matrix, 4), linalg.eigh

    def fails(*arguments, **options):
        if "subset_by_index" in options:
            raise linalg.LinAlgError("Internal Error.")
        return eigh(*arguments, **options)

    monkeypatch.setattr(linalg, "eigh", fails)
    values, vectors = coordinates._largest(matrix, 4)
    np.testing.assert_allclose(values, plain[0])
    np.testing.assert_allclose(np.abs(vectors.T @ plain[1]), np.eye(4), atol=1e-8)
    np.testing.assert_allclose(values, np.sort(np.linalg.eigvalsh(matrix))[-4:])


@pytest.fixture
def tuned_again(monkeypatch):
    """How often a search was tuned."""
    from xlda.search import fisher

    calls, tuned = [], fisher.tuned

    def counted(*given):
        calls.append(given)
        return tuned(*given)

    monkeypatch.setattr(fisher, "tuned", counted)
    return calls


def test_a_search_is_not_tuned_again_after_saving_and_loading(rng, tmp_path, tuned_again):
    X = rng.normal(size=(600, 12)).astype(np.float32)
    y = np.arange(600) % 150
    clf = XLDA(search="fisher").fit(X, y)
    queries = rng.normal(size=(50, 12)).astype(np.float32)
    clf.predict(queries)
    clf.partial_fit(X[:20] + 0.1, y[:20])
    clf.save(tmp_path / "a.xlda")
    assert len(tuned_again) == 1
    loaded = xlda.load(tmp_path / "a.xlda")
    np.testing.assert_array_equal(loaded.predict(queries), clf.predict(queries))
    assert loaded.audit(queries).picked == clf.audit(queries).picked
    loaded.save(tmp_path / "b.xlda")
    xlda.load(tmp_path / "b.xlda").set_params(renew=0).partial_fit(X[:3], y[:3]).predict(queries)
    assert len(tuned_again) == 1


def test_a_saved_plan_is_for_its_target_and_about_as_many_classes(rng, tmp_path, tuned_again):
    X = rng.normal(size=(600, 12)).astype(np.float32)
    clf = XLDA(search="fisher").fit(X, np.arange(600) % 150)
    clf.predict(X[:1])
    clf.save(tmp_path / "a.xlda")
    xlda.load(tmp_path / "a.xlda").set_params(search=Fisher(target=0.9)).predict(X[:1])
    assert len(tuned_again) == 2
    xlda.load(tmp_path / "a.xlda").set_params(search=Fisher(queries=X)).predict(X[:1])
    assert len(tuned_again) == 3
    xlda.load(tmp_path / "a.xlda").partial_fit(X[:100], np.arange(1000, 1100)).predict(X[:1])
    assert len(tuned_again) == 4


@pytest.mark.parametrize("make", [Fisher, TwoStages])
def test_many_queries_at_once_are_scored_by_all_stages_and_then_exactly(make, rng):
    X, y, queries = characters(rng, n_classes=2000)
    head = XLDA(search=make()).fit(X, y)._current_head()
    points = head.space.queries(queries)
    exact = head.index.rows.scores(points.astype(np.float64))
    left_out = np.unique(exact[:40].argmax(axis=1))
    exact[:, left_out] = -np.inf
    rows, scores = head.index.top(points, 2, left_out)
    assert (rows == np.argsort(-exact, axis=1)[:, :2]).mean() >= 0.98
    np.testing.assert_allclose(scores, np.take_along_axis(exact, rows, axis=1), rtol=1e-3, atol=0.05)
    shortlists = [rows for rows, _ in head.index._searched_at_once(points[:50], 1, left_out)]
    assert max(map(len, shortlists)) < 2000 / 4
