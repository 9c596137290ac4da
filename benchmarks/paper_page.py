"""The sections beside the paper's tables: training (T2, T5), inference (T3), conversion (T1, T4)."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, median
from typing import Any

import conversion_page
import inference_page
import performance_page
import plots
from markdown import spread, table

COST, SEARCH, CONVERSION = "cost.svg", "search.svg", "conversion.svg"
TRAINING_TEXT = """\
## Learning, beside the paper's T2 and T5

An epoch of each of the paper's five shapes: what a sample takes, times the number of samples. FC is a
torch layer in batches of 512, the published rule goes sample by sample, XLDA learns in batches of 512. *FC
converged* takes the paper's number of epochs. The paper measured on an i9-10920X with an RTX A6000; here
everything ran on the CPU below. More in [performance.md](performance.md)."""
INFERENCE_TEXT = """\
## Predicting, beside the paper's T3

One query a call, on the CPU. *Published code* computes all weights anew at every call, which is what the
paper's SLDA column has; *LSH* is the paper's own shortlist. *Agrees* is with looking at every class. More in
[performance.md](performance.md)."""
CONVERSION_TEXT = """\
## Conversion, beside the paper's T1 and T4

An FC layer of three quarters of the classes is converted, and then learns the others. The paper has the
accuracy right after the conversion only (T1); what counts is what comes after it has learned. Layers are
trained as it is said in [conversion.md](conversion.md): on characters for 12 epochs, less than to
convergence."""


def training_section(results: dict[str, Any]) -> str:
    """T2 and T5, and the cost of a sample against the number of classes."""
    plot = f"![microseconds a sample against the number of classes](results/{COST})"
    points = results["growth"]["classes"]
    costs = [1e6 * median(point["xlda"]) for point in points]
    flat = (
        f"From {points[0]['at']:,} to {points[-1]['at']:,} classes a sample costs XLDA {min(costs):.1f} to "
        f"{max(costs):.1f} microseconds (batches of 512, d = 1280), {max(costs) / min(costs):.2f} times the "
        "least, while an FC layer's cost grows with the number of classes."
    )
    return "\n\n".join([TRAINING_TEXT, performance_page.epoch_table(results), plot, flat])


def inference_section(results: dict[str, Any]) -> str:
    """T3, and what the default search takes against looking at all classes."""
    rows = []
    for size in results["sizes"]:
        ways = inference_page.ways_of(size)
        dense = median(ways["dense, NumPy"]["seconds"]["1"])
        cells = []
        for name in ("dense, NumPy", "dense, torch", "published code", "LSH, as published", "XLDA, default"):
            cells.append(f"{1e3 * median(ways[name]['seconds']['1']):.2f}" if name in ways else "")
        default = ways["XLDA, default"]
        gains = [f"{dense / median(default['seconds']['1']):.1f}x", f"{default['agreement']:.2%}"]
        paper = inference_page.PAPER.get(size["classes"])
        beside = [f"{paper[0]}", f"{paper[1]}", f"{paper[0] / paper[1]:.1f}x"] if paper else [""] * 3
        rows.append([f"{size['classes']:,} ({size['data']})", *cells, *gains, *beside])
    header = ["classes", "dense, NumPy, ms", "dense, torch, ms", "published code, ms", "LSH, ms", "XLDA, ms"]
    header += ["dense / XLDA", "agrees", "paper: SLDA, ms", "paper: XLDA, ms", "paper: gain"]
    plot = f"![milliseconds a query against the number of classes](results/{SEARCH})"
    return "\n\n".join([INFERENCE_TEXT, table(header, rows), plot])


def conversion_section(results: dict[str, Any]) -> str:
    """T1 and T4, and what the paper does not have."""
    rows = []
    for name, words in conversion_page.NAMES.items():
        found = []
        for data in results["data"]:
            runs = [split["after"].get(name) for split in data["splits"]]
            found.append(spread([run["all"] for run in runs]) if None not in runs else "")
        if any(found):
            rows.append([words, *found])
    header = ["after learning the new classes, all classes, %", *(data["name"] for data in results["data"])]
    plot = f"![accuracy after learning against embeddings a class](results/{CONVERSION})"
    beside = [conversion_page.right_after(results), conversion_page.which_part(results)]
    beside = [part.replace("## ", "### ", 1) for part in beside]
    return "\n\n".join([CONVERSION_TEXT, plot, table(header, rows), *beside])


def draw_training(results: dict[str, Any], folder: Path) -> None:
    """The cost of a sample against the number of classes."""
    figure, (axis,) = plots.panels(1, width=9.5)
    growth = results["growth"]["classes"]
    shapes = results["shapes"].values()
    at = [point["at"] for point in growth]
    axis.plot(
        at,
        [1e6 * median(point["xlda"]) for point in growth],
        "o-",
        label="XLDA",
        color=plots.COLOURS["XLDA"],
    )
    axis.plot(
        at,
        [1e6 * median(point["limit"]) for point in growth],
        "s:",
        label="limit: one symmetric product",
        color="#9ca3af",
    )
    for method, label, colour in (
        ("published", "published rule, sample by sample", plots.COLOURS["SLDA as published"]),
        ("fc", "FC layer, one epoch", plots.COLOURS["FC, all at once"]),
    ):
        known = [shape for shape in shapes if method in shape["timings"]]
        costs = [1e6 * median(shape["timings"][method]) for shape in known]
        axis.plot([shape["classes"] for shape in known], costs, "^-", label=label, color=colour)
    axis.set(yscale="log", xlabel="classes", ylabel="microseconds a sample")
    plots.logarithmic(axis)
    axis.set_ylim(bottom=5)
    axis.legend(fontsize=9, loc="center left", bbox_to_anchor=(1.02, 0.5))
    plots.store(figure, folder / COST)


def draw_inference(results: dict[str, Any], folder: Path) -> None:
    """Time of a query against the number of classes."""
    figure, (axis,) = plots.panels(1, width=9.5)
    ways = (
        ("published code", "^", plots.COLOURS["SLDA as published"]),
        ("LSH, as published", "D", "#be185d"),
        ("dense, torch", "v", "#9ca3af"),
        ("dense, NumPy", "s", "#6b7280"),
        ("XLDA, default", "o", plots.COLOURS["XLDA"]),
    )
    for name, marker, colour in ways:
        known = [size for size in results["sizes"] if name in inference_page.ways_of(size)]
        times = [1e3 * median(inference_page.ways_of(size)[name]["seconds"]["1"]) for size in known]
        axis.plot([size["classes"] for size in known], times, f"{marker}-", label=name, color=colour)
    axis.set(yscale="log", xlabel="classes", ylabel="milliseconds a query, one a call")
    plots.logarithmic(axis)
    axis.legend(fontsize=9, loc="center left", bbox_to_anchor=(1.02, 0.5))
    plots.store(figure, folder / SEARCH)


def draw_conversion(results: dict[str, Any], folder: Path) -> None:
    """Accuracy over all classes once the new ones are learned, against embeddings a class."""
    figure, axes = plots.panels(len(results["data"]))
    for axis, data in zip(axes, results["data"], strict=True):
        splits = [split["after"] for split in data["splits"]]
        counts = [name for name in splits[0] if name.isdigit()]
        shares = {name: 100 * mean(split[name]["all"] for split in splits) for name in splits[0]}
        ways = [*counts, "all"]
        axis.plot(ways, [shares[name] for name in ways], "o-", color=plots.COLOURS["XLDA"], label="converted")
        for name, label, colour, style in (
            ("LDA", "plain LDA, all labelled data", plots.COLOURS["plain LDA"], ":"),
            ("FC", "FC retrained on all", plots.COLOURS["FC, all at once"], "--"),
            ("weights", "the paper's, Sigma = Cov(W)", plots.COLOURS["SLDA as published"], "-."),
            ("identity", "the paper's, Sigma = I", "#6b7280", "-."),
        ):
            axis.axhline(shares[name], ls=style, color=colour, label=label)
        axis.set(title=data["name"], xlabel="unlabelled embeddings a class", ylim=(0, 100))
    axes[0].set_ylabel("accuracy, all classes, %")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=9)
    plots.store(figure, folder / CONVERSION)
