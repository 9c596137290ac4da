"""What a renewal that comes late costs: accuracy with a head that learned on, and with one made anew.

    python benchmarks/late.py --npz many.npz

The file is one of benchmarks/characters.py with many samples a class (--train 60 --test 4). Counts come from
a power law. A head is made of some of the samples; then so much more is learned without a renewal: either
more samples of any class, or new classes alone; then it is renewed. Means are current in both, the covariance
and the coordinates only in the second. All numbers go to benchmarks/results/late.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import machine
import numpy as np

from xlda import XLDA
from xlda.inputs import prepared

RESULTS = Path(__file__).parent / "results"
SHARES = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 3.0)  # learned since the last renewal, of what was learned before
NEVER = 1e9


def drawn(path: Path, rng: np.random.Generator, is_new: bool) -> tuple[np.ndarray, ...]:
    """Samples to learn in order, and to ask for; where `is_new`, one class after the other."""
    with np.load(path) as file:
        X, y, train = file["X"], file["y"], int(file["train"])
    by_class = np.arange(len(y)).reshape(len(np.unique(y)), -1)
    counts = np.clip(np.floor(rng.pareto(1.0, len(by_class)) + 1), 1, train).astype(int)
    classes = rng.permutation(len(by_class))
    chosen = [rng.permutation(by_class[one][:train])[: counts[one]] for one in classes]
    learn = np.concatenate(chosen)
    if not is_new:
        learn = rng.permutation(learn)
    asked = by_class[:, train:].ravel()
    return X[learn].astype(np.float32), y[learn], X[asked].astype(np.float32), y[asked]


def accuracies(path: Path, share: float, is_new: bool, seed: int) -> tuple[float, float]:
    """With the head that is late, and with a new one; asked for classes that were learned."""
    X, y, queries, labels = drawn(path, np.random.default_rng(seed), is_new)
    n = round(len(X) / (1 + share))
    clf = XLDA(renew=NEVER).fit(X[:n], y[:n])
    head = clf._current_head()
    clf.partial_fit(X[n:], y[n:])
    moments, table = clf._model.moments, clf._model.labels.table()
    changed = np.unique([table.row_of[label] for label in y[n:].tolist()])
    known = np.isin(labels, y)
    return tuple(
        float(np.mean(table.of(some.top(prepared(queries[known], clf.power_), 1)[0][:, 0]) == labels[known]))
        for some in (head.updated(moments, table, changed), clf._renewed_head("late"))
    )


def main() -> None:
    """Measure, store, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--npz", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "late.json")
    arguments = parser.parse_args()
    results: dict[str, Any] = {"machine": machine.describe(), "seeds": arguments.seeds, "streams": {}}
    for name, is_new in (("more of any class", False), ("new classes", True)):
        results["streams"][name] = {}
        for share in SHARES:
            both = [accuracies(arguments.npz, share, is_new, seed) for seed in range(arguments.seeds)]
            late, renewed = np.mean(both, axis=0).tolist()
            spread = float(np.std(np.subtract(*np.transpose(both))))
            results["streams"][name][str(share)] = {"late": late, "renewed": renewed, "spread": spread}
            told = f"late {late:.4f}, renewed {renewed:.4f} ({spread:.4f})"
            print(f"{name}, {share:.0%} more: {told}", flush=True)
    arguments.out.write_text(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
