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
        "xlda": {"learn": 2.0, "ready": 0.5, "right": 60, "asked": 100},
        "fc": {"random": {"points": points}},
    }
    assert race_page.after_same_time(course)["right"] == 40
    assert race_page.catches_up(course)["seconds"] == 6.0
    course["xlda"]["right"] = 71
    assert race_page.catches_up(course) is None


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
    assert renderings["XLDA"] == ["one by one", "groups", "random"]
