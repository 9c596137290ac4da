"""What the report counts, and what XLDA is compared with in it, against plain formulas."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.neighbors import NearestCentroid

ROOT = Path(__file__).parents[1]
BENCHMARKS = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    """Benchmarks are programs side by side in a folder, not a package."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    yield
    for name in BENCHMARKS:
        sys.modules.pop(name, None)


@pytest.fixture
def case(rng):
    from cases import Case

    centres = 3 * rng.normal(size=(20, 16)).astype(np.float32)
    rows, asked = np.repeat(np.arange(20), 6), np.repeat(np.arange(20), 3)

    def around(labels):
        return centres[labels] + rng.normal(size=(len(labels), 16)).astype(np.float32)

    return Case(around(rows), rows, around(asked), asked, 20)


def stored_characters(path, n_classes=12, train=3, test=2):
    """A file as benchmarks/characters.py writes it: every embedding says whose it is, and which."""
    y = np.repeat(100 + np.arange(n_classes), train + test)
    which = np.tile(np.arange(train + test), n_classes)
    np.savez(path, X=np.stack([y, which], axis=1).astype(np.float16), y=y, train=train)
    return path


def test_characters_are_learned_from_training_samples_and_asked_by_others(tmp_path):
    import cases

    case = cases.characters(stored_characters(tmp_path / "c.npz"), n_classes=7, seed=1, per_class=2)
    assert case.X.shape == (14, 2)
    assert case.queries.shape == (14, 2)
    assert set(case.X[:, 1]) <= {0, 1, 2}
    assert set(case.queries[:, 1]) == {3, 4}
    code_points = dict(zip(case.rows.tolist(), case.X[:, 0].tolist(), strict=True))
    assert len(set(code_points.values())) == 7
    assert [code_points[row] for row in case.query_rows.tolist()] == case.queries[:, 0].tolist()
    other = cases.characters(tmp_path / "c.npz", n_classes=7, seed=2)
    assert other.X[:, 0].tolist()[::3] != case.X[:, 0].tolist()[::2]
    with pytest.raises(ValueError, match="12 classes"):
        cases.characters(tmp_path / "c.npz", n_classes=13, seed=0)


@pytest.mark.parametrize("stream", ["one by one", "groups", "random"])
def test_every_sample_comes_once(case, stream):
    import cases

    tenths = list(cases.arrivals(case, stream, seed=0))
    assert len(tenths) == 10
    assert sorted(np.concatenate([some for batches in tenths for some in batches])) == list(range(120))
    if stream == "one by one":
        assert [set(case.rows[some]) for batches in tenths for some in batches] == [{k} for k in range(20)]
    if stream == "groups":
        assert [set(case.rows[np.concatenate(batches)]) for batches in tenths] == [
            {2 * k, 2 * k + 1} for k in range(10)
        ]


def learned(learner, case):
    learner.learn(case.X[:50], case.rows[:50])
    learner.learn(case.X[50:], case.rows[50:])
    learner.end_of_group()
    return learner


def test_nearest_mean_is_scikit_learns(case):
    from learners import NearestMean

    oracle = NearestCentroid().fit(case.X, case.rows)
    answers = learned(NearestMean(case), case).predict(case.queries, np.ones(20, bool))
    np.testing.assert_array_equal(answers, oracle.predict(case.queries))


def test_ridge_on_random_features_is_scikit_learns_on_the_same_features(case, monkeypatch):
    from learners import RandomFeatureRidge

    monkeypatch.setattr(RandomFeatureRidge, "WIDTH", 60)
    learner = learned(RandomFeatureRidge(case, seed=0), case)
    features = learner._features(case.X).astype(np.float64)
    penalty = learner._ridge * np.mean(np.sum(features**2, axis=0))
    oracle = Ridge(penalty, fit_intercept=False).fit(features, np.eye(20)[case.rows])
    np.testing.assert_allclose(learner._weights, oracle.coef_, rtol=1e-2, atol=1e-3)
    answers = learner.predict(case.queries, np.ones(20, bool))
    best = oracle.predict(learner._features(case.queries).astype(np.float64)).argmax(axis=1)
    np.testing.assert_array_equal(answers, best)


def test_no_method_answers_with_a_class_to_come(case):
    pytest.importorskip("torch")
    import accuracy

    for method in accuracy.METHODS:
        learner = accuracy.make(method, case, seed=0)
        some = case.rows < 8
        if learner.joint:
            learner.learn(case.X, case.rows)
        else:
            learner.learn(case.X[some], case.rows[some])
            learner.end_of_group()
        answers = learner.predict(case.queries, np.arange(20) < 8)
        assert answers.max() < 8, method
        assert (answers == case.query_rows)[case.query_rows < 8].mean() > 0.5, method
        assert learner.nbytes > 0


def test_a_stream_is_counted_group_by_group(case):
    import accuracy

    run = accuracy.follow(case, "XLDA", "groups", seed=0)
    assert [point["classes"] for point in run["checkpoints"]] == list(range(2, 21, 2))
    assert run["checkpoints"][2]["asked"] == [6, 6, 6, 0, 0, 0, 0, 0, 0, 0]
    at_once = accuracy.follow(case, "scikit-learn LDA, all at once", "groups", seed=0)
    assert sum(at_once["checkpoints"][-1]["asked"]) == 60
    assert sum(run["checkpoints"][-1]["right"]) > 40


def test_final_average_and_forgetting_by_hand():
    import accuracy_page

    run = {
        "checkpoints": [
            {"asked": [10, 0, 0], "right": [9, 0, 0]},
            {"asked": [10, 10, 0], "right": [10, 6, 0]},
            {"asked": [10, 10, 20], "right": [5, 7, 20]},
        ]
    }
    assert accuracy_page.final(run) == 32 / 40
    assert accuracy_page.average(run) == pytest.approx((0.9 + 0.8 + 0.8) / 3)
    assert accuracy_page.forgetting(run) == pytest.approx((0.5 + -0.1) / 2)


def test_on_par_means_less_than_a_point_or_two_standard_errors():
    from on_par_page import verdict

    assert verdict([0.9, 0.9, 0.9]) == "on par"
    assert verdict([2.0, 2.1, 1.9]) == "XLDA"
    assert verdict([2.0, 2.1, 1.9], "plain LDA") == "plain LDA"
    assert verdict([-2.0, -2.1, -1.9]) == "FC"
    assert verdict([6.0, -2.0, 2.0]) == "on par"


def test_when_a_layer_catches_up():
    import race_page

    points = [
        {"epoch": 0, "seconds": 0.0, "right": 1},
        {"epoch": 1, "seconds": 3.0, "right": 40},
        {"epoch": 2, "seconds": 6.0, "right": 70},
    ]
    course = {
        "heads": {"XLDA": {"learn": 2.0, "ready": 0.5, "right": 60, "asked": 100}},
        "fc": {"random": {"points": points}},
    }
    assert race_page.after_same_time(course, "XLDA")["right"] == 40
    assert race_page.catches_up(course, "XLDA")["seconds"] == 6.0
    course["heads"]["XLDA"]["right"] = 71
    assert race_page.catches_up(course, "XLDA") is None


def test_an_fc_layer_goes_on_from_a_layer(case):
    pytest.importorskip("torch")
    from fc_layer import FCLayer, Training

    from xlda import XLDA

    clf = XLDA().fit(case.X, case.rows)
    layer = FCLayer(20, 16, seed=0, start=clf.to_linear())
    np.testing.assert_array_equal(layer.predict(case.queries), clf.predict(case.queries))
    before = (FCLayer(20, 16, seed=0).predict(case.X) == case.rows).mean()
    trained = FCLayer(20, 16, seed=0)
    steps = []
    trained.train(case.X, case.rows, Training(0.01, 30, 32), lambda *step: steps.append(step))
    assert len(steps) == 30 * 4
    assert before < 0.3 < 0.9 < (trained.predict(case.X) == case.rows).mean()
    assert trained.predict(case.queries, np.arange(20) < 3).max() < 3


def test_options_without_their_file_are_left_out():
    import run

    told = ["--npz", "{photos}", "--glyphs", "{glyphs}", "--sizes", "500"]
    assert run.options_of(told, {"glyphs": "g.npz"}) == ["--glyphs", "g.npz", "--sizes", "500"]


def test_the_page_as_html_holds_its_plots(tmp_path):
    from html_page import as_html

    (tmp_path / "plot.svg").write_text("<svg/>")
    html = as_html("# A page\n\n| a | b |\n| --- | --- |\n| 1 ± 0.5 | 2 < 3 |\n\n![x](plot.svg)\n", tmp_path)
    assert "<td>2 &lt; 3</td>" in html
    assert "<td>1\u00a0±\u00a00.5</td>" in html
    assert "data:image/svg+xml;base64,PHN2Zy8+" in html


def test_only_an_interrupted_run_with_the_same_options_is_taken_up(tmp_path):
    import accuracy

    path, options = tmp_path / "accuracy.json", {"sizes": [100], "seeds": 1, "full": False}
    fresh = accuracy.taken_up(path, options)
    assert fresh["sources"] == []
    earlier = {**fresh, "sources": [{"name": "photos", "classes": 81}], "seconds": 9.0, "complete": False}
    path.write_text(json.dumps(earlier))
    assert accuracy.taken_up(path, options) == earlier
    assert accuracy.taken_up(path, {**options, "seeds": 2})["sources"] == []
    path.write_text(json.dumps({**earlier, "complete": True}))
    assert accuracy.taken_up(path, options)["sources"] == []


def test_what_is_left_out_of_the_streams():
    from accuracy import METHODS, Source, streams_of

    def tried(name, n_classes, full=False):
        source = Source(name, Path("none"), n_classes, 1)
        return {method: streams for method in METHODS if (streams := streams_of(method, source, full))}

    assert tried("unseen fonts", 1_000) == tried("unseen renderings", 1_000)
    assert tried("unseen fonts", 50_000, full=True) == {method: list(METHODS[method]) for method in METHODS}
    fonts, renderings = tried("unseen fonts", 10_000), tried("unseen renderings", 10_000)
    assert set(renderings) - set(fonts) == {"FC, fine-tuned", "FC, all at once"}
    assert {stream for streams in fonts.values() for stream in streams} == {"groups"}
    for exact in ("XLDA", "plain LDA"):
        assert renderings[exact] == ["one by one", "groups", "random"]


def test_counts_of_every_scheme():
    from imbalanced import Setting

    assert Setting("half poor", 2).counts(30, 5).tolist() == [30, 30, 30, 2, 2]
    assert Setting("90 % poor", 1).counts(30, 10).tolist() == [30, *[1] * 9]
    assert Setting("one poor", 3).counts(30, 4, turn=1).tolist() == [30, 30, 3, 30]
    tail = Setting("long tail", 5)
    assert tail.counts(16, 5).tolist() == [16, 8, 4, 2, 1]
    assert tail.poor(tail.counts(16, 5)).tolist() == [False, False, True, True, True]
    equal = Setting("equal", 3)
    assert equal.counts(30, 3).tolist() == [3, 3, 3]
    assert not equal.poor(equal.counts(30, 3)).any()


def test_poor_classes_keep_so_many_samples_by_chance(case):
    from imbalanced import Setting, thinned

    counts = Setting("half poor", 2).counts(9, 20)
    some = thinned(case, counts, seed=0)
    assert np.bincount(some.rows).tolist() == [6] * 10 + [2] * 10
    learned = {sample.tobytes(): row for sample, row in zip(case.X, case.rows, strict=True)}
    assert [learned[sample.tobytes()] for sample in some.X] == some.rows.tolist()
    assert len(some.queries) == len(case.queries)
    more = thinned(case, np.where(counts == 2, 3, counts), seed=0)
    kept = {sample.tobytes() for sample in more.X}
    assert all(sample.tobytes() in kept for sample in some.X)
    assert not np.array_equal(some.X, thinned(case, counts, seed=1).X)


def test_the_textbook_is_the_joint_gaussian_of_samples_and_query(rng):
    """A class's mean is drawn from N(m, T): then its samples and a query of it are Gaussian together."""
    from imbalanced_learners import textbook_answers
    from scipy.stats import multivariate_normal

    d, counts = 3, np.array([1, 1, 2, 4, 9, 40])
    spread = rng.normal(size=(d, d))
    sigma = spread @ spread.T + np.eye(d)
    means = 6 * rng.normal(size=(6, d))
    queries = means.repeat(20, axis=0) + 3 * rng.normal(size=(120, d))
    centre = means.mean(axis=0)
    T = np.cov(means.T) - np.mean(1 / counts) * sigma
    assert np.linalg.eigvalsh(T).min() > 0
    logs = []
    for n, mean in zip(counts, means, strict=True):
        gain = T @ np.linalg.inv(T + sigma / n)
        predicted = centre + gain @ (mean - centre)
        logs.append(multivariate_normal(predicted, sigma + T - gain @ T).logpdf(queries))
    answers = textbook_answers(counts, means, sigma, queries)
    np.testing.assert_array_equal(answers, np.argmax(logs, axis=0))


def test_axes_of_class_means_are_the_same_from_either_side(rng):
    from imbalanced_learners import spread_of_means

    means, n = 3 * rng.normal(size=(5, 5)), np.full(5, 4)
    psi, axes = spread_of_means(means, n)
    want = np.cov(means.T) - 0.25 * np.eye(5)
    values, vectors = np.linalg.eigh(want)
    kept = vectors[:, values > 0] * values[values > 0] @ vectors[:, values > 0].T
    np.testing.assert_allclose(axes * psi @ axes.T, kept, atol=1e-8)
    wide = np.concatenate([means, np.zeros((5, 7))], axis=1)
    np.testing.assert_allclose(spread_of_means(wide, n)[0], psi, rtol=1e-8)
    tall, many = np.concatenate([means] * 3), np.full(15, 4)
    values = np.linalg.eigvalsh(np.cov(tall.T) - 0.25 * np.eye(5))
    np.testing.assert_allclose(np.sort(spread_of_means(tall, many)[0]), values[values > 0], rtol=1e-8)


def test_nearest_by_cosine_is_scikit_learns(case):
    from imbalanced_learners import NearestMeanByCosine, NearestSampleByCosine
    from sklearn.metrics.pairwise import cosine_similarity
    from sklearn.neighbors import KNeighborsClassifier

    seen = np.ones(20, bool)
    means = np.stack([case.X[case.rows == row].mean(axis=0) for row in range(20)])
    answers = learned(NearestMeanByCosine(case), case).predict(case.queries, seen)
    np.testing.assert_array_equal(answers, cosine_similarity(case.queries, means).argmax(axis=1))
    oracle = KNeighborsClassifier(1, metric="cosine").fit(case.X, case.rows)
    answers = learned(NearestSampleByCosine(), case).predict(case.queries, seen)
    np.testing.assert_array_equal(answers, oracle.predict(case.queries))


@pytest.fixture
def few_photos(tmp_path, rng):
    """A file as that of the shop photos, of 12 classes."""
    centres = rng.uniform(0, 4, size=(12, 16))
    y, val_y = np.repeat(np.arange(12), 8), np.repeat(np.arange(12), 4)
    X, val_X = (np.abs(centres[rows] + rng.normal(size=(len(rows), 16))) for rows in (y, val_y))
    path = tmp_path / "photos.npz"
    np.savez(path, train_X=X, train_y=y, val_X=val_X, val_y=val_y)
    return path


def test_an_imbalanced_run_is_taken_up_and_shown(few_photos, tmp_path, monkeypatch):
    import imbalanced
    import imbalanced_page
    from imbalanced import RandomFeatureRidge

    monkeypatch.setattr(RandomFeatureRidge, "WIDTH", 60)
    monkeypatch.setattr(imbalanced, "METHODS", imbalanced.METHODS[:-1])  # no layer: it takes seconds
    monkeypatch.setattr(imbalanced, "FEW", (1, 3))
    out = tmp_path / "imbalanced.json"
    monkeypatch.setattr(sys, "argv", ["", "--npz", str(few_photos), "--draws", "2", "--out", str(out)])
    few = imbalanced.Source("photos", few_photos, 12, None, 2, 2, slow_draws=1, turns=3, slow_turns=1)
    monkeypatch.setattr(imbalanced, "sources_of", lambda arguments: [few])
    imbalanced.main()
    results = json.loads(out.read_text())
    assert results["complete"]
    tried = [(found["scheme"], found["few"]) for found in results["settings"]]
    assert tried == [
        *((scheme, few) for scheme in ("half poor", "90 % poor", "one poor") for few in (1, 3)),
        ("long tail", 3),
        *(("equal", n) for n in (2, 3, 8)),
    ]
    first = results["settings"][0]["methods"]
    assert set(first) == set(imbalanced.METHODS)
    assert [run["asked"] for runs in first.values() for run in runs] == [[24, 24]] * 13
    alone = results["settings"][4]["methods"]
    assert alone["XLDA"][0]["asked"] == [3 * 44, 3 * 4]
    assert alone["ridge on random features"][0]["asked"] == [44, 4]
    page = imbalanced_page.page(results)
    assert "| half poor, 1 |" in page
    results["settings"][0]["methods"]["XLDA"][0]["right"] = [0, 0]
    assert imbalanced_page.page(results) != page

    half = {**results, "settings": results["settings"][:-1], "complete": False}
    half["settings"][0]["mark"] = True
    out.write_text(json.dumps(half))
    imbalanced.main()
    again = json.loads(out.read_text())
    assert again["complete"]
    assert again["settings"][0]["mark"]
    assert len(again["settings"]) == len(tried)


def test_figures_of_a_draw_by_hand():
    from imbalanced_page import figure

    run = {"asked": [8, 4], "right": [6, 1]}
    assert figure(run, "all") == 7 / 12
    assert figure(run, "rich") == 0.75
    assert figure(run, "poor") == 0.25
    assert figure(run, "H") == pytest.approx(2 * 0.75 * 0.25 / 1.0)
    assert figure({"asked": [8, 4], "right": [0, 0]}, "H") == 0.0


def test_the_imbalanced_page_shows_the_stored_results():
    import imbalanced_page

    if not imbalanced_page.RESULTS.exists():
        pytest.skip("benchmarks/imbalanced.py has not been run yet")
    assert imbalanced_page.page(imbalanced_page.stored()) == imbalanced_page.PAGE.read_text()


# -- the unknown


def test_scores_of_others_are_what_they_are_called(rng):
    import unknown_scores
    from scipy.spatial.distance import cdist

    from xlda import XLDA

    centres = 2 * rng.normal(size=(6, 5))
    y = np.repeat(np.arange(6), 20)
    X = (centres[y] + rng.normal(size=(120, 5))).astype(np.float32)
    queries = (3 * rng.normal(size=(40, 5))).astype(np.float32)
    found = unknown_scores.all_scores(X, y, queries)
    clf = XLDA(power=None, model="lda").fit(X, y)
    sigma = (1 - clf.shrinkage_) * clf.covariance_
    sigma = sigma + clf.shrinkage_ * np.trace(clf.covariance_) / 5 * np.eye(5)
    to_means = cdist(queries, clf.means_, "mahalanobis", VI=np.linalg.inv(sigma)) ** 2
    np.testing.assert_allclose(found["Mahalanobis"], -to_means.min(axis=1), rtol=1e-4)
    total = np.cov(X.T)
    total = (1 - clf.shrinkage_) * total + clf.shrinkage_ * np.trace(total) / 5 * np.eye(5)
    to_all = cdist(queries, X.mean(axis=0, keepdims=True), "mahalanobis", VI=np.linalg.inv(total)) ** 2
    np.testing.assert_allclose(
        found["relative Mahalanobis"], to_all[:, 0] - to_means.min(axis=1), rtol=1e-3, atol=1e-3
    )
    apart = np.sort(cdist(queries, X, "sqeuclidean"), axis=1)
    np.testing.assert_allclose(found["10-NN"], -apart[:, 9], rtol=1e-3, atol=1e-3)
    logits = clf.decision_function(queries)
    np.testing.assert_allclose(found["energy"], np.log(np.exp(logits).sum(axis=1)), rtol=1e-4, atol=1e-4)
    best = np.sort(logits, axis=1)
    np.testing.assert_allclose(found["margin"], best[:, -1] - best[:, -2], rtol=1e-4, atol=1e-4)
    of_length_one = X / np.linalg.norm(X, axis=1, keepdims=True)
    lengths = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    apart = np.sort(cdist(lengths, of_length_one, "sqeuclidean"), axis=1)
    np.testing.assert_allclose(found["10-NN, L2-normalised"], -apart[:, 9], rtol=1e-3, atol=1e-3)


def test_a_run_on_the_unknown_is_stored_and_shown(few_photos, tmp_path, monkeypatch):
    import unknown
    import unknown_page

    monkeypatch.setattr(unknown, "N_UNKNOWN", 3)
    monkeypatch.setattr(unknown, "N_CONFIRMED", 10)
    monkeypatch.setattr(unknown_page, "PLOT", tmp_path / "unknown.svg")
    out = tmp_path / "unknown.json"
    monkeypatch.setattr(sys, "argv", ["", "--npz", str(few_photos), "--splits", "2", "--out", str(out)])
    unknown.main()
    results = json.loads(out.read_text())
    assert len(results["auroc"]["photos"]) == 2
    assert 0.5 < results["auroc"]["photos"][0]["XLDA"] <= 1
    first = results["judged"]["photos, another day"][0]
    assert first["accuracy"] == pytest.approx(sum(first["right"]) / sum(first["told"]))
    assert sum(first["told"]) == 9 * 4
    assert sum(results["judged"]["photos, another day, 200 answers confirmed"][0]["told"]) == 9 * 4 - 10
    assert unknown.percents(np.array([0.0, 0.014, 0.999, 1.0]))[::99] == [1, 2]
    told, right = np.zeros(100, int), np.zeros(100, int)
    told[[20, 80, 81]], right[[20, 80, 81]] = (1, 10, 1), (0, 7, 0)
    assert unknown_page.reliability(told, right) == [(20.5, 0.0), (80.5, 70.0), (81.5, 0.0)]
    shown = unknown_page.page(results)
    first["rejected"] += 0.5
    assert unknown_page.page(results) != shown
    unknown_page.draw(results)
    assert "<svg" in (tmp_path / "unknown.svg").read_text()


def test_the_page_on_the_unknown_shows_the_stored_results():
    import unknown_page

    if not unknown_page.RESULTS.exists():
        pytest.skip("benchmarks/unknown.py has not been run yet")
    assert unknown_page.page(unknown_page.stored()) == unknown_page.PAGE.read_text()


def test_the_page_of_a_fleet_shows_what_was_measured():
    import fleet_page

    if not fleet_page.RESULTS.exists():
        pytest.skip("benchmarks/fleet.py has not been run yet")
    found, text = json.loads(fleet_page.RESULTS.read_text()), fleet_page.PAGE.read_text()
    assert fleet_page.page(found, text) == text
    found["folder"]["bytes"]["whole"] *= 2
    assert fleet_page.page(found, text) != text


def test_the_page_of_the_service_shows_what_was_measured():
    import service_page

    found, text = json.loads(service_page.RESULTS.read_text()), service_page.PAGE.read_text()
    assert service_page.page(found, text) == text
    found["start"]["median"] += 1.0
    assert service_page.page(found, text) != text
    found["memory"] = [10**8, 10**8, 11 * 10**7]
    assert "100 MB, 110 MB: +10.0%" in service_page.figures(found)


def test_the_page_of_waits_shows_what_was_measured():
    import waits_page

    waits, late, million = waits_page.stored()
    assert waits_page.page(waits, late, million) == waits_page.PAGE.read_text()
    waits["sizes"]["1000"]["quiet"][0]["longest"] += 1.0
    assert waits_page.page(waits, late, million) != waits_page.PAGE.read_text()


def test_a_late_head_has_all_means_and_the_covariance_as_it_was(tmp_path, monkeypatch, rng):
    import late

    means = np.repeat(rng.normal(size=(30, 8)) * 3, 10, axis=0)
    X, y = means + rng.normal(size=(300, 8)), np.repeat(np.arange(30), 10)
    np.savez(tmp_path / "many.npz", X=X, y=y, train=8)
    out = tmp_path / "late.json"
    monkeypatch.setattr(late, "SHARES", (0.5,))
    monkeypatch.setattr(
        sys, "argv", ["", "--npz", str(tmp_path / "many.npz"), "--seeds", "2", "--out", str(out)]
    )
    late.main()
    streams = json.loads(out.read_text())["streams"]
    assert all(0.5 < told["0.5"][which] <= 1 for told in streams.values() for which in ("late", "renewed"))


def test_the_best_of_all_scores_are_those_of_a_dense_search(rng, monkeypatch):
    import million

    from xlda import XLDA

    monkeypatch.setattr(million, "ROWS_AT_ONCE", 7)
    X, y = rng.normal(size=(90, 6)).astype(np.float32) + np.arange(90)[:, None] % 30, np.arange(90) % 30
    clf = XLDA(search="dense").fit(X, y)
    np.testing.assert_array_equal(million.by_all_scores(clf._current_head(), X), clf.predict(X))


def test_a_million_classes_are_told():
    import waits_page

    told = {
        "predict one, milliseconds": 2.34,
        "the longest of them, milliseconds": 5.0,
        "load to first answer, seconds": 9.0,
        "memory of the process, GB": 4.1,
        "agreement with exact scores": 0.999,
        "search": {"search": "fast scan"},
    }
    shown = waits_page.many({"searches": {"auto": told}})
    assert "| fast scan | 2.3 | 5.0 | 9.0 | 4.10 | 99.9% |" in shown


def test_drawn_classes_are_the_same_each_time_and_as_many_as_told():
    from drawn import Drawn

    drawn, again = Drawn(30, seed=3), Drawn(30, seed=3)
    batches = list(drawn.batches(16))
    rows = np.concatenate([rows for _, rows in batches])
    np.testing.assert_array_equal(np.bincount(rows), drawn.counts)
    np.testing.assert_array_equal(np.concatenate([X for X, _ in again.batches(16)])[:4], batches[0][0][:4])
    kin, strangers = drawn._mean(0) - drawn._mean(1), drawn._mean(0) - drawn._mean(9)
    assert np.linalg.norm(kin) < np.linalg.norm(strangers)


def test_rare_classes_have_few_pictures_and_the_others_all(rng):
    pytest.importorskip("onnxruntime")
    import views

    labels = np.repeat(np.arange(10), 7)
    parts = np.tile([0, 0, 0, 0, 0, 1, 1], 10)
    pictures = views.Pictures([], labels, parts)
    drawn = views.few(pictures, 2, seed=3)
    assert set(parts[drawn]) == {0}
    assert sorted(np.bincount(labels[drawn]).tolist()) == [2] * 5 + [5] * 5
    assert set(views.few(pictures, 2, seed=4).tolist()) != set(drawn.tolist())
    (name, ((learned, asked),)), *halves = views.questions("shop photos", pictures)
    assert name == "shop photos"
    assert (learned.sum(), asked.sum()) == (50, 20)
    assert [half for half, _ in halves] == ["half with 3", "half with 1"]
    designs = views.Pictures([], labels, np.tile([0, 1, 2, 3, 0, 1, 2], 10))
    for question, tries in views.questions("emoji", designs):
        assert all(not (learned & asked).any() and (learned | asked).all() for learned, asked in tries)
        assert ("3" in question) == (tries[0][0].sum() > tries[0][1].sum())


@pytest.mark.parametrize("name", ["photos", "views"])
def test_the_page_of_backbones_shows_what_was_measured(name):
    pytest.importorskip("onnxruntime")
    benchmark = __import__(name)
    page, results = benchmark.PAGE.read_text(), json.loads(benchmark.RESULTS.read_text())
    assert benchmark.updated(page, results) == page
    results["rows"].pop()
    assert benchmark.updated(page, results) != page


def dozens_of(monkeypatch, out, *options):
    import dozens

    told = ["", "--digits", "--per-class", "3", "--seeds", "2", "--lifts", "64", "--out", str(out), *options]
    monkeypatch.setattr(sys, "argv", told)
    dozens.main()
    return json.loads(out.read_text())


def test_methods_are_added_to_a_run_of_dozens_and_shown(tmp_path, monkeypatch):
    import dozens_page
    from learners import RandomFeatureRidge

    monkeypatch.setattr(RandomFeatureRidge, "WIDTH", 60)
    out = tmp_path / "dozens.json"
    first = ("plain LDA", "XLDA, lift=64", "ridge on random features", "logistic regression")
    dozens_of(monkeypatch, out, "--methods", *first)
    results = dozens_of(monkeypatch, out, "--methods", "XLDA", "--more")
    assert len(results["commands"]) == 2
    (point,) = results["points"]
    assert [set(run) for run in point["runs"]] == [{*first, "XLDA"}] * 2
    assert point["asked"] == 600
    assert all(found["right"] > 300 for run in point["runs"] for found in run.values())
    page = dozens_page.page(results)
    share = 100 * np.mean([run["XLDA"]["right"] / 600 for run in point["runs"]])
    assert f"{share:.1f} ± " in page.split("| XLDA | ")[1]
    point["runs"][0]["XLDA"]["right"] = 0
    assert dozens_page.page(results) != page


def test_the_page_of_dozens_shows_the_stored_results():
    import dozens_page

    cost = json.loads(dozens_page.COST.read_text())
    shown = dozens_page.PAGE.read_text()
    assert dozens_page.page(dozens_page.stored(), cost) == shown
    cost["found"]["seconds"]["one query"]["with"] = [1.0]
    assert dozens_page.page(dozens_page.stored(), cost) != shown


def test_what_a_second_look_costs_is_measured_in_turns(monkeypatch):
    import dozens_page
    import machine
    import second_look_cost

    for name in ("BATCH", "BATCHES", "QUERIES"):
        monkeypatch.setattr(second_look_cost, name, 8)
    found = second_look_cost.measured(n_classes=40, per_class=3, n_rows=4)
    assert {what for what, *_ in dozens_page.CALLS} < set(found["seconds"])
    assert all(len(kinds["with"]) == len(kinds["without"]) for kinds in found["seconds"].values())
    assert "rows for a second look" in found["bytes"]["with"]
    assert "rows for a second look" not in found["bytes"]["without"]
    assert found["right"]["with"] > 0.8
    told = dozens_page.cost_of_a_second_look({"machine": machine.describe(), "found": found})
    assert "40 drawn classes of 3 samples" in told


def test_every_other_class_of_characters_can_have_few_samples(tmp_path, rng):
    import dozens

    X = rng.random((50, 8)).astype(np.float16)  # ten characters, four samples to learn
    np.savez(tmp_path / "many.npz", X=X, y=np.repeat(np.arange(10), 5), train=4)
    case = dozens._characters([tmp_path / "many.npz"], 10, 1, 0, 4)
    assert np.bincount(case.rows).tolist() == [4, 1] * 5
    assert len(case.queries) == 10
    for row in range(10):  # those that are learned are of their class
        mine = X[5 * np.flatnonzero((X[4::5] == case.queries[row]).all(axis=1))[0] :][:4].astype(np.float32)
        assert all((x == mine).all(axis=1).any() for x in case.X[case.rows == row])


def test_what_is_stored_of_a_command_is_what_to_type():
    import dozens

    told = dozens.command(["--many", "a/b/many0.npz", "--out", "c.json", "--methods", "plain LDA", "XLDA"])
    assert told == 'python benchmarks/dozens.py --many many0.npz --methods "plain LDA" XLDA'


def test_digits_that_are_learned_are_not_asked_for(rng):
    import dozens

    case, other = dozens.digits(0, 100), dozens.digits(1, 100)
    learned, asked = ({row.tobytes() for row in rows} for rows in (case.X, case.queries))
    assert not learned & asked
    assert np.bincount(case.rows).tolist() == [100] * 10
    assert (case.queries != other.queries).any()


def test_the_best_rate_and_decay_for_held_out_samples_are_taken(case, monkeypatch):
    pytest.importorskip("torch")
    import dozens_methods
    from fc_layer import Training

    monkeypatch.setattr(dozens_methods, "to_convergence", lambda n, steps: Training(0.003, 6, 16))
    monkeypatch.setattr(dozens_methods, "RATES", (1e-9, 0.05))
    monkeypatch.setattr(dozens_methods, "DECAYS", (0.0, 19.0))  # which leaves hardly any weights
    how = dozens_methods.chosen_training(case.X, case.rows, seed=0)
    assert how == Training(0.05, 6, 16, 0.0)
    known, held = dozens_methods.split(case.rows, seed=0)
    assert sorted([*known, *held]) == list(range(len(case.rows)))
    assert np.bincount(case.rows[held]).tolist() == [1] * 20
