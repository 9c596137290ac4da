"""Time to predict among many classes: XLDA's searches against looking at all of them, and against others.

    python benchmarks/inference.py [--npz glyphs.npz]

1 000 to 81 000 classes of width 1280; the real embeddings of the file where it has that many classes, else
synthetic ones with the real ones' spectrum (benchmarks/embeddings.py). One query a call, and batches of 64
and 1024. Every single timing goes to benchmarks/results/inference.json. Takes about a quarter of an hour;
torch and FAISS are skipped, saying so, where they are not installed.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import embeddings
import inference_page
import machine
import numpy as np
from embeddings import Data

from xlda import XLDA
from xlda.search import LSH, Faiss, Fisher, Search

SIZES = (1_000, 8_142, 50_000, 81_000)
CURVES_AT = 50_000
BATCHES = (1, 64, 1024)
N_AGREEMENT = 2048
RESULTS = Path(__file__).parent / "results"
MOST_SECONDS = 2.0  # on one way with one batch size

PLAIN: dict[str, Any] = {"model": "lda", "shrinkage": 0.3, "power": None}  # what the paper has
HAS_FAISS = importlib.util.find_spec("faiss") is not None
HAS_TORCH = importlib.util.find_spec("torch") is not None

Predict = Callable[[np.ndarray], np.ndarray]


def dense_numpy(weights: np.ndarray, bias: np.ndarray) -> Predict:
    """W x + b and the largest."""
    return lambda X: (X @ weights.T + bias).argmax(axis=1)


def dense_torch(weights: np.ndarray, bias: np.ndarray) -> Predict:
    """The same as a torch layer."""
    import torch

    layer = torch.nn.Linear(weights.shape[1], len(weights))
    layer.weight.data, layer.bias.data = torch.from_numpy(weights), torch.from_numpy(bias)
    layer.requires_grad_(False)
    return lambda X: layer(torch.from_numpy(X)).argmax(dim=1).numpy()


def published(means: np.ndarray, precision: np.ndarray) -> Predict:
    """As the reference code of streaming LDA: W is computed anew from the means at every call."""

    def predict(X: np.ndarray) -> np.ndarray:
        weights = precision @ means.T
        return (X @ weights - 0.5 * (means.T * weights).sum(axis=0)).argmax(axis=1)

    return predict


def timed(
    predict: Predict, queries: np.ndarray, batch: int, most: int, seconds: float = MOST_SECONDS
) -> list[float]:
    """Seconds of each call; as many calls as fit in a few seconds, at least 3."""
    start = time.perf_counter()
    predict(queries[:batch])
    if time.perf_counter() - start > seconds:
        most = 1
    timings: list[float] = []
    while len(timings) < most and (len(timings) < min(3, most) or sum(timings) < seconds):
        start = len(timings) * batch % (len(queries) - batch + 1)
        some = np.ascontiguousarray(queries[start : start + batch])
        begin = time.perf_counter()
        predict(some)
        timings.append(time.perf_counter() - begin)
    return timings


def measure(
    name: str,
    predict: Predict,
    data: Data,
    exact: np.ndarray,
    seconds: float,
    batches: Sequence[int] = BATCHES,
    **more: Any,
) -> dict[str, Any]:
    """Timings, agreement and accuracy of one way to predict."""
    n = N_AGREEMENT if timed(predict, data.queries, 1, 3)[-1] < 0.1 else 3
    answers = np.concatenate([predict(data.queries[i : i + 1]) for i in range(min(n, 512))])
    if n > 512:
        answers = np.concatenate([answers, predict(data.queries[512:n])])
    result = {
        "name": name,
        "agreement": float((answers == exact[:n]).mean()),
        "accuracy": float((answers == data.query_labels[:n]).mean()),
        "queries": n,
        "seconds": {str(batch): timed(predict, data.queries, batch, 200, seconds) for batch in batches},
        **more,
    }
    median = {batch: 1e3 * float(np.median(times)) for batch, times in result["seconds"].items()}
    times = " ".join(f"{milliseconds:9.2f}" for milliseconds in median.values())
    print(f"    {name:<38} {times} ms  {result['agreement']:.2%}", flush=True)
    return result


def searched(
    name: str,
    clf: XLDA,
    search: str | Search,
    data: Data,
    exact: np.ndarray,
    seconds: float,
    batches: Sequence[int] = BATCHES,
) -> dict[str, Any]:
    """One of XLDA's searches, through `predict`."""
    clf.set_params(search="dense").predict(data.queries[:1])
    start = time.perf_counter()
    clf.set_params(search=search).predict(data.queries[:1])
    build = time.perf_counter() - start
    index = clf._current_head().index
    more = {"build": build, "nbytes": int(index.nbytes), "picked": index.describe()}
    return measure(name, clf.predict, data, exact, seconds, batches, **more)


def learn(data: Data, **params: Any) -> XLDA:
    """A classifier of all classes."""
    clf = XLDA(search="dense", **params)
    for start in range(0, len(data.X), 4096):
        clf.partial_fit(data.X[start : start + 4096], data.y[start : start + 4096])
    return clf


def measure_size(data: Data, n_classes: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Every way among this many classes."""
    print(f"{n_classes:,} classes, {data.name}", flush=True)
    clf = learn(data, **PLAIN)
    weights, bias = (array.astype(np.float32) for array in clf.to_linear())
    labels, inverse = clf.classes_, clf._current_head().space.inverse
    exact = clf.predict(data.queries[:N_AGREEMENT])

    def labelled(predict: Predict) -> Predict:
        return lambda X: labels[predict(X)]

    ways = [measure("dense, NumPy", labelled(dense_numpy(weights, bias)), data, exact, seconds)]
    if HAS_TORCH:
        ways.append(measure("dense, torch", labelled(dense_torch(weights, bias)), data, exact, seconds))
    means, precision = clf.means_.astype(np.float32), inverse
    ways.append(measure("published code", labelled(published(means, precision)), data, exact, seconds))
    del means, weights
    gc.collect()
    ways.append(searched("XLDA, model=lda", clf, "auto", data, exact, seconds))
    default = learn(data)
    of_default = default.predict(data.queries[:N_AGREEMENT])
    ways.append(searched("XLDA, default", default, "auto", data, of_default, seconds))
    del default
    ways.append(searched("LSH, as published", clf, LSH(), data, exact, seconds))
    if HAS_FAISS:
        for kind, effort in (("hnsw", 128), ("ivf", 16)):
            for over in ("means", "fisher"):
                way = Faiss(kind=kind, over=over, effort=effort)
                ways.append(searched(f"FAISS {kind} over {over}", clf, way, data, exact, seconds))
    result: dict[str, Any] = {"classes": n_classes, "data": data.name, "ways": ways}
    if n_classes == CURVES_AT:
        result["curves"] = measure_curves(clf, data, exact, seconds)
        result["half"] = measure_half(data, clf, exact)
    return result | {"learn and predict": measure_learning(clf, data, rounds)}


def measure_curves(
    clf: XLDA, data: Data, exact: np.ndarray, seconds: float
) -> dict[str, list[dict[str, Any]]]:
    """Agreement against time, as the effort of each search changes."""
    print("  curves", flush=True)
    settings: dict[str, list[tuple[str, Search]]] = {
        "XLDA, fisher": [(f"target {t}", Fisher(target=t)) for t in (0.9, 0.97, 0.99, 0.999, 0.9999)],
        "LSH, as published": [(f"share {s}", LSH(share=s)) for s in (0.01, 0.03, 0.1, 0.3)],
    }
    if HAS_FAISS:
        for kind, efforts in (("hnsw", (16, 64, 256)), ("ivf", (4, 16, 64))):
            settings[f"FAISS {kind} over fisher"] = [
                (f"effort {effort}", Faiss(kind=kind, effort=effort)) for effort in efforts
            ]
    curves: dict[str, list[dict[str, Any]]] = {}
    for name, ways in settings.items():
        for setting, search in ways:
            point = searched(f"{name}, {setting}", clf, search, data, exact, seconds, (1,))
            curves.setdefault(name, []).append(point)
    return curves


def measure_half(data: Data, full: XLDA, exact: np.ndarray) -> dict[str, Any]:
    """Memory, agreement and accuracy with means and weights as float16."""
    half = learn(data, precision="half", **PLAIN).set_params(search="auto")
    result: dict[str, Any] = {}
    for name, clf in (("full", full.set_params(search="auto")), ("half", half)):
        answers = clf.predict(data.queries[:N_AGREEMENT])
        result[name] = {
            "accuracy": float((answers == data.query_labels[:N_AGREEMENT]).mean()),
            "agreement": float((answers == exact).mean()),
            "nbytes": clf.audit(data.queries[:16]).nbytes,
            "seconds": timed(clf.predict, data.queries, 1, 200),
        }
    return result


def measure_learning(clf: XLDA, data: Data, rounds: int) -> dict[str, list[float]]:
    """Seconds to predict one, and to learn one and then predict one, in turns of 100."""
    clf.set_params(search="auto").predict(data.queries[:1])
    timings: dict[str, list[float]] = {"predict": [], "learn and predict": []}
    for start in range(0, rounds, 100):
        some = [number % len(data.queries) for number in range(start, start + 100)]
        for number in some:
            begin = time.perf_counter()
            clf.predict(data.queries[number : number + 1])
            timings["predict"].append(time.perf_counter() - begin)
        for number in some:
            one = slice(number, number + 1)
            begin = time.perf_counter()
            clf.partial_fit(data.queries[one], data.query_labels[one]).predict(data.queries[one])
            timings["learn and predict"].append(time.perf_counter() - begin)
    means = {name: 1e3 * float(np.mean(values)) for name, values in timings.items()}
    print(f"  predict {means['predict']:.2f} ms, learn and predict {means['learn and predict']:.2f} ms")
    return timings


def main() -> None:
    """Measure, store, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--npz", type=Path, help="real embeddings, see benchmarks/embeddings.py")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--seconds", type=float, default=MOST_SECONDS, help="on one way with one batch size")
    parser.add_argument("--rounds", type=int, default=2000, help="of learning one and predicting one")
    parser.add_argument("--out", type=Path, default=RESULTS / "inference.json")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    for name, there in (("torch", HAS_TORCH), ("FAISS", HAS_FAISS)):
        if not there:
            print(f"{name} is not installed: skipped.")
    n_real = 0
    if arguments.npz:
        with np.load(arguments.npz) as file:
            n_real = len(np.unique(file["y"]))
    results: dict[str, Any] = {"machine": machine.describe(), "seed": 0, "sizes": []}
    for n_classes in arguments.sizes:
        is_real = n_classes <= n_real
        data = embeddings.real(arguments.npz, n_classes) if is_real else embeddings.synthetic(n_classes)
        results["sizes"].append(measure_size(data, n_classes, arguments.rounds, arguments.seconds))
        gc.collect()
    results["seconds"] = time.perf_counter() - begin
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(results) + "\n")
    print("\n" + inference_page.tables(results))


if __name__ == "__main__":
    main()
