"""The section on end-to-end training from LDA: what benchmarks/finetune.py measured."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

import plots
from markdown import duration, table

PLOT = "finetune.svg"


def section(results: dict[str, Any]) -> str:
    """Accuracy before the first epoch and after each, from each start."""
    rows = []
    goal = max(means(results, "random", "accuracy"))
    for start in plots.STARTS:
        shares, seconds = means(results, start, "accuracy"), means(results, start, "seconds")
        reached = next((epoch for epoch, share in enumerate(shares) if share >= goal), None)
        rows.append(
            [
                start,
                *(f"{100 * share:.1f}" for share in shares),
                duration(seconds[-1]),
                "never" if reached is None else f"{reached} ({duration(seconds[reached])})",
            ]
        )
    rates = results["rates"]
    text = (
        "### The whole network\n\n"
        f"EfficientNet-Lite0 in torch, its last layer swapped for one of {results['classes']} characters "
        f"({results['train']} images each to learn, {results['test']} to ask), and all weights trained: "
        f"AdamW, rates {rates['body']:g} for the body and {rates['head']:g} for the last layer, the best for "
        "the random start of those tried. Accuracy in percent after each epoch, mean over "
        f"{len(results['seeds'])} seeds; time includes embedding the images for XLDA."
    )
    header = ["start", *(f"epoch {epoch}" for epoch in range(results["epochs"] + 1)), "time"]
    header += ["as good as the best from random weights: epochs"]
    plot = f"![accuracy of the whole network against epochs](results/{PLOT})"
    return "\n\n".join([text, table(header, rows), plot])


def means(results: dict[str, Any], start: str, what: str) -> list[float]:
    """Over seeds, for each epoch."""
    runs = [run[what] for run in results["runs"] if run["start"] == start]
    return [mean(values) for values in zip(*runs, strict=True)]


def draw(results: dict[str, Any], folder: Path) -> None:
    """Accuracy over epochs, and over time."""
    figure, axes = plots.panels(2, sharey=True)
    for start, colour in plots.STARTS.items():
        shares = [100 * share for share in means(results, start, "accuracy")]
        axes[0].plot(range(len(shares)), shares, "o-", color=colour, label=f"last layer: {start}")
        axes[1].plot(means(results, start, "seconds"), shares, "o-", color=colour)
    axes[0].set(xlabel="epochs of the whole network", ylabel="accuracy, %", ylim=(0, 100))
    axes[0].set_xticks(range(results["epochs"] + 1))
    axes[1].set(xlabel="seconds")
    axes[0].legend(loc="lower right")
    plots.store(figure, folder / PLOT)
