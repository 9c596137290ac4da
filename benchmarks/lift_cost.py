"""What a lift costs: learning, predicting, file and memory. Writes benchmarks/results/lift_cost.json.

    python benchmarks/lift_cost.py                   all of it, in some minutes
    python benchmarks/lift_cost.py --only learning   one part anew: learning, predicting or sizes

Learning is timed beside two products for each batch, both as the BLAS does them: that of embeddings and a
matrix of as many random directions, and one symmetric rank-k product of that width. All take turns, so that a
slow moment of the machine meets them alike. Predicting is timed one query a call among 10,000 drawn classes,
by a classifier with a lift and by one without.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import lift_page
import machine
import numpy as np
from drawn import Drawn
from process_memory import forget_peak, resident
from scipy.linalg import blas

from xlda import XLDA
from xlda.lifting import Lift

RESULTS = Path(__file__).parent / "results" / "lift_cost.json"
D, WIDTH, BATCH = 1280, 4096, 512
WIDTHS = (2048, 4096, 8192)
ROUNDS, BATCHES = 5, 12
CLASSES, OF_EACH, QUERIES = 10_000, 2, 400
FEWER_CLASSES = 1000  # whose file and memory are measured


def seconds(work: Callable[[], object]) -> float:
    """How long `work` takes, once the BLAS threads of what came before have stopped spinning."""
    time.sleep(0.05)
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def learning(width: int) -> dict[str, Any]:
    """Seconds of each round over the same batches: products, features, rank-k updates, and XLDA."""
    rng = np.random.default_rng(0)
    centres = rng.random((FEWER_CLASSES, D), dtype=np.float32)
    y = rng.integers(0, FEWER_CLASSES, BATCH * BATCHES)
    X = centres[y] + 0.3 * rng.random((len(y), D), dtype=np.float32)
    lift, total = Lift(D, width), np.zeros((width, width), np.float32, order="F")
    features, directions = lift.features(X[:BATCH]), lift.directions()
    starts = range(0, len(X), BATCH)

    def product() -> None:
        for start in starts:
            X[start : start + BATCH] @ directions.T

    def make_features() -> None:
        for start in starts:
            lift.features(X[start : start + BATCH])

    def rank_k() -> None:
        for _ in starts:
            blas.ssyrk(1.0, features.T, beta=1.0, c=total, overwrite_c=True)

    clf = XLDA(lift=width, power=None)

    def learn() -> None:
        for start in starts:
            clf.partial_fit(X[start : start + BATCH], y[start : start + BATCH])
        clf._model.moments.fold()

    learn()  # once before, so that all memory is there
    works: dict[str, Callable[[], None]] = {
        "product": product,
        "features": make_features,
        "rank-k": rank_k,
        "xlda": learn,
    }
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            found[name].append(seconds(work))
    return {"width": width, "samples": len(X), "batch": BATCH, "classes": FEWER_CLASSES, "seconds": found}


def predicting() -> dict[str, Any]:
    """Seconds of single queries with a lift and without, of the features, and of a product instead."""
    drawn = Drawn(CLASSES)
    rows = np.repeat(np.arange(CLASSES), OF_EACH)
    models = {"without": XLDA(), "with": XLDA(lift=WIDTH)}
    for start in range(0, len(rows), 4096):
        X = drawn.samples(rows[start : start + 4096])
        for clf in models.values():
            clf.partial_fit(X, rows[start : start + 4096])
    queries = drawn.samples(drawn.rng.integers(0, CLASSES, QUERIES))
    lift = Lift(D, WIDTH)
    directions = lift.directions()
    works: dict[str, Callable[[np.ndarray], object]] = {
        "without": models["without"].predict,
        "with": models["with"].predict,
        "features": lift.features,
        "product": lambda query: query @ directions.T,
    }
    renewal = {name: seconds(lambda clf=clf: clf.predict(queries[:1])) for name, clf in models.items()}
    found: dict[str, list[float]] = {name: [] for name in works}
    for number in range(QUERIES):
        for name, work in works.items():
            begin = time.perf_counter()
            work(queries[number : number + 1])
            found[name].append(time.perf_counter() - begin)
    heads = {name: clf.snapshot().head for name, clf in models.items()}
    return {
        "classes": CLASSES,
        "width": WIDTH,
        "seconds": found,
        "renewal": renewal,
        "coordinates": {name: int(head.space.width) for name, head in heads.items()},
        "search": {name: head.index.describe()["search"] for name, head in heads.items()},
    }


def sizes(width: int) -> dict[str, Any]:
    """Bytes of the file, and of what the classifier holds while it learns and once it has predicted."""
    rng = np.random.default_rng(0)
    y = np.arange(4 * FEWER_CLASSES) % FEWER_CLASSES
    X = rng.random((len(y), D), dtype=np.float32)
    before = resident()
    forget_peak()
    clf = XLDA(lift=width)
    for start in range(0, len(X), BATCH):
        clf.partial_fit(X[start : start + BATCH], y[start : start + BATCH])
    clf._model.moments.fold()
    learning = {**clf._model.nbytes, "random features": Lift(D, width).nbytes}
    peak = resident("VmHWM") - before
    begin = time.perf_counter()
    clf.predict(X[:1])
    renewal = time.perf_counter() - begin
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lifted.xlda"
        clf.view_to_save(renew=False).write(path)
        file = path.stat().st_size
    return {
        "width": width,
        "classes": FEWER_CLASSES,
        "limit": FEWER_CLASSES * width * 4 + width**2 * 8,
        "file": file,
        "learning": learning,
        "predicting": {**clf.memory(), "random features": Lift(D, width).nbytes},
        "peak learning": peak,
        "peak": resident("VmHWM") - before,
        "renewal": renewal,
    }


def apart(work: Callable[[int], dict[str, Any]], width: int) -> dict[str, Any]:
    """What `work` finds in a process of its own, which has no memory left from what came before."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, width).result()


PARTS: dict[str, Callable[[], Any]] = {
    "learning": lambda: learning(WIDTH),
    "predicting": predicting,
    "sizes": lambda: [apart(sizes, width) for width in WIDTHS],
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS)
    only = parser.parse_args().only
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, part in PARTS.items():
        if only in (None, name):
            results[name] = {"machine": machine.describe(), "found": part()}
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    lift_page.write()
