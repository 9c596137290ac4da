"""How well the unknown is told from the known, and whether probabilities are what they say.

    python benchmarks/unknown.py --npz grocery_lite0.npz --many many.npz --five five.npz --glyphs glyphs.npz

- photos: 20 of 81 products are never learned; queries are photos of another day (val). Splits are random.
- characters: a quarter of 400 or 1,000 are never learned, with 10 samples each of the others; a quarter of
  10,000 with 5, and of 50,000 with 3.
- far: characters, asked of the model that has learned photos.

Scores of `benchmarks/unknown_scores.py` are compared by AUROC. Then XLDA alone, with its defaults: how
many of the known are rejected where 5 % were asked for, how many of the unknown are caught, how far
probabilities and the accuracy that `assess` tells are from the truth. "Exchangeable" are samples of the
same batch, which were set aside (`like="same"`); "another day" are those of val (`like="visit"`); for
"confirmed", 200 answers about that day were confirmed before. All numbers go to
benchmarks/results/unknown.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import machine
import numpy as np
import unknown_page
from sklearn.metrics import roc_auc_score
from unknown_scores import all_scores

from xlda import XLDA
from xlda.calibration.rejection import Confidence

RESULTS = Path(__file__).parent / "results"
ASKED = 0.05  # of the known, to be rejected
N_UNKNOWN = 20  # products
MOST_QUERIES = 4000
N_CONFIRMED = 200


class Split(NamedTuple):
    """What is learned, what is asked, and which of that is of known classes."""

    name: str
    X: np.ndarray
    y: np.ndarray
    queries: np.ndarray
    truth: np.ndarray
    known: np.ndarray
    few: bool = False  # methods, since there are so many classes


def photos(npz: Path, seed: int) -> Split:
    """All photos of most products, and photos of another day of all."""
    with np.load(npz) as file:
        X, y, queries, truth = (file[name] for name in ("train_X", "train_y", "val_X", "val_y"))
    unknown = np.random.default_rng(seed).permutation(np.unique(y))[:N_UNKNOWN]
    learned = ~np.isin(y, unknown)
    known = ~np.isin(truth, unknown)
    return Split(
        "photos", X[learned].astype(np.float32), y[learned], queries.astype(np.float32), truth, known
    )


def characters(npz: Path, n_classes: int, per_class: int, seed: int) -> Split:
    """So many samples of three quarters of some characters, and others of all."""
    with np.load(npz) as file:
        X, y, train = file["X"], file["y"], int(file["train"]) if "train" in file else 3
    rng = np.random.default_rng(seed)
    chosen = np.argsort(y, kind="stable").reshape(len(np.unique(y)), -1)
    chosen = chosen[rng.permutation(len(chosen))[:n_classes]]
    n_known = 3 * n_classes // 4
    learned = chosen[:n_known, :per_class].ravel()
    asked = rng.permutation(chosen[:, train:].ravel())[:MOST_QUERIES]
    known = np.isin(y[asked], y[learned])
    name = f"{n_classes:,} characters, {per_class} each"
    few = n_classes > 2000
    return Split(
        name, X[learned].astype(np.float32), y[learned], X[asked].astype(np.float32), y[asked], known, few
    )


def far(npz: Path, glyphs: Path, seed: int) -> Split:
    """Photos of another day, and characters."""
    split = photos(npz, seed)
    with np.load(glyphs) as file:
        strange = file["X"][:: max(1, len(file["X"]) // 500)].astype(np.float32)
    queries = np.concatenate([split.queries[split.known], strange])
    known = np.arange(len(queries)) < split.known.sum()
    truth = np.concatenate([split.truth[split.known], np.full(len(strange), -1)])
    return Split("photos, unknown: characters", split.X, split.y, queries, truth, known)


def compared(split: Split) -> dict[str, float]:
    """AUROC of every score."""
    scores = all_scores(split.X, split.y, split.queries, split.few)
    return {name: float(roc_auc_score(split.known, values)) for name, values in scores.items()}


def set_aside(split: Split, seed: int) -> Split:
    """A fifth of what was to be learned, to be asked instead of another day's."""
    asked = np.random.default_rng(seed).random(len(split.y)) < 0.2
    known = np.isin(split.y[asked], split.y[~asked])
    queries = split.X[asked]
    return Split(split.name, split.X[~asked], split.y[~asked], queries, split.y[asked], known)


def alike(npz: Path, n_classes: int, per_class: int, seed: int) -> Split:
    """So many samples of each of some characters, and others of the same, all drawn from one lot."""
    with np.load(npz) as file:
        X, y = file["X"], file["y"]
    rng = np.random.default_rng(seed)
    chosen = np.argsort(y, kind="stable").reshape(len(np.unique(y)), -1)
    chosen = rng.permuted(chosen[rng.permutation(len(chosen))[:n_classes]], axis=1)
    learned, asked = chosen[:, :per_class].ravel(), chosen[:, per_class : per_class + 10].ravel()
    name = f"{n_classes:,} characters, {per_class} each, exchangeable"
    known = np.ones(len(asked), bool)
    return Split(
        name, X[learned].astype(np.float32), y[learned], X[asked].astype(np.float32), y[asked], known
    )


def percents(probabilities: np.ndarray) -> list[int]:
    """How many of them are of each percent."""
    return np.bincount(np.minimum((100 * probabilities).astype(int), 99), minlength=100).tolist()


def judged(split: Split, like: str, n_confirmed: int = 0, seed: int = 0) -> dict[str, Any]:
    """What XLDA says of itself, and what is true."""
    clf = XLDA(like=like).fit(split.X, split.y)  # type: ignore[arg-type]
    begin = time.perf_counter()
    clf.calibrate(progress=False)
    seconds = time.perf_counter() - begin
    queries, truth, known = split.queries, split.truth, split.known
    if n_confirmed:
        order = np.random.default_rng(seed).permutation(np.flatnonzero(known))
        clf.confirm(queries[order[:n_confirmed]], truth[order[:n_confirmed]])
        left = np.ones(len(truth), bool)
        left[order[:n_confirmed]] = False
        queries, truth, known = queries[left], truth[left], known[left]
    answers = clf.judge(queries, 1, unknown=ASKED)
    right = answers.labels[known, 0] == truth[known]
    expected = getattr(clf.assess(), like)
    confidence = Confidence(answers.probabilities[known, 0], right)
    return {
        "rejected": float(answers.is_unknown[known].mean()),
        "caught": float(answers.is_unknown[~known].mean()) if (~known).any() else None,
        "calibration error": confidence.calibration_error,
        "told accuracy": expected.accuracy.value,
        "accuracy": float(right.mean()),
        "told": percents(confidence.probabilities),
        "right": percents(confidence.probabilities[right]),
        "seconds": seconds,
        "kept": len(clf._model.moments.kept),
    }


def sources(arguments: argparse.Namespace) -> Iterator[tuple[int, Split]]:
    """Every split of everything there is."""
    if arguments.npz:
        for seed in range(arguments.splits):
            yield seed, photos(arguments.npz, seed)
        if arguments.glyphs:
            for seed in range(3):
                yield seed, far(arguments.npz, arguments.glyphs, seed)
    for npz, sizes, per_class, seeds in (
        (arguments.many, arguments.many_sizes, 10, arguments.seeds),
        (arguments.five, (10_000,), 5, 2),
        (arguments.glyphs, (50_000,), 3, 1),
    ):
        if npz:
            with np.load(npz) as file:
                n_there = len(np.unique(file["y"]))
            for n_classes in sizes:
                if n_classes <= n_there:
                    for seed in range(seeds):
                        yield seed, characters(npz, n_classes, per_class, seed)


def main() -> None:
    """Measure, store, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--npz", type=Path, help="photos, see benchmarks/embeddings.py")
    for name in ("many", "five", "glyphs"):
        parser.add_argument(f"--{name}", type=Path, help="characters, see benchmarks/characters.py")
    parser.add_argument("--splits", type=int, default=15, help="of photos")
    parser.add_argument("--seeds", type=int, default=5, help="of few characters")
    parser.add_argument("--many-sizes", type=int, nargs="+", default=[400, 1000])
    parser.add_argument("--out", type=Path, default=RESULTS / "unknown.json")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    results: dict[str, Any] = {"machine": machine.describe(), "auroc": {}, "judged": {}}
    for seed, split in sources(arguments):
        figures = compared(split)
        results["auroc"].setdefault(split.name, []).append(figures)
        best = max(figures, key=lambda name: figures[name])
        print(
            f"{split.name}, {seed}: XLDA {figures['XLDA']:.1%}, best {best} {figures[best]:.1%}", flush=True
        )
        kinds: dict[str, tuple[Any, ...]] = {}
        if split.name == "photos":
            kinds = {
                "photos, exchangeable": (set_aside(split, seed), "same"),
                "photos, another day": (split, "visit"),
                "photos, another day, 200 answers confirmed": (split, "visit", N_CONFIRMED, seed),
            }
        for name, how in kinds.items():
            results["judged"].setdefault(name, []).append(judged(*how))
    for n_classes in arguments.many_sizes if arguments.many else ():
        for per_class in (10, 3):
            for seed in range(arguments.seeds):
                split = alike(arguments.many, n_classes, per_class, seed)
                results["judged"].setdefault(split.name, []).append(judged(split, "same"))
    results["seconds"] = time.perf_counter() - begin
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(results) + "\n")
    print("\n" + unknown_page.page(results))


if __name__ == "__main__":
    main()
