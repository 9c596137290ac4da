"""Classes in a few bytes each, from which tables for a query tell about how they score.

But for what all classes have in common, the score of a class is a constant less the squared distance of the
query from the mean of the class, each coordinate times the steepness of the class in it. The coordinates are
divided into sets. In each, a class has the number of the nearest of 16 points, and a query has a table of how
near these are to it: the sum of what the tables say is about the score. A class that is far off in one set
does not win, whatever the others say, so the tables need not tell how far: FAISS has a byte for each entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.extras import needs
from xlda.search.class_rows import Columns

SETS = {128: 32, 192: 64}  # of so many coordinates; fewer sets take less time and tell less
MOST_SETS = 128  # of any other number of coordinates
N_POINTS = 16  # that 4 bits can tell apart
N_DIGITS = 2  # of the constant, in as many tables more
LEVELS = N_POINTS**N_DIGITS - N_POINTS  # of it: the first digit is never 0, which is what FAISS does not find
FARTHEST = 30.0  # from the nearest point of a set that tables tell, in units of the score
TRAINED_ON = 2048  # classes that say where the points are
ROUNDS = 8  # in which they are found
ROWS_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class Codebook:
    """Where the points are, and by how much a digit changes the score."""

    steepness: Array  # (width,): on average over the classes
    reference: Array  # (width,): that of classes to whose scores squares add nothing
    points: Array  # (n_sets, N_POINTS, coordinates of a set)
    lowest: float  # constant of a class
    step: float  # from one level of constants to the next

    @classmethod
    def of(cls, seen: Columns, reference: Array, seed: int) -> Codebook:
        """That of classes of which `seen` has some coordinates; those that can win count."""
        rows, squares, steepness = np.flatnonzero(np.isfinite(seen.offsets)), seen.squares, reference
        if squares is not None and len(rows):
            n_classes = np.bincount(squares.groups[rows], minlength=len(squares.curvature))
            steepness = reference - np.average(squares.curvature, axis=0, weights=n_classes)
        nowhere = np.zeros(_shape(len(reference)), np.float32)
        book = cls(steepness.astype(np.float32), reference.astype(np.float32), nowhere, 0.0, 1.0)
        if not len(rows):
            return book
        constants = np.concatenate([some for _, some in book._placed(seen, rows)])
        lowest, highest = float(constants.min()), float(constants.max())
        drawn = np.random.default_rng(seed).permutation(rows)[:TRAINED_ON]
        points = _nearest_points(np.concatenate([some for some, _ in book._placed(seen, drawn)]))
        step = max((highest - lowest) / (LEVELS - 1), np.finfo(np.float32).tiny)
        return cls(book.steepness, book.reference, points, lowest, step)

    @property
    def n_bytes(self) -> int:
        """Of the codes of a class."""
        return (len(self.points) + N_DIGITS) // 2

    def codes(self, seen: Columns) -> Array:
        """Of classes, two to a byte, (n, `n_bytes`); those of one that cannot win are of no use."""
        n_sets, _, deep = self.points.shape
        quantizer = library().ProductQuantizer(deep * n_sets, n_sets, 4)
        library().copy_array_to_vector(self.points.ravel(), quantizer.centroids)
        blocks = [np.empty((0, self.n_bytes), np.uint8)]
        for places, constants in self._placed(seen, np.arange(len(seen))):
            levels = (np.maximum(constants, self.lowest) - self.lowest) / self.step
            levels = np.minimum(levels, LEVELS - 1).round().astype(np.uint8) + np.uint8(N_POINTS)
            blocks.append(np.column_stack([quantizer.compute_codes(places.reshape(len(places), -1)), levels]))
        return np.concatenate(blocks)

    def tensors(self) -> dict[str, Array]:
        """All of it, for a file."""
        levels = np.array([self.lowest, self.step])
        return {
            "steepness": self.steepness,
            "reference": self.reference,
            "points": self.points,
            "levels": levels,
        }

    def tables(self, queries: Array) -> Array:
        """What the numbers of a class add to its score for queries (n, width), (n, tables * N_POINTS)."""
        n_sets, _, deep = self.points.shape
        by_axis = np.zeros((len(queries), deep * n_sets), np.float32)
        by_axis[:, : queries.shape[1]] = queries * self._scale
        near: Array = (self._points_by_axis * by_axis.reshape(-1, deep, n_sets, 1)).sum(axis=1)
        near -= self._half_squares_of_points
        near -= near.max(axis=2, keepdims=True)
        tables = np.empty((len(queries), n_sets * N_POINTS + len(self._digits)), np.float32)
        np.maximum(near.reshape(len(queries), -1), -FARTHEST, out=tables[:, : n_sets * N_POINTS])
        tables[:, n_sets * N_POINTS :] = self._digits
        return tables

    @cached_property
    def _scale(self) -> Array:
        """Times this, half of a squared distance is what the score loses."""
        scale: Array = np.sqrt(2.0 * self.steepness)
        return scale

    @cached_property
    def _points_by_axis(self) -> Array:
        return np.ascontiguousarray(np.moveaxis(self.points, 2, 0))

    @cached_property
    def _half_squares_of_points(self) -> Array:
        return _half_squares(self.points)

    @cached_property
    def _digits(self) -> Array:
        steps = self.step * np.array([[1.0], [N_POINTS]])  # the last digit comes first
        digits = steps * np.arange(1.0 - N_POINTS, 1.0)
        digits[1, 0] = digits[1, 1] - 1.0
        return digits.astype(np.float32).ravel()

    def _placed(self, seen: Columns, rows: Rows) -> Iterator[tuple[Array, Array]]:
        """Means of classes in sets of coordinates, and their constants, block by block.

        All get the same steepness, so the constant of one that is less steep makes up for what that changes
        of the score of its own samples, on average.
        """
        steepness, by_group = self.reference, None
        if seen.squares is not None:
            by_group = self.reference - seen.squares.curvature.astype(np.float32)
            unlike = 0.5 * (1.0 - self.steepness / by_group).sum(axis=1)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = rows[start : start + ROWS_AT_ONCE]
            weights, constants = seen.whole[some].astype(np.float32), seen.offsets[some]
            if by_group is not None and seen.squares is not None:
                groups = seen.squares.groups[some]
                steepness, constants = by_group[groups], constants - unlike[groups]
            means = weights / (2.0 * steepness)
            constants = constants + 0.5 * np.einsum("ij,ij->i", means, weights)
            yield _in_sets(means * self._scale, len(self.points)), constants


@dataclass(frozen=True, eq=False)
class CodedClasses:
    """Codes of classes, made ready to be scanned."""

    codebook: Codebook
    codes: Array  # (n_rows, bytes)
    scan: Any  # of FAISS: the codes of classes that can win
    row_of: Rows  # of each of these

    @classmethod
    def of(cls, codebook: Codebook, codes: Array, live: Array) -> CodedClasses:
        """Those that are `live` (n_rows,) can win."""
        row_of = np.flatnonzero(live)
        return cls(codebook, codes, _scanner(codes[row_of]), row_of)

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Array], seen: Columns) -> CodedClasses:
        """As they were put into a file, with these coordinates."""
        shape = _shape(seen.width)
        shapes = {
            "steepness": (seen.width,),
            "reference": (seen.width,),
            "points": shape,
            "levels": (2,),
            "codes": (len(seen), (shape[0] + N_DIGITS) // 2),
        }
        for name, wanted in shapes.items():
            kind = {"levels": np.float64, "codes": np.uint8}.get(name, np.float32)
            if name not in tensors or tensors[name].shape != wanted or tensors[name].dtype != kind:
                raise ValueError(f"its codes have no {name} that fits")
        lowest, step = tensors["levels"].tolist()
        if not step > 0:
            raise ValueError("its codes have levels that cannot be")
        steepness, reference, points = (tensors[name] for name in ("steepness", "reference", "points"))
        codebook = Codebook(steepness, reference, points, lowest, step)
        return cls.of(codebook, tensors["codes"], np.isfinite(seen.offsets))

    @property
    def nbytes(self) -> int:
        """Memory."""
        return 2 * self.codes.nbytes + self.row_of.nbytes

    def best(self, points: Array, n: int) -> Rows:
        """About the best `n` classes for each point (m, any), best first, or all, in no order; -1 for none.

        Points may have more coordinates than codes tell of.
        """
        if n >= len(self.row_of):
            return np.tile(self.row_of, (len(points), 1))
        found = self.scan.search(self.codebook.tables(points[:, : len(self.codebook.steepness)]), n)[1]
        rows: Rows = self.row_of.take(found, mode="clip")
        if found.min() < 0:
            rows[found < 0] = -1
        return rows

    def with_rows(self, new: Columns, rows: Rows, live: Array) -> CodedClasses:
        """Some classes as they are now, of those that are `live` (n_rows,); the points stay as they are."""
        codes = np.zeros((len(live), self.codes.shape[1]), np.uint8)
        codes[: len(self.codes)] = self.codes
        codes[rows] = self.codebook.codes(new)
        return CodedClasses.of(self.codebook, codes, live)

    def tensors(self) -> dict[str, Array]:
        """All of it, for a file."""
        return {**self.codebook.tensors(), "codes": self.codes}


def _scanner(codes: Array) -> Any:
    """What FAISS scans: `search(tables, n)` gives the classes whose numbers add most, best first.

    The points that FAISS is told are the axes, so that a query is its own tables.
    """
    faiss, n_tables = library(), 2 * codes.shape[1]
    plain = faiss.IndexPQ(n_tables * N_POINTS, n_tables, 4, faiss.METRIC_INNER_PRODUCT)
    axes = np.tile(np.eye(N_POINTS, dtype=np.float32), (n_tables, 1, 1))
    faiss.copy_array_to_vector(axes.ravel(), plain.pq.centroids)
    faiss.copy_array_to_vector(np.ascontiguousarray(codes).ravel(), plain.codes)
    plain.is_trained, plain.ntotal = True, len(codes)
    return faiss.IndexPQFastScan(plain)


def library() -> Any:
    """FAISS."""
    try:
        import faiss
    except ImportError:
        raise needs("This search", "FAISS", "faiss") from None
    return faiss


def _shape(width: int) -> tuple[int, int, int]:
    """Of the points that codes of so many coordinates tell of."""
    n_sets = SETS.get(width, MOST_SETS)
    return n_sets, N_POINTS, -(-width // n_sets)


def _in_sets(points: Array, n_sets: int) -> Array:
    """Coordinates (n, width) as (n, n_sets, coordinates of a set): each set has large ones and small ones."""
    n, width = points.shape
    deep = -(-width // n_sets)
    if deep * n_sets > width:
        points = np.pad(points, ((0, 0), (0, deep * n_sets - width)))
    return np.ascontiguousarray(points.reshape(n, deep, n_sets).swapaxes(1, 2))


def _nearest_points(places: Array) -> Array:
    """Points such that each of the places (n, n_sets, coordinates) is near to one, in every set: k-means.

    By one thread: those that FAISS has for this wait for one another on a busy machine, for ten seconds.
    """
    n, n_sets, deep = places.shape
    by_set = np.ascontiguousarray(places.swapaxes(0, 1))
    spread = (np.arange(N_POINTS) + 0.5) * n // N_POINTS  # along the first axis, in which they differ most
    begin = by_set[:, :, 0].argsort(axis=1)[:, spread.astype(np.intp)]
    points = np.take_along_axis(by_set, begin[:, :, None], axis=1)
    first = N_POINTS * np.arange(n_sets)[:, None]
    for _ in range(ROUNDS):
        near = np.matmul(by_set, points.swapaxes(1, 2))
        near -= _half_squares(points)[:, None]
        cells = (first + near.argmax(axis=2)).ravel()
        sizes = np.bincount(cells, minlength=N_POINTS * n_sets).reshape(n_sets, N_POINTS)
        for axis in range(deep):
            sums = np.bincount(cells, by_set[:, :, axis].ravel(), N_POINTS * n_sets)
            means = sums.reshape(n_sets, N_POINTS) / np.maximum(sizes, 1)
            points[:, :, axis] = np.where(sizes > 0, means, points[:, :, axis])
    return points


def _half_squares(points: Array) -> Array:
    squares: Array = 0.5 * np.einsum("ijk,ijk->ij", points, points)
    return squares
