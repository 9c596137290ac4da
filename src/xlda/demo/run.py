"""The demonstration, from drawing characters to a page that tells what came of it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # comes with scikit-learn

from xlda._internal.files import write_whole
from xlda.classifier import XLDA, load
from xlda.demo.characters import SIZE, DrawnCharacters, draw_and_embed
from xlda.demo.conversion import convert_and_learn
from xlda.demo.mistake import learn_and_forget
from xlda.demo.page import report
from xlda.demo.plots import milliseconds
from xlda.demo.sheet import contact_sheet
from xlda.demo.stream import learn_stream
from xlda.demo.timing import time_steps

FEWEST_CLASSES = 6
MODEL, REPORT = "demo.xlda", "report.html"


def run_demo(
    out: Path | str = "demo",
    *,
    n_classes: int = 300,
    per_class: tuple[int, int] = (6, 2),
    seed: int = 0,
    show: Callable[[str], object] = print,
    progress: bool = True,
) -> dict[str, Any]:
    """Learn characters as a stream, convert a layer, undo a mistake, save; and write a page about it.

        run_demo("demo")["figures"]["stream"]["xlda"][-1]

    It needs no data and no network. In the folder `out` it writes `demo.xlda`, the classifier, and
    `report.html`, the page, at the very end and whole. `per_class` is how many images of each class are
    learned and tested. `show` gets a line of text after each step; `progress` shows bars on a terminal.

    Returned are "figures", the same for the same seed; "times", in seconds, which are not; and "rounding", by
    how much any score differs once the mistake is undone, as a share of the scores' standard deviation.
    """
    _check(n_classes, per_class)
    begun = time.perf_counter()
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    data = draw_and_embed(n_classes, per_class, seed, progress)
    figures: dict[str, Any] = _sizes(data)
    times: dict[str, Any] = {"embedding": time.perf_counter() - begun}
    show(_said_embedding(figures, times))

    with threadpool_limits(1, user_api="blas"):  # many short steps: beside other work, threads would wait
        model = _learn(data, seed, progress, figures, times, show)
        figures["undo"], rounding = learn_and_forget(model, data)
        show(_said_undo(figures["undo"], rounding))
        figures["saved"] = _save(model, data, folder / MODEL)
        show(_said_saved(figures["saved"], folder / MODEL))

    times["all"] = time.perf_counter() - begun
    result = {"figures": figures, "times": times, "rounding": rounding}
    sheet = contact_sheet(data, model.predict(data.test.embeddings), seed)
    options = {"out": out, "classes": n_classes, "train": per_class[0], "test": per_class[1], "seed": seed}
    command = " ".join(["xlda demo", *(f"--{name} {shlex.quote(str(v))}" for name, v in options.items())])
    page = report(result, sheet, command, seed).encode()
    write_whole(folder / REPORT, page)
    show(f"{folder / REPORT}, {len(page) / 1e6:.1f} MB, after {times['all']:.0f} s in all")
    return result


def _learn(
    data: DrawnCharacters,
    seed: int,
    progress: bool,
    figures: dict[str, Any],
    times: dict[str, Any],
    show: Callable[[str], object],
) -> XLDA:
    """The classifier of the stream; `figures` and `times` get what came of it, and of the conversion."""
    streamed = learn_stream(data, seed, progress)
    figures["stream"] = {key: getattr(streamed, key) for key in ("classes", "xlda", "fine_tuned", "joint")}
    times["stream"] = streamed.seconds
    show(_said_stream(figures["stream"], times["stream"]))
    times["image"] = time_steps(streamed.model, data)
    show(_said_latency(times["image"]))
    figures["conversion"] = convert_and_learn(data, seed)
    show(_said_conversion(figures["conversion"]))
    return streamed.model


def _check(n_classes: int, per_class: tuple[int, int]) -> None:
    if n_classes < FEWEST_CLASSES:
        raise ValueError(f"n_classes is {n_classes}; the demonstration needs {FEWEST_CLASSES} or more.")
    if per_class[0] < 2 or per_class[1] < 1:
        raise ValueError(f"per_class is {per_class}; expected at least 2 images to learn and 1 to test.")


def _sizes(data: DrawnCharacters) -> dict[str, int]:
    return {
        "n_classes": len(data.order),
        "n_train": len(data.train.labels),
        "n_test": len(data.test.labels),
        "n_features": data.backbone.n_features,
        "size": SIZE,
    }


def _save(model: XLDA, data: DrawnCharacters, path: Path) -> dict[str, int]:
    """Save and load; the size of the file, and how many answers are the same."""
    model.backbone_ = data.backbone.identity
    model.save(path)
    test = data.test.embeddings
    n_same = int(np.sum(load(path).predict(test) == model.predict(test)))
    return {"n_bytes": path.stat().st_size, "n_same": n_same, "n_test": len(test)}


def _said_embedding(figures: dict[str, Any], times: dict[str, Any]) -> str:
    n_images, seconds = figures["n_train"] + figures["n_test"], times["embedding"]
    return (
        f"{figures['n_classes']:,} characters, {n_images:,} images drawn and embedded in {seconds:.1f} s "
        f"({n_images / seconds:,.0f} a second)"
    )


def _said_stream(stream: dict[str, Any], seconds: dict[str, float]) -> str:
    return (
        f"learned class by class in {seconds['xlda']:.1f} s: {stream['xlda'][-1]:.1%} right; "
        f"an FC layer on the same stream {stream['fine_tuned'][-1]:.1%}, "
        f"one trained on everything at once {stream['joint'][-1]:.1%}"
    )


def _said_latency(seconds: dict[str, float]) -> str:
    ms = {key: milliseconds(value) for key, value in seconds.items()}
    return (
        f"one prediction takes {ms['predict']} ({ms['predict_in_batch']} in a batch), "
        f"after {ms['embed']} for the embedding ({ms['embed_in_batch']})"
    )


def _said_conversion(figures: dict[str, Any]) -> str:
    ours, paper = figures["embeddings"], figures["paper"]
    return (
        f"an FC layer of {figures['n_old']} classes ({figures['layer']['old']:.1%}), converted, learned "
        f"{figures['n_new']} more: {ours['old']:.1%} on old classes, {ours['new']:.1%} on new ones; "
        f"converted the paper's way {paper['old']:.1%} and {paper['new']:.1%}"
    )


def _said_undo(figures: dict[str, Any], rounding: float) -> str:
    return (
        f"{figures['n_samples']} images learned under wrong labels: {figures['mistaken']:.1%} right instead "
        f"of {figures['before']:.1%}; forgotten: {figures['after']:.1%}, scores as before to {rounding:.0e}"
    )


def _said_saved(figures: dict[str, int], path: Path) -> str:
    return (
        f"{path}, {figures['n_bytes'] / 1e6:.1f} MB: loaded, it gives the same answer to "
        f"{figures['n_same']} of {figures['n_test']} images"
    )
