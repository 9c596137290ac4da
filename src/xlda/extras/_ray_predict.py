"""Predicting and evaluating on many machines: every worker has the model, and samples of its own."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xlda._internal.arrays import Array
from xlda.classifier import XLDA, load
from xlda.extras._ray_cluster import for_dataset, is_dataset, limited_to, n_workers, ray_module, with_bars
from xlda.extras._ray_fit import absolute, batch_of, embeddings_of, shared_out
from xlda.extras._ray_problems import packed, plain_errors, readable, refused, unpacked, without_label
from xlda.extras._ray_tables import check_columns, files_at, rows_of
from xlda.identity import BackboneIdentity
from xlda.photos.parquet import common_backbone
from xlda.sources import Source, open_source
from xlda.sources.source import Batch

ROWS = 4096  # predicted at once
ModelOrFile = XLDA | str | os.PathLike[str]


class SentModel(NamedTuple):
    """A model as workers get it, and what must be known of it beforehand."""

    name: str
    sent: Any  # a reference to its bytes
    backbone: BackboneIdentity | None
    n_features: int

    @classmethod
    def of(cls, model: ModelOrFile) -> SentModel:
        """The model, put where all workers have it."""
        clf = model if isinstance(model, XLDA) else load(model)
        name = "The model" if isinstance(model, XLDA) else Path(model).name
        data = clf.view_to_save().to_bytes()
        return cls(
            name, ray_module().put(np.frombuffer(data, np.uint8)), clf.backbone_, int(clf.n_features_in_)
        )

    def check(self, found: BackboneIdentity | None) -> None:
        """Refuse embeddings of another backbone, where both are known, as a command without Ray does."""
        if self.backbone is not None:
            self.backbone.check_same(found, self.name)


def predicted(source: Any, model: ModelOrFile, k: int, workers: int | None, cpus: int) -> Any:
    """What `xlda.extras.ray.predict` says."""
    workers = workers or n_workers(cpus)
    if is_dataset(source):
        sent, rows = SentModel.of(model), source
    else:
        files = files_at(source)
        sent = SentModel.of(model)
        sent.check(common_backbone(files))
        check_columns(files, sent.n_features)
        rows = rows_of(files)
    return rows.map_batches(Predicts, **_pool(sent, workers, cpus, k))


def evaluated(source: Any, model: ModelOrFile, k: int, workers: int | None, cpus: int) -> dict[str, Any]:
    """What `xlda.extras.ray.evaluate` says."""
    workers = workers or n_workers(cpus)
    if is_dataset(source):
        pool = _pool(SentModel.of(model), workers, cpus, k)
        made = with_bars(source.map_batches(Compares, **pool), False)
        return _summed((unpacked(row["found"]) for row in made.iter_rows()), k)
    files = open_source(absolute(files_at(source)))
    sent = SentModel.of(model)
    with plain_errors():
        return _summed(_compared(files, sent, k, workers, cpus), k)


def _pool(model: SentModel, workers: int, cpus: int, k: int) -> dict[str, Any]:
    return {
        "batch_format": "pyarrow",
        "batch_size": ROWS,
        "concurrency": for_dataset(workers),
        "num_cpus": cpus,
        "fn_constructor_args": ([model.sent], cpus, k),
    }


# -- counting


class Counts(NamedTuple):
    """For every label: how often it was asked for, and how often it was the best, or among the best."""

    asked: Counter[Any]
    first: Counter[Any]
    among: Counter[Any]

    @classmethod
    def none(cls) -> Counts:
        """Of no samples."""
        return cls(Counter(), Counter(), Counter())

    def add(self, other: Counts) -> None:
        """Count those of others too."""
        for own, theirs in zip(self, other, strict=True):
            own.update(theirs)


def _compared(source: Source, model: SentModel, k: int, workers: int, cpus: int) -> Iterator[Counts]:
    """Counts of stretches of a source, as workers are done with them."""
    ray = ray_module()
    stretches, backbone = ray.get(_task(shared_out, cpus).remote(source, workers))
    model.check(backbone)
    compare = _task(compared_source, cpus)
    left = [compare.remote(stretch, model.sent, k, cpus) for stretch in stretches]
    while left:
        done, left = ray.wait(left)
        yield from ray.get(done)


def _task(function: Any, cpus: int) -> Any:
    return ray_module().remote(function).options(num_cpus=cpus)


def compared_source(source: Source, model: Array, k: int, cpus: int) -> Counts:
    """How often a model is right about the samples of a source."""
    clf, counts = XLDA.from_bytes(model), Counts.none()
    for batch in readable(source.batches(ROWS)):
        counts.add(_counts(clf, batch, k, cpus))
    return counts


def _counts(clf: XLDA, batch: Batch, k: int, cpus: int) -> Counts:
    if without_label(batch.labels).any():
        raise refused(batch, None)
    try:
        best = _best(clf, batch.embeddings, k, cpus)[0]
    except ValueError as error:
        raise refused(batch, error) from None
    true, counts = np.asarray(batch.labels).tolist(), Counts.none()
    for label, names in zip(true, best.tolist(), strict=True):
        counts.asked[label] += 1
        counts.first[label] += names[0] == label
        counts.among[label] += label in names
    return counts


def _best(clf: XLDA, embeddings: Array, k: int, cpus: int) -> tuple[Array, Array]:
    with limited_to(cpus):
        return clf.predict_topk(embeddings, k)


def _summed(found: Iterable[Counts | BaseException], k: int) -> dict[str, Any]:
    """What all say, added up; the first that went wrong is an error."""
    counts = Counts.none()
    for one in found:
        if isinstance(one, BaseException):
            raise one
        counts.add(one)
    n = counts.asked.total()
    if not n:
        raise ValueError("evaluate got no samples.")
    return {
        "samples": n,
        "classes": len(counts.asked),
        "accuracy": counts.first.total() / n,
        f"top_{k}_accuracy": counts.among.total() / n,
        "by_class": {label: counts.first[label] / times for label, times in counts.asked.items()},
    }


# -- what actors do with the rows of a dataset


class Predicts:
    """An actor that puts labels and scores in the place of embeddings."""

    def __init__(self, sent: list[Any], cpus: int, k: int) -> None:
        self._clf, self._cpus, self._k = XLDA.from_bytes(ray_module().get(sent[0])), cpus, k

    def __call__(self, table: Any) -> Any:
        """The table with what was predicted."""
        labels, scores = _best(self._clf, embeddings_of(table), self._k, self._cpus)
        rest = table.drop_columns(["embedding"])
        if self._k == 1:
            labels, scores = labels[:, 0], scores[:, 0]
        return rest.append_column("predicted", [labels.tolist()]).append_column("score", [scores.tolist()])


class Compares(Predicts):
    """An actor that counts how often the right label was the best, or among the best."""

    def __call__(self, table: Any) -> dict[str, list[bytes]]:
        """The `Counts` of a table, or what is wrong with it."""
        try:
            return {"found": [packed(_counts(self._clf, batch_of(table), self._k, self._cpus))]}
        except ValueError as error:  # told once, by whoever asked for all this
            return {"found": [packed(error)]}
