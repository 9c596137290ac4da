"""What goes wrong in a worker, told as it would be without Ray: its type, and a sentence of its own."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from xlda._internal.arrays import Array
from xlda.extras._ray_cluster import ray_module
from xlda.sources import SourceError
from xlda.sources.source import Batch, Position

EXPECTED = (ValueError, OSError, ImportError, MemoryError, RuntimeError)  # and so all of `xlda.errors`
A_BLOCK = "a block of the dataset"  # in the place of a file: nobody knows which rows of a dataset it has


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise what a worker raised, and not what Ray makes of it; what nobody expects keeps its traceback."""
    told = None
    try:
        yield
    except ray_module().exceptions.RayTaskError as error:
        told = error
        while isinstance(told, ray_module().exceptions.RayTaskError):
            told = told.cause
        if not isinstance(told, EXPECTED):
            raise
    if told is not None:
        raise told


def packed(found: Any) -> bytes:
    """What was found, or an error, as a value in a row: an error raised in Ray Data fills the terminal."""
    try:
        again = pickle.dumps(found)
        pickle.loads(again)
    except Exception:  # of an error that takes more to make than it holds
        return pickle.dumps(ValueError(str(found)))
    return again


def unpacked(found: bytes) -> Any:
    """What was `packed`."""
    return pickle.loads(found)


def readable(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Batches of a stretch of a source; what cannot be read is told without how a local run goes on."""
    try:
        yield from batches
    except SourceError as error:
        raise SourceError(error.position, error.problem, resumable=False) from None


def refused(batch: Batch, problem: object) -> SourceError:
    """The error for a batch that is refused: the first row that has no label, or NaN, where one has."""
    row = _first(without_label(batch.labels))
    if row is not None:
        problem = "it has no label. A photo has that of its folder, or of a list."
    else:
        row = _first(_not_finite(batch.embeddings))
        problem = problem if row is None else "it has NaN or infinity in its embedding."
    place = Position(batch.start.file, batch.start.row + (row or 0))
    return SourceError(place, problem, resumable=False)


def without_label(labels: Iterable[object]) -> Array:
    """Which labels are missing: None, or in a column of numbers NaN."""
    return np.array([label is None or label != label for label in labels], bool)


def _not_finite(embeddings: Array) -> Array:
    if embeddings.ndim != 2 or embeddings.dtype.kind != "f":
        return np.zeros(len(embeddings), bool)
    return np.asarray(~np.isfinite(embeddings).all(axis=1))


def _first(are_so: Array) -> int | None:
    return int(are_so.argmax()) if are_so.any() else None
