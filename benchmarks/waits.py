"""How long calls wait: learn one sample, predict one, over and over, while renewals go on beside it.

    python benchmarks/waits.py --sizes 1000 20000 50000

One sample in ten is of a new class. Counts are drawn from a power law (benchmarks/drawn.py). A thread that
only reads the clock says how long the machine itself keeps anybody waiting: its longest gap in the same run
is told beside the longest wait. The same while another process keeps one core at work (busy). Every new class
is asked for by the next call, and must be found. Then a renewal where it is waited for, beside what it cannot
do without: one `eigh`, one product of all means with themselves, one rotation of them to 384 coordinates. And
how soon what was saved answers in a new process that has one core. `--foreground` renews where it is due
instead of beside the serving. All numbers go to benchmarks/results/waits.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import machine
import numpy as np
from drawn import Drawn
from scipy.linalg import eigh

from xlda import XLDA
from xlda.head.bayes_space import BayesSpace

RESULTS = Path(__file__).parent / "results"
NEW = 0.1  # share of samples that are of new classes
ALONE = 200  # predictions that are timed alone


def spin(parent: int) -> None:
    """Keep a core busy for as long as the process that wants it is there."""
    while os.getppid() == parent:
        pass


class Clock(threading.Thread):
    """Reads the clock, and remembers the longest time between two readings."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.longest, self._stop_it = 0.0, False

    def run(self) -> None:
        """Until it is stopped."""
        last = time.perf_counter()
        while not self._stop_it:
            time.sleep(0.0002)
            now = time.perf_counter()
            self.longest, last = max(self.longest, now - last), now

    def stop(self) -> float:
        """The longest gap."""
        self._stop_it = True
        self.join()
        return self.longest


def fitted(drawn: Drawn, background: bool) -> XLDA:
    """A classifier that has learned all that was drawn, and is warm."""
    clf = XLDA(background=background)
    for X, y in drawn.batches():
        clf.partial_fit(X, y)
    for sample in drawn.samples(np.zeros(20, int)):
        clf.predict(sample[None])
    return clf


def rounds(clf: XLDA, drawn: Drawn, n: int) -> dict[str, Any]:
    """Learn one, predict one: how long each took."""
    known = len(clf.classes_)
    queries = drawn.samples(drawn.rng.integers(0, known, ALONE))
    rows, are_new = [], drawn.rng.random(n) < NEW
    for is_new in are_new:
        rows.append(known if is_new else int(drawn.rng.integers(0, known)))
        known += is_new
    samples = [drawn.samples(np.array([row])) for row in rows]
    alone = [timed(lambda query=query: clf.predict(query[None])) for query in queries]
    learn, predict, heads = [], [], set()
    clock = Clock()
    clock.start()
    n_lost = 0
    for sample, row, is_new in zip(samples, rows, are_new, strict=True):
        learn.append(timed(lambda sample=sample, row=row: clf.partial_fit(sample, [row])))
        predict.append(timed(lambda sample=sample: clf.predict(sample)))
        heads.add(clf._model.upkeep.served.total)  # type: ignore[union-attr]
        if is_new and clf.predict(sample)[0] != row:
            n_lost += 1
    gap = clock.stop()
    both = np.array(learn) + np.array(predict)
    return {
        "alone": float(np.median(alone)),
        "mean": float(both.mean()),
        "median": float(np.median(both)),
        "99 %": float(np.quantile(both, 0.99)),
        "longest": float(max(*learn, *predict)),
        "longest learn": float(max(learn)),
        "longest predict": float(max(predict)),
        "gap": gap,
        "heads": len(heads),
        "new classes not found": n_lost,
    }


def timed(call: Any) -> float:
    """Seconds that a call took."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def renewals(clf: XLDA, times: int) -> dict[str, list[float]]:
    """Seconds of a renewal, and of what it cannot do without, taking turns."""
    head = clf._current_head()
    assert isinstance(head.space, BayesSpace)
    means = clf._model.moments.means_from(head.centre)
    rotation = np.ascontiguousarray(head.space.rotation[:, :384])
    square = means[: means.shape[1]].T @ means[: means.shape[1]]
    found: dict[str, list[float]] = {"renewal": [], "eigh": [], "rank-k": [], "rotation": []}
    for _ in range(times):
        found["eigh"].append(timed(lambda: eigh(square, driver="evd")))
        found["rank-k"].append(timed(lambda: means.T @ means))
        found["rotation"].append(timed(lambda: means @ rotation))
        clf._model.upkeep.start_over()
        found["renewal"].append(timed(clf._current_head))
    return found


def first_answer(clf: XLDA, folder: Path) -> dict[str, float]:
    """Seconds from a file to the first answer in a new process with one core."""
    path = folder / "model.xlda"
    saving = timed(lambda: clf.save(path))
    code = (
        "import os, sys, time; os.sched_setaffinity(0, {0})\n"
        "import numpy as np, xlda\n"
        "from xlda import XLDA\n"
        "begin = time.perf_counter(); clf = xlda.load(sys.argv[1])\n"
        "clf.predict(np.zeros((1, clf.n_features_in_), np.float32)); print(time.perf_counter() - begin)"
    )
    runs = [
        float(subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True).stdout)
        for _ in range(3)
    ]
    return {"saving": saving, "load to first answer": float(np.median(runs)), "file": path.stat().st_size}


def main() -> None:
    """Measure, store, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 20_000, 50_000])
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--foreground", action="store_true", help="renewals where they are due")
    parser.add_argument("--out", type=Path, default=RESULTS / "waits.json")
    arguments = parser.parse_args()
    results: dict[str, Any] = {"machine": machine.describe(), "rounds": arguments.rounds, "sizes": {}}
    for size in arguments.sizes:
        drawn = Drawn(size)
        clf = fitted(drawn, not arguments.foreground)
        told: dict[str, Any] = {"samples": int(drawn.counts.sum()), "quiet": [], "busy": []}
        for kind in ("quiet", "busy"):
            other = multiprocessing.get_context("spawn").Process(
                target=spin, args=(os.getpid(),), daemon=True
            )
            if kind == "busy":
                other.start()
            for _ in range(arguments.times):
                run = rounds(clf, drawn, arguments.rounds)
                told[kind].append(run)
                words = ", ".join(
                    f"{name} {1e3 * value:.2f} ms" if isinstance(value, float) else f"{name} {value}"
                    for name, value in run.items()
                )
                print(f"{size:,} classes, {kind}: {words}", flush=True)
            if kind == "busy":
                other.terminate()
        clf.background = False
        told["renewal"] = renewals(clf, arguments.times)
        with tempfile.TemporaryDirectory() as folder:
            told["file"] = first_answer(clf, Path(folder))
        print(f"{size:,} classes: {told['renewal']}, {told['file']}", flush=True)
        results["sizes"][str(size)] = told
    arguments.out.write_text(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
