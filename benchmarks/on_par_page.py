"""The section on the claim that LDA is on par with an FC layer: what benchmarks/on_par.py measured."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev
from typing import Any

import plots
from markdown import table

PLOT = "on-par.svg"
MARGIN = 1.0  # points: less is on par
LESS_SHRINKAGE = "XLDA, shrinkage=0.1"
PAIRS = (("XLDA", "FC"), ("XLDA, power=0.5", "FC, square root"))
TEXT = f"""\
## Is LDA on par with an FC layer?

The paper says so. Both get the same samples, all at once; the layer is trained to convergence.
*Difference* is XLDA less the layer, in points, mean ± standard deviation over seeds (other classes, other
samples). *On par* means less than {MARGIN:g} point, or less than two standard errors. The right half is
the same over square roots of the embeddings, which XLDA does itself with `power=0.5`."""


def section(results: dict[str, Any]) -> str:
    """Where it holds, and where it does not."""
    rows = []
    for case in results["cases"]:
        for point in case["points"]:
            cells = []
            for one, other in PAIRS:
                gaps = differences(point, one, other)
                found = [accuracy(point, one), accuracy(point, other)]
                cells += [*(f"{100 * share:.1f}" for share in found), spread(gaps), verdict(gaps)]
            rows.append([case["name"], f"{point['per class']:.0f}", *cells])
    header = ["data", "samples a class", "XLDA", "FC", "difference", ""]
    header += ["XLDA, power=0.5", "FC, square roots", "difference", ""]
    plot = f"![XLDA less the FC layer against samples a class](results/{PLOT})"
    return "\n\n".join([TEXT, plot, table(header, rows), where(results)])


def where(results: dict[str, Any]) -> str:
    """The verdicts in a sentence."""
    found: dict[str, list[str]] = {"XLDA": [], "on par": [], "FC": []}
    for case in results["cases"]:
        for point in case["points"]:
            gaps = differences(point, "XLDA", "FC")
            found[verdict(gaps)].append(f"{case['name']} with {point['per class']:.0f} a class")
    sentences = [f"XLDA is better: {'; '.join(found['XLDA']) or 'nowhere'}."]
    sentences.append(f"On par: {'; '.join(found['on par']) or 'nowhere'}.")
    sentences.append(f"The layer is better: {'; '.join(found['FC']) or 'nowhere'}.")
    return " ".join(sentences) + "\n\n" + WHY + " " + shrinkage(results)


def shrinkage(results: dict[str, Any]) -> str:
    """How much of the widest gap is the default shrinkage."""
    points = [(case["name"], point) for case in results["cases"] for point in case["points"]]
    points = [(name, point) for name, point in points if point["per class"] > 1]
    name, worst = min(points, key=lambda found: mean(differences(found[1], "XLDA", "FC")))
    gap = mean(differences(worst, "XLDA", "FC"))
    gain = mean(differences(worst, LESS_SHRINKAGE, "XLDA"))
    return (
        f"The default shrinkage is made for few samples: where XLDA is worst with more than one ({name}, "
        f"{worst['per class']:.0f} a class, {gap:+.1f} points), `shrinkage=0.1` changes it by {gain:+.1f}."
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


def verdict(gaps: list[float]) -> str:
    """Which is better, if any."""
    error = stdev(gaps) / len(gaps) ** 0.5 if len(gaps) > 1 else 0.0
    if abs(mean(gaps)) < max(MARGIN, 2 * error):
        return "on par"
    return "XLDA" if mean(gaps) > 0 else "FC"


def spread(gaps: list[float]) -> str:
    """Mean and standard deviation."""
    deviation = f" ± {stdev(gaps):.1f}" if len(gaps) > 1 else ""
    return f"{mean(gaps):+.1f}{deviation}"


def draw(results: dict[str, Any], folder: Path) -> None:
    """The difference against samples a class."""
    figure, axes = plots.panels(2, sharey=True)
    titles = ("embeddings as they are", "square roots of the embeddings")
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
    axes[0].set_ylabel("XLDA less the FC layer, points")
    axes[0].legend(fontsize=9)
    plots.store(figure, folder / PLOT)
