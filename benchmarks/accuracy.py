"""Classes that come over time: XLDA and others on the same streams.

    python benchmarks/accuracy.py --glyphs glyphs.npz [--fonts fonts.npz] [--npz grocery_lite0.npz]

The files are those of benchmarks/characters.py, `--fonts` with `--holdout font`. Classes come one by one,
in ten groups, or all mixed; after each tenth every method is asked for queries of the classes seen so far.
Each method has a process of its own, one after the other, so that its memory can be seen. All counts go to
benchmarks/results/accuracy.json; an interrupted run goes on where it was. One of the FC layers needs torch,
and is skipped, saying so, where it is absent. `--full` tries every method on every stream, at every size,
and takes many hours.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cases
import machine
import numpy as np
from cases import Case
from learners import PLAIN, Learner, NearestMean, RandomFeatureRidge, ScikitLearnLDA, Streaming
from process_memory import forget_peak, resident

RESULTS = Path(__file__).parent / "results" / "accuracy.json"
SIZES = (1_000, 10_000, 50_000)
ANY = 10**9
STREAMING: dict[str, dict[str, Any]] = {
    "XLDA": {},
    "plain LDA": PLAIN,
    "plain LDA, power=0.5": {**PLAIN, "power": 0.5},
    "SLDA as published": {**PLAIN, "rule": "slda", "shrinkage": 1e-4, "shrinkage_target": "identity"},
    "SLDA, shrinkage of plain LDA": {**PLAIN, "rule": "slda"},
}

# For each method, the streams on which it is tried, and the most classes with which that is worth the time.
METHODS: dict[str, dict[str, int]] = {
    "XLDA": {"one by one": 10_000, "groups": ANY, "random": 10_000},
    "plain LDA": {"one by one": 10_000, "groups": ANY, "random": 10_000},
    "plain LDA, power=0.5": {"one by one": 1_000, "groups": ANY, "random": 1_000},
    "SLDA as published": {"one by one": 1_000, "groups": ANY, "random": 1_000},
    "SLDA, shrinkage of plain LDA": {"one by one": 1_000, "groups": 10_000, "random": 1_000},
    "nearest mean": {"one by one": 1_000, "groups": ANY, "random": 1_000},
    "ridge on random features": {"one by one": 0, "groups": 10_000, "random": 0},
    "FC, fine-tuned": {"one by one": 1_000, "groups": 10_000, "random": 1_000},
    "FC, all at once": {"groups": 10_000},
    "scikit-learn LDA, all at once": {"groups": 10_000},
}
FEW = 1_000  # with more classes, trained layers and other streams than groups are tried on renderings only


def make(method: str, case: Case, seed: int) -> Learner:
    """A method that has learned nothing yet."""
    if method.startswith("FC"):
        import fc_learners

        kind = fc_learners.FineTuned if method == "FC, fine-tuned" else fc_learners.AllAtOnce
        return kind(case, seed)
    if method == "nearest mean":
        return NearestMean(case)
    if method == "ridge on random features":
        return RandomFeatureRidge(case, seed)
    if method == "scikit-learn LDA, all at once":
        return ScikitLearnLDA()
    return Streaming(**STREAMING[method])


@dataclass(frozen=True)
class Source:
    """Where a case comes from, and how often it is drawn anew."""

    name: str
    path: Path
    n_classes: int
    seeds: int

    def case(self, seed: int) -> Case:
        """The embeddings."""
        if self.name == "photos":
            return cases.photos(self.path, seed)
        return cases.characters(self.path, self.n_classes, seed)


def run(source: Source, method: str, streams: list[str]) -> list[dict[str, Any]]:
    """One method on all of its streams and seeds: in a process of its own."""
    results = []
    for seed in range(source.seeds):
        case = source.case(seed)
        for stream in streams:
            results.append({"seed": seed, "stream": stream, **follow(case, method, stream, seed)})
    return results


def follow(case: Case, method: str, stream: str, seed: int) -> dict[str, Any]:
    """Learn a stream; after each tenth, how many of each group's queries are answered right."""
    gc.collect()  # what earlier runs left behind is no part of this one
    forget_peak()
    before = resident()
    learner = make(method, case, seed)
    seen = np.zeros(case.n_classes, bool)
    seconds = {"learn": 0.0, "predict": 0.0}
    checkpoints = []
    if learner.joint:
        begin = time.perf_counter()
        learner.learn(case.X, case.rows)
        seconds["learn"] = time.perf_counter() - begin
    for batches in cases.arrivals(case, stream, seed):
        for some in batches:
            X, rows = case.X[some], case.rows[some]
            seen[rows] = True
            if not learner.joint:
                begin = time.perf_counter()
                learner.learn(X, rows)
                seconds["learn"] += time.perf_counter() - begin
        begin = time.perf_counter()
        learner.end_of_group()
        seconds["learn"] += time.perf_counter() - begin
        asked = seen[case.query_rows]
        begin = time.perf_counter()
        answers = learner.predict(case.queries[asked], seen)
        seconds["predict"] += time.perf_counter() - begin
        checkpoints.append(counted(case, asked, answers, int(seen.sum())))
    memory = {"kept": learner.nbytes, "peak": resident("VmHWM") - before}
    return {
        "samples": len(case.rows),
        "checkpoints": checkpoints,
        "seconds": seconds,
        "memory": memory,
    }


def counted(case: Case, asked: np.ndarray, answers: np.ndarray, n_seen: int) -> dict[str, Any]:
    """Queries and right answers of each group of classes."""
    truth = case.query_rows[asked]
    bounds = [group[-1] for group in case.groups()]
    group = np.searchsorted(bounds, truth)
    return {
        "classes": n_seen,
        "asked": np.bincount(group, minlength=len(bounds)).tolist(),
        "right": np.bincount(group, answers == truth, minlength=len(bounds)).astype(int).tolist(),
    }


def streams_of(method: str, source: Source, full: bool) -> list[str]:
    """The streams on which a method is tried here."""
    streams = [stream for stream, most in METHODS[method].items() if full or source.n_classes <= most]
    if full or source.name != "unseen fonts" or source.n_classes <= FEW:
        return streams
    return [] if method.startswith("FC") else [stream for stream in streams if stream == "groups"]


def measure(source: Source, full: bool) -> dict[str, Any]:
    """Every method that can be tried here."""
    result: dict[str, Any] = {"name": source.name, "classes": source.n_classes, "methods": {}}
    print(f"{source.name}, {source.n_classes:,} classes", flush=True)
    for method in METHODS:
        streams = streams_of(method, source, full)
        if not streams or (method == "FC, all at once" and importlib.util.find_spec("torch") is None):
            continue
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=context) as alone:
            runs = alone.submit(run, source, method, streams).result()
        result["methods"][method] = runs
        final = [sum(one["checkpoints"][-1]["right"]) / sum(one["checkpoints"][-1]["asked"]) for one in runs]
        spent = sum(sum(one["seconds"].values()) for one in runs)
        print(f"    {method:<32} {100 * np.mean(final):5.1f} %  {spent:7.1f} s", flush=True)
    return result


def taken_up(path: Path, options: dict[str, Any], parts: str = "sources") -> dict[str, Any]:
    """What an interrupted run with the same options has stored, or no `parts` yet."""
    if path.exists():
        earlier: dict[str, Any] = json.loads(path.read_text())
        if not earlier.get("complete", True) and earlier["options"] == options:
            return earlier
    return {"machine": machine.describe(), "options": options, parts: [], "seconds": 0.0}


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--glyphs", type=Path, required=True, help="characters; unseen renderings are asked")
    parser.add_argument("--fonts", type=Path, help="characters; unseen fonts are asked")
    parser.add_argument("--npz", type=Path, help="photos: train_X, train_y, val_X, val_y")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="classes of characters")
    parser.add_argument("--seeds", type=int, default=3, help="one with more than 1 000 classes")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("torch is not installed: the FC layer that gets everything at once is skipped.")
    sources = [Source("photos", arguments.npz, 81, arguments.seeds)] if arguments.npz else []
    for n_classes in arguments.sizes:
        few = arguments.seeds if n_classes <= 1_000 else 1
        for name, path in (("unseen renderings", arguments.glyphs), ("unseen fonts", arguments.fonts)):
            if path:
                sources.append(Source(name, path, n_classes, few))
    results = taken_up(
        arguments.out,
        {"sizes": list(arguments.sizes), "seeds": arguments.seeds, "full": arguments.full},
    )
    known = {(source["name"], source["classes"]) for source in results["sources"]}
    for source in sources:
        if (source.name, source.n_classes) in known:
            continue
        begin = time.perf_counter()
        results["sources"].append(measure(source, arguments.full))
        results["seconds"] += time.perf_counter() - begin
        known.add((source.name, source.n_classes))
        results["complete"] = all((source.name, source.n_classes) in known for source in sources)
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
