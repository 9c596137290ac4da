"""Few samples of a class, or dozens: what is most accurate, and what do a second look and a lift bring?

    python benchmarks/dozens.py --many many0.npz many1.npz many2.npz [--npz grocery_lite0.npz] [--digits]

`--many` are characters with many samples a class (benchmarks/characters.py --classes 1000 --train 100
--test 4 --seed 0, then 1 and 2): every file is a drawing, and every run another choice of its samples.
`--digits` adds the handwritten digits that scikit-learn carries, as pixels. All
methods get the same samples at once. Writes benchmarks/results/dozens.json, with the number of right answers,
the seconds to learn and the bytes to keep of every run. Needs torch.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import cases
import dozens_methods
import machine
import numpy as np
from cases import Case

RESULTS = Path(__file__).parent / "results" / "dozens.json"
SEED_OF_DIGITS = 7

Draw = Callable[[int, int], Case]  # a seed, and how many of a class


def digits(seed: int, per_class: int) -> Case:
    """Handwritten digits as pixels, others in every draw; 60 of each are asked for."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng([SEED_OF_DIGITS, seed])
    order = rng.permutation(len(y))
    members = [order[y[order] == label] for label in range(10)]
    learned, asked = (
        np.concatenate([some[part] for some in members]) for part in (slice(60, 60 + per_class), slice(60))
    )
    return Case(X[learned].astype(np.float32), y[learned], X[asked].astype(np.float32), y[asked], 10)


def measure(
    name: str, per_class: int, seeds: int, draw: Draw, methods: dict[str, dozens_methods.Method]
) -> dict[str, Any]:
    """All methods with so many samples a class; every seed is another drawing."""
    runs = []
    for seed in range(seeds):
        case = draw(seed, per_class)
        runs.append({method: learn(case, seed) for method, learn in methods.items()})
        print(f"{name}, {per_class} a class, drawing {seed}", flush=True)
        for method, found in runs[-1].items():
            print(f"    {method:<28} {found['right'] / len(case.queries):6.1%} {found['seconds']:8.1f} s")
    return {"data": name, "per class": per_class, "asked": len(case.queries), "runs": runs}


def kinds(arguments: argparse.Namespace) -> list[tuple[str, list[int], int, Draw]]:
    """What is drawn from: its name, samples a class, drawings, and how to draw."""
    found: list[tuple[str, list[int], int, Draw]] = []
    if arguments.npz:
        few = [n for n in arguments.per_class if n <= 30]
        found.append(("photos, 81 classes", few, arguments.seeds, partial(cases.photos, arguments.npz)))
    if arguments.digits:
        found.append(("digits as pixels, 10 classes", arguments.per_class, arguments.seeds, digits))
    for n_classes in arguments.sizes if arguments.many else ():
        name = f"{arguments.called}, {n_classes:,} classes"
        if arguments.poor is not None:
            name += f", half of them with {arguments.poor}"
        most = min(cases.samples_a_class(path) for path in arguments.many)
        few = [n for n in arguments.per_class if n <= most and n * n_classes <= arguments.most]
        draw = partial(_characters, arguments.many, n_classes, arguments.poor)
        found.append((name, few, max(arguments.seeds, len(arguments.many)), draw))
    return found


def _characters(files: list[Path], n_classes: int, poor: int | None, seed: int, per_class: int) -> Case:
    case = cases.characters(files[seed % len(files)], n_classes, seed, per_class)
    if poor is None:
        return case
    place = np.arange(len(case.rows)) % per_class  # samples of a class follow one another
    kept = (case.rows % 2 == 0) | (place < poor)
    return replace(case, X=case.X[kept], rows=case.rows[kept])


def main() -> None:
    """Compare, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--many", type=Path, nargs="+", default=[], help="characters, a file a drawing")
    parser.add_argument("--called", default="characters", help="what these files have")
    parser.add_argument("--npz", type=Path, help="photos: train_X, train_y, val_X, val_y")
    parser.add_argument("--digits", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000], help="classes of characters")
    parser.add_argument("--per-class", type=int, nargs="+", default=[3, 10, 30, 60, 100])
    parser.add_argument("--poor", type=int, help="samples of every other class of characters, if fewer")
    parser.add_argument("--most", type=int, default=60_000, help="samples in all, at most")
    parser.add_argument("--lifts", type=int, nargs="*", default=[2048, 4096, 8192])
    parser.add_argument("--second-looks", type=int, nargs="*", default=[8, 16, 32], help="rows of a class")
    parser.add_argument("--methods", nargs="+", help="some of them; else all")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--more", action="store_true", help="keep what the file has, and add to it")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    methods = dozens_methods.methods(arguments.lifts, arguments.second_looks)
    if arguments.methods:
        methods = {name: methods[name] for name in arguments.methods}
    begin, old = time.perf_counter(), {"seconds": 0.0, "points": [], "commands": []}
    if arguments.more and arguments.out.exists():
        old = json.loads(arguments.out.read_text())
    points, commands = old["points"], [*old["commands"], command(sys.argv[1:])]
    for name, per_class, seeds, draw in kinds(arguments):
        for n in per_class:
            added(points, measure(name, n, seeds, draw, methods))
            seconds = old["seconds"] + time.perf_counter() - begin
            stored = {"machine": machine.describe(), "seconds": seconds, "commands": commands}
            stored["points"] = points
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(stored) + "\n")


def command(options: list[str]) -> str:
    """How this was called, files by their names; but for where results were written."""
    if "--out" in options:
        place = options.index("--out")
        options = options[:place] + options[place + 2 :]
    told = [f'"{option}"' if " " in option else option.split("/")[-1] for option in options]
    return " ".join(["python benchmarks/dozens.py", *told])


def added(points: list[dict[str, Any]], new: dict[str, Any]) -> None:
    """A point among the others; of methods that it had already, the drawings that are new are replaced."""
    for point in points:
        if (point["data"], point["per class"]) == (new["data"], new["per class"]):
            both = zip_longest(point["runs"], new["runs"], fillvalue={})
            point["runs"] = [{**run, **more} for run, more in both]
            return
    points.append(new)


if __name__ == "__main__":
    main()
