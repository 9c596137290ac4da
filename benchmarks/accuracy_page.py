"""The section on streams of classes: what benchmarks/accuracy.py measured."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

import plots
from cases import STREAMS
from markdown import spread, table

PLOT = "streams.svg"
INTRODUCTION = """\
## Classes that come over time

Classes come in a random order, in ten groups; after each group, every method is asked for queries of the
classes seen so far, and may answer with any of them. *Final* is the accuracy after the last group,
*average* its mean over the ten, *forgetting* the mean loss of a group of classes from its best to the end:
part of it is nobody's fault, since every group has more classes to be mistaken for. Percent, mean ±
standard deviation over seeds (other characters, another order). Times are for learning the whole stream and
for being ready to predict after each group. *Kept* is what a method must keep, *peak* the most memory of its
process above that of the data."""
METHODS = """\
**XLDA** has its default parameters. **Plain LDA** is what the paper has (`model="lda", shrinkage=0.3,
power=None`), also over square roots of the embeddings (`power=0.5`), which the defaults take here. **SLDA as
published** is the rule of Hayes & Kanan (2020) that the paper builds on, with its shrinkage of 0.0001; with
the shrinkage of plain LDA, what is left of the difference is the rule. **Ridge on random features** is made
after RanPAC (McDonnell et al., 2023): 5,000 random features, the ridge chosen on held-out samples. **FC,
fine-tuned** is a layer that goes on training with each new group. The two at the bottom get all data at once,
which a stream does not give: an FC layer trained for 1,500 steps, or 20 epochs where that is more, and
scikit-learn's `LinearDiscriminantAnalysis`; at each checkpoint they choose among the classes seen."""
ORDER = """\
### In which order

Final accuracy when classes come one by one, in groups, or all mixed. XLDA, plain LDA and the nearest mean
are exact: the order does not matter. The published rule depends on it a little. The fine-tuned layer trains
on what is new alone, and loses what it knew where the new is other classes; a few passes over three samples
of a character are too little for it in any order."""


def section(results: dict[str, Any]) -> str:
    """All tables."""
    parts = [INTRODUCTION, f"![accuracy against the number of classes seen](results/{PLOT})", METHODS]
    parts += [one_source(source) for source in results["sources"]]
    parts += [ORDER, orders(results)]
    return "\n\n".join(parts)


def one_source(source: dict[str, Any]) -> str:
    """One kind of data, classes in groups."""
    rows = []
    for method, runs in source["methods"].items():
        runs = [run for run in runs if run["stream"] == "groups"]
        rows.append(
            [
                method,
                spread([final(run) for run in runs]),
                spread([average(run) for run in runs]),
                spread([forgetting(run) for run in runs]),
                f"{mean(run['seconds']['learn'] for run in runs):,.1f}",
                f"{mean(run['memory']['kept'] for run in runs) / 2**20:,.0f}",
                f"{mean(run['memory']['peak'] for run in runs) / 2**20:,.0f}",
            ]
        )
    seeds = max(len({run["seed"] for run in runs}) for runs in source["methods"].values())
    some = next(iter(source["methods"].values()))[0]
    title = (
        f"### {title_of(source)}: {some['samples']:,} samples, "
        f"{sum(some['checkpoints'][-1]['asked']):,} queries, {seeds} seed{'s' if seeds > 1 else ''}"
    )
    header = ["method", "final", "average", "forgetting", "learning, s", "kept, MiB", "peak, MiB"]
    return f"{title}\n\n{table(header, rows)}"


def orders(results: dict[str, Any]) -> str:
    """Final accuracy by stream."""
    rows = []
    for source in results["sources"]:
        for method, runs in source["methods"].items():
            by_stream = {
                stream: [final(run) for run in runs if run["stream"] == stream] for stream in STREAMS
            }
            if sum(bool(values) for values in by_stream.values()) > 1:
                shown = [spread(values) if values else "" for values in by_stream.values()]
                rows.append([title_of(source), method, *shown])
    return table(["data", "method", *STREAMS], rows)


def title_of(source: dict[str, Any]) -> str:
    """What the data are."""
    kind = "photos" if source["name"] == "photos" else f"characters, {source['name']}"
    return f"{kind}, {source['classes']:,} classes".capitalize()


def shares(checkpoint: dict[str, Any]) -> list[float | None]:
    """Accuracy of each group that was asked for."""
    pairs = zip(checkpoint["right"], checkpoint["asked"], strict=True)
    return [right / asked if asked else None for right, asked in pairs]


def accuracy(checkpoint: dict[str, Any]) -> float:
    """Share of right answers."""
    return float(sum(checkpoint["right"]) / sum(checkpoint["asked"]))


def final(run: dict[str, Any]) -> float:
    """Accuracy at the end."""
    return accuracy(run["checkpoints"][-1])


def average(run: dict[str, Any]) -> float:
    """Mean of the accuracies after each group."""
    return mean(accuracy(checkpoint) for checkpoint in run["checkpoints"])


def forgetting(run: dict[str, Any]) -> float:
    """Mean over the groups but the last of what was lost since the best."""
    over_time = [shares(checkpoint) for checkpoint in run["checkpoints"]]
    lost = []
    for number in range(len(over_time[-1]) - 1):
        earlier = [found[number] for found in over_time[:-1] if found[number] is not None]
        if earlier and over_time[-1][number] is not None:
            lost.append(max(earlier) - over_time[-1][number])
    return mean(lost)


def draw(results: dict[str, Any], folder: Path) -> None:
    """Accuracy over the classes seen, a panel for each number of classes of unseen renderings."""
    shown = [source for source in results["sources"] if source["name"] == "unseen renderings"]
    figure, axes = plots.panels(len(shown), height=4.2)
    for axis, source in zip(axes, shown, strict=True):
        for method, runs in source["methods"].items():
            runs = [run for run in runs if run["stream"] == "groups"]
            classes = [checkpoint["classes"] for checkpoint in runs[0]["checkpoints"]]
            lines = [[100 * accuracy(checkpoint) for checkpoint in run["checkpoints"]] for run in runs]
            style = "--" if method.endswith("at once") else "-"
            points = [mean(column) for column in zip(*lines, strict=True)]
            axis.plot(classes, points, style, color=plots.COLOURS[method], label=method, marker="o", ms=3)
        axis.set(title=f"{source['classes']:,} classes", xlabel="classes seen", ylim=(0, 100))
        axis.xaxis.set_major_formatter("{x:,.0f}")
    axes[0].set_ylabel("accuracy over the classes seen, %")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
    plots.store(figure, folder / PLOT)
