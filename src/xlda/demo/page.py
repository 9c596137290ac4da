"""The report: one HTML page that holds all it shows."""

from __future__ import annotations

import os
import platform
import time
from functools import reduce
from html import escape
from importlib.metadata import version
from typing import Any

from xlda.demo.fc import BATCH, FINE_TUNING, JOINT, MOMENTUM
from xlda.demo.look import CSS
from xlda.demo.plots import NARROW, WIDE, accuracy_plot, latency_plot, milliseconds
from xlda.demo.sheet import data_uri

PACKAGES = ("xlda", "numpy", "scipy", "scikit-learn", "onnxruntime", "pillow", "matplotlib")


def report(result: dict[str, Any], sheet: str, command: str, seed: int) -> str:
    """The whole page, from what a run gave, its contact sheet, and the command that made it."""
    figures, times = Figures(result["figures"]), result["times"]
    sections = (
        _head(figures, times),
        _accuracy(figures, times),
        f'<section id="predictions"><h2>What it got right and wrong</h2>{sheet}</section>',
        _latency(times),
        _conversion(figures),
        _undo(figures, result["rounding"]),
        _saved(figures),
        _about(times, command, seed),
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>XLDA: {figures['n_classes']:,} characters, learned one by one</title>"
        f"<style>{CSS}</style></head>\n<body><main>\n{''.join(sections)}</main></body></html>\n"
    )


class Figures:
    """Figures by their path, as text for the page: each is marked with where it comes from.

    >>> Figures({"undo": {"before": 0.5, "n": [2000]}}).percent("undo.before")
    '<span data-figure="undo.before">50.0%</span>'
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, path: str) -> Any:
        """The figure at a path, of names and positions with dots between them."""
        return reduce(
            lambda inside, key: inside[int(key) if isinstance(inside, list) else key],
            path.split("."),
            self._values,
        )

    def percent(self, path: str) -> str:
        """A share, in percent."""
        return _marked(path, f"{self[path]:.1%}")

    def count(self, path: str) -> str:
        """A whole number."""
        return _marked(path, f"{self[path]:,}")


def _marked(path: str, text: str) -> str:
    return f'<span data-figure="{path}">{text}</span>'


def _head(figures: Figures, times: dict[str, Any]) -> str:
    tiles = (
        (figures.percent("stream.xlda.-1"), "XLDA, class by class"),
        (figures.percent("stream.fine_tuned.-1"), "FC layer, fine-tuned on the same stream"),
        (figures.percent("stream.joint.-1"), "FC layer, trained on everything at once"),
        (milliseconds(times["image"]["predict"]), "for one prediction"),
    )
    shown = "".join(f"<div><b>{value}</b>{text}</div>" for value, text in tiles)
    return (
        f"<header><h1>{figures.count('n_classes')} characters, learned one by one</h1>"
        f"<p>Characters are drawn in several fonts, turned, blurred and with noise: "
        f"{figures.count('n_train')} images to learn and {figures.count('n_test')} new ones to test. "
        f"EfficientNet-Lite0, which never changes, makes an embedding of {figures.count('n_features')} "
        f"numbers of each. A head on top learns what is what. Percentages "
        f"are test images classified right. All figures on this page are from one run.</p>"
        f'<div class="tiles">{shown}</div></header>'
    )


def _accuracy(figures: Figures, times: dict[str, Any]) -> str:
    seconds = times["stream"]
    rows = [
        [name, figures.percent(f"stream.{key}.-1"), f"{seconds[key]:.1f} s", how]
        for name, key, how in (
            ("XLDA", "xlda", "Each image once, class after class. Default parameters."),
            ("FC layer, fine-tuned", "fine_tuned", f"A group of classes at a time: {FINE_TUNING}."),
            ("FC layer, joint", "joint", f"All images at once: {JOINT}."),
        )
    ]
    return (
        '<section id="accuracy"><h2>Accuracy as classes come</h2>'
        "<p>Classes come in random order. After each group of them, all test images of the classes seen so "
        "far are classified. The more classes there are to choose from, the harder it is for all three. "
        "The fine-tuned layer also forgets the classes before; XLDA forgets none.</p>"
        f"{_plot(figures['stream'], accuracy_plot, 'Accuracy over the classes seen so far')}"
        f"{_table(['', 'accuracy', 'time', 'how'], rows)}"
        f'<p class="note">Both FC layers are softmax regressions, trained by gradient descent in batches of '
        f"{BATCH} with momentum {MOMENTUM:g}, over embeddings standardised by all training images, those "
        "still to come included. Their settings are the best of several for 300 classes of 6 images, chosen "
        "by the accuracy on test images. A higher rate or more epochs make fine-tuning forget more. "
        "While few classes are seen, the joint layer chooses among these only. "
        "Times are those of one core; that of XLDA includes getting ready to predict after each group.</p>"
        "</section>"
    )


def _latency(times: dict[str, Any]) -> str:
    image = times["image"]
    return (
        '<section id="latency"><h2>Where the time goes</h2>'
        f"<p>Predicting takes {milliseconds(image['predict'])} for one image, or "
        f"{milliseconds(image['predict_in_batch'])} each in a batch. The network before it takes "
        f"{milliseconds(image['embed'])}, or {milliseconds(image['embed_in_batch'])} in a batch. "
        "The network uses all cores of the CPU, the prediction one. Medians of many calls.</p>"
        f"{_plot(image, latency_plot, 'Milliseconds an image for each step')}</section>"
    )


def _conversion(figures: Figures) -> str:
    n_old, n_new = figures.count("conversion.n_old"), figures.count("conversion.n_new")
    rows = [["The layer itself", figures.percent("conversion.layer.old"), "", "", ""]]
    for name, way in (("Converted with unlabelled embeddings", "embeddings"), ("The paper's way", "paper")):
        keys = ("before", "old", "new", "all")
        rows.append([name, *(figures.percent(f"conversion.{way}.{key}") for key in keys)])
    columns = ["", "old, before", "old, after", "new, after", "all, after"]
    return (
        '<section id="conversion"><h2>From a layer, and back to one</h2>'
        f"<p>An FC layer is trained on {n_old} of the classes ({JOINT}). <code>XLDA.from_linear</code> makes "
        f"a classifier of it, which then learns the other {n_new} classes from their own images "
        "alone. The table has the accuracy on old classes, on new ones and on all: before, which is right "
        "after the conversion, and after the new classes are learned.</p>"
        f"{_table(columns, rows)}"
        "<p>Unlabelled embeddings are those of the layer's own training images. The paper's way "
        '(<code>assume="identity"</code>) takes the rows of the layer for class means, and loses the old '
        "classes as soon as it learns.</p>"
        f"<p><code>to_linear</code> gives a layer back, of {figures.count('conversion.back.n_rows')} rows: "
        f"{figures.percent('conversion.back.all')} right, and the same answer as the classifier for "
        f"{figures.count('conversion.back.n_same')} of {figures.count('conversion.back.n_test')} images.</p>"
        "</section>"
    )


def _undo(figures: Figures, rounding: float) -> str:
    rows = [
        [name, figures.percent(f"undo.{key}"), figures.percent(f"undo.{key}_there")]
        for name, key in (
            ("Before", "before"),
            ("With the mistake", "mistaken"),
            ("After <code>forget</code>", "after"),
        )
    ]
    return (
        '<section id="undo"><h2>A mistake, undone</h2>'
        f"<p>Somebody mixes up labels: {figures.count('undo.n_samples')} images of "
        f"{figures.count('undo.n_classes')} classes are learned, each under the label of the next class. "
        "<code>forget</code> takes them back.</p>"
        f"{_table(['', 'all classes', 'classes mixed up'], rows)}"
        f"<p>The answers are the same as before for {figures.count('undo.n_same')} of "
        f"{figures.count('undo.n_test')} images. No score differs by more than {_power_of_ten(rounding)} "
        "of the scores' standard deviation, which is rounding.</p></section>"
    )


def _power_of_ten(value: float) -> str:
    digit, exponent = f"{value:.0e}".split("e")
    return f'<span class="one">{digit} &times; 10<sup>{int(exponent)}</sup></span>'


def _saved(figures: Figures) -> str:
    megabytes = figures["saved.n_bytes"] / 1e6
    return (
        '<section id="saving"><h2>Saved and loaded</h2>'
        f"<p>The classifier is one file, <code>demo.xlda</code>, of {megabytes:.1f} MB. Loaded, it gives the "
        f"same answer for {figures.count('saved.n_same')} of {figures.count('saved.n_test')} images.</p>"
        "</section>"
    )


def _about(times: dict[str, Any], command: str, seed: int) -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    rows = [
        ["Command", f"<code>{escape(command)}</code>"],
        ["Seed", str(seed)],
        ["Took", f"{times['all']:.0f} s, of which {times['embedding']:.0f} s for drawing and embedding"],
        ["Made", time.strftime("%Y-%m-%d %H:%M %Z")],
        ["Machine", escape(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores")],
        ["Versions", escape(f"Python {platform.python_version()}, {packages}")],
    ]
    return f'<section id="about"><h2>How it was made</h2>{_table(None, rows, "about")}</section>'


def _table(columns: list[str] | None, rows: list[list[str]], kind: str = "") -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in columns or [])
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    head = head and f"<thead><tr>{head}</tr></thead>"
    return f'<div class="scroll"><table class="{kind}">{head}<tbody>{body}</tbody></table></div>'


def _plot(values: Any, draw: Any, alt: str) -> str:
    """A plot in two sizes, of which a browser shows the one that fits."""
    wide, narrow = (data_uri(draw(values, size), "image/svg+xml") for size in (WIDE, NARROW))
    return (
        f'<picture class="plot"><source media="(max-width: 640px)" srcset="{narrow}">'
        f'<img src="{wide}" alt="{alt}"></picture>'
    )
