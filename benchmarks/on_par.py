"""Is LDA on par with an FC layer? Both get the same samples at once: few of each class, or many.

    python benchmarks/on_par.py --many many.npz [--npz grocery_lite0.npz]

`--many` are characters with many samples a class (benchmarks/characters.py --train 60 --test 4). Every
seed is another choice of classes and of their samples. The layer is trained to convergence, over embeddings
as they are and over their square roots, at one rate; benchmarks/dozens.py has one whose rate and weight decay
are chosen. Writes benchmarks/results/on_par.json, with the number of right answers of every run. Needs torch.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import cases
import machine
import numpy as np
from cases import Case
from fc_layer import FCLayer, to_convergence
from learners import PLAIN

from xlda import XLDA

RESULTS = Path(__file__).parent / "results" / "on_par.json"
MOST = 30_000  # samples
STEPS = 15_000  # of training a layer: 1,500 are not enough
XLDAS: dict[str, dict[str, Any]] = {
    "XLDA": {},
    "XLDA, second_look=16": {"second_look": 16},
    "plain LDA": PLAIN,
    "plain LDA, shrinkage=0.1": {**PLAIN, "shrinkage": 0.1},
    "plain LDA, power=0.5": {**PLAIN, "power": 0.5},
}


def compare(case: Case, seed: int) -> dict[str, dict[str, float]]:
    """Right answers and seconds of each method."""
    found = {}
    for name, params in XLDAS.items():
        begin = time.perf_counter()
        clf = XLDA(**params).fit(case.X, case.rows)
        seconds = time.perf_counter() - begin
        found[name] = {"right": int((clf.predict(case.queries) == case.query_rows).sum()), "seconds": seconds}
    for name, change in (("FC", np.asarray), ("FC, square root", np.sqrt)):
        X, queries = change(np.maximum(case.X, 0)), change(np.maximum(case.queries, 0))
        fc = FCLayer(case.n_classes, X.shape[1], seed)
        seconds = fc.train(X, case.rows, to_convergence(len(X), steps=STEPS))
        found[name] = {"right": int((fc.predict(queries) == case.query_rows).sum()), "seconds": seconds}
    return found


def measure(
    name: str, per_class: Sequence[int | None], seeds: int, draw: Callable[[int, int | None], Case]
) -> dict[str, Any]:
    """One kind of case, with fewer or more samples a class; `draw` takes a seed and how many."""
    result: dict[str, Any] = {"name": name, "points": []}
    for most in per_class:
        runs = []
        for seed in range(seeds):
            case = draw(seed, most)
            runs.append({"seed": seed, "methods": compare(case, seed)})
        point = {"per class": len(case.rows) / case.n_classes, "asked": len(case.queries), "runs": runs}
        result["points"].append(point)
        print(f"{name}, {point['per class']:.1f} a class", flush=True)
        for method in runs[0]["methods"]:
            share = np.mean([run["methods"][method]["right"] for run in runs]) / len(case.queries)
            print(f"    {method:<36} {share:6.1%}", flush=True)
    return result


def main() -> None:
    """Compare, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--many", type=Path, required=True, help="characters, many samples a class")
    parser.add_argument("--npz", type=Path, help="photos: train_X, train_y, val_X, val_y")
    parser.add_argument("--sizes", type=int, nargs="+", default=(100, 1_000), help="classes of characters")
    parser.add_argument("--per-class", type=int, nargs="+", default=(1, 3, 10, 30, 60), help="samples")
    parser.add_argument("--most", type=int, default=MOST, help="samples in all: more of a class are left out")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    begin = time.perf_counter()
    results: dict[str, Any] = {"machine": machine.describe(), "cases": []}
    kinds = [
        (
            f"characters, {n:,} classes",
            [per_class for per_class in arguments.per_class if n * per_class <= arguments.most],
            partial(cases.characters, arguments.many, n),
        )
        for n in arguments.sizes
    ]
    if arguments.npz:
        kinds.insert(0, ("photos, 81 classes", (1, 3, 10, None), partial(cases.photos, arguments.npz)))
    for name, per_class, draw in kinds:
        results["cases"].append(measure(name, per_class, arguments.seeds, draw))
        results["seconds"] = time.perf_counter() - begin
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
