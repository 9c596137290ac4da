"""An FC layer becomes a classifier that goes on learning, and a layer again."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from xlda._internal.arrays import Array
from xlda.classifier import XLDA
from xlda.demo.characters import DrawnCharacters, Part
from xlda.demo.fc import JOINT, SoftmaxLayer
from xlda.demo.stream import rows_of


def convert_and_learn(data: DrawnCharacters, seed: int) -> dict[str, Any]:
    """Train a layer on two thirds of the classes, convert it, learn the others, and give a layer back.

    Accuracies on the images of the old and the new classes, and on all of them: converted with unlabelled
    embeddings, and in the paper's way.
    """
    n_old = 2 * len(data.order) // 3
    old, new = data.order[:n_old], data.order[n_old:]
    known = data.train.of(old)
    layer = SoftmaxLayer(n_old, known.embeddings)
    layer.train(known.embeddings, rows_of(known.labels, old), JOINT, np.random.default_rng(seed))
    ways: dict[str, Any] = {
        "embeddings": {"embeddings": known.embeddings},
        "paper": {"assume": "identity"},
    }
    models = {way: XLDA.from_linear(*layer.linear(), labels=old, **how) for way, how in ways.items()}
    figures: dict[str, Any] = {"n_old": n_old, "n_new": len(new)}
    figures["layer"] = {"old": _of_layer(*layer.linear(), old, data.test.of(old))}
    for way, model in models.items():
        figures[way] = _before_and_after(model, data, old, new)
    figures["back"] = _back(models["embeddings"], data.test)
    return figures


def _before_and_after(model: XLDA, data: DrawnCharacters, old: Array, new: Array) -> dict[str, float]:
    parts = {"old": data.test.of(old), "new": data.test.of(new), "all": data.test}
    before = _accuracy(model, parts["old"])
    learned = data.train.of(new)
    model.partial_fit(learned.embeddings, learned.labels)
    return {"before": before, **{name: _accuracy(model, part) for name, part in parts.items()}}


def _back(model: XLDA, test: Part) -> dict[str, float]:
    """Accuracy of the layer that `to_linear` gives, and how often it says the same as the classifier."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is not equal: how often it differs is told
        weight, bias = model.to_linear()
    best = model.classes_[np.argmax(test.embeddings @ weight.T + bias, axis=1)]
    n_same = int(np.sum(best == model.predict(test.embeddings)))
    right = float(np.mean(best == test.labels))
    return {"n_rows": len(weight), "all": right, "n_same": n_same, "n_test": len(best)}


def _of_layer(weight: Array, bias: Array, labels: Array, test: Part) -> float:
    best = labels[np.argmax(test.embeddings @ weight.T + bias, axis=1)]
    return float(np.mean(best == test.labels))


def _accuracy(model: XLDA, test: Part) -> float:
    return float(model.score(test.embeddings, test.labels))
