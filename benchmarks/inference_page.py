"""Tables and the plot of what benchmarks/inference.py measured."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, median, quantiles
from typing import Any

import machine
from markdown import table

PLOT = Path(__file__).parent.parent / "docs" / "search.png"
PAPER = {1_000: (7, 5), 50_000: (172, 41), 81_000: (278, 59)}  # ms: SLDA, XLDA (T3)


def ways_of(size: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Results of one size, by name."""
    return {way["name"]: way for way in size["ways"]}


def tables(results: dict[str, Any]) -> str:
    """All that was measured, in Markdown."""
    parts = [one_size(size) for size in results["sizes"]]
    parts += [beside_the_paper(results), learning(results)]
    for size in results["sizes"]:
        if "half" in size:
            parts.append(half(size))
    foot = f"`python benchmarks/run.py inference`, {machine.in_words(results['machine'])}."
    return "\n\n".join([*parts, foot])


def one_size(size: dict[str, Any]) -> str:
    """Every way among one number of classes."""
    dense = median(ways_of(size)["dense, NumPy"]["seconds"]["1"])
    rows = []
    for way in size["ways"]:
        one, many = (way["seconds"][batch] for batch in ("1", "1024"))
        rows.append(
            [
                way["name"],
                f"{way['agreement']:.2%}",
                f"{1e3 * median(one):.2f} ({1e3 * quantiles([*one, *one], n=20)[-1]:.2f})",
                f"{dense / median(one):.2g}x",
                f"{1e3 * median(way['seconds']['64']):.1f}",
                f"{1e3 * median(many):.0f}",
                f"{way['nbytes'] / 2**20:.0f}" if "nbytes" in way else "",
                f"{way['build']:.1f}" if "build" in way else "",
            ]
        )
    picked = ways_of(size)["XLDA, default"]["picked"]
    note = ", ".join(f"{key} {value}" for key, value in picked.items())
    header = [
        "way",
        "agrees",
        "one query (p95)",
        "against dense",
        "batch of 64",
        "of 1024",
        "MiB",
        "build, s",
    ]
    return (
        f"### {size['classes']:,} classes, {size['data']} embeddings\n\n{table(header, rows)}\n\n"
        f"The default picked: {note}."
    )


def beside_the_paper(results: dict[str, Any]) -> str:
    """Time of one query beside the paper's T3."""
    rows = []
    for size in results["sizes"]:
        ways = ways_of(size)
        milliseconds = [
            1e3 * median(ways[name]["seconds"]["1"])
            for name in ("published code", "LSH, as published", "XLDA, default")
        ]
        paper = PAPER.get(size["classes"])
        rows.append(
            [
                f"{size['classes']:,}",
                *(f"{value:.2f}" for value in milliseconds),
                f"{milliseconds[0] / milliseconds[2]:,.0f}x",
                *((str(paper[0]), str(paper[1]), f"{paper[0] / paper[1]:.1f}x") if paper else ("", "", "")),
            ]
        )
    header = ["classes", "published code, ms", "LSH, ms", "XLDA, ms", "gain"]
    header += ["paper: SLDA, ms", "paper: XLDA, ms", "paper: gain"]
    return f"### One query beside the paper's T3\n\n{table(header, rows)}"


def learning(results: dict[str, Any]) -> str:
    """What a query costs right after something was learned."""
    rows = []
    for size in results["sizes"]:
        alone, after = (mean(values) for values in size["learn and predict"].values())
        rounds = len(size["learn and predict"]["predict"])
        rows.append(
            [
                f"{size['classes']:,}",
                f"{1e3 * alone:.2f}",
                f"{1e3 * after:.2f}",
                f"{after / alone:.2f}x",
                f"{rounds:,}",
            ]
        )
    header = ["classes", "predict one, ms", "learn one and predict one, ms", "ratio", "rounds"]
    return f"### Learning and predicting in turns\n\nMeans, renewals included.\n\n{table(header, rows)}"


def half(size: dict[str, Any]) -> str:
    """Full against half precision."""
    rows = [
        [
            f'`precision="{name}"`',
            f"{values['nbytes']['class means'] / 2**20:,.0f}",
            f"{values['nbytes']['weights'] / 2**20:,.0f}",
            f"{values['accuracy']:.2%}",
            f"{values['agreement']:.2%}",
            f"{1e3 * median(values['seconds']):.2f}",
        ]
        for name, values in size["half"].items()
    ]
    header = [
        "",
        "means, MiB",
        "weights, MiB",
        "accuracy",
        "agrees with exact, full precision",
        "one query, ms",
    ]
    return f"### Half precision, {size['classes']:,} classes\n\n{table(header, rows)}"


def draw(results: dict[str, Any]) -> None:
    """Agreement against time, as ann-benchmarks draws it, and time against the number of classes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 4.6), constrained_layout=True)
    (size,) = (size for size in results["sizes"] if "curves" in size)
    for (name, points), marker in zip(size["curves"].items(), "osD^v", strict=False):
        missed = [max(1 - point["agreement"], 1 / (2 * point["queries"])) for point in points]
        left.plot(missed, [1e3 * median(point["seconds"]["1"]) for point in points], f"{marker}-", label=name)
    for name, style in (("dense, NumPy", "--"), ("dense, torch", ":")):
        if name in ways_of(size):
            left.axhline(1e3 * median(ways_of(size)[name]["seconds"]["1"]), ls=style, color="C7", label=name)
    left.set(xscale="log", yscale="log", ylabel="ms a query, one query a call")
    left.invert_xaxis()
    left.set_xlabel(f"share that disagrees with exact LDA ({size['classes']:,} classes)")
    left.set_ylim(top=5 * left.get_ylim()[1])
    left.legend(fontsize=8, loc="upper right", ncols=2)
    for name, marker in (("dense, NumPy", "s"), ("LSH, as published", "D"), ("XLDA, default", "o")):
        classes = [size["classes"] for size in results["sizes"]]
        times = [1e3 * median(ways_of(size)[name]["seconds"]["1"]) for size in results["sizes"]]
        right.plot(classes, times, f"{marker}-", label=name)
    right.set(xscale="log", yscale="log", xlabel="classes", ylabel="ms a query, one query a call")
    right.legend(fontsize=8)
    for panel in (left, right):
        panel.grid(alpha=0.3, which="both")
    figure.savefig(PLOT, dpi=110, metadata={"Software": None})
