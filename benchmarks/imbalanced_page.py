"""Writes docs/imbalanced.md from what benchmarks/imbalanced.py measured.

python benchmarks/imbalanced_page.py
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from statistics import mean
from typing import Any

import machine
from markdown import duration, spread, table

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "imbalanced.md"
RESULTS = HERE / "results" / "imbalanced.json"

COMMAND = "python benchmarks/imbalanced.py --npz grocery_lite0.npz"
OF_CHARACTERS = " --many many.npz --five five.npz"
INTRODUCTION = """\
# One sample beside many

A new class is learned from one sample, or a few, beside classes that have many. LDA takes the mean of one
sample for as true as the mean of fifty, and hardly ever answers with the new class. XLDA's default model
(`model="bayes"`, [math.md](math.md)) knows how much each mean is worth.

*Poor* classes have as few samples as the tables say, *rich* ones all that there are, of characters up to 30.
*Half poor*, *90 % poor* and *1 % poor* say how many classes are poor, drawn by chance. *One poor* is one
class alone, one photographed product after the other. In the *long tail* counts fall geometrically from the
most to 1, and the classes with no more than the few count as poor. With *equal* counts every class has so
many, or all that it has. Figures are percent of the queries, mean ± standard deviation over draws of classes
and samples; methods with fewer draws have the first ones. *H* is the harmonic mean of rich and poor: high
only where both are."""
METHODS = """\
- **XLDA** has its default parameters.
- **XLDA, model=lda** is plain LDA with the same power and the same shrinkage.
- **Textbook T** is the model of XLDA with the textbook's estimate of how class means differ, to which every
  mean counts the same.
- **SLDA as published** is the rule of Hayes & Kanan (2020) with its shrinkage of 0.0001, over embeddings as
  they are, as for all methods below it.
- **Nearest mean** and **1-NN** go by the cosine; 1-NN keeps every sample.
- **Ridge on random features** is made after RanPAC (McDonnell et al., 2023): 5,000 random features, the ridge
  chosen on held-out samples of rich classes.
- **FC, all at once** is a fully connected layer, trained for 1,500 steps, or 20 epochs where that is more.

The last two take long: they have fewer draws and only 1 and 3 samples of poor classes; of classes that are
poor alone some of the photographed ones only; and of characters halves only, of up to 1,000 classes.
Photos are those of the [Grocery Store data set](https://github.com/marcusklasson/GroceryStoreDataset) in the
split that comes with it, characters are drawn in many fonts; both are embedded by EfficientNet-Lite0
(d = 1280)."""
OVERVIEW = "All, and H where there are poor classes:"
DETAILS = "In full:"
EQUAL = "equal"

Setting = dict[str, Any]


def stored() -> dict[str, Any]:
    """What was measured."""
    found: dict[str, Any] = json.loads(RESULTS.read_text())
    return found


def page(results: dict[str, Any]) -> str:
    """The whole page."""
    drawn = any(found["source"] == "characters" for found in results["settings"])
    made = (
        f"Made by `{COMMAND}{OF_CHARACTERS if drawn else ''}`\n"
        f"in {duration(results['seconds'])}: {machine.in_words(results['machine'])}. "
        "Files of characters are those of `benchmarks/characters.py`."
    )
    parts = [INTRODUCTION, METHODS, made]
    by_source = groupby(results["settings"], key=lambda found: (found["source"], found["classes"]))
    for (source, classes), settings in by_source:
        found = list(settings)
        parts += [f"## {source.capitalize()}, {classes:,} classes", OVERVIEW, overview(found)]
        parts += [DETAILS, details([one for one in found if one["scheme"] != EQUAL])]
    return "\n\n".join(parts) + "\n"


def overview(settings: list[Setting]) -> str:
    """A row for each setting, a column for each method."""
    methods = list(dict.fromkeys(method for setting in settings for method in setting["methods"]))
    rows = []
    for setting in settings:
        cells = [
            summary(setting["methods"][method]) if method in setting["methods"] else "" for method in methods
        ]
        best = max(filter(None, cells), key=lambda cell: float(cell.split(" / ")[0]))
        rows.append([title_of(setting), *(f"**{cell}**" if cell == best else cell for cell in cells)])
    return table(["", *methods], rows)


def summary(runs: list[dict[str, Any]]) -> str:
    """Means of all and of H; nothing where a method was not tried."""
    if not runs:
        return ""
    some = ["all", "H"] if runs[0]["asked"][1] else ["all"]
    return " / ".join(f"{100 * mean(figure(run, name) for run in runs):.1f}" for name in some)


def details(settings: list[Setting]) -> str:
    """A row for each setting and method, with spreads."""
    rows = []
    for setting in settings:
        for method, runs in setting["methods"].items():
            cells = [spread([figure(run, name) for run in runs]) for name in ("all", "rich", "poor", "H")]
            rows.append([title_of(setting), method, *cells, f"{len(runs)}"])
    return table(["", "method", "all", "rich", "poor", "H", "draws"], rows)


def title_of(setting: Setting) -> str:
    """The setting in words."""
    many = "or fewer" if setting["scheme"] == "long tail" else ""
    return f"{setting['scheme']}, {setting['few']} {many}".strip()


def figure(run: dict[str, Any], name: str) -> float:
    """A share of right answers of one draw, or the harmonic mean of two."""
    if name == "all":
        return float(sum(run["right"]) / sum(run["asked"]))
    rich, poor = (
        right / asked if asked else 0.0 for right, asked in zip(run["right"], run["asked"], strict=True)
    )
    if name == "H":
        return float(2 * rich * poor / (rich + poor)) if rich + poor else 0.0
    return float(rich if name == "rich" else poor)


def write() -> None:
    """Write the page."""
    PAGE.write_text(page(stored()))


if __name__ == "__main__":
    write()
