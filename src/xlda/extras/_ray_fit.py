"""Learning on many machines: partial moments a worker, merged in a tree; samples are never shuffled.

All that goes from one worker to another is what `XLDA.to_bytes` gives. A worker that is lost costs its own
part, which Ray has another one do again: tasks depend on nothing but what they are given.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.progress import Progress
from xlda.classifier import XLDA
from xlda.extras._ray_cluster import is_dataset, limited_to, n_workers, ray_module, with_bars
from xlda.extras._ray_problems import A_BLOCK, plain_errors, readable, refused
from xlda.identity import BackboneIdentity
from xlda.inputs import chosen_power, plain_array
from xlda.parameters import check_parameters, learning_parameters
from xlda.photos.parquet import common_backbone
from xlda.sources import Source, open_source
from xlda.sources.formats import column_of_embeddings
from xlda.sources.source import Batch, Position

ARITY = 4  # models that are merged at once: as many as a worker has in memory, one after the other
BLOCK_BYTES = 2**29  # of a dataset, learned between two times that a model comes and goes
FIRST = 4096  # samples that the power is chosen by
COLUMNS = ("embedding", "label")  # of a dataset
Params = dict[str, Any]


def fitted(
    source: Any,
    backbone: BackboneIdentity | None,
    workers: int | None,
    cpus: int,
    batch_size: int,
    progress: bool,
    params: Params,
) -> XLDA:
    """What `xlda.extras.ray.fit` says."""
    backbone = BackboneIdentity.from_json(backbone)
    clf = XLDA(**params)
    check_parameters(clf)
    if clf.rule != "exact":
        raise ValueError(
            "rule='slda' depends on the order, so it cannot be learned in parts. Use rule='exact'."
        )
    work = _Work(params, workers or n_workers(cpus), cpus, batch_size, progress)
    with plain_errors():
        if is_dataset(source):
            parts = work.of_dataset(source)
        else:
            parts, backbone = work.of_source(open_source(absolute(source)), backbone)
        if not parts:
            raise ValueError("fit got nothing to learn: there are no samples.")
        whole = ray_module().get(work.merged(parts, backbone))
    return XLDA.from_bytes(whole)


def absolute(source: Any) -> Any:
    """The same place for a worker, whose folder is another one."""
    if isinstance(source, list | tuple):
        return type(source)(absolute(one) for one in source)
    return os.path.abspath(source) if isinstance(source, str | os.PathLike) else source  # noqa: PTH100


class _Work:
    """What is done by whom; models are references to bytes in the memory of the cluster."""

    def __init__(self, params: Params, workers: int, cpus: int, batch_size: int, progress: bool) -> None:
        self._ray = ray_module()
        self._params, self._workers, self._cpus = params, workers, cpus
        self._batch_size, self._progress = batch_size, progress

    def of_source(
        self, source: Source, said: BackboneIdentity | None
    ) -> tuple[list[Any], BackboneIdentity | None]:
        """Models of all samples of a source, one a worker; and what made these, if files say, or `said`."""
        stretches, backbone = self._run(shared_out, source, self._workers)
        if said is not None:
            said.check_same(backbone, "The model")
            backbone = said
        if not stretches:
            return [], backbone
        power, width = self._run(_start_of_source, stretches[0], self._params)
        params = _of_a_part(self._params, power)
        learn = self._task(learned_source)
        parts = [learn.remote(stretch, params, width, self._batch_size, self._cpus) for stretch in stretches]
        with Progress(source.n_samples, self._progress) as bar:
            n_samples = {part: stretch.n_samples() for part, stretch in zip(parts, stretches, strict=True)}
            for part in self._as_they_end(parts):
                bar.advance(n_samples[part])
        return parts, backbone

    def of_dataset(self, dataset: Any) -> list[Any]:
        """Models of all rows of a dataset, one a worker, which has learned some blocks after the other."""
        params, width, chains, turn = self._params, 0, [None] * self._workers, 0
        learn = self._task(learned_blocks)
        for blocks in _groups(dataset, self._progress):
            if not width:
                power, width = self._run(_start_of_block, blocks[0], params)
                params = _of_a_part(params, power)
            last = chains[turn]
            if last is not None:
                self._ray.wait([last], fetch_local=False)  # no more blocks than are being learned
            chains[turn] = learn.remote(params, width, self._batch_size, self._cpus, last, *blocks)
            turn = (turn + 1) % self._workers
        return [part for part in chains if part is not None]

    def merged(self, parts: list[Any], backbone: BackboneIdentity | None) -> Any:
        """One model of all of them, as it was asked for, from a tree of small arity."""
        merge = self._task(merged_models)
        while len(parts) > ARITY:
            parts = [merge.remote(self._cpus, *parts[at : at + ARITY]) for at in range(0, len(parts), ARITY)]
        return self._task(finished_model).remote(self._params, backbone, self._cpus, *parts)

    def _task(self, function: Any) -> Any:
        return self._ray.remote(function).options(num_cpus=self._cpus)

    def _run(self, function: Any, *given: Any) -> Any:
        return self._ray.get(self._task(function).remote(*given))

    def _as_they_end(self, parts: list[Any]) -> Iterator[Any]:
        left = list(parts)
        while left:
            done, left = self._ray.wait(left, fetch_local=False)
            yield from done


def _of_a_part(params: Params, power: float | None) -> Params:
    """Parameters of a partial model: what is kept for ever is only known at the end."""
    return {**params, "power": power, "covariance": "plastic"}


def _groups(dataset: Any, progress: bool) -> Iterator[list[Any]]:
    """Blocks of a dataset as they are made, so many together that bringing in a model is worth it."""
    tables = with_bars(dataset.map_batches(_needed, batch_format="pyarrow", batch_size=None), progress)
    blocks: list[Any] = []
    n_bytes = 0
    for bundle in tables.iter_internal_ref_bundles():
        for block in bundle.blocks:
            if block.metadata.num_rows:
                blocks.append(block.ref)
                n_bytes += block.metadata.size_bytes or 0
        if n_bytes >= BLOCK_BYTES:
            yield blocks
            blocks, n_bytes = [], 0
    if blocks:
        yield blocks


def _needed(table: Any) -> Any:
    """The columns that are learned; where one is missing, whoever learns them says so."""
    missing = [name for name in COLUMNS if name not in table.column_names]
    return table if missing else table.select(list(COLUMNS))


# -- what workers do


def shared_out(source: Source, n: int) -> tuple[list[Source], BackboneIdentity | None]:
    """Stretches of a source, and its backbone: a worker reads what the files say of themselves."""
    return source.split(n), common_backbone([file for file in source.files if file])


def learned_source(source: Source, params: Params, width: int, batch_size: int, cpus: int) -> Array:
    """A model of all samples of a source, as bytes."""
    return _in_bytes(_learned(XLDA(**params), source.batches(batch_size), width, cpus))


def learned_blocks(
    params: Params, width: int, batch_size: int, cpus: int, model: Array | None, *blocks: Any
) -> Array:
    """The model, or a new one, that has learned these blocks of a dataset as well."""
    clf = XLDA(**params) if model is None else XLDA.from_bytes(model)
    return _in_bytes(_learned(clf, _batches(blocks, batch_size), width, cpus))


def merged_models(cpus: int, *models: Array) -> Array:
    """One model that has learned all that these have, which are taken in one after the other."""
    return _in_bytes(_merged(cpus, models))


def finished_model(params: Params, backbone: BackboneIdentity | None, cpus: int, *models: Array) -> Array:
    """The same with the parameters that were asked for."""
    part, clf = _merged(cpus, models), XLDA(**params)
    clf._become(part)
    clf._model.started_with = learning_parameters(clf)
    clf.backbone_ = backbone
    return _in_bytes(clf._end_of_base())


def _merged(cpus: int, models: Iterable[Array]) -> XLDA:
    clf = None
    with limited_to(cpus):
        for model in models:
            part = XLDA.from_bytes(model)
            clf = part if clf is None else clf.merge(part)
    assert clf is not None  # there is at least one
    return clf


def _learned(clf: XLDA, batches: Iterable[Batch], width: int, cpus: int) -> XLDA:
    expected = XLDA()  # which no model of this worker has to have learned from
    expected.n_features_in_ = width
    with limited_to(cpus):
        for batch in readable(batches):
            try:
                plain_array(expected, batch.embeddings)
                clf._learn_batch(batch)
            except ValueError as error:
                raise refused(batch, getattr(error, "problem", error)) from None
    return clf


def _batches(blocks: Iterable[Any], size: int) -> Iterator[Batch]:
    for block in blocks:
        for start in range(0, block.num_rows, size):
            yield batch_of(block.slice(start, size), start)


def batch_of(table: Any, start: int = 0) -> Batch:
    """Embeddings (n, d) and labels (n,) of an Arrow table, which is the part from `start` on of a block."""
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise ValueError(f"The dataset has no column {missing[0]!r}; it has {table.column_names}.")
    labels = table.column("label").combine_chunks().to_numpy(zero_copy_only=False)
    end = Position(A_BLOCK, start + table.num_rows)
    return Batch(embeddings_of(table), labels, Position(A_BLOCK, start), end)


def embeddings_of(table: Any) -> Array:
    """Embeddings (n, d) of an Arrow table."""
    column = table.column("embedding").combine_chunks()
    if hasattr(column, "value_lengths"):
        return column_of_embeddings(column, "embedding")
    return np.stack(column.to_numpy(zero_copy_only=False))  # a tensor of Ray's


def _start_of_source(source: Source, params: Params) -> tuple[float | None, int]:
    return _start(next(readable(source.batches(FIRST))), params)


def _start_of_block(block: Any, params: Params) -> tuple[float | None, int]:
    return _start(batch_of(block.slice(0, FIRST)), params)


def _start(first: Batch, params: Params) -> tuple[float | None, int]:
    """The power that all workers take, and the width that all embeddings have: those of the first."""
    try:
        X = plain_array(XLDA(**params), first.embeddings)
    except ValueError as error:
        raise refused(first, error) from None
    return chosen_power(params.get("power", "auto"), X), X.shape[1]


def _in_bytes(clf: XLDA) -> Array:
    """All that was learned, as an array, which Ray passes on without a copy."""
    return np.frombuffer(clf.to_bytes(), np.uint8)
