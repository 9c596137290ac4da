"""Writes docs/lift.md from what benchmarks/lift_cost.py measured.

python benchmarks/lift_page.py
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import machine
from markdown import table

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "lift.md"
COST = HERE / "results" / "lift_cost.json"

INTRODUCTION = """\
# Random features: `lift=`

`XLDA(lift=4096)` learns 4,096 random features of each embedding in its place. Classes that are not linearly
separable by the embeddings may be by so many nonlinear features of them. [dozens.md](dozens.md) has what that
brought: among 1,000 characters something, whether classes had few samples or many, and nothing among photos
of 81 products.

- A feature is v = (x - x̄) · p for a random direction p, and 0.4 v where that is negative; x̄ is the mean of
  the numbers of the embedding. Directions are those of random rotations that a fast transform makes, so no
  matrix of them is kept. All that is random are signs, which are the bits of a published generator: the seed,
  `lift_seed`, gives the same ones on every machine. A file has the seed and a checksum, and loading compares
  that.
- Nothing of them depends on data. So order, batches and merging still do not matter, and samples can be
  forgotten. Classifiers of the same lift can be merged, others are refused.
- The power comes first and is chosen by the embeddings (`power="auto"`). Samples that are kept for checking
  are embeddings, not features.
- `shrinkage="auto"` is another number here: features are many more than the directions in which samples vary,
  so the prior is worth 40 samples for each of these; [math.md](math.md#random-features) has it.
- `to_linear` gives the layer over the features, which `lifted` gives. An ONNX graph has the lift in it, and
  so has the torch module. What holds nothing but a layer refuses it, and so does `from_linear`.

**When to use it.** A second look ([dozens.md](dozens.md)) gains more and costs less: try that first. Use a
lift where a second look is impossible, as in an ONNX graph. It is chosen before the first sample: a model
that has learned without it is fitted anew, from all of its samples. `assess(try_lift=4096)`, or `xlda inspect
shop.xlda --try-lift 4096`, tries it on the samples that were kept, and says what it brings with an interval
of 95 %. A third of them is asked for at a time, and the others are all that is learned, so it tells of a
model with about as many samples of a class as were kept.

## What it costs
"""


def write() -> None:
    """The page."""
    PAGE.write_text(page(json.loads(COST.read_text())))


def page(results: dict[str, Any]) -> str:
    """All of it."""
    parts = {"learning": learning, "predicting": predicting, "sizes": sizes}
    found = [f"{part(results[name]['found'])}\n" for name, part in parts.items() if name in results]
    measured = machine.in_words(results["learning"]["machine"])
    return "\n".join([INTRODUCTION, *found, f"Made by `python benchmarks/lift_cost.py` on {measured}.\n"])


def learning(found: dict[str, Any]) -> str:
    """Beside the products by which others would do it."""
    times = {name: median(seconds) / found["samples"] for name, seconds in found["seconds"].items()}
    rounds = zip(*(found["seconds"][name] for name in ("xlda", "product", "rank-k")), strict=True)
    ratios = [own / (product + rank) for own, product, rank in rounds]
    rows = [
        ["product with a matrix of random directions", f"{1e6 * times['product']:.0f}"],
        ["symmetric rank-k product for each batch", f"{1e6 * times['rank-k']:.0f}"],
        ["the features as XLDA makes them", f"{1e6 * times['features']:.0f}"],
        ["XLDA, all of it", f"{1e6 * times['xlda']:.0f}"],
    ]
    return (
        f"Learning {found['samples']:,} samples of {found['classes']:,} classes with "
        f"`lift={found['width']}`, in batches of {found['batch']}, takes {median(ratios):.2f} times as "
        f"long as the two products by which others would do it, the first two lines (median of "
        f"{len(ratios)} rounds, {min(ratios):.2f} to {max(ratios):.2f}):\n\n"
        + table(["", "µs a sample"], rows)
    )


def predicting(found: dict[str, Any]) -> str:
    """One query a call."""
    times = {name: median(seconds) for name, seconds in found["seconds"].items()}
    ratio = (times["with"] - times["features"]) / times["without"]
    rows = [
        [name, f"{1e3 * times[key]:.2f}", f"{found['coordinates'][key]:,}"]
        for name, key in (("no lift", "without"), (f"`lift={found['width']}`", "with"))
    ]
    return (
        f"One query among {found['classes']:,} classes; of the time with a lift, "
        f"{1e3 * times['features']:.2f} ms make the features (a product with a matrix of directions would "
        f"take {1e3 * times['product']:.2f} ms), and the rest is {ratio:.1f} times that without:\n\n"
        + table(["", "ms", "coordinates"], rows)
    )


def sizes(found: list[dict[str, Any]]) -> str:
    """Of the file, and in memory."""
    rows = []
    for one in found:
        sizes = [one["file"], sum(one["learning"].values()), sum(one["predicting"].values())]
        shown = [f"{size / 1e6:,.0f} ({size / one['limit']:.2f})" for size in sizes]
        rows.append([f"{one['width']:,}", f"{one['limit'] / 1e6:,.0f}", *shown, f"{one['peak'] / 1e6:,.0f}"])
    header = [
        "`lift`",
        "4 · classes · lift + 8 · lift²",
        "file",
        "held, learning",
        "held, predicting",
        "most",
    ]
    return (
        f"Megabytes with {found[0]['classes']:,} classes, beside what class means as float32 and a "
        "covariance as float64 take, and in brackets how many times that. The most is taken while a head is "
        "made:\n\n"
        + table(header, rows)
        + "\n\nA file has half of each symmetric matrix, and the head only where that leaves room for it: "
        "else the first answer after loading waits for a renewal."
    )


if __name__ == "__main__":
    write()
