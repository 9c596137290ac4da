"""Ways to update the means of a batch that were tried, and what each costs: writes results/variants.json.

    python benchmarks/training_variants.py

A batch of 4096 embeddings of 50 000 classes, d = 1280, each way on its own, without the product that folds
the rows into the scatter (the limit), which all have in common.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import machine
import numpy as np
from scipy.linalg import blas

from xlda.moments import Moments

N, D, CLASSES, ROUNDS, BLOCK = 4096, 1280, 50_000, 9, 128


def fresh_arrays(
    X: np.ndarray, rows: np.ndarray, means: np.ndarray, counts: np.ndarray, out: np.ndarray
) -> None:
    """The formulas for the whole batch, as one would write them first; wrong where a class comes twice."""
    after = counts[rows] + 1
    residuals = X - means[rows]
    means[rows] += residuals / after[:, None].astype(means.dtype)
    out[:] = residuals * np.sqrt(counts[rows] / after)[:, None]
    counts[rows] = after


def in_blocks(
    X: np.ndarray, rows: np.ndarray, means: np.ndarray, counts: np.ndarray, out: np.ndarray
) -> None:
    """The same in blocks that fit the cache."""
    for start in range(0, len(X), BLOCK):
        block = slice(start, start + BLOCK)
        fresh_arrays(X[block], rows[block], means, counts, out[block])


def group_sums(
    X: np.ndarray, rows: np.ndarray, means: np.ndarray, counts: np.ndarray, out: np.ndarray
) -> None:
    """In blocks, samples of one class added up with `np.add.reduceat`, so that a class may come often."""
    order = np.argsort(rows, kind="stable")
    for start in range(0, len(X), BLOCK):
        chosen = order[start : start + BLOCK]
        first = np.flatnonzero(np.diff(rows[chosen], prepend=-1))
        sizes = np.diff(first, append=len(chosen))
        touched = rows[chosen][first]
        group = np.repeat(np.arange(len(touched)), sizes)
        before, after = counts[touched], counts[touched] + sizes
        residuals = X[chosen] - means[touched][group]
        shift = np.add.reduceat(residuals, first, axis=0)
        means[touched] += shift / after[:, None].astype(means.dtype)
        shift *= ((1 - np.sqrt(before / after)) / sizes)[:, None].astype(means.dtype)
        out[start : start + BLOCK] = residuals - shift[group]
        counts[touched] = after


def main() -> None:
    """Time all ways in turns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D), dtype=np.float32)
    rows = rng.integers(0, CLASSES, N)
    out = np.empty_like(X)
    counts = np.ones(CLASSES)
    means = {kind: np.zeros((CLASSES, D), kind) for kind in (np.float32, np.float64)}
    for array in means.values():
        array += 0.1  # memory that is really there
    moments = Moments(D)
    moments.grow(CLASSES)
    moments._offsets += np.float32(0.1)
    moments.update(X, rows)

    def without_folding() -> None:
        moments._scatter._n_rows = 0
        moments.update(X, rows)
        moments._scatter._n_rows = 0

    ways: dict[str, Callable[[], object]] = {
        "the limit: one ssyrk": lambda: blas.ssyrk(1.0, X.T),
        "whole batch, float32": lambda: fresh_arrays(X, rows, means[np.float32], counts, out),
        "whole batch, float64 means": lambda: fresh_arrays(X, rows, means[np.float64], counts, out),
        "blocks of 128, float32": lambda: in_blocks(X, rows, means[np.float32], counts, out),
        "blocks of 128, float64 means": lambda: in_blocks(X, rows, means[np.float64], counts, out),
        "blocks, sums by `reduceat`, float32": lambda: group_sums(X, rows, means[np.float32], counts, out),
        "as built: blocks of different classes, memory reused, means relative to an origin": without_folding,
    }
    timings: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            timings[name].append(time.perf_counter() - start)
    path = Path(__file__).parent / "results" / "variants.json"
    path.write_text(json.dumps({"machine": machine.describe(), "timings": timings}, indent=1) + "\n")
    for name, values in timings.items():
        print(f"{1000 * median(values):8.1f} ms  {name}")


if __name__ == "__main__":
    main()
