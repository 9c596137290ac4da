"""How long calls wait: learn one sample, predict one, over and over, while renewals go on beside it.

    python benchmarks/waits.py --sizes 1000 20000 50000

One sample in ten is of a new class. Counts are drawn from a power law (benchmarks/drawn.py). A thread that
only reads the clock says how long the machine itself keeps anybody waiting: its longest gap in the same run
is told beside the longest wait. `--busy` keeps one core at work by another process meanwhile, `--foreground`
renews where it is due instead of beside the serving. Every sample that was learned is asked for by the next
call, and must be found among the rows that were looked at: no call may see a state that was never there.
All numbers go to benchmarks/results/waits.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import threading
import time
from pathlib import Path
from typing import Any

import machine
import numpy as np
from drawn import Drawn

from xlda import XLDA

RESULTS = Path(__file__).parent / "results"
NEW = 0.1  # share of samples that are of new classes
ALONE = 200  # predictions that are timed alone


def spin() -> None:
    """Keep a core busy."""
    while True:
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
    known = len(drawn.counts)
    queries = drawn.samples(drawn.rng.integers(0, known, ALONE))
    alone = [timed(lambda query=query: clf.predict(query[None])) for query in queries]
    learn, predict, heads = [], [], set()
    clock = Clock()
    clock.start()
    n_lost = 0
    for _ in range(n):
        is_new = drawn.rng.random() < NEW
        row = known if is_new else int(drawn.rng.integers(0, known))
        known += is_new
        sample = drawn.samples(np.array([row]))
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


def main() -> None:
    """Measure, store, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 20_000, 50_000])
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--busy", action="store_true", help="another process keeps one core at work")
    parser.add_argument("--foreground", action="store_true", help="renewals where they are due")
    parser.add_argument("--out", type=Path, default=RESULTS / "waits.json")
    arguments = parser.parse_args()
    other = multiprocessing.get_context("spawn").Process(target=spin, daemon=True)
    results: dict[str, Any] = {"machine": machine.describe(), "busy": arguments.busy, "runs": {}}
    for size in arguments.sizes:
        drawn = Drawn(size)
        clf = fitted(drawn, not arguments.foreground)
        if arguments.busy and not other.is_alive():
            other.start()
        for _ in range(arguments.times):
            run = rounds(clf, drawn, arguments.rounds)
            drawn.counts = np.append(drawn.counts, np.ones(len(clf.classes_) - len(drawn.counts), int))
            results["runs"].setdefault(str(size), []).append(run)
            words = ", ".join(
                f"{name} {1e3 * value:.2f} ms" if isinstance(value, float) else f"{name} {value}"
                for name, value in run.items()
            )
            print(f"{size:,} classes: {words}", flush=True)
    arguments.out.write_text(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
