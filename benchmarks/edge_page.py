"""The section on the edge: what benchmarks/edge.py measured on one core with little memory."""

from __future__ import annotations

from pathlib import Path
from statistics import median, quantiles
from typing import Any

import plots
from markdown import duration, table

PLOT = "edge.svg"
MIB, GIB = 2**20, 2**30
STEPS = (
    ("load", "load the model"),
    ("first predict", "first prediction, for which all weights are computed"),
    ("predict one", "predict one"),
    ("predict 64", "predict 64 at once"),
    ("learn one", "learn one sample"),
    ("learn one, predict one", "learn one and predict one"),
    ("new class, predict it", "learn a new class from one sample and predict it"),
    ("learn 512", "learn 512 at once"),
    ("renewal", "covariance inverted anew"),
    ("save", "save"),
)
FORMULA = """\
**Memory** of the process, MiB, measured; in brackets how far the formula is off. With C classes of width d,
b bytes a number (2 in half precision, 4 in full) and a head of p of the d coordinates, the formula is:
libraries and buffers; 370 C for labels; C (b d + 8) for means; 8 d² for the covariance; 2048 samples kept to
check it with; C (2 p + 168) for the head; 4 d² + 8 d p for the maps to its coordinates; what waits while
learning, up to some 75 MiB; and what each step needs for a while. `formula` in benchmarks/edge.py has it in
full, with the reason for each term."""


def section(results: dict[str, Any]) -> str:
    """Times, memory, and what fits a board."""
    sizes = done(results)
    failed = [size for size in results["sizes"] if "failed" in size]
    limit = results["limit"]
    text = (
        f"## At the edge: {limit['cores']} core, {limit['bytes'] / GIB:g} GiB\n\n"
        f"A process bound to {limit['cores']} core, with {limit['bytes'] / GIB:g} GiB of address space and "
        "no more, loads a model of characters in half precision, predicts, learns and saves. The model has "
        "predicted before it was saved, so that its search comes tuned. Median, and in brackets the 95th "
        "percentile."
    )
    header = ["", *(f"{size['classes']:,} classes" for size in sizes)]
    times = [[words, *(timing(size["steps"][name]["seconds"]) for size in sizes)] for name, words in STEPS]
    times.append(["the file", *(f"{size['file'] / 1e6:,.0f} MB" for size in sizes)])
    memory = []
    for name in sizes[0]["memory"]:
        both = [size["memory"][name] for size in sizes]
        cells = [f"{one['measured'] / MIB:,.0f} ({one['error %']:+.1f} %)" for one in both]
        memory.append([name, *cells])
    parts = [text, table(header, times), FORMULA, f"![memory against classes](results/{PLOT})"]
    parts += [table(header, memory), board(results)]
    parts += [f"With {size['classes']:,} classes it failed: {size['failed']}." for size in failed]
    return "\n\n".join(parts)


def board(results: dict[str, Any]) -> str:
    """How many classes fit, by the formula."""
    widths = sorted({row["d"] for row in results["board"]})
    rows = []
    for budget in sorted({row["bytes"] for row in results["board"]}):
        for precision in ("half", "full"):
            found = {
                row["d"]: row["classes"]
                for row in results["board"]
                if (row["bytes"], row["precision"]) == (budget, precision)
            }
            rows.append([f"{budget / 1e9:.1f} GB", precision, *(f"{found[d]:,}" for d in widths)])
    text = (
        "**What fits**, by the formula: classes at the highest peak, learning included, in so much resident "
        "memory, with half of all coordinates in the head. A board of 4 GB leaves some 3 GB to the process. "
        "Beyond the sizes above, this is extrapolated."
    )
    return f"{text}\n\n{table(['memory', 'precision', *(f'd = {d}' for d in widths)], rows)}"


def done(results: dict[str, Any]) -> list[dict[str, Any]]:
    """The sizes that did not fail."""
    return [size for size in results["sizes"] if "failed" not in size]


def timing(seconds: list[float]) -> str:
    """Median and 95th percentile."""
    middle = unit(median(seconds))
    return f"{middle} ({unit(quantiles(seconds, n=20)[-1])})" if len(seconds) > 9 else middle


def unit(seconds: float) -> str:
    """In milliseconds where short."""
    return f"{1e3 * seconds:.2g} ms" if seconds < 0.1 else duration(seconds)


def headline(results: dict[str, Any]) -> list[str]:
    """What it does, how fast, and in what."""
    size, limit = done(results)[-1], results["limit"]
    time = {name: unit(median(step["seconds"])) for name, step in size["steps"].items()}
    peak = max(step["peak"] for step in size["steps"].values()) / MIB
    return [
        f"{limit['cores']} core and {limit['bytes'] / GIB:g} GiB: {size['classes']:,} classes",
        f"**{time['predict one']}** to predict, {time['learn one']} to learn one sample, {time['load']} to "
        "load",
        f"memory: {peak:,.0f} MiB at the peak; the file: {size['file'] / 1e6:,.0f} MB",
    ]


def draw(results: dict[str, Any], folder: Path) -> None:
    """Memory, measured and by the formula."""
    figure, (axis,) = plots.panels(1, width=9.5)
    sizes = done(results)
    classes = [size["classes"] for size in sizes]
    for number, name in enumerate(sizes[0]["memory"]):
        both = [size["memory"][name] for size in sizes]
        axis.plot(classes, [one["predicted"] / MIB for one in both], "-", color=f"C{number}")
        axis.plot(classes, [one["measured"] / MIB for one in both], "o", color=f"C{number}", label=name)
    axis.set(xlabel="classes", ylabel="MiB (points: measured, lines: formula)")
    axis.set_ylim(bottom=0)
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.legend(fontsize=9, loc="center left", bbox_to_anchor=(1.02, 0.5))
    plots.store(figure, folder / PLOT)
