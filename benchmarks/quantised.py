"""The built-in network in whole numbers of 8 bits against float32: how much faster, and what is lost.

    python benchmarks/quantised.py [--photos grocery] [--rounds 60] [--repeats 5]

Speed: calls of both in turns, in one process, two threads; the median of the ratios of neighbouring calls, of
the clock and of the processor's time, and the whole thing several times. Accuracy: XLDA as it comes, learned
from and asked with embeddings of the same network; on the photos of the Grocery Store data set (`--photos` is
its folder with train.txt and val.txt), on its training photos split at random into halves, and on rendered
characters of the fonts that matplotlib carries, split likewise. Writes
benchmarks/results/quantised.json, with the processor's instructions that matter here, and the table into
docs/backbones.md.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import machine
import markdown
import numpy as np
from PIL import Image

from xlda import XLDA
from xlda.backbones import Backbone, load
from xlda.glyphs import find_glyphs

RESULTS = Path(__file__).parent / "results" / "quantised.json"
PAGE = Path(__file__).parents[1] / "docs" / "backbones.md"
START, END = "<!-- int8 -->\n", "<!-- end of int8 -->\n"
PRECISIONS = ("float32", "int8")
SIZES, BATCHES, THREADS = (224, 96), (8, 1), 2
CHARACTERS, EACH, CHARACTER_SIZE = 300, 14, 96
SEEDS = range(10)
INSTRUCTIONS = ("avx2", "avx512bw", "avx512_vnni", "avx_vnni", "asimddp", "i8mm")


def instructions() -> list[str]:
    """Those for products of bytes that the processor says it has."""
    try:
        known = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return []
    return [name for name in INSTRUCTIONS if name in known]


def speed(size: int, batch: int, rounds: int, repeats: int) -> dict[str, Any]:
    """How many times as fast int8 is, each time anew."""
    pixels = np.random.default_rng(0).integers(0, 256, (batch, size, size, 3), dtype=np.uint8)
    by_clock, by_processor = [], []
    for _ in range(repeats):
        backbones = [
            load(size=size, views=1, precision=precision, threads=THREADS) for precision in PRECISIONS
        ]
        calls = [[_seconds(backbone, pixels) for backbone in backbones] for _ in range(rounds + 3)]
        times = np.array(calls[3:])  # round, precision, clock or processor
        by_clock.append(float(np.median(times[:, 0, 0] / times[:, 1, 0])))
        by_processor.append(float(np.median(times[:, 0, 1]) / np.median(times[:, 1, 1])))
    return {"size": size, "photos a call": batch, "by the clock": by_clock, "by the processor": by_processor}


def _seconds(backbone: Backbone, pixels: np.ndarray) -> tuple[float, float]:
    """Of one call: by the clock, and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    backbone.embed(pixels)
    return time.perf_counter() - clock, time.process_time() - processor


def photos(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Prepared pixels of one part of the data set, and their labels."""
    backbone = load(views=1)
    rows = [line.split(", ") for line in (folder / f"{part}.txt").read_text().splitlines() if line]
    pixels = np.stack([backbone.prepare(Image.open(folder / row[0])) for row in rows])
    return pixels, np.array([int(row[1]) for row in rows])


def characters() -> tuple[np.ndarray, np.ndarray]:
    """Pixels of rendered characters, and which they are."""
    glyphs = find_glyphs(n_classes=CHARACTERS)
    samples = glyphs.samples("train", EACH)
    pixels = np.stack([np.asarray(glyphs.render(sample, CHARACTER_SIZE)) for sample in samples])
    return pixels, np.array([sample.label for sample in samples])


def accuracy(X: np.ndarray, y: np.ndarray, asked: np.ndarray, expected: np.ndarray) -> float:
    """Percent of answers that are right, of a classifier with its defaults."""
    return float(100 * (XLDA().fit(X, y).predict(asked) == expected).mean())


def halves(X: np.ndarray, y: np.ndarray) -> list[float]:
    """Accuracy on one half of the samples, learned from the other, for each seed."""
    found = []
    for seed in SEEDS:
        order = np.random.default_rng(seed).permutation(len(X))
        one, other = order[: len(X) // 2], order[len(X) // 2 :]
        found.append(accuracy(X[one], y[one], X[other], y[other]))
    return found


def mean_cosine(one: np.ndarray, other: np.ndarray) -> float:
    """Between embeddings of the same pictures by both."""
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return float(((one * other).sum(axis=1) / lengths).mean())


def of_characters() -> dict[str, Any]:
    """What int8 costs on characters."""
    pixels, labels = characters()
    found = [
        load(size=CHARACTER_SIZE, resize=CHARACTER_SIZE, views=1, precision=name).embed(pixels)
        for name in PRECISIONS
    ]
    rows = dict(zip(PRECISIONS, found, strict=True))
    return {
        "mean cosine": mean_cosine(*found),
        "halves": {name: halves(row, labels) for name, row in rows.items()},
    }


def of_photos(folder: Path) -> dict[str, Any]:
    """What int8 costs on photos."""
    (pixels, labels), (asked, expected) = photos(folder, "train"), photos(folder, "val")
    results: dict[str, Any] = {"val": {}, "halves": {}}
    rows = []
    for name in PRECISIONS:
        backbone = load(views=1, precision=name)
        learned, queries = backbone.embed(pixels), backbone.embed(asked)
        results["val"][name] = accuracy(learned, labels, queries, expected)
        results["halves"][name] = halves(learned, labels)
        rows.append(queries)
    return {"mean cosine": mean_cosine(*rows), **results}


def table(results: dict[str, Any]) -> str:
    """All figures, as they are printed."""
    rows = []
    for row in results["speed"]:
        what = f"times as fast, {row['size']} px, {row['photos a call']} a call"
        rows.append([what, "1", f"{np.median(row['by the clock']):.2f}"])
        rows.append(["the same by the processor's time", "1", f"{np.median(row['by the processor']):.2f}"])
    for kind, found in ((kind, results[kind]) for kind in ("photos", "characters") if kind in results):
        if "val" in found:
            rows.append([f"accuracy on {kind}, val", *(f"{value:.1f} %" for value in found["val"].values())])
        before, after = (np.array(found["halves"][name]) for name in PRECISIONS)
        error = (after - before).std(ddof=1) / np.sqrt(len(before))
        change = f"{after.mean():.2f} % ({(after - before).mean():+.2f} ± {error:.2f})"
        rows.append([f"accuracy on {kind}, halves", f"{before.mean():.2f} %", change])
        rows.append([f"mean cosine of {kind} with float32", "1", f"{found['mean cosine']:.4f}"])
    return markdown.table(["", *PRECISIONS], rows)


def updated(page: str, results: dict[str, Any]) -> str:
    """The page with the table of these results."""
    known = ", ".join(results["instructions"]) or "unknown"
    foot = f"{results['threads']} threads; instructions: {known}. {machine.in_words(results['machine'])}."
    return markdown.between(page, START, END, f"{table(results)}\n\n{foot}")


def main() -> None:
    """Measure, store, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--photos", type=Path, help="folder of the Grocery Store data set")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    results: dict[str, Any] = {
        "machine": machine.describe(),
        "instructions": instructions(),
        "threads": THREADS,
        "speed": [
            speed(size, batch, arguments.rounds, arguments.repeats) for size in SIZES for batch in BATCHES
        ],
        "characters": of_characters(),
    }
    if arguments.photos:
        results["photos"] = of_photos(arguments.photos)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(updated(PAGE.read_text(), results))
    print(table(results))


if __name__ == "__main__":
    main()
