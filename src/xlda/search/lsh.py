"""Search as the paper has it: random hyperplanes over the class means, the nearest by Hamming distance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.search.class_rows import ClassRows
from xlda.search.protocol import AnyClasses, Changed, Index
from xlda.search.ranking import top_of_shortlists

ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class LSH:
    """Locality-sensitive hashing, as published, for comparison with it.

    Each class mean and each query gets one bit a random hyperplane: on which side of it it is. The `share` of
    all classes whose bits differ least are active and get their logits. With `inactive="zero"` all others
    have the logit 0 in `decision_function`, as published; the default is -inf. What is predicted is always
    active. With the Bayesian model the planes go through the middle of the classes, in the coordinates of its
    head.
    """

    n_bits: int = 256
    share: float = 0.1
    inactive: Literal["-inf", "zero"] = "-inf"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n_bits < 1 or self.n_bits % 64:
            raise ValueError(f"n_bits is a positive multiple of 64; got {self.n_bits!r}.")
        if not 0 < self.share <= 1:
            raise ValueError(f"share is above 0 and at most 1; got {self.share!r}.")
        if self.inactive not in ("-inf", "zero"):
            raise ValueError(f"inactive is '-inf' or 'zero'; got {self.inactive!r}.")

    def index(self, classes: AnyClasses, previous: Index | None = None) -> LSHIndex:
        """Hash every class mean: O(C d n_bits)."""
        d = len(classes.centre)
        planes = (
            np.random.default_rng(self.seed).standard_normal((d, self.n_bits)).astype(classes.centre.dtype)
        )
        codes = np.empty((len(classes.rows), self.n_bits // 64), np.uint64)
        for start in range(0, len(codes), ROWS_AT_ONCE):
            block = slice(start, start + ROWS_AT_ONCE)
            codes[block] = _codes(classes.means(block) + classes.centre, planes)
        return LSHIndex(self, planes, classes.centre, codes, classes.rows)


@dataclass(frozen=True, eq=False)
class LSHIndex:
    """The bits of every class mean."""

    search: LSH
    planes: Array
    centre: Array
    codes: Array
    rows: ClassRows

    @property
    def nbytes(self) -> int:
        """Memory of the bits and the hyperplanes."""
        return self.codes.nbytes + self.planes.nbytes

    def top(self, queries: Array, k: int, without: Rows) -> tuple[Rows, Array]:
        """See `Index`. At least `k` classes are active."""
        return top_of_shortlists(self.rows, queries, self.shortlists(queries, k, without), k)

    def shortlists(self, queries: Array, k: int, without: Rows) -> Iterator[Rows]:
        """See `Index`."""
        usable = self.rows.live
        usable[without] = False
        n_usable = int(usable.sum())
        n_active = min(max(k, math.ceil(self.search.share * n_usable)), n_usable)
        for code in _codes(queries[:, : len(self.centre)] + self.centre, self.planes):
            distance = _bit_count(self.codes ^ code).sum(axis=1, dtype=np.int32)
            distance[~usable] = self.search.n_bits + 1
            active = np.argpartition(distance, n_active - 1)[:n_active] if n_active else np.empty(0, np.intp)
            active.sort()
            yield active

    def scores(self, queries: Array, without: Rows) -> Array:
        """See `Index`."""
        fill = np.nan if self.search.inactive == "zero" else -np.inf
        scores = np.full((len(queries), len(self.rows)), fill, queries.dtype)
        scores[:, ~self.rows.live] = -np.inf
        for number, active in enumerate(self.shortlists(queries, 1, without)):
            scores[number, active] = self.rows.scores_of(queries[number], active)
        return scores

    def updated(self, changed: Changed) -> LSHIndex:
        """See `Index`."""
        codes = np.zeros((changed.n_rows, self.codes.shape[1]), np.uint64)
        codes[: len(self.codes)] = self.codes
        codes[changed.rows] = _codes(changed.means() + self.centre, self.planes)
        rows = self.rows.with_rows(changed.as_scored, changed.rows, changed.n_rows)
        return LSHIndex(self.search, self.planes, self.centre, codes, rows)

    def describe(self) -> dict[str, Any]:
        """See `Index`."""
        return {"search": "lsh", "n_bits": self.search.n_bits, "share": self.search.share}


def _codes(points: Array, planes: Array) -> Array:
    bits = np.packbits(points @ planes > 0, axis=1)
    return np.ascontiguousarray(bits).view(np.uint64)


_BITS = np.array([bin(byte).count("1") for byte in range(256)], np.uint8)


def _bit_count(codes: Array) -> Array:
    if hasattr(np, "bitwise_count"):  # NumPy 2
        counts: Array = np.bitwise_count(codes)
        return counts
    return _BITS[codes.view(np.uint8)]
