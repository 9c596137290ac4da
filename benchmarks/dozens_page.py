"""Writes docs/dozens.md from what benchmarks/dozens.py measured.

python benchmarks/dozens_page.py
"""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path
from statistics import mean, median
from typing import Any

import machine
from markdown import duration, spread, table

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "dozens.md"
RESULTS = HERE / "results" / "dozens.json"
COST = HERE / "results" / "second_look_cost.json"
CALLS = (  # what is timed, and how many samples that is
    ("learning a batch", "learning, in batches of {batch}, a sample", "batch"),
    ("learning one sample", "learning one sample a call", None),
    ("one query", "predicting one sample a call", None),
    ("one query after that", "the same, its class having just learned a sample", None),
    ("predicting a batch", "predicting, in batches of {batch}, a sample", "batch"),
)

INTRODUCTION = """\
# Few samples of a class, or dozens

What XLDA is worth with few samples of each class and with many: as it is, with a second look, and with a
lift, all in one pass. `second_look=16` keeps 16 rows of each class and compares the nearest classes once more
by them ([math.md](math.md#a-second-look)); `lift=4096` learns random features of the embeddings instead of
the embeddings ([lift.md](lift.md)). With a lift `shrinkage="auto"` follows another rule, so a difference is
not that of the features alone. Methods that a table does not show were not tried on those data. Samples that
are drawn differ from page to page, so that only columns of one table compare.

**Which to use.** XLDA as it is, unless there are many classes that are much alike: then a second look brought
most, the more so from ten samples of a class on; among photos of 81 products and ten digits it changed
little. `assess(try_second_look=16)` tries it on the samples that were kept: all of some tens of
classes. With many more classes it may bring more than that says; `check_samples` says how many are kept. A
lift gains less and costs more; use it where a second look is impossible, as in an ONNX graph. Both are chosen
before the first sample: for a model that has learned, fit anew from all of its samples. A second look can be
taken away later.

- **XLDA** has its default parameters; **second_look** is the number of rows of a class, **lift** the number
  of random features, all else being the same.
- **Plain LDA** is `model="lda", shrinkage=0.3, power=None`.
- **FC** is trained to convergence, for 15,000 steps of 64 samples, and of 512 where there are more than
  20,000; rate and weight decay are the best for held-out samples of 100 of the classes. It is trained over
  square roots of the embeddings, and over these standardised. *20 epochs* is the same with a tenth of the
  steps, or 20 epochs where that is more, which is not enough where classes have dozens of samples.
- **Ridge on random features** is made after RanPAC (McDonnell et al., 2023): 5,000 features, the ridge chosen
  on held-out samples.
- **Logistic regression** is scikit-learn's, over standardised square roots, with a chosen penalty; with very
  many samples it takes too long, and is left out.

Figures are percent of the queries, mean ± standard deviation over drawings of classes and samples where there
are several; a figure without a deviation is of one drawing. *Seconds* are those of
learning, without choosing; *memory* is what a method keeps to go on learning and to predict, which for FC and
logistic regression includes the samples."""


def stored() -> dict[str, Any]:
    """What was measured."""
    found: dict[str, Any] = json.loads(RESULTS.read_text())
    return found


def page(results: dict[str, Any], cost: dict[str, Any] | None = None) -> str:
    """The whole page."""
    commands = "\n".join(results["commands"])
    made = (
        f"Made in {duration(results['seconds'])} on {machine.in_words(results['machine'])}. "
        "The machine had other work to do at times, so seconds are rough; [lift.md](lift.md) and the end of "
        "this page have some of a quiet machine. "
        "Files of characters are those of `benchmarks/characters.py --classes 1000 --train 100 --test 4`, "
        "seeds 0, 1 and 2, of the Debian fonts noto-cjk, wqy-zenhei, wqy-microhei, arphic-ukai, "
        "arphic-uming, nanum, dejavu-extra and liberation; more0.npz, more1.npz and more2.npz are of "
        "noto-cjk-extra and nanum-extra as well: other drawings, by which nothing was chosen. What a "
        "direction is worth to the shrinkage of a lift was chosen on the first drawing of characters and the "
        "first of photos; so were two numbers of a second look, the others on drawings that are not shown. "
        "`python benchmarks/dozens_page.py` writes this page. Made by"
    )
    parts = [INTRODUCTION, made, f"```sh\n{commands}\n```"]
    for data in dict.fromkeys(point["data"] for point in results["points"]):
        points = [point for point in results["points"] if point["data"] == data]
        parts += [f"## {data[0].upper()}{data[1:]}", accuracies(points), "What that costs:", costs(points)]
    parts += [] if cost is None else ["## What a second look costs", cost_of_a_second_look(cost)]
    return "\n\n".join(parts) + "\n"


def cost_of_a_second_look(stored: dict[str, Any]) -> str:
    """Time and memory beside those without."""
    found = stored["found"]
    rows = []
    for what, told, size in CALLS:
        n = found[size] if size else 1
        usual = mean if size else median  # of batches, some bring what waits into the covariance
        once, twice = (1e6 * usual(found["seconds"][what][kind]) / n for kind in ("without", "with"))
        slowest = [f"{1e3 * max(found['seconds'][what][kind]):,.1f} ms" for kind in ("without", "with")]
        name = told.format(**found)
        rows.append([name, f"{once:,.0f} µs", f"{twice:,.0f} µs", f"{twice / once:.1f}", *slowest])
    first = [found["seconds"]["first answer"][kind][0] for kind in ("without", "with")]
    rows.append(
        ["the first answer, for which a head is made", *(f"{one:.1f} s" for one in first), "", "", ""]
    )
    held = [sum(found["bytes"][kind].values()) / 1e6 for kind in ("without", "with")]
    rows.append(["memory", *(f"{one:,.0f} MB" for one in held), f"{held[1] / held[0]:.1f}", "", ""])
    return (
        f"{found['classes']:,} drawn classes of {found['per class']} samples, 1280 features, "
        f"`second_look={found['rows']}` ({found['coordinates']} coordinates in the head). Calls of both "
        "alternate. Of single calls the median, of batches the mean; and the slowest call of each:\n\n"
        + table(["", "without", "with", "times", "slowest without", "slowest with"], rows)
        + f"\n\nMade by `python benchmarks/second_look_cost.py` on {machine.in_words(stored['machine'])}."
    )


def methods_of(points: list[dict[str, Any]]) -> list[str]:
    """All that were tried."""
    return list(dict.fromkeys(name for point in points for run in point["runs"] for name in run))


def accuracies(points: list[dict[str, Any]]) -> str:
    """A row for each method, a column for each number of samples a class, the best in bold."""
    best = {point["per class"]: max(_mean(point, name) for name in methods_of(points)) for point in points}
    rows = []
    for name in methods_of(points):
        cells = []
        for point in points:
            shares = shares_of(point, name)
            bold = "**" if shares and mean(shares) == best[point["per class"]] else ""
            cells.append(f"{bold}{spread(shares)}{bold}" if shares else "")
        rows.append([name, *cells])
    return table(["samples a class", *(f"{point['per class']}" for point in points)], rows)


def costs(points: list[dict[str, Any]]) -> str:
    """Seconds and memory of each method with the most samples a class that it was tried with."""
    rows = []
    for name in methods_of(points):
        tried = [point for point in points if shares_of(point, name)]
        if not tried:
            continue
        runs = [run[name] for run in tried[-1]["runs"] if name in run]
        seconds, kept = (mean(run[what] for run in runs) for what in ("seconds", "bytes"))
        rows.append([name, f"{tried[-1]['per class']}", duration(seconds), f"{kept / 1e6:,.0f} MB"])
    return table(["", "samples a class", "seconds", "memory"], rows)


def shares_of(point: dict[str, Any], name: str) -> list[float]:
    """Right answers of each drawing in which the method was tried."""
    found = [run[name]["right"] / point["asked"] for run in point["runs"] if name in run]
    return [share for share in found if isfinite(share)]


def _mean(point: dict[str, Any], name: str) -> float:
    shares = shares_of(point, name)
    return mean(shares) if shares else 0.0


def write() -> None:
    """Write the page."""
    PAGE.write_text(page(stored(), json.loads(COST.read_text())))


if __name__ == "__main__":
    write()
