"""What a second look costs: learning, predicting and memory. Writes benchmarks/results/second_look_cost.json.

    python benchmarks/second_look_cost.py [--classes 10000] [--per-class 20] [--rows 16]

Two classifiers, one with a second look, learn the same drawn classes. Then they take turns, batch by batch
and query by query: learning batches, learning one sample a call, predicting one query a call, also right
after a class has changed, and predicting batches.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dozens_page
import machine
import numpy as np
from drawn import Drawn

from xlda import XLDA

RESULTS = Path(__file__).parent / "results" / "second_look_cost.json"
BATCH, BATCHES, QUERIES = 512, 24, 400
KINDS = ("without", "with")


class Timed:
    """Seconds of each call, by what it did and which classifier did it."""

    def __init__(self) -> None:
        self.seconds: dict[str, dict[str, list[float]]] = {}

    def call(self, what: str, kind: str, work: Callable[[], object]) -> None:
        """Do it, and note how long it took."""
        begin = time.perf_counter()
        work()
        found = self.seconds.setdefault(what, {name: [] for name in KINDS})
        found[kind].append(time.perf_counter() - begin)


def measured(n_classes: int, per_class: int, n_rows: int) -> dict[str, Any]:
    """All figures."""
    drawn, timed = Drawn(n_classes), Timed()
    models = {"without": XLDA(power=None), "with": XLDA(power=None, second_look=n_rows)}
    rows = drawn.rng.permutation(np.repeat(np.arange(n_classes), per_class))
    for start in range(0, len(rows), 4096):
        some = rows[start : start + 4096]
        X = drawn.samples(some)
        for clf in models.values():
            clf.partial_fit(X, some)

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        some = drawn.rng.integers(0, n_classes, n)
        return drawn.samples(some), some

    for number in range(BATCHES):
        X, y = draw(BATCH)
        for kind, clf in turn(models, number):
            timed.call("learning a batch", kind, lambda clf=clf, X=X, y=y: clf.partial_fit(X, y))
    X, y = draw(QUERIES)
    for kind, clf in models.items():
        timed.call("first answer", kind, lambda clf=clf, X=X: clf.predict(X[:1]))
    right = {kind: float(np.mean(clf.predict(X) == y)) for kind, clf in models.items()}
    for number in range(QUERIES):
        for kind, clf in turn(models, number):
            timed.call("one query", kind, lambda clf=clf, at=X[number : number + 1]: clf.predict(at))
    for number in range(QUERIES):
        for kind, clf in turn(models, number):
            at, label = X[number : number + 1], y[number : number + 1]
            timed.call("learning one sample", kind, lambda clf=clf, at=at, y=label: clf.partial_fit(at, y))
            timed.call("one query after that", kind, lambda clf=clf, at=at: clf.predict(at))
    for number in range(BATCHES):
        X, _ = draw(BATCH)
        for kind, clf in turn(models, number):
            timed.call("predicting a batch", kind, lambda clf=clf, X=X: clf.predict(X))
    return {
        "classes": n_classes,
        "per class": per_class,
        "rows": n_rows,
        "batch": BATCH,
        "seconds": timed.seconds,
        "right": right,
        "bytes": {kind: clf.memory() for kind, clf in models.items()},
        "coordinates": int(models["with"].snapshot().head.space.width),
    }


def turn(models: dict[str, XLDA], number: int) -> list[tuple[str, XLDA]]:
    """Both, each of them first every other time: who is second finds the sample in the cache."""
    pairs = list(models.items())
    return pairs[::-1] if number % 2 else pairs


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--classes", type=int, default=10_000)
    parser.add_argument("--per-class", type=int, default=20)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    found = measured(arguments.classes, arguments.per_class, arguments.rows)
    arguments.out.write_text(json.dumps({"machine": machine.describe(), "found": found}, indent=1) + "\n")
    if arguments.out == RESULTS:
        dozens_page.write()
