"""Time to learn a sample: XLDA against the limit of the hardware, the published rule, and an FC layer.

    python benchmarks/training.py            a share of each of the paper's five shapes, in under 5 minutes
    python benchmarks/training.py --full     XLDA and the limit over every sample of every shape

All in one run, on the same embeddings, in turns, so that a slow moment of the machine meets all alike. It
writes every single timing to benchmarks/results/training.json (training-full.json) and prints the tables. The
published rule and the FC layer are timed on a few samples or batches; the FC layer needs torch.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import machine
import numpy as np
import performance_page
from scipy.linalg import blas

from xlda import XLDA

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

D = 1280
RESULTS = Path(__file__).parent / "results"
ROUNDS = 5

SHAPES = {  # classes, samples: the paper's five data sets
    "Birds": (200, 6_000),
    "ImageNet": (1_000, 1_300_000),
    "iNaturalist": (8_142, 500_000),
    "AliProducts": (50_000, 2_500_000),
    "Landmarks": (81_000, 1_400_000),
}


GROWTH = {
    "classes": (200, 1_000, 8_142, 20_000, 50_000, 81_000),
    "batch size": (1, 4, 16, 64, 256, 1024, 4096, 16_384),
    "d": (64, 128, 256, 512, 1024, 2048),
}


class Stream:
    """Embeddings and labels drawn as they are needed, so that no shape needs its gigabytes."""

    def __init__(self, n_classes: int, n_features: int = D, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        self._centres = self._rng.standard_normal((min(n_classes, 512), n_features), dtype=np.float32)
        self.n_classes, self.n_features = n_classes, n_features

    def draw(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """`n` embeddings, float32, and their labels."""
        y = self._rng.integers(0, self.n_classes, n)
        X = self._rng.standard_normal((n, self.n_features), dtype=np.float32)
        X += self._centres[y % len(self._centres)]
        return X, y

    def blocks(self, total: int, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """`total` samples, `size` at a time."""
        for start in range(0, total, size):
            yield self.draw(min(size, total - start))


def seconds(work: Callable[[], object]) -> float:
    """How long `work` takes, once the BLAS threads of what came before have stopped spinning."""
    time.sleep(0.05)
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def limit(X: np.ndarray) -> float:
    """One symmetric rank-k product over all rows: the least that a covariance costs."""
    product = np.zeros((X.shape[1], X.shape[1]), np.float32, order="F")

    def multiply() -> None:
        for start in range(0, len(X), 4096):
            blas.ssyrk(1.0, X[start : start + 4096].T, beta=0.0, c=product, overwrite_c=True)

    return seconds(multiply)


def learn(clf: XLDA, X: np.ndarray, y: np.ndarray, batch_size: int) -> float:
    """XLDA, one pass, until the last row is in the covariance."""

    def one_pass() -> None:
        for start in range(0, len(X), batch_size):
            clf.partial_fit(X[start : start + batch_size], y[start : start + batch_size])
        clf._model.moments.fold()

    return seconds(one_pass)


class PublishedRule:
    """The published update as its reference code has it, one sample after the other, in float32."""

    def __init__(self, n_classes: int) -> None:
        self.means = np.zeros((n_classes, D), np.float32)
        self.counts = np.zeros(n_classes, np.float32)
        self.sigma = np.ones((D, D), np.float32)
        self.t = 0

    def learn(self, X: np.ndarray, y: np.ndarray) -> float:
        """Time of one pass."""

        def one_pass() -> None:
            for x, row in zip(X, y, strict=True):
                residual = x - self.means[row]
                delta = np.outer(residual, residual) * np.float32(self.t / (self.t + 1))
                self.sigma = (self.t * self.sigma + delta) / np.float32(self.t + 1)
                self.means[row] += residual / (self.counts[row] + 1)
                self.counts[row] += 1
                self.t += 1

        return seconds(one_pass)


class FullyConnected:
    """A linear layer in torch: batches of 512, cross-entropy, SGD with momentum and cosine decay."""

    def __init__(self, n_classes: int, n_batches: int) -> None:
        self.layer = torch.nn.Linear(D, n_classes)
        self.optimiser = torch.optim.SGD(self.layer.parameters(), lr=0.1, momentum=0.9)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimiser, T_max=n_batches)

    def learn(self, X: np.ndarray, y: np.ndarray) -> float:
        """Time of one batch."""
        embeddings, labels = torch.from_numpy(X), torch.from_numpy(y)

        def one_batch() -> None:
            self.optimiser.zero_grad()
            torch.nn.functional.cross_entropy(self.layer(embeddings), labels).backward()
            self.optimiser.step()
            self.schedule.step()

        return seconds(one_batch)


def warmed_up(stream: Stream) -> XLDA:
    """A classifier that knows all classes, so that none of the timings pays for making room."""
    clf = XLDA()
    everyone = np.arange(stream.n_classes)
    for start in range(0, stream.n_classes, 4096):
        rows = everyone[start : start + 4096]
        clf.partial_fit(stream.draw(len(rows))[0], rows)
    clf._model.moments.fold()
    return clf


def measure_shape(name: str, full: bool, rounds: int) -> dict[str, Any]:
    """Seconds per sample of every method, every timing kept."""
    n_classes, n_samples = SHAPES[name]
    stream = Stream(n_classes)
    clf = warmed_up(stream)
    timings: dict[str, list[float]] = {"published": []}
    published = PublishedRule(n_classes)
    sizes = [(4096, 32_768), (512, 32_768), (1, 8_192)]
    for _ in range(rounds):
        X, y = stream.draw(32_768)
        for batch_size, n in sizes:
            timings.setdefault(f"limit beside xlda {batch_size}", []).append(limit(X) / len(X))
            timings.setdefault(f"xlda {batch_size}", []).append(learn(clf, X[:n], y[:n], batch_size) / n)
        timings["published"].append(published.learn(X[:60], y[:60]) / 60)
    if torch is not None:
        layer = FullyConnected(n_classes, n_samples // 512)
        layer.learn(X[:512], y[:512])  # memory for gradients and momentum
        timings["fc"] = [layer.learn(X[i * 512 :][:512], y[i * 512 :][:512]) / 512 for i in range(1, 4)]
        del layer
    result: dict[str, Any] = {"classes": n_classes, "samples": n_samples, "timings": timings}
    if full:
        result["full"] = full_pass(n_samples, stream)
    return result


def full_pass(n_samples: int, stream: Stream) -> dict[str, Any]:
    """The limit and XLDA over every sample of the shape, block after block; drawing is not timed."""
    clf = XLDA()
    total = {"limit": 0.0, "xlda 512": 0.0}
    for X, y in stream.blocks(n_samples, 32_768):
        total["limit"] += limit(X)
        total["xlda 512"] += learn(clf, X, y, 512)
    return {**total, "classes learned": len(clf.classes_), "samples learned": clf.n_samples_seen_}


def measure_growth(what: Sequence[str], rounds: int) -> dict[str, list[dict[str, Any]]]:
    """How the cost of a sample grows with the number of classes, the batch size and the width."""
    growth: dict[str, list[dict[str, Any]]] = {}
    for name in what:
        for at in GROWTH[name]:
            n_classes, batch_size, d = {
                "classes": (at, 512, D),
                "batch size": (1_000, at, D),
                "d": (1_000, 512, at),
            }[name]
            timings = compare(Stream(n_classes, d), batch_size, rounds)
            growth.setdefault(name, []).append({"at": at, **timings})
    return growth


def compare(stream: Stream, batch_size: int, rounds: int, n: int = 16_384) -> dict[str, list[float]]:
    """Seconds per sample of the limit and of XLDA, in turns."""
    clf = warmed_up(stream)
    n = n if batch_size > 16 else n // 2
    timings: dict[str, list[float]] = {"limit": [], "xlda": []}
    for _ in range(rounds):
        X, y = stream.draw(n)
        timings["limit"].append(limit(X) / n)
        timings["xlda"].append(learn(clf, X, y, batch_size) / n)
    return timings


PARTS = {  # function: what its time, that of what it calls included, is spent on
    ("scatter", "fold"): "the rank-k product (the limit), and adding it to the scatter",
    ("moments", "_absorb_many"): "residuals, means, and rows to fold",
    ("kept_samples", "add"): "keeping some to check it with: most while there are few samples",
    ("inputs", "checked_samples"): "checking the embeddings",
    ("labels", "label_list"): "checking the labels",
    ("labels", "rows_if_known"): "labels to rows",
}


def measure_profile() -> dict[str, float]:
    """Seconds in each part of learning 128 batches of 512 samples of 50 000 classes."""
    stream = Stream(50_000)
    clf = warmed_up(stream)
    X, y = stream.draw(128 * 512)
    profiler = cProfile.Profile()
    for start in range(0, len(X), 512):
        profiler.runcall(clf.partial_fit, X[start : start + 512], y[start : start + 512])
    spent = {
        (Path(file).stem, name): cumulative
        for (file, _, name), (_, _, _, cumulative, _) in pstats.Stats(profiler).stats.items()  # type: ignore[attr-defined]
        if "xlda" in file
    }
    spent["moments", "_absorb_many"] -= spent["scatter", "fold"]  # when it finds no room for more rows
    parts = {text: spent[name] for name, text in PARTS.items()}
    return {**parts, "all else": spent["classifier", "partial_fit"] - sum(parts.values())}


def main() -> None:
    """Measure, store, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--full", action="store_true", help="XLDA over every sample; no growth curves")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--growth", nargs="+", choices=GROWTH, default=list(GROWTH))
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of timings; the median counts")
    parser.add_argument("--out", type=Path, help="instead of the file above")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    if torch is None:
        print("torch is not installed: the FC layer is skipped. pip install torch to have it.\n")
    results: dict[str, Any] = {"machine": machine.describe(), "seed": 0, "full": arguments.full, "shapes": {}}
    for name in arguments.shapes:
        print(f"measuring {name} ...", flush=True)
        results["shapes"][name] = measure_shape(name, arguments.full, arguments.rounds)
    if not arguments.full:
        print("measuring growth ...", flush=True)
        results["growth"] = measure_growth(arguments.growth, arguments.rounds)
        results["profile"] = measure_profile()
    results["seconds"] = time.perf_counter() - begin
    path = arguments.out or RESULTS / ("training-full.json" if arguments.full else "training.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    page = performance_page
    print("\n" + (page.full_table if arguments.full else page.training_tables)(results))


if __name__ == "__main__":
    main()
