"""Writes docs/waits.md from what benchmarks/waits.py, benchmarks/late.py and benchmarks/million.py measured.

python benchmarks/waits_page.py
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import machine
from markdown import table

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "waits.md"
WAITS, LATE, MILLION = (HERE / "results" / f"{name}.json" for name in ("waits", "late", "million"))

INTRODUCTION = """\
# How long a call waits

Learning a sample changes means, which is cheap, and now and then so much was learned that the covariance
is inverted anew, all classes are brought into its coordinates and the search is tuned: a *renewal*. By
default it happens in the call that needs it, and the same calls give the same bits. With
`XLDA(background=True)` no call waits for it:

- A thread of its own makes the next head, of what was known when it began. The head that is there serves on.
- Means and new classes are current all the same: a class learned one call ago is found by the next.
- What is learned meanwhile is brought in before the new head takes over, between two calls. Nobody sees a
  mixture of the two.
- A renewal that fails is logged, and tried again a minute later at the earliest; the head there is serves on.
- A forked, copied or unpickled classifier begins renewals of its own. An interpreter that ends waits for
  none.
- After a renewal, the next waits four times as long as it took, or as long as it took where a twentieth more
  was learned since.
- `save`, `to_linear` and another parameter renew where they are called, as ever.
  `view_to_save(renew=False).write(path)` renews nothing and is written while others learn and ask.

What predicting needs is in the file, so that a classifier answers as soon as it is read."""
WAITED = """\
## Learn one, predict one

One sample in ten is of a new class; counts come from a power law. *Alone* is the median of a `predict`
without learning; *mean* is that of learning one sample and predicting one. The *longest wait* of a call is
less the longest gap of a thread that only reads the clock in the same run; median of the runs. *Busy* is
while another process keeps one of the cores at work. Runs follow one another: a later one begins with all
that those before have learned, and with what their renewals have left to do."""
RENEWED = """\
## A renewal, and a first answer

*Limit* is one `eigh`, one product of all class means with themselves, and one rotation of them to 384
coordinates, in the same run. *First answer*: from the file to the first prediction, in a new process that
has one core."""
LATE_COSTS = """\
## What a late renewal costs

1,000 characters, with counts from a power law. A head was made; then so much more was learned, of any class
or of new classes alone. *Late* is the accuracy of the head that was there, with all new means in it;
*renewed* that of one made anew. By default a renewal is due when a hundredth more was learned."""
MANY = """\
## A million classes

Drawn with the spectrum of real embeddings, in families, with counts from a power law; means are kept as
float16 (`precision="half"`). Memory is that of the process that has loaded it and answers."""


def waited(results: dict[str, Any]) -> str:
    """Table of the rounds."""
    rows = []
    for size, told in results["sizes"].items():
        for kind in ("quiet", "busy"):
            runs = told[kind]
            alone = median(run["alone"] for run in runs)
            longest = median(max(run["longest"] - run["gap"], 0.0) for run in runs)
            rows.append(
                [
                    f"{int(size):,}",
                    kind,
                    f"{1e3 * alone:.2f}",
                    f"{1e3 * median(run['mean'] for run in runs):.2f}",
                    f"{median(run['mean'] / run['alone'] for run in runs):.1f}x",
                    f"{1e3 * median(run['99 %'] for run in runs):.1f}",
                    f"{1e3 * longest:.0f}",
                    f"{1e3 * median(run['longest'] for run in runs):.0f}",
                    f"{sum(run['heads'] - 1 for run in runs)}",
                ]
            )
    header = ["classes", "machine", "alone, ms", "mean, ms", "mean / alone", "99 %, ms"]
    return table([*header, "longest wait, ms", "with the gap, ms", "renewals"], rows)


def renewed(results: dict[str, Any]) -> str:
    """Table of renewals and first answers."""
    rows = []
    for size, told in results["sizes"].items():
        times = told["renewal"]
        limits = [sum(parts) for parts in zip(times["eigh"], times["rank-k"], times["rotation"], strict=True)]
        ratio = median(one / limit for one, limit in zip(times["renewal"], limits, strict=True))
        rows.append(
            [
                f"{int(size):,}",
                f"{median(times['renewal']):.2f}",
                f"{median(limits):.2f}",
                f"{ratio:.2f}x",
                f"{told['file']['load to first answer']:.2f}",
                f"{told['file']['file'] / 1e6:,.0f}",
            ]
        )
    return table(["classes", "renewal, s", "limit, s", "times", "first answer, s", "file, MB"], rows)


def late(results: dict[str, Any]) -> str:
    """Table of late heads."""
    rows = [
        [name, f"{float(share):.0%}", *(f"{100 * told[which]:.1f}" for which in ("late", "renewed"))]
        for name, shares in results["streams"].items()
        for share, told in shares.items()
    ]
    return table(["learned since", "how much", "late, %", "renewed, %"], rows)


def many(results: dict[str, Any]) -> str:
    """Table of a million."""
    wanted = {
        "predict one, milliseconds": "{:.1f}",
        "the longest of them, milliseconds": "{:.1f}",
        "load to first answer, seconds": "{:.1f}",
        "memory of the process, GB": "{:.2f}",
        "agreement with exact scores": "{:.1%}",
    }
    rows = [
        [told["search"]["search"], *(form.format(told[name]) for name, form in wanted.items())]
        for told in results["searches"].values()
    ]
    return table(["search", *wanted], rows)


def page(waits: dict[str, Any], lateness: dict[str, Any], million: dict[str, Any]) -> str:
    """The page."""
    times = len(next(iter(waits["sizes"].values()))["quiet"])
    command = f"python benchmarks/waits.py --rounds {waits['rounds']} --times {times}"
    about = f"*`{command}`, {machine.in_words(waits['machine'])}*"
    parts = [INTRODUCTION, WAITED, waited(waits), RENEWED, renewed(waits), about]
    seeds = f"*`python benchmarks/late.py --npz many.npz`, mean of {lateness['seeds']} draws.*"
    parts += [LATE_COSTS, late(lateness), seeds]
    told = f"*`python benchmarks/million.py`, {million['classes']:,} classes.*"
    parts += [MANY, many(million), told]
    return "\n\n".join(parts) + "\n"


def stored() -> list[dict[str, Any]]:
    """What was measured."""
    return [json.loads(path.read_text()) for path in (WAITS, LATE, MILLION)]


def write() -> None:
    """Write the page."""
    PAGE.write_text(page(*stored()))


if __name__ == "__main__":
    write()
