"""Writes what was measured into docs/performance.md, between its two markers, and draws its plot.

python benchmarks/performance_page.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median
from typing import Any

import inference_page
import machine
from markdown import duration, table

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "performance.md"
PLOT = HERE.parent / "docs" / "training-growth.png"

EPOCHS = {"Birds": 25, "iNaturalist": 20, "AliProducts": 15}  # to convergence, in the paper (T5)
PAPER = {  # seconds an epoch: FC, SLDA, XLDA (T2); and FC to convergence (T5)
    "Birds": (0.18, 7, 0.36, 4.5),
    "ImageNet": (15, 1380, 11, None),
    "iNaturalist": (37, 540, 5, 740),
    "AliProducts": (1560, 3900, 36, 23_400),
}

COST = """\
### A sample against the limit

Microseconds a sample, median of 5 rounds on the same embeddings (d = 1280, float32); in brackets, times the
limit measured just before it, median of the same rounds. The published rule goes sample by sample."""
EPOCH = """\
### An epoch beside the paper's T2 and T5

Time a sample times the samples of the shape. FC is a torch layer, batches of 512, SGD with momentum and
cosine decay, timed on 3 batches; the published rule is timed on 300 samples; XLDA learns in batches of 512.
FC to convergence takes the paper's number of epochs. The paper measured on an i9-10920X with an RTX A6000."""
WHOLE = """\
### Whole epochs, every sample learned

Batches of 512, new classes included; drawing the embeddings is not timed."""
MEMORY = """\
### Memory while learning from a folder

Resident memory of the process, from the system; the model is counts, means and covariance."""
VARIANTS = """\
### What was tried

Milliseconds to bring a batch of 4096 samples of 50 000 classes into the means; the limit comes on top."""
PROFILE = """\
### Where the time goes

Share of `partial_fit`, batches of 512, 50 000 classes, from a profile."""


def main() -> None:
    """Rewrite the page from the stored results."""
    PAGE.write_text(updated(PAGE.read_text()))
    draw(stored("training")["growth"])
    inference_page.draw(stored("inference"))


def stored(name: str) -> Any:
    """Results that a benchmark has written."""
    return json.loads((HERE / "results" / f"{name}.json").read_text())


def updated(page: str) -> str:
    """The page with the stored results in it."""
    parts = [
        training_tables(stored("training")),
        full_table(stored("training-full")),
        profile_table(stored("training")),
        variants_table(stored("variants")),
        memory_table(stored("memory")),
    ]
    page = _between_marks("measured", "\n\n".join(parts), page)
    return _between_marks("predicting", inference_page.tables(stored("inference")), page)


def _between_marks(name: str, text: str, page: str) -> str:
    marked = re.compile(rf"(<!-- {name}: begin -->\n).*(<!-- {name}: end -->)", re.DOTALL)
    return marked.sub(lambda match: f"{match[1]}{text}\n{match[2]}", page)


def training_tables(results: dict[str, Any]) -> str:
    """Cost of a sample against the limit, and an epoch beside the paper's."""
    return "\n\n".join([COST, cost_table(results), EPOCH, epoch_table(results), made_by(results)])


def made_by(results: dict[str, Any]) -> str:
    """The command, and on what it ran."""
    return f"`python benchmarks/training.py`, {machine.in_words(results['machine'])}."


def cost_table(results: dict[str, Any]) -> str:
    """A sample against the limit."""
    rows = []
    methods = ("xlda 4096", "xlda 512", "xlda 1")
    for name, shape in results["shapes"].items():
        time = {method: median(values) for method, values in shape["timings"].items()}
        cells = [f"{1e6 * median(time[f'limit beside {method}'] for method in methods):.1f}"]
        for method in methods:
            ratio = times_the_limit(shape["timings"], method)
            cells.append(f"{1e6 * time[method]:.1f} ({ratio:.2f}x)")
        rows.append([name, f"{shape['classes']:,}", *cells, f"{1e6 * time['published']:,.0f}"])
    header = ["shape", "classes", "limit", "batch 4096", "batch 512", "one a call", "published rule"]
    return table(header, rows)


def epoch_table(results: dict[str, Any]) -> str:
    """An epoch beside the paper's T2 and T5."""
    rows = []
    for name, shape in results["shapes"].items():
        time = {method: median(values) for method, values in shape["timings"].items()}
        n, xlda, fc = shape["samples"], time["xlda 512"], time.get("fc")
        paper = PAPER.get(name, (None,) * 4)
        rows.append(
            [
                name,
                f"{shape['classes']:,} x {n:,}",
                duration(fc and fc * n),
                duration(time["published"] * n),
                duration(xlda * n),
                times(fc and fc / xlda),
                times(time["published"] / xlda),
                times(fc and name in EPOCHS and fc * EPOCHS[name] / xlda),
                duration(paper[0]),
                duration(paper[1]),
                duration(paper[2]),
                times(paper[0] and paper[0] / paper[2]),
                times(paper[3] and paper[3] / paper[2]),
            ]
        )
    header = ["shape", "classes x samples", "FC", "published rule", "XLDA", "FC / XLDA", "published / XLDA"]
    header += ["FC converged / XLDA", "paper: FC", "paper: SLDA", "paper: XLDA", "paper: FC / XLDA"]
    header += ["paper: FC converged / XLDA"]
    return table(header, rows)


def times_the_limit(timings: dict[str, list[float]], method: str) -> float:
    """Median over the rounds of the time over that of the limit, measured just before it."""
    pairs = zip(timings[method], timings[f"limit beside {method}"], strict=True)
    return median(time / limit for time, limit in pairs)


def full_table(results: dict[str, Any]) -> str:
    """Whole epochs."""
    rows = []
    for name, shape in results["shapes"].items():
        full = shape["full"]
        rows.append(
            [
                name,
                f"{shape['classes']:,} x {full['samples learned']:,}",
                f"{full['limit']:.1f} s",
                f"{full['xlda 512']:.1f} s",
                f"{full['xlda 512'] / full['limit']:.2f}x",
                duration(PAPER.get(name, (None,) * 3)[2]),
            ]
        )
    return "\n\n".join(
        [
            WHOLE,
            table(
                ["shape", "classes x samples", "limit", "XLDA", "XLDA / limit", "paper: XLDA on an A6000"],
                rows,
            ),
            f"`python benchmarks/training.py --full`, {machine.in_words(results['machine'])}.",
        ]
    )


def profile_table(results: dict[str, Any]) -> str:
    """Which part of learning takes how much."""
    total = sum(results["profile"].values())
    rows = [[part, f"{seconds / total:.1%}"] for part, seconds in results["profile"].items()]
    return f"{PROFILE}\n\n{table(['part', 'share'], rows)}\n\n`python benchmarks/training.py`."


def variants_table(results: dict[str, Any]) -> str:
    """What each way of updating the means costs."""
    rows = [[name, f"{1000 * median(values):.1f}"] for name, values in results["timings"].items()]
    foot = f"`python benchmarks/training_variants.py`, {machine.in_words(results['machine'])}."
    return f"{VARIANTS}\n\n{table(['way', 'ms'], rows)}\n\n{foot}"


def memory_table(results: dict[str, Any]) -> str:
    """Memory while learning from files."""
    rows = [
        [
            run["format"],
            f"{run['files']} files, {run['bytes'] / 1e9:.1f} GB",
            f"{run['classes']:,} x {run['samples']:,}",
            f"{run['model'] / 2**20:,.0f} MiB",
            f"{run['before'] / 2**20:,.0f} MiB",
            f"{run['peak'] / 2**20:,.0f} MiB",
            f"{(run['peak'] - run['before'] - run['model']) / 2**20:,.0f} MiB",
            f"{run['samples'] / run['seconds']:,.0f}",
        ]
        for run in results["runs"]
    ]
    header = [
        "format",
        "source",
        "classes x samples",
        "model",
        "process before",
        "process at its peak",
        "beyond both",
        "samples a second",
    ]
    return "\n\n".join(
        [
            MEMORY,
            table(header, rows),
            f"`python benchmarks/source_memory.py`, {machine.in_words(results['machine'])}.",
        ]
    )


def draw(growth: dict[str, list[dict[str, Any]]]) -> None:
    """Cost of a sample against classes, batch size and width."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 3, figsize=(12, 3.6), constrained_layout=True)
    notes = {
        "classes": "classes (d = 1280, batch 512)",
        "batch size": "samples a call (d = 1280, 1 000 classes)",
        "d": "d (batch 512, 1 000 classes)",
    }
    for panel, (name, points) in zip(panels, growth.items(), strict=True):
        at = [point["at"] for point in points]
        for method, label, style in (("xlda", "XLDA", "o-"), ("limit", "limit: bare ssyrk", "s--")):
            cost = [1e6 * median(point[method]) for point in points]
            panel.plot(at, cost, style, label=label, color="C0" if method == "xlda" else "C7")
        panel.set_xscale("log")
        panel.set_xlabel(notes[name])
        if name == "d":
            panel.set_yscale("log")
        else:
            panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("microseconds a sample")
    panels[0].legend()
    figure.savefig(PLOT, dpi=110, metadata={"Software": None})


def times(ratio: float | None) -> str:
    """A ratio."""
    if not ratio:
        return ""
    return f"{ratio:.1f}x" if ratio < 10 else f"{ratio:,.0f}x"


if __name__ == "__main__":
    main()
