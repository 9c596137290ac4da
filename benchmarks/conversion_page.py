"""Writes docs/conversion.md from what benchmarks/conversion.py measured.

python benchmarks/conversion_page.py
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

import machine
from markdown import spread, table

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "conversion.md"
RESULTS = HERE / "results" / "conversion.json"

COMMAND = "python benchmarks/conversion.py --npz grocery_lite0.npz --glyphs glyphs.npz --sizes 1000 10000"
INTRODUCTION = """\
# From a fully connected layer and back

`XLDA.from_linear(weight, bias, embeddings=...)` takes over from a fully connected (FC) layer and goes on
learning; `to_linear()` gives a layer back. [math.md](math.md) says how.

- **With unlabelled embeddings**, two or more of each class: the way to go. The layer labels them itself,
  and the more there are the better. With less, embeddings are left out.
- **Without any**: the same answers as the layer until something is learned. From then on the layer's classes
  compete with new ones on a scale guessed from the new ones alone. Good enough to start with; give it
  embeddings, or real samples of the layer's classes, as soon as there are some.
- `assume="identity"` and `"weights"` are the paper's two ways, for comparison: rows are taken for class
  means. They lose the layer's classes as soon as something is learned, because a layer is defined up to a
  shift and a scale that class means do not share.

Here a layer is trained on about three quarters of the classes (Adam, 100 epochs on photos, 12 on characters),
converted, and learns the others by `partial_fit`, all of their samples. Photos are those of the
[Grocery Store data set](https://github.com/marcusklasson/GroceryStoreDataset), characters are drawn in many
fonts; both are embedded by EfficientNet-Lite0 (d = 1280). Figures are percent, mean and standard deviation
over random splits into old and new classes."""
NAMES = {
    "layer": "the layer itself",
    "identity": "the paper's, Sigma = I",
    "weights": "the paper's, Sigma = Cov(W)",
    "0": "no embeddings",
    "1": "1 embedding a class (left out)",
    "2": "2 embeddings a class",
    "5": "5 embeddings a class",
    "17": "17 embeddings a class",
    "all": "all embeddings",
    "all, power": "all embeddings, `power=0.5`",
    "LDA": "*plain LDA, all labelled data*",
    "XLDA": "*XLDA, all labelled data*",
    "FC": "*FC layer retrained on all labelled data*",
}
PARTS = {
    "rows identity": "mu = W, Sigma = I",
    "rows weights": "mu = W, Sigma = Cov(W)",
    "trained identity": "mu trained, Sigma = I",
    "trained weights": "mu trained, Sigma = Cov(W)",
    "rows trained": "mu = W, Sigma trained",
    "trained trained": "both trained",
}
PAPER_T1 = {
    "layer": (72.07, 83.86, 81.35, 72.57),
    "identity": (71.49, 83.82, 77.62, 63.45),
    "weights": (71.13, 82.26, 81.77, 66.71),
}
PAPER_T4 = {
    "best": (71.49, 83.82, 81.77),
    "trained identity": (73.20, 83.64, 82.66),
    "trained weights": (73.32, 81.50, 84.65),
    "rows trained": (72.18, 82.27, 78.76),
    "trained trained": (74.90, 83.74, 86.87),
}
PAPER_SETS = [f"paper: {name}" for name in ("Birds", "ImageNet", "AliProducts", "Landmarks")]


def page(results: dict[str, Any]) -> str:
    """The whole page."""
    parts = [
        INTRODUCTION,
        *(after(data) for data in results["data"]),
        right_after(results),
        which_part(results),
    ]
    if results["imagenet"]:
        parts.append(imagenet(results["imagenet"]))
    parts.append(f"`{COMMAND}`, {machine.in_words(results['machine'])}.")
    return "\n\n".join(parts) + "\n"


def after(data: dict[str, Any]) -> str:
    """Accuracy once the new classes are learned."""
    splits = [split["after"] for split in data["splits"]]
    lda = [split["LDA"]["all"] for split in splits]
    rows = []
    for name, words in NAMES.items():
        if name not in splits[0]:
            continue
        shares = {part: [split[name][part] for split in splits] for part in ("old", "new", "all")}
        below = [one - other for one, other in zip(shares["all"], lda, strict=True)]
        rows.append([words, *(spread(values) for values in shares.values()), f"{100 * mean(below):+.1f}"])
    header = ["after learning the new classes", "old classes", "new classes", "all", "against labelled LDA"]
    title = (
        f"## {data['name'].capitalize()}: {data['classes']:,} classes, {len(splits)} "
        f"split{'s' if len(splits) > 1 else ''}, {data['asked']:,} queries"
    )
    return f"{title}\n\n{table(header, rows)}"


def right_after(results: dict[str, Any]) -> str:
    """The paper's T1: accuracy on the old classes before anything is learned."""
    rows = []
    for name, words in NAMES.items():
        found = []
        for data in results["data"]:
            shares = [split["right after"].get(name) for split in data["splits"]]
            found.append(spread(shares) if None not in shares else "")
        if any(found):
            rows.append([words, *found, *beside(PAPER_T1, name, len(PAPER_SETS))])
    header = ["right after conversion, old classes", *(data["name"] for data in results["data"]), *PAPER_SETS]
    return f"## Right after conversion, beside the paper's T1\n\n{table(header, rows)}"


def which_part(results: dict[str, Any]) -> str:
    """The paper's T4."""
    best = [spread(best_conversion(data)) for data in results["data"]]
    rows = [["best conversion, nothing trained", *best, *beside(PAPER_T4, "best", 3)]]
    for name, words in PARTS.items():
        found = [spread([split["parts"][name] for split in data["splits"]]) for data in results["data"]]
        rows.append([words, *found, *beside(PAPER_T4, name, 3)])
    header = ["old classes", *(data["name"] for data in results["data"]), *PAPER_SETS[:3]]
    note = "Means or covariance of labelled samples instead of those from the layer; nothing new is learned."
    return f"## Which part to train, beside the paper's T4\n\n{note}\n\n{table(header, rows)}"


def best_conversion(data: dict[str, Any]) -> list[float]:
    """Of the paper's two ways, the one that is better on average, on each split."""
    ways = [[split["parts"][f"rows {way}"] for split in data["splits"]] for way in ("identity", "weights")]
    return max(ways, key=mean)


def beside(paper: dict[str, tuple[float, ...]], name: str, n: int) -> list[str]:
    """The paper's figures, where it has some."""
    return [f"{value:.2f}" for value in paper[name]] if name in paper else [""] * n


def imagenet(results: dict[str, Any]) -> str:
    """The network's own layer."""
    rows = [[NAMES[name], f"{100 * share:.1f}"] for name, share in results["agreement"].items()]
    header = ["EfficientNet-Lite0's own layer, 1,000 classes", "same answer, %"]
    note = f"Agreement with the layer, right after conversion, on {results['photos']} photos."
    return f"## A layer as it is delivered\n\n{note}\n\n{table(header, rows)}"


def stored() -> dict[str, Any]:
    """What was measured."""
    results: dict[str, Any] = json.loads(RESULTS.read_text())
    return results


def write() -> None:
    """Write the page."""
    PAGE.write_text(page(stored()))


if __name__ == "__main__":
    write()
