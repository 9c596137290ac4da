"""The section on the claim that LDA is on par with an FC layer: what benchmarks/on_par.py measured."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev
from typing import Any

import plots
from markdown import table

PLOT = "on-par.svg"
MARGIN = 1.0  # points: less is on par
XLDA, SECOND_LOOK = "XLDA", "XLDA, second_look=16"
PLAIN, PLAIN_OVER_ROOTS, LESS_SHRINKAGE = "plain LDA", "plain LDA, power=0.5", "plain LDA, shrinkage=0.1"
LAYER, LAYER_OVER_ROOTS = "FC", "FC, square root"
COMPARED = {  # with each layer
    LAYER: (PLAIN,),
    LAYER_OVER_ROOTS: (PLAIN_OVER_ROOTS, XLDA, SECOND_LOOK),
}
TEXT = f"""\
## Is LDA on par with an FC layer?

The paper says so. Both get the same samples, all at once; the layer is trained for 15,000 steps of 64
samples, and of 512 where there are more than 20,000. First plain LDA (`model="lda", shrinkage=0.3,
power=None`) beside the layer over embeddings as they are, which is the paper's question; then, beside the
layer over square roots of the embeddings, plain LDA over these (`power=0.5`), XLDA with its defaults, which
take square roots of such embeddings, and XLDA with a second look ([what that is](dozens.md)). In brackets:
this method less the layer, in points, mean ± standard deviation over seeds (other classes, other samples).
**Bold** is better than the layer, *italic* worse, and what is neither is on par: less than {MARGIN:g} point
away, or less than two standard errors. The layer has one rate and no weight decay here; in
[dozens.md](dozens.md) both are chosen."""


def section(results: dict[str, Any]) -> str:
    """Where it holds, and where it does not."""
    header = ["data", "samples a class"]
    for layer, others in COMPARED.items():
        header += [layer, *others]
    rows = []
    for case in results["cases"]:
        for point in case["points"]:
            cells = []
            for layer, others in COMPARED.items():
                cells += [f"{accuracy(point, layer):.1f}", *(beside(point, one, layer) for one in others)]
            rows.append([case["name"], f"{point['per class']:.0f}", *cells])
    plot = f"![difference to the FC layer against samples a class](results/{PLOT})"
    return "\n\n".join([TEXT, plot, table(header, rows), where(results)])


def beside(point: dict[str, Any], one: str, layer: str) -> str:
    """The accuracy of one method, by how much it exceeds that of the layer, and which is better."""
    gaps = differences(point, one, layer)
    told = f"{accuracy(point, one):.1f} ({spread(gaps)})"
    around = {"on par": "", one: "**", LAYER: "*"}[verdict(gaps, one)]
    return f"{around}{told}{around}"


def where(results: dict[str, Any]) -> str:
    """The verdicts in sentences, the paper's question first."""
    pairs = ((PLAIN, LAYER), (XLDA, LAYER_OVER_ROOTS), (SECOND_LOOK, LAYER_OVER_ROOTS))
    return "\n\n".join([*(verdicts(results, *pair) for pair in pairs), f"{WHY} {shrinkage(results)}"])


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
more samples do not mend an assumption. A second look relaxes it for the classes nearest to a query."""


def accuracy(point: dict[str, Any], method: str) -> float:
    """Mean over seeds, in percent."""
    return 100 * mean(run["methods"][method]["right"] for run in point["runs"]) / float(point["asked"])


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
    titles = {
        PLAIN: "plain LDA, embeddings as they are",
        PLAIN_OVER_ROOTS: "plain LDA, square roots",
        XLDA: "XLDA",
        SECOND_LOOK: "XLDA, second_look=16",
    }
    pairs = [(one, layer) for layer, others in COMPARED.items() for one in others]
    figure, axes = plots.panels(len(pairs), height=6.4, n_rows=2, sharex=True, sharey=True)
    for axis, (one, layer) in zip(axes, pairs, strict=True):
        axis.axhspan(-MARGIN, MARGIN, color="#e5e7eb", zorder=0)
        for case, marker in zip(results["cases"], "osD^", strict=False):
            many = [point["per class"] for point in case["points"]]
            gaps = [differences(point, one, layer) for point in case["points"]]
            bars = [stdev(gap) if len(gap) > 1 else 0.0 for gap in gaps]
            centres = [mean(gap) for gap in gaps]
            axis.errorbar(many, centres, bars, fmt=f"{marker}-", capsize=3, label=case["name"])
        axis.set(title=titles[one])
        plots.logarithmic(axis)
    for axis in axes[-2:]:
        axis.set_xlabel("samples a class")
    for axis in axes[::2]:
        axis.set_ylabel("difference to the FC layer, points")
    axes[0].legend(fontsize=9)
    plots.store(figure, folder / PLOT)
