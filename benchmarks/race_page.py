"""The sections on XLDA against an FC layer over time, and on LDA as a start: benchmarks/race.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import plots
from markdown import duration, table

RACE, START = "race.svg", "start.svg"
RACE_TEXT = """\
## The same time for both

XLDA, with its defaults and as plain LDA, goes once over the samples; an FC layer goes over them again and
again, until it is as good or the run ends. Embeddings of real images (characters in many fonts), the same for
both, on all cores. XLDA's time is that of learning everything and of being ready to predict. The clock of the
layer counts its training alone. *At its best* is chosen with hindsight, by the queries themselves."""
START_TEXT = """\
## LDA as a start for an FC layer

The paper says that an FC layer initialised from LDA saves epochs. Here a layer goes on from plain LDA's
`to_linear()` for half the epochs of one from random weights; the table has the rates. LDA has no doubt left
about the samples that it has seen, so that there is little to train on; *tempered*, its logits are scaled
by one number, at which it is least surprised by samples that it was made to forget. Time includes that of
plain LDA."""
EPOCHS_SHOWN = (0, 1, 2, 5, 10)
WORDS = {"random": "from random weights", "LDA": "from LDA", "LDA, tempered": "from LDA, tempered"}
XLDA, PLAIN = "XLDA", "plain LDA"


def race_section(results: dict[str, Any]) -> str:
    """XLDA and the layer after the same time, and when it catches up."""
    rows = []
    for course in results["courses"]:
        best = max(course["fc"]["random"]["points"], key=lambda point: point["right"])
        end = course["fc"]["random"]["points"][-1]
        for head in course["heads"]:
            same = after_same_time(course, head)
            overtaken = catches_up(course, head)
            rows.append(
                [
                    title_of(course),
                    head,
                    f"{100 * accuracy(course, head):.1f}",
                    duration(seconds(course, head)),
                    f"{100 * same['right'] / course['asked']:.1f}",
                    f"{100 * best['right'] / course['asked']:.1f}",
                    f"{duration(best['seconds'])} ({best['epoch']:.0f} epochs)",
                    duration(overtaken["seconds"])
                    if overtaken
                    else f"not in {duration(end['seconds'])} ({end['epoch']:.0f} epochs)",
                    f"{overtaken['seconds'] / seconds(course, head):,.0f}x" if overtaken else "",
                ]
            )
    header = ["classes x samples", "method", "accuracy, %", "in", "FC after the same time, %"]
    header += ["FC at its best, %", "after", "FC catches up after", "that is"]
    plot = f"![accuracy against seconds of training](results/{RACE})"
    how = "; ".join(
        f"{title_of(course)}: {words(course['fc']['random']['training'])}" for course in results["courses"]
    )
    note = f"The layer: cross-entropy, Adam. {how}."
    return "\n\n".join([RACE_TEXT, plot, table(header, rows), note])


def start_section(results: dict[str, Any]) -> str:
    """Accuracy per epoch from each start."""
    rows = []
    for course in results["courses"]:
        if "LDA" not in course["fc"]:
            continue
        goal = max(point["right"] for point in course["fc"]["random"]["points"])
        for start, run in course["fc"].items():
            by_epoch = {point["epoch"]: point["right"] / course["asked"] for point in run["points"]}
            offset = 0.0 if start == "random" else seconds(course, PLAIN)
            reached = next((point for point in run["points"] if point["right"] >= goal), None)
            rows.append(
                [
                    title_of(course),
                    WORDS[start],
                    f"{run['training']['rate']:g}",
                    *(f"{100 * by_epoch[epoch]:.1f}" if epoch in by_epoch else "" for epoch in EPOCHS_SHOWN),
                    f"{100 * run['points'][-1]['right'] / course['asked']:.1f}",
                    f"{reached['epoch']:.0f} ({duration(reached['seconds'] + offset)})"
                    if reached
                    else "never",
                ]
            )
    header = ["classes x samples", "start", "rate", *(f"epoch {epoch}" for epoch in EPOCHS_SHOWN)]
    header += ["at the end", "as good as the best from random weights: epochs"]
    plot = f"![accuracy against epochs from each start](results/{START})"
    return "\n\n".join([START_TEXT, plot, table(header, rows)])


def title_of(course: dict[str, Any]) -> str:
    """Its size."""
    return f"{course['classes']:,} x {course['samples'] / course['classes']:.0f}"


def words(training: dict[str, Any]) -> str:
    """How the layer was trained."""
    return (
        f"rate {training['rate']:g} falling to 0, batches of {training['batch']}, {training['epochs']} epochs"
    )


def accuracy(course: dict[str, Any], head: str) -> float:
    """Share of right answers."""
    return float(course["heads"][head]["right"] / course["heads"][head]["asked"])


def seconds(course: dict[str, Any], head: str) -> float:
    """To learn, and to be ready."""
    return float(course["heads"][head]["learn"] + course["heads"][head]["ready"])


def after_same_time(course: dict[str, Any], head: str) -> dict[str, Any]:
    """The layer's first point that is not earlier than the head's time, or the last if there is none."""
    points = course["fc"]["random"]["points"]
    return next((point for point in points if point["seconds"] >= seconds(course, head)), points[-1])


def catches_up(course: dict[str, Any], head: str) -> dict[str, Any] | None:
    """The layer's first point that is as good as the head."""
    points = course["fc"]["random"]["points"]
    return next((point for point in points if point["right"] >= course["heads"][head]["right"]), None)


def draw(results: dict[str, Any], folder: Path) -> None:
    """Accuracy over time, and over epochs."""
    figure, axes = plots.panels(len(results["courses"]), height=3.9)
    for axis, course in zip(axes, results["courses"], strict=True):
        for head in course["heads"]:
            begin, share = seconds(course, head), 100 * accuracy(course, head)
            axis.axhline(share, ls=":", color=plots.COLOURS[head], lw=1)
            axis.plot([begin], [share], "*", ms=14, color=plots.COLOURS[head], label=f"{head}, one pass")
        run = course["fc"]["random"]
        points = [point for point in run["points"] if point["seconds"] > 0]
        axis.plot(
            [point["seconds"] for point in points],
            [100 * point["right"] / course["asked"] for point in points],
            "o-",
            ms=3,
            color=plots.STARTS["random"],
            label="FC layer",
        )
        axis.set(title=title_of(course), xlabel="seconds of training")
        plots.logarithmic(axis, ticks=(1, 3))
        found = [*course["heads"].values(), *points]
        axis.set_ylim(0, 110 * max(one["right"] / course["asked"] for one in found))
    axes[0].set_ylabel("accuracy, %")
    axes[0].legend(loc="lower right", fontsize=8)
    plots.store(figure, folder / RACE)
    both = [course for course in results["courses"] if "LDA" in course["fc"]]
    figure, axes = plots.panels(len(both), height=3.9)
    for axis, course in zip(axes, both, strict=True):
        for head in course["heads"]:
            axis.axhline(100 * accuracy(course, head), ls=":", color=plots.COLOURS[head], lw=1, label=head)
        for start, run in course["fc"].items():
            epochs = [point["epoch"] for point in run["points"]]
            shares = [100 * point["right"] / course["asked"] for point in run["points"]]
            axis.plot(epochs, shares, "o-", ms=3, color=plots.STARTS[start], label=WORDS[start])
        axis.set(title=title_of(course), xlabel="epochs")
        axis.set_ylim(bottom=0)
    axes[0].set_ylabel("accuracy, %")
    axes[0].legend(loc="lower right", fontsize=8)
    plots.store(figure, folder / START)
