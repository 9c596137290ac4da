"""Writes docs/unknown.md from what benchmarks/unknown.py measured, and draws its plot.

python benchmarks/unknown_page.py
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

import machine
import numpy as np
import plots
from markdown import duration, spread, table

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "unknown.md"
PLOT = HERE.parent / "docs" / "unknown.svg"
RESULTS = HERE / "results" / "unknown.json"
N_BINS = 15

COMMAND = "python benchmarks/run.py unknown"
INTRODUCTION = """\
# How sure it is, and what it has never seen

`predict(X, unknown=0.05)` rejects what is like no known class, `predict_proba` says how sure an answer
is, and `assess` how many will be right. How that works is in [math.md](math.md); this page says how well.

## Known against unknown

AUROC in percent: how often a sample of a known class is scored as more like the known ones than a sample
of a class that was never learned. Mean ± standard deviation over splits; *L2* is with embeddings divided
by their lengths. **XLDA** is `score_samples` with its defaults. Others are scores of plain LDA with the
same power and shrinkage (max softmax, energy, max logit, margin), distances by the same covariance
(Mahalanobis, relative Mahalanobis) and the distance to the tenth nearest sample. *Textbook psi* is XLDA's
score with another estimate of how class means differ. Photos: 20 of 81 products were never learned, and
are asked for by photos of another day. Characters: a quarter was never learned. A single split of photos
varies by several points, so that only means say anything."""
JUDGED = """\
## What it says of itself

Rejected of the known where 5 % were asked for, unknown ones caught by that, how far probabilities are
from how often answers are right (expected calibration error, 15 bins of as many samples), and how far the
accuracy that `assess` tells is from the real one. *Exchangeable* samples were set aside at random
(`like="same"`), those of *another day* were taken in another visit to the shop (`like="visit"`, the
default). Means over splits.

**Few of the unknown are caught on another day**: who rejects next to nothing of the known cannot reject
much of what is like it. Where that matters more than a wrong rejection, ask for more: `unknown=0.2`."""


def stored() -> dict[str, Any]:
    """What was measured."""
    found: dict[str, Any] = json.loads(RESULTS.read_text())
    return found


def page(results: dict[str, Any]) -> str:
    """The whole page."""
    made = (
        f"Made by `{COMMAND}` in {duration(results['seconds'])}: {machine.in_words(results['machine'])}. "
        "Calibrating takes "
        f"{mean(one['seconds'] for runs in results['judged'].values() for one in runs):.0f} s on average."
    )
    plot = "![probabilities told against answers right](unknown.svg)"
    parts = [INTRODUCTION, compared(results["auroc"]), JUDGED, judged(results["judged"]), plot, made]
    return "\n\n".join(parts) + "\n"


def compared(auroc: dict[str, list[dict[str, float]]]) -> str:
    """A row for each score, a column for each kind of samples."""
    methods = list(dict.fromkeys(name for runs in auroc.values() for run in runs for name in run))
    methods = [name for name in methods if "L2" not in name]
    rows = []
    for method in methods:
        cells = []
        for runs in auroc.values():
            plain, normalised = (
                [run[name] for run in runs if name in run] for name in (method, f"{method}, L2-normalised")
            )
            cells.append(f"{spread(plain)} (L2 {100 * mean(normalised):.1f})" if plain else "")
        rows.append([f"**{method}**" if method == "XLDA" else method, *cells])
    header = ["", *(f"{name} ({len(runs)} splits)" for name, runs in auroc.items())]
    return table(header, rows)


def judged(found: dict[str, list[dict[str, Any]]]) -> str:
    """A row for each kind of samples."""
    rows = []
    for name, runs in found.items():
        caught = [run["caught"] for run in runs if run["caught"] is not None]
        gaps = [run["told accuracy"] - run["accuracy"] for run in runs]
        rows.append(
            [
                name,
                spread([run["rejected"] for run in runs]),
                spread(caught) if caught else "",
                spread([run["calibration error"] for run in runs]),
                f"{100 * mean(run['told accuracy'] for run in runs):.1f}",
                f"{100 * mean(run['accuracy'] for run in runs):.1f}",
                f"{100 * mean(gaps):+.1f}",
                str(len(runs)),
            ]
        )
    header = ["", "known rejected, %", "unknown caught, %", "calibration error, %", "accuracy told, %"]
    return table([*header, "accuracy, %", "told less real", "splits"], rows)


def draw(results: dict[str, Any]) -> None:
    """Reliability: all splits of a kind together."""
    figure, axes = plots.panels(len(results["judged"]), height=7.0, n_rows=2, sharey=True)
    for axis, (name, runs) in zip(axes, results["judged"].items(), strict=True):
        points = reliability(*(np.sum([run[what] for run in runs], axis=0) for what in ("told", "right")))
        axis.plot([0, 100], [0, 100], color="#9ca3af", ls="--")
        axis.plot(*zip(*points, strict=True), "o-", color="#1d4ed8")
        axis.set(xlabel="probability told, %", xlim=(0, 101), ylim=(0, 101))
        axis.set_title(name.replace(", ", ",\n"), fontsize=9)
    for first in (axes[0], axes[-(-len(axes) // 2)]):
        first.set_ylabel("right, %")
    plots.store(figure, PLOT)


def reliability(told: np.ndarray, right: np.ndarray) -> list[tuple[float, float]]:
    """Percent told and percent right, of so many answers of each percent, in bins of about as many."""
    bins = np.minimum(N_BINS * (np.cumsum(told) - told) // max(told.sum(), 1), N_BINS - 1)
    points = []
    for number in np.unique(bins[told > 0]):
        here = bins == number
        middle = np.average(np.arange(100)[here] + 0.5, weights=told[here])
        points.append((float(middle), float(100 * right[here].sum() / told[here].sum())))
    return points


def write() -> None:
    """Write the page and the plot."""
    if RESULTS.exists():
        PAGE.write_text(page(stored()))
        draw(stored())


if __name__ == "__main__":
    write()
