"""Classes come one after the other: XLDA, beside an FC layer on the same stream and one that gets it all."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.progress import Progress
from xlda.classifier import XLDA
from xlda.demo.characters import DrawnCharacters, Part
from xlda.demo.fc import FINE_TUNING, JOINT, SoftmaxLayer

CHECKPOINTS = 15


class Streamed(NamedTuple):
    """What came of it: the classifier; accuracies over the classes seen, at each checkpoint; seconds."""

    model: XLDA
    classes: list[int]
    xlda: list[float]
    fine_tuned: list[float]
    joint: list[float]
    seconds: dict[str, float]


def learn_stream(data: DrawnCharacters, seed: int, progress: bool) -> Streamed:
    """XLDA learns class by class, the FC layer a group of classes at a time, and both are asked after each.

    The joint layer is trained on all classes at once; while few are seen, only these count.
    """
    groups = np.array_split(data.order, min(CHECKPOINTS, len(data.order)))
    classes = np.cumsum([len(group) for group in groups]).tolist()
    with Progress(lambda: len(data.train.labels), progress) as bar:
        model, accuracies, seconds = _xlda(data, groups, bar)
    tuned, tuning = _fine_tuned(data, groups, seed)
    joint, training = _joint(data, classes, seed)
    return Streamed(
        model, classes, accuracies, tuned, joint, {"xlda": seconds, "fine_tuned": tuning, "joint": training}
    )


def rows_of(labels: Array, order: Array) -> Rows:
    """The position of each label in the order in which they come.

    >>> rows_of(np.array(["b", "a", "b"]), np.array(["c", "a", "b"]))
    array([2, 1, 2])
    """
    sorter = np.argsort(order)
    rows: Rows = sorter[np.searchsorted(order, labels, sorter=sorter)]
    return rows


def _xlda(data: DrawnCharacters, groups: list[Array], bar: Progress) -> tuple[XLDA, list[float], float]:
    """Accuracies, and the seconds for learning and for being ready to predict at each checkpoint."""
    model, accuracies, seconds = XLDA(), [], 0.0
    for n, group in enumerate(groups, 1):
        for label in group:
            new = data.train.of(label)
            start = time.perf_counter()
            model.partial_fit(new.embeddings, new.labels)
            seconds += time.perf_counter() - start
            bar.advance(len(new.labels))
        start = time.perf_counter()
        model.snapshot()
        seconds += time.perf_counter() - start
        seen = data.test.of(np.concatenate(groups[:n]))
        accuracies.append(float(model.score(seen.embeddings, seen.labels)))
    return model, accuracies, seconds


def _fine_tuned(data: DrawnCharacters, groups: list[Array], seed: int) -> tuple[list[float], float]:
    layer = SoftmaxLayer(len(data.order), data.train.embeddings)
    rng, accuracies, seconds, seen = np.random.default_rng(seed), [], 0.0, 0
    for group in groups:
        seen += len(group)
        new = data.train.of(group)
        start = time.perf_counter()
        layer.train(new.embeddings, rows_of(new.labels, data.order), FINE_TUNING, rng)
        seconds += time.perf_counter() - start
        accuracies.append(_accuracy(layer, data.test, data.order, seen))
    return accuracies, seconds


def _joint(data: DrawnCharacters, classes: list[int], seed: int) -> tuple[list[float], float]:
    start = time.perf_counter()
    layer = SoftmaxLayer(len(data.order), data.train.embeddings)
    rows = rows_of(data.train.labels, data.order)
    layer.train(data.train.embeddings, rows, JOINT, np.random.default_rng(seed))
    seconds = time.perf_counter() - start
    return [_accuracy(layer, data.test, data.order, n) for n in classes], seconds


def _accuracy(layer: SoftmaxLayer, test: Part, order: Array, n_classes: int) -> float:
    """Over the first `n_classes`, with no others to choose from."""
    seen = test.of(order[:n_classes])
    found = layer.predict(seen.embeddings, n_classes)
    return float(np.mean(found == rows_of(seen.labels, order)))
