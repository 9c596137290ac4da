"""XLDA and plain LDA in one pass against an FC layer that trains on and on; and LDA as its start.

    python benchmarks/race.py --glyphs glyphs.npz --many many.npz [--sizes 1000 10000 50000]

Real embeddings of characters (benchmarks/characters.py); `--many` has many samples a class. The layer
starts from random weights, and from plain LDA's `to_linear()`, which is a layer exactly; its accuracy is
taken at moments that lie closer at the start, and after every epoch, and its clock stands still meanwhile.
XLDA's time is that of learning everything and of being ready to predict. Writes
benchmarks/results/race.json. Needs torch.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cases
import machine
import numpy as np
from cases import Case
from fc_layer import FCLayer, Training
from learners import PLAIN
from tempering import layer_of, tempered

from xlda import XLDA

RESULTS = Path(__file__).parent / "results" / "race.json"
BATCH = 512
FEW, LARGEST = 1_000, 50_000  # classes: small batches up to the one; from the other, one start only
HEADS: dict[str, dict[str, Any]] = {"XLDA": {}, "plain LDA": PLAIN}
EARLY = 1.6  # each early moment is so many times later than the one before


@dataclass(frozen=True)
class Course:
    """What is raced over, and how the layer trains from each start."""

    name: str
    path: Path
    n_classes: int
    training: dict[str, Training]


def learn(case: Case, params: dict[str, Any]) -> tuple[XLDA, dict[str, Any]]:
    """XLDA, and what it took."""
    clf = XLDA(**params)
    begin = time.perf_counter()
    order = np.random.default_rng(0).permutation(len(case.rows))
    for start in range(0, len(order), BATCH):
        some = order[start : start + BATCH]
        clf.partial_fit(case.X[some], case.rows[some])
    learned = time.perf_counter() - begin
    begin = time.perf_counter()
    clf.predict(case.queries[:1])
    ready = time.perf_counter() - begin
    right = int((clf.predict(case.queries) == case.query_rows).sum())
    return clf, {"learn": learned, "ready": ready, "right": right, "asked": len(case.queries)}


class Watch:
    """Takes the layer's accuracy at some moments of its training."""

    def __init__(self, fc: FCLayer, case: Case, steps_an_epoch: int, first: float, name: str) -> None:
        self._fc, self._case, self._steps_an_epoch, self._name = fc, case, steps_an_epoch, name
        self._next = first
        self.points: list[dict[str, float]] = []
        self._take(0, 0.0, None)

    def __call__(self, step: int, seconds: float, loss: float) -> None:
        """After each step."""
        is_epoch = step % self._steps_an_epoch == 0
        if is_epoch or (seconds >= self._next and step < self._steps_an_epoch):
            self._take(step, seconds, loss)
            while self._next <= seconds:
                self._next *= EARLY

    def _take(self, step: int, seconds: float, loss: float | None) -> None:
        right = int((self._fc.predict(self._case.queries) == self._case.query_rows).sum())
        epoch = step / self._steps_an_epoch
        point = {"epoch": epoch, "seconds": seconds, "loss": loss, "right": right}
        self.points.append(point)
        share = right / len(self._case.queries)
        print(f"    {self._name:<8} epoch {epoch:6.2f} {seconds:8.1f} s  {share:6.1%}", flush=True)


def race(course: Course) -> dict[str, Any]:
    """One case: XLDA, then the layer from each start."""
    case = cases.characters(course.path, course.n_classes, seed=0)
    print(f"{course.name}: {case.n_classes:,} classes, {len(case.rows):,} samples", flush=True)
    heads: dict[str, dict[str, Any]] = {}
    for name, params in HEADS.items():  # plain LDA is the last, and goes on
        clf, found = learn(case, params)
        print(f"    {name} {found['learn']:.1f} s and {found['ready']:.1f} s  ", end="")
        print(f"{found['right'] / found['asked']:.1%}", flush=True)
        heads[name] = found
    first = min(found["learn"] + found["ready"] for found in heads.values())
    scaled = tempered(clf, case.X, case.rows) if "LDA, tempered" in course.training else None
    runs = {}
    for start, how in course.training.items():
        layer = {"random": None, "LDA": layer_of(clf), "LDA, tempered": scaled}[start]
        fc = FCLayer(case.n_classes, case.X.shape[1], 0, layer)
        watch = Watch(fc, case, -(-len(case.rows) // how.batch), first, start)
        fc.train(case.X, case.rows, how, watch)
        runs[start] = {"training": how.as_dict(), "points": watch.points}
    return {
        "name": course.name,
        "classes": case.n_classes,
        "samples": len(case.rows),
        "asked": len(case.queries),
        "heads": heads,
        "fc": runs,
    }


def courses(arguments: argparse.Namespace) -> list[Course]:
    """Each size with a few samples a class; the smallest also with many."""
    found = []
    for n_classes, epochs in zip(arguments.sizes, arguments.epochs, strict=True):
        how = Training(rate=0.003, epochs=epochs, batch=64 if n_classes <= FEW else 512)
        found.append(Course("few", arguments.glyphs, n_classes, starts(how, n_classes, how.rate / 10)))
    if arguments.many:
        with np.load(arguments.many) as file:
            n_classes = len(np.unique(file["y"]))
        how = Training(rate=0.003, epochs=arguments.many_epochs, batch=256)
        found.insert(1, Course("many", arguments.many, n_classes, starts(how, n_classes, how.rate)))
    return found


def starts(how: Training, n_classes: int, rate: float) -> dict[str, Training]:
    """How the layer trains from each start: a good one gets a rate of its own, and half the epochs.

    With three samples a class, the rate of random weights undoes what LDA knew, and a tenth of it does not;
    with sixty, the same rate is better.
    """
    if n_classes >= LARGEST:
        return {"random": how}
    from_lda = replace(how, rate=rate, epochs=-(-how.epochs // 2))
    return {"random": how, "LDA": from_lda, "LDA, tempered": from_lda}


def main() -> None:
    """Race, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--glyphs", type=Path, required=True, help="few samples a class")
    parser.add_argument("--many", type=Path, help="many samples a class")
    parser.add_argument("--sizes", type=int, nargs="+", default=(1_000, 10_000, 50_000))
    parser.add_argument("--epochs", type=int, nargs="+", default=(40, 12, 3), help="for each size")
    parser.add_argument("--many-epochs", type=int, default=12)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    begin = time.perf_counter()
    results: dict[str, Any] = {"machine": machine.describe(), "seed": 0, "courses": []}
    for course in courses(arguments):
        results["courses"].append(race(course))
        results["seconds"] = time.perf_counter() - begin
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
