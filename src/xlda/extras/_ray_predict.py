"""Predicting and evaluating on many machines: every actor has the model once, rows come and go."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from xlda._internal.arrays import Array
from xlda.classifier import XLDA
from xlda.extras._ray_cluster import for_dataset, is_dataset, limited_to, n_workers, ray_module, with_bars
from xlda.extras._ray_fit import arrays_of
from xlda.extras._ray_tables import rows_at

ROWS = 4096  # predicted at once
ModelOrFile = XLDA | str | os.PathLike[str]


def mapped(source: Any, actor: type, model: ModelOrFile, workers: int | None, cpus: int, *given: Any) -> Any:
    """Rows as an actor with the model makes them, a table at a time."""
    sent = ray_module().put(_in_bytes(model))
    rows = source if is_dataset(source) else rows_at(source)
    return rows.map_batches(
        actor,
        batch_format="pyarrow",
        batch_size=ROWS,
        concurrency=for_dataset(workers or n_workers(cpus)),
        num_cpus=cpus,
        fn_constructor_args=([sent], cpus, *given),
    )


def _in_bytes(model: ModelOrFile) -> Array:
    if isinstance(model, XLDA):
        return np.frombuffer(model.view_to_save().to_bytes(), np.uint8)
    return np.frombuffer(Path(model).read_bytes(), np.uint8)


class Predicts:
    """An actor that puts labels and scores in the place of embeddings."""

    def __init__(self, sent: list[Any], cpus: int, k: int) -> None:
        self._clf, self._cpus, self._k = XLDA.from_bytes(ray_module().get(sent[0])), cpus, k

    def __call__(self, table: Any) -> Any:
        """The table with what was predicted."""
        labels, scores = self._best(table)
        rest = table.drop_columns(["embedding"])
        if self._k == 1:
            labels, scores = labels[:, 0], scores[:, 0]
        return rest.append_column("predicted", [labels.tolist()]).append_column("score", [scores.tolist()])

    def _best(self, table: Any) -> tuple[Array, Array]:
        with limited_to(self._cpus):
            return self._clf.predict_topk(arrays_of(table)[0], self._k)


class Compares(Predicts):
    """An actor that counts how often the right label was the best, or among the best."""

    def __call__(self, table: Any) -> Any:
        """For every label: how often it was asked for, and how often found."""
        best, true = self._best(table)[0], table.column("label").to_pylist()
        asked: Counter[Any] = Counter(true)
        first: Counter[Any] = Counter()
        among: Counter[Any] = Counter()
        for label, names in zip(true, best.tolist(), strict=True):
            first[label] += names[0] == label
            among[label] += label in names
        labels = list(asked)
        counts = [[count[label] for label in labels] for count in (asked, first, among)]
        return dict(
            zip(("label", "asked", "first", "among"), (np.array(labels), *map(np.array, counts)), strict=True)
        )


def compared(made: Any, k: int) -> dict[str, Any]:
    """What all tables say, added up."""
    totals = {name: Counter[Any]() for name in ("asked", "first", "among")}
    for batch in with_bars(made, False).iter_batches(batch_size=None):
        for name, total in totals.items():
            total.update(dict(zip(batch["label"].tolist(), batch[name].tolist(), strict=True)))
    asked, first = totals["asked"], totals["first"]
    n = asked.total()
    if not n:
        raise ValueError("evaluate got no samples.")
    return {
        "samples": n,
        "classes": len(asked),
        "accuracy": first.total() / n,
        f"top_{k}_accuracy": totals["among"].total() / n,
        "by_class": {label: first[label] / times for label, times in asked.items()},
    }
