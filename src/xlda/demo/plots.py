"""Plots as SVG, letters drawn as paths: they look the same wherever they are opened."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

WIDE, NARROW = (8.5, 4.2), (3.8, 3.9)  # inches: for a page on a desk, and on a phone
BLUE, ORANGE, GREY, INK = "#1d4ed8", "#c2410c", "#6b7280", "#1f2937"
STYLE: dict[Any, Any] = {
    "font.size": 9.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.edgecolor": "#9ca3af",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "xlda",  # the same plot is the same file
}
CURVES = (
    ("xlda", "XLDA, class by class", BLUE, "-", "o"),
    ("joint", "FC layer, trained on everything at once", GREY, "--", "s"),
    ("fine_tuned", "FC layer, fine-tuned on the same stream", ORANGE, "-", "^"),
)
BARS = (
    ("Draw the image", "draw", None),
    ("Embed it", "embed", "embed_in_batch"),
    ("Predict its class", "predict", "predict_in_batch"),
)


def accuracy_plot(stream: dict[str, list[float]], size: tuple[float, float] = WIDE) -> bytes:
    """Accuracy over the classes seen so far, one curve for each way to learn."""
    with matplotlib.rc_context(STYLE):
        figure, axes = _new(size)
        for key, name, colour, line, marker in CURVES:
            label = f"{name}: {stream[key][-1]:.1%}"
            axes.plot(stream["classes"], stream[key], line, c=colour, marker=marker, ms=4, label=label)
        axes.set_ylim(0, 1.02)
        axes.set_xlim(0, stream["classes"][-1] * 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1, 0))
        axes.grid(axis="y", color="#e5e7eb")
        axes.set_xlabel("classes seen so far")
        axes.set_ylabel("accuracy over these classes")
        figure.legend(loc="outside upper left", frameon=False, fontsize=9 if size == NARROW else None)
        return _svg(figure)


def latency_plot(seconds: dict[str, float], size: tuple[float, float] = WIDE) -> bytes:
    """Milliseconds an image for each step, alone and in a batch."""
    with matplotlib.rc_context(STYLE):
        figure, axes = _new((size[0], 2.9))
        for number, (_, alone, batched) in enumerate(BARS):
            shift = 0.2 if batched else 0.0
            _bar(axes, number - shift, seconds[alone], BLUE, "one at a time")
            if batched:
                _bar(axes, number + shift, seconds[batched], ORANGE, "in a batch")
        axes.set_yticks(range(len(BARS)), [name for name, *_ in BARS])
        axes.invert_yaxis()
        axes.set_xlim(0, 1000 * max(seconds[key] for _, key, _ in BARS) * 1.25)
        axes.set_xlabel("milliseconds an image")
        handles, labels = axes.get_legend_handles_labels()
        each = dict(zip(labels, handles, strict=True))
        figure.legend(list(each.values()), list(each), loc="outside upper left", ncols=2, frameon=False)
        return _svg(figure)


def _bar(axes: Axes, at: float, seconds: float, colour: str, label: str) -> None:
    axes.barh(at, 1000 * seconds, height=0.36, color=colour, label=label)
    axes.annotate(
        milliseconds(seconds), (1000 * seconds, at), (4, 0), textcoords="offset points", va="center"
    )


def milliseconds(seconds: float) -> str:
    """A time in words, to two digits.

    >>> milliseconds(0.0001234), milliseconds(0.01234), milliseconds(0.21)
    ('0.12 ms', '12 ms', '210 ms')
    """
    value = float(f"{1000 * seconds:.2g}")
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.2g} ms"


def _new(size: tuple[float, float]) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.add_subplot()


def _svg(figure: Figure) -> bytes:
    written = BytesIO()
    figure.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()
