"""A million classes: learned, asked, saved and loaded, on one box.

    python benchmarks/million.py                       1,000,000 classes, means as float16
    python benchmarks/million.py --classes 100000 --precision full

Classes are drawn (benchmarks/drawn.py): the spectrum of real embeddings, families, counts from a power law. A
new process loads what was saved and answers: that is timed, and its memory measured, since it is what runs in
a shop. The winner of the search is compared with that of the exact scores of all classes. All numbers go to
benchmarks/results/million.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
import numpy as np
from drawn import Drawn
from process_memory import resident

from xlda import XLDA, load
from xlda.head import Head

RESULTS = Path(__file__).parent / "results"
N_QUERIES, N_COMPARED = 1000, 1000
ROWS_AT_ONCE = 16_384
FEW = 20  # samples of a class at most, so that drawing them does not take hours


def learned(n_classes: int, search: str, precision: Any, path: Path, queries: Path) -> dict[str, Any]:
    """Learn, answer once, save: seconds of each."""
    drawn, clf = Drawn(n_classes), XLDA(search=search, precision=precision)
    drawn.counts = np.minimum(drawn.counts, FEW)
    seconds, done = 0.0, 0
    for X, y in drawn.batches():
        begin = time.perf_counter()
        clf.partial_fit(X, y)
        seconds += time.perf_counter() - begin
        done += len(y)
        if done // len(y) % 50 == 0:
            print(f"  {done:,} of {drawn.counts.sum():,} samples", end="\r", flush=True)
    rows = drawn.rng.integers(0, n_classes, N_QUERIES)
    np.savez(queries, X=drawn.samples(rows), y=rows)
    begin = time.perf_counter()
    clf.predict(np.zeros((1, drawn.n_features), np.float32))
    renewal = time.perf_counter() - begin
    begin = time.perf_counter()
    clf.save(path)
    return {
        "samples": int(drawn.counts.sum()),
        "learning, samples a second": done / seconds,
        "first head, seconds": renewal,
        "saving, seconds": time.perf_counter() - begin,
        "file, GB": path.stat().st_size / 1e9,
    }


def by_all_scores(head: Head, X: np.ndarray) -> np.ndarray:
    """Labels of the classes that score best, of all; class by class, since all scores at once are many."""
    rows, queries = head.all_rows(), head.space.queries(X)
    best, winners = np.full(len(X), -np.inf), np.zeros(len(X), np.intp)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        scores = rows.taken(slice(start, start + ROWS_AT_ONCE)).scores(queries)
        places = scores.argmax(axis=1)
        here = scores[np.arange(len(X)), places]
        winners = np.where(here > best, start + places, winners)
        best = np.maximum(here, best)
    return head.table.of(winners)


def asked(path: Path, queries: Path) -> dict[str, Any]:
    """Load and answer; in a process of its own."""
    with np.load(queries) as file:
        X, y = file["X"], file["y"]
    begin = time.perf_counter()
    clf = load(path)
    found = [clf.predict(X[:1])[0]]
    first = time.perf_counter() - begin
    seconds = []
    for query in X[1:]:
        begin = time.perf_counter()
        found.append(clf.predict(query[None])[0])
        seconds.append(time.perf_counter() - begin)
    memory = resident()
    winners = by_all_scores(clf._current_head(), X[:N_COMPARED])
    return {
        "load to first answer, seconds": first,
        "predict one, milliseconds": 1e3 * float(np.median(seconds)),
        "the longest of them, milliseconds": 1e3 * float(np.max(seconds)),
        "memory of the process, GB": memory / 1e9,
        "agreement with exact scores": float(np.mean(np.array(found[:N_COMPARED]) == winners)),
        "accuracy": float(np.mean(np.array(found) == y)),
        "search": clf._current_head().index.describe(),
    }


def main() -> None:
    """Measure, store, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--classes", type=int, default=1_000_000)
    parser.add_argument("--precision", default="half", choices=["half", "full"])
    parser.add_argument("--searches", nargs="+", default=["auto", "fisher"])
    parser.add_argument("--out", type=Path, default=RESULTS / "million.json")
    parser.add_argument("--ask", nargs=2, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ask:
        print(json.dumps(asked(*arguments.ask)))
        return
    results: dict[str, Any] = {"machine": machine.describe(), "classes": arguments.classes, "searches": {}}
    with tempfile.TemporaryDirectory() as folder:
        model, queries = Path(folder) / "model.xlda", Path(folder) / "queries.npz"
        for search in arguments.searches:
            if model.exists():
                begin = time.perf_counter()
                load(model).set_params(search=search).save(model)
                told: dict[str, Any] = {"another search, and saved, seconds": time.perf_counter() - begin}
            else:
                told = learned(arguments.classes, search, arguments.precision, model, queries)
            command = [sys.executable, __file__, "--ask", str(model), str(queries)]
            told |= json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            results["searches"][search] = told
            print(f"{search}: " + ", ".join(f"{name} {value}" for name, value in told.items()), flush=True)
    arguments.out.write_text(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
