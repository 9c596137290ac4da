"""Search by the graph or the inverted lists of FAISS; needs the extra `faiss`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.extras import needs
from xlda._internal.half_precision import times_weights
from xlda.search.class_rows import ClassRows, Columns
from xlda.search.coordinates import Coordinates, fisher_coordinates, nearness
from xlda.search.protocol import AnyClasses, Changed, Classes, Index, OrderedClasses
from xlda.search.ranking import top_of_shortlists


@dataclass(frozen=True)
class Faiss:
    """FAISS's HNSW graph or inverted lists, then the exact score of the nearest `n_candidates`.

    `over` says what is near: "fisher" takes the first `n_coordinates` of the coordinates in which the best
    class is the nearest one, "means" the embeddings themselves. `effort` is efSearch of the graph or nprobe
    of the lists.
    """

    kind: Literal["hnsw", "ivf"] = "hnsw"
    over: Literal["fisher", "means"] = "fisher"
    n_coordinates: int = 256
    n_candidates: int = 100
    effort: int = 128

    def __post_init__(self) -> None:
        if self.kind not in ("hnsw", "ivf") or self.over not in ("fisher", "means"):
            raise ValueError(f"kind is 'hnsw' or 'ivf', over is 'fisher' or 'means'; got {self!r}.")
        for name in ("n_coordinates", "n_candidates", "effort"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is at least 1; got {getattr(self, name)!r}.")

    def index(self, classes: AnyClasses, previous: Index | None = None) -> FaissIndex:
        """Train and fill an index of all class means."""
        faiss = _library()
        coordinates = None
        if self.over == "fisher" and isinstance(classes, Classes):
            coordinates = fisher_coordinates(classes, self.n_coordinates)
        rows = np.flatnonzero(classes.live)
        if self.over == "means":
            reach, points = 0.0, np.ascontiguousarray(classes.means(rows), np.float32)
        else:
            seen = self._seen(classes, coordinates)
            reach = float(np.max(_reach(seen)[rows], initial=0.0))
            points = _points(seen, rows, reach)
        if self.kind == "hnsw":
            index = faiss.IndexHNSWFlat(points.shape[1], 32)
            index.hnsw.efSearch = self.effort
        else:
            n_lists = max(1, min(int(4 * len(rows) ** 0.5), len(rows) // 39))
            index = faiss.IndexIVFFlat(faiss.IndexFlatL2(points.shape[1]), points.shape[1], n_lists)
            index.nprobe = self.effort
            index.train(points)
        index.add(points)
        return FaissIndex(self, index, coordinates, rows, reach, classes.rows)

    def _seen(self, classes: AnyClasses, coordinates: Coordinates | None) -> Columns:
        """What FAISS is told of the classes."""
        if isinstance(classes, OrderedClasses):
            return classes.parts([0, min(self.n_coordinates, classes.width)])[0]
        assert coordinates is not None
        return _near(classes.rows, classes.half_norms, coordinates)


@dataclass(frozen=True, eq=False)
class FaissIndex:
    """A FAISS index, and which row each of its points stands for."""

    search: Faiss
    faiss_index: Any
    coordinates: Coordinates | None  # None where those of the queries are used
    row_of: Rows  # of each point; -1 for a point that was moved since
    reach: float
    rows: ClassRows

    @property
    def nbytes(self) -> int:
        """Memory of the points, and of the graph as FAISS would write it."""
        return int(_library().serialize_index(self.faiss_index).nbytes)

    def top(self, queries: Array, k: int, without: Rows) -> tuple[Rows, Array]:
        """See `Index`."""
        return top_of_shortlists(self.rows, queries, self.shortlists(queries, k, without), k)

    def shortlists(self, queries: Array, k: int, without: Rows) -> Iterator[Rows]:
        """See `Index`."""
        n = min(max(self.search.n_candidates, k) + len(without), self.faiss_index.ntotal)
        if not n:
            yield from (np.empty(0, np.intp) for _ in queries)
            return
        for found in self.faiss_index.search(self._of_queries(queries), n)[1]:
            candidates = self.row_of[found[found >= 0]]
            yield np.setdiff1d(candidates[candidates >= 0], without)

    def _of_queries(self, queries: Array) -> Array:
        if self.search.over == "means":
            return np.ascontiguousarray(queries[:, : self.faiss_index.d], np.float32)
        if self.coordinates is not None:
            points = queries @ self.coordinates.of_queries
        else:
            points = queries[:, : self.faiss_index.d - 1]
        return np.ascontiguousarray(np.pad(points, ((0, 0), (0, 1))), np.float32)

    def scores(self, queries: Array, without: Rows) -> None:
        """See `Index`."""

    def updated(self, changed: Changed) -> FaissIndex:
        """See `Index`. Points that moved stay where they were, without a row, and are added anew."""
        index = _library().clone_index(self.faiss_index)
        live = np.flatnonzero(changed.as_scored.live)
        if len(live):
            index.add(self._points_of(changed, live))
        kept = np.where(np.isin(self.row_of, changed.rows), -1, self.row_of)
        return FaissIndex(
            self.search,
            index,
            self.coordinates,
            np.concatenate([kept, changed.rows[live]]),
            self.reach,
            self.rows.with_rows(changed.as_scored, changed.rows, changed.n_rows),
        )

    def _points_of(self, changed: Changed, live: Rows) -> Array:
        if self.search.over == "means":
            return np.ascontiguousarray(changed.means()[live], np.float32)
        if self.coordinates is not None:
            seen = _near(changed.as_scored, changed.half_norms, self.coordinates)
        else:
            seen = changed.part(0, self.faiss_index.d - 1)
        return _points(seen, live, self.reach)

    def describe(self) -> dict[str, Any]:
        """See `Index`."""
        return {"search": f"faiss {self.search.kind} over {self.search.over}", **vars(self.search)}


def _near(rows: ClassRows, half_norms: Array, coordinates: Coordinates) -> Columns:
    points = times_weights(coordinates.of_weights.T, rows.weights).T
    return nearness(points, rows.bias + half_norms, [0, points.shape[1]])[0]


def _reach(seen: Columns) -> Array:
    """Of each class, its squared length and twice what is added to its score whatever the query.

    What the squares of a query add is not known before there is one: it is taken as it is on average.
    """
    offsets = seen.offsets
    if seen.squares is not None:
        offsets = offsets + (seen.squares.curvature @ seen.squares.typical)[seen.squares.groups]
    reach: Array = 2 * offsets + np.einsum("ij,ij->i", seen.whole, seen.whole, dtype=offsets.dtype)
    return reach


def _points(seen: Columns, rows: Rows, reach: float) -> Array:
    """What FAISS sees of the classes: float32, so that the best class is the nearest point.

    What is added to the score is taken away from the squared distance: one coordinate more, in which all
    queries are 0.
    """
    extra = np.sqrt(np.maximum(reach - _reach(seen)[rows], 0.0))
    return np.ascontiguousarray(np.column_stack([seen.whole[rows], extra]), np.float32)


def _library() -> Any:
    try:
        import faiss
    except ImportError:
        raise needs("This search", "FAISS", "faiss") from None
    return faiss
