"""The section on the claim that LDA is on par with an FC layer: what benchmarks/on_par.py measured."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev
from typing import Any

import plots
from markdown import table

PLOT = "on-par.svg"
MARGIN = 1.0  # points: less is on par
XLDA, PLAIN, LESS_SHRINKAGE = "XLDA", "plain LDA", "plain LDA, shrinkage=0.1"
LAYER, LAYER_OVER_ROOTS = "FC", "FC, square root"
PAIRS = ((PLAIN, LAYER), ("plain LDA, power=0.5", LAYER_OVER_ROOTS), (XLDA, LAYER_OVER_ROOTS))
TEXT = f"""\
## Is LDA on par with an FC layer?

The paper says so. Both get the same samples, all at once; the layer is trained for 1,500 steps, or 20 epochs
where that is more. Ten times as many bring it one to three points more, as `benchmarks/dozens.py` found.
First plain LDA (`model="lda", shrinkage=0.3, power=None`) and the layer over embeddings as they are, which is
the paper's question; then both over square roots of the embeddings (`power=0.5`); then XLDA with its
defaults, which take square roots of such embeddings, and the same layer over square roots. *Difference* is
the first less the layer, in points, mean ± standard deviation over seeds (other classes, other samples). *On
par* means less than {MARGIN:g} point, or less than two standard errors."""


def section(results: dict[str, Any]) -> str:
    """Where it holds, and where it does not."""
    rows = []
    for case in results["cases"]:
        for point in case["points"]:
            cells = []
            for one, other in PAIRS:
                gaps, name = differences(point, one, other), one.split(",")[0]
                found = [accuracy(point, one), accuracy(point, other)]
                cells += [*(f"{100 * share:.1f}" for share in found), spread(gaps), verdict(gaps, name)]
            rows.append([case["name"], f"{point['per class']:.0f}", *cells])
    header = ["data", "samples a class"]
    for one, other in PAIRS:
        header += [one, other, "difference", "better"]
    plot = f"![difference to the FC layer against samples a class](results/{PLOT})"
    return "\n\n".join([TEXT, plot, table(header, rows), where(results)])


def where(results: dict[str, Any]) -> str:
    """The verdicts in sentences, the paper's question first."""
    told = [verdicts(results, PLAIN, LAYER), verdicts(results, XLDA, LAYER_OVER_ROOTS)]
    return "\n\n".join([*told, f"{WHY} {shrinkage(results)}"])


def verdicts(results: dict[str, Any], one: str, other: str) -> str:
    """Where one is better, where they are on par, where the layer is better."""
    found: dict[str, list[str]] = {one: [], "on par": [], LAYER: []}
    for case in results["cases"]:
        for point in case["points"]:
            better = verdict(differences(point, one, other), one)
            found[better].append(f"{case['name']} with {point['per class']:.0f} a class")
    name = one[0].upper() + one[1:]
    sentences = [f"{name} is better: {'; '.join(found[one]) or 'nowhere'}."]
    sentences.append(f"On par: {'; '.join(found['on par']) or 'nowhere'}.")
    sentences.append(f"The layer is better: {'; '.join(found[LAYER]) or 'nowhere'}.")
    return " ".join(sentences)


def shrinkage(results: dict[str, Any]) -> str:
    """How much of plain LDA's widest gap is its shrinkage, and how much the defaults close."""
    points = [(case["name"], point) for case in results["cases"] for point in case["points"]]
    points = [(name, point) for name, point in points if point["per class"] > 1]
    name, worst = min(points, key=lambda found: mean(differences(found[1], PLAIN, LAYER)))
    gap = mean(differences(worst, PLAIN, LAYER))
    gain = mean(differences(worst, LESS_SHRINKAGE, PLAIN))
    defaults = mean(differences(worst, XLDA, PLAIN))
    return (
        "A shrinkage of 0.3 is made for few samples: where plain LDA is worst with more than one "
        f"({name}, {worst['per class']:.0f} a class, {gap:+.1f} points), `shrinkage=0.1` changes it by "
        f"{gain:+.1f}, and XLDA's defaults by {defaults:+.1f}."
    )


WHY = """\
Why: LDA estimates a mean for each class and one covariance for all. A few samples of each class pin that
down, while the layer, with as many free numbers and nothing that ties the classes together, fits what
happens to be there. One sample a class says nothing about how a class varies: there is no covariance to
learn, XLDA is the nearest mean, and the layer is better. With many samples a class the layer overtakes, as
theory has it (Ng & Jordan, 2002): LDA assumes that all classes spread alike, which is not quite true, and
more samples do not mend an assumption."""


def accuracy(point: dict[str, Any], method: str) -> float:
    """Mean over seeds."""
    return mean(run["methods"][method]["right"] for run in point["runs"]) / float(point["asked"])


def differences(point: dict[str, Any], one: str, other: str) -> list[float]:
    """In points, for each seed."""
    return [
        100 * (run["methods"][one]["right"] - run["methods"][other]["right"]) / point["asked"]
        for run in point["runs"]
    ]


def verdict(gaps: list[float], one: str = XLDA) -> str:
    """Which is better, if any: the one, or the layer."""
    error = stdev(gaps) / len(gaps) ** 0.5 if len(gaps) > 1 else 0.0
    if abs(mean(gaps)) < max(MARGIN, 2 * error):
        return "on par"
    return one if mean(gaps) > 0 else LAYER


def spread(gaps: list[float]) -> str:
    """Mean and standard deviation."""
    deviation = f" ± {stdev(gaps):.1f}" if len(gaps) > 1 else ""
    return f"{mean(gaps):+.1f}{deviation}"


def draw(results: dict[str, Any], folder: Path) -> None:
    """The difference against samples a class."""
    figure, axes = plots.panels(len(PAIRS), sharey=True)
    titles = ("plain LDA, embeddings as they are", "plain LDA, square roots", "XLDA, square roots")
    for axis, (one, other), title in zip(axes, PAIRS, titles, strict=True):
        axis.axhspan(-MARGIN, MARGIN, color="#e5e7eb", zorder=0)
        for case, marker in zip(results["cases"], "osD^", strict=False):
            many = [point["per class"] for point in case["points"]]
            gaps = [differences(point, one, other) for point in case["points"]]
            bars = [stdev(gap) if len(gap) > 1 else 0.0 for gap in gaps]
            centres = [mean(gap) for gap in gaps]
            axis.errorbar(many, centres, bars, fmt=f"{marker}-", capsize=3, label=case["name"])
        axis.set(xlabel="samples a class", title=title)
        plots.logarithmic(axis)
    axes[0].set_ylabel("difference to the FC layer, points")
    axes[0].legend(fontsize=9)
    plots.store(figure, folder / PLOT)
