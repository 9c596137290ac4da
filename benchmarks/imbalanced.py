"""Classes with one sample, or a few, beside classes with many.

    python benchmarks/imbalanced.py [--npz grocery_lite0.npz] [--many many.npz] [--five five.npz]

`--many` are characters with 30 samples a class or more (benchmarks/characters.py --train 60 --test 4),
`--five` more of them with 5 each (--classes 10000 --train 5 --test 1). Poor classes have 1, 2, 3 or 5
samples, the others up to 30, of photos all that there are. Half of the classes are poor, nine in ten, one in
a hundred (of photos one class alone, one after the other), or counts fall along a tail; and every class has
the same few. Each draw is another choice of poor classes and of samples; methods with fewer draws have the
first ones. Halves of characters are drawn most often with XLDA itself. Methods that take long have the
fewest draws, and only 1 and 3 samples of poor classes. Every count goes to
benchmarks/results/imbalanced.json; an interrupted run goes on where it was. Takes about an hour. The FC
layer needs torch, and is skipped, saying so, where it is absent.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cases
import numpy as np
from accuracy import taken_up
from cases import Case
from imbalanced_learners import NearestMeanByCosine, NearestSampleByCosine, TextbookBayes
from learners import PLAIN, Learner, RandomFeatureRidge, Streaming

RESULTS = Path(__file__).parent / "results" / "imbalanced.json"
MOST = 30  # samples of a character
FEW = (1, 2, 3, 5)
EQUAL = (2, 3, 10, 30)
SLOW_FEW = (1, 3)  # with methods that take long
SLOW_EQUAL = (3, 30)
HALF = "half poor"
SHARES = {HALF: 0.5, "90 % poor": 0.9, "1 % poor": 0.01}
ALONE, TAIL, SAME = "one poor", "long tail", "equal"
HALVES_ONLY = 400  # classes: with so many nothing else is tried
MOST_QUERIES = 5_000
BATCH = 4096

STREAMING: dict[str, dict[str, Any]] = {
    "XLDA": {},
    "XLDA, model=lda": {"model": "lda"},
    "SLDA as published": {**PLAIN, "rule": "slda", "shrinkage": 1e-4, "shrinkage_target": "identity"},
}
FC = "FC, all at once"
METHODS = (
    "XLDA",
    "XLDA, model=lda",
    "textbook T",
    "SLDA as published",
    "nearest mean, cosine",
    "1-NN, cosine",
    "ridge on random features",
    FC,
)
OWN = ("XLDA", "XLDA, model=lda")  # what it is all about
SLOW = ("ridge on random features", FC)


@dataclass(frozen=True)
class Source:
    """Where samples come from, how often they are drawn, and how many classes are poor alone, in turn.

    `halves` is how often poor halves are drawn with XLDA itself, `slow_draws` how often anything is drawn
    with methods that take long.
    """

    name: str
    path: Path
    n_classes: int
    most: int | None
    halves: int
    draws: int
    slow_draws: int
    turns: int
    slow_turns: int

    def case(self, seed: int) -> Case:
        """All samples; the seed says which class has which number."""
        if self.name == "photos":
            return cases.photos(self.path, seed)
        return cases.characters(self.path, self.n_classes, seed, self.most)


@dataclass(frozen=True)
class Setting:
    """A scheme, and how few samples poor classes have; the most of any class where there are no poor ones."""

    scheme: str
    few: int

    def counts(self, most: int, n_classes: int, turn: int = 0) -> np.ndarray:
        """How many samples each class has, if there are so many; poor classes have the last numbers."""
        counts = np.full(n_classes, most)
        if self.scheme in SHARES:
            counts[n_classes - round(SHARES[self.scheme] * n_classes) :] = self.few
        elif self.scheme == ALONE:
            counts[n_classes - 1 - turn] = self.few
        elif self.scheme == TAIL:
            counts = np.round(most ** np.linspace(1, 0, n_classes)).astype(int)
        else:
            counts[:] = self.few
        return counts

    def poor(self, counts: np.ndarray) -> np.ndarray:
        """Which classes count as poor: of a tail, those with no more than `few`; of equals, none."""
        return (counts <= self.few) & (self.scheme != SAME)


def settings_of(source: Source, most: int) -> list[Setting]:
    """What is tried with a source whose classes have up to so many samples."""
    few = [n for n in FEW if n < most]
    found = [Setting(HALF, n) for n in few]
    if source.n_classes == HALVES_ONLY:
        return found
    found += [Setting("90 % poor", n) for n in few]
    found += [Setting(ALONE if source.turns else "1 % poor", n) for n in few if n in SLOW_FEW]
    found += [Setting(TAIL, few[-1])]
    return found + [Setting(SAME, n) for n in EQUAL if n < most] + [Setting(SAME, most)]


def make(method: str, case: Case, seed: int) -> Learner:
    """A method that has learned nothing yet."""
    if method == FC:
        import fc_learners

        return fc_learners.AllAtOnce(case, seed)
    if method == "textbook T":
        return TextbookBayes()
    if method == "nearest mean, cosine":
        return NearestMeanByCosine(case)
    if method == "1-NN, cosine":
        return NearestSampleByCosine()
    if method == "ridge on random features":
        return RandomFeatureRidge(case, seed)
    return Streaming(**STREAMING[method])


def thinned(case: Case, counts: np.ndarray, seed: int) -> Case:
    """The case with at most so many samples of each class, and not too many queries, both by chance."""
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(len(case.rows))
    shuffled = shuffled[np.argsort(case.rows[shuffled], kind="stable")]
    rows = case.rows[shuffled]
    place = np.arange(len(rows)) - np.searchsorted(rows, rows)  # within its class
    kept = shuffled[place < counts[rows]]
    asked = np.sort(rng.permutation(len(case.queries))[:MOST_QUERIES])
    return Case(case.X[kept], case.rows[kept], case.queries[asked], case.query_rows[asked], case.n_classes)


def answered(case: Case, method: str, seed: int) -> np.ndarray:
    """What a method answers that has learned the case, in an order by chance."""
    learner = make(method, case, seed)
    order = np.random.default_rng(seed).permutation(len(case.rows))
    size = len(order) if learner.joint else BATCH
    for start in range(0, len(order), size):
        some = order[start : start + size]
        learner.learn(case.X[some], case.rows[some])
    learner.end_of_group()
    return learner.predict(case.queries, np.bincount(case.rows, minlength=case.n_classes) > 0)


def run(source: Source, setting: Setting, method: str, seed: int) -> dict[str, Any]:
    """One draw: queries and right answers of rich and of poor classes."""
    begin = time.perf_counter()
    case = source.case(seed)
    most = int(np.bincount(case.rows).max())
    turns = source.slow_turns if method in SLOW else source.turns
    asked, right = np.zeros(2, int), np.zeros(2, int)
    for turn in range(turns if setting.scheme == ALONE else 1):
        counts = setting.counts(most, case.n_classes, turn)
        some = thinned(case, counts, seed)
        correct = answered(some, method, seed) == some.query_rows
        poor = setting.poor(counts)[some.query_rows].astype(int)
        asked += np.bincount(poor, minlength=2)
        right += np.bincount(poor, correct, minlength=2).astype(int)
    seconds = time.perf_counter() - begin
    return {"seed": seed, "asked": asked.tolist(), "right": right.tolist(), "seconds": seconds}


def draws(source: Source, setting: Setting, method: str) -> int:
    """How often a method is tried; 0: not at all."""
    if method == FC and (importlib.util.find_spec("torch") is None or source.n_classes > 1_000):
        return 0
    if setting.scheme == ALONE:
        return 1 if method not in SLOW or source.slow_turns else 0
    if method in OWN and setting.scheme == HALF:
        return source.halves
    if method not in SLOW:
        return source.draws
    if source.name != "photos" and setting.scheme != HALF:
        return 0
    of_interest = SLOW_EQUAL if setting.scheme == SAME else SLOW_FEW
    few = setting.few in of_interest or setting.scheme == TAIL
    return min(source.slow_draws, source.draws) if few else 0


def measure(source: Source, setting: Setting) -> dict[str, Any]:
    """Every method in one setting, all of them on the same draws."""
    print(f"{source.name}, {source.n_classes:,} classes: {setting.scheme}, {setting.few}", flush=True)
    methods: dict[str, list[dict[str, Any]]] = {}
    for method in METHODS:
        runs = [run(source, setting, method, seed) for seed in range(draws(source, setting, method))]
        if runs:
            methods[method] = runs
            share = np.mean([sum(one["right"]) / sum(one["asked"]) for one in runs])
            spent = sum(one["seconds"] for one in runs)
            print(f"    {method:<26} {100 * share:5.1f} %  {len(runs):3} draws  {spent:7.1f} s", flush=True)
    return {
        "source": source.name,
        "classes": source.n_classes,
        "scheme": setting.scheme,
        "few": setting.few,
        "methods": methods,
    }


def sources_of(arguments: argparse.Namespace) -> list[Source]:
    """Photos and characters: the more classes, the fewer draws."""
    n = arguments.draws
    found = [Source("photos", arguments.npz, 81, None, n, n, 3, 81, 8)] if arguments.npz else []
    if arguments.many:
        for size in arguments.many_sizes:
            few = -(-n // 4) if size <= 400 else -(-n // 8)
            found.append(Source("characters", arguments.many, size, MOST, n, few, 1, 0, 0))
    if arguments.five:
        for size in arguments.five_sizes:
            found.append(Source("characters", arguments.five, size, 5, -(-n // 2), 1, 0, 0, 0))
    return found


def all_settings(sources: list[Source]) -> Iterator[tuple[Source, Setting]]:
    """What is to be measured, in order."""
    for source in sources:
        most = int(np.bincount(source.case(0).rows).max())
        for setting in settings_of(source, most):
            yield source, setting


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--npz", type=Path, help="photos: train_X, train_y, val_X, val_y")
    parser.add_argument("--many", type=Path, help="characters, 30 samples a class or more")
    parser.add_argument("--many-sizes", type=int, nargs="+", default=(400, 1_000), help="classes of these")
    parser.add_argument("--five", type=Path, help="more characters, 5 samples a class")
    parser.add_argument("--five-sizes", type=int, nargs="+", default=(10_000,), help="classes of these")
    parser.add_argument("--draws", type=int, default=20, help="fewer with 1 000 classes or more")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    sources = sources_of(arguments)
    if not sources:
        parser.error("--npz, --many or --five is needed")
    if importlib.util.find_spec("torch") is None:
        print("torch is not installed: the FC layer is skipped.")
    sizes = [[source.name, source.n_classes] for source in sources]
    results = taken_up(arguments.out, {"sizes": sizes, "draws": arguments.draws}, "settings")
    kinds = ("source", "classes", "scheme", "few")
    known = {tuple(found[kind] for kind in kinds) for found in results["settings"]}
    for source, setting in (wanted := list(all_settings(sources))):
        if (source.name, source.n_classes, setting.scheme, setting.few) in known:
            continue
        begin = time.perf_counter()
        results["settings"].append(measure(source, setting))
        results["seconds"] += time.perf_counter() - begin
        results["complete"] = len(results["settings"]) == len(wanted)
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
