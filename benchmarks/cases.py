"""Real embeddings to learn from and to be asked for; classes are numbered in the order in which they come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

N_QUERIES = 10_000  # at most
GROUPS = 10
BATCH = 512
STREAMS = ("one by one", "groups", "random")


@dataclass
class Case:
    """Samples to learn, and queries; `rows` are classes."""

    X: np.ndarray
    rows: np.ndarray
    queries: np.ndarray
    query_rows: np.ndarray
    n_classes: int

    def groups(self) -> list[np.ndarray]:
        """Classes that come together, first ones first."""
        return np.array_split(np.arange(self.n_classes), GROUPS)

    def of(self, classes: np.ndarray) -> np.ndarray:
        """Where the samples of some classes that follow one another are."""
        return np.flatnonzero((self.rows >= classes[0]) & (self.rows <= classes[-1]))


def photos(path: Path, seed: int, per_class: int | None = None) -> Case:
    """Photos taken in shops, in the split that comes with them; the seed says which class comes when."""
    with np.load(path) as file:
        X, y, asked, truth = (file[name] for name in ("train_X", "train_y", "val_X", "val_y"))
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.unique(y))
    place = np.zeros(order.max() + 1, np.int64)
    place[order] = np.arange(len(order))
    if per_class is not None:
        shuffled = rng.permutation(len(y))
        few = np.concatenate([shuffled[y[shuffled] == label][:per_class] for label in order])
        X, y = X[few], y[few]
    return Case(X.astype(np.float32), place[y], asked.astype(np.float32), place[truth], len(order))


def characters(path: Path, n_classes: int, seed: int, per_class: int | None = None) -> Case:
    """Some of the characters in a file of benchmarks/characters.py, and of their training samples."""
    X, y, train = _stored(path)
    samples = np.arange(len(y)).reshape(len(np.unique(y)), -1)
    if n_classes > len(samples):
        raise ValueError(f"{path} has {len(samples):,} classes; got n_classes={n_classes:,}.")
    rng = np.random.default_rng(seed)
    chosen = samples[rng.permutation(len(samples))[:n_classes]]
    learned = rng.permuted(chosen[:, :train], axis=1)[:, :per_class]
    asked = chosen[:, train:]
    rows = np.repeat(np.arange(n_classes), learned.shape[1])
    query_rows = np.repeat(np.arange(n_classes), asked.shape[1])
    some = np.sort(rng.permutation(asked.size)[:N_QUERIES])
    queries = X[asked.ravel()[some]].astype(np.float32)
    return Case(X[learned.ravel()].astype(np.float32), rows, queries, query_rows[some], n_classes)


def samples_a_class(path: Path) -> int:
    """Training samples of each class in a file of benchmarks/characters.py."""
    return _stored(path)[2]


@lru_cache(maxsize=1)
def _stored(path: Path) -> tuple[np.ndarray, np.ndarray, int]:
    with np.load(path) as file:
        return file["X"], file["y"], int(file["train"])


def arrivals(case: Case, stream: str, seed: int) -> Iterator[list[np.ndarray]]:
    """The samples (their positions) as they come, one list of batches for each tenth of the stream."""
    rng = np.random.default_rng(seed)
    if stream == "random":
        for part in np.array_split(rng.permutation(len(case.rows)), GROUPS):
            yield _batches(part)
        return
    for group in case.groups():
        members = case.of(group)
        if stream == "groups":
            yield _batches(rng.permutation(members))
        else:
            starts = np.flatnonzero(np.diff(case.rows[members])) + 1
            yield np.split(members, starts)


def _batches(positions: np.ndarray) -> list[np.ndarray]:
    return [positions[start : start + BATCH] for start in range(0, len(positions), BATCH)]
