"""Search by the graph or the inverted lists of FAISS; needs the extra `faiss`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.extras import needs
from xlda._internal.half_precision import times_weights
from xlda.search.coordinates import Coordinates, fisher_coordinates
from xlda.search.protocol import Classes, Index
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

    def index(self, classes: Classes, previous: Index | None = None) -> FaissIndex:
        """Train and fill an index of all class means."""
        faiss = _library()
        coordinates = None
        if self.over == "fisher":
            coordinates = fisher_coordinates(classes, self.n_coordinates)
        rows = np.flatnonzero(np.isfinite(classes.bias))
        top_prior = float(np.max((classes.bias + classes.half_norms)[rows], initial=0.0))
        points = _points(classes, coordinates, rows, top_prior)
        if self.kind == "hnsw":
            index = faiss.IndexHNSWFlat(points.shape[1], 32)
            index.hnsw.efSearch = self.effort
        else:
            n_lists = max(1, min(int(4 * len(rows) ** 0.5), len(rows) // 39))
            index = faiss.IndexIVFFlat(faiss.IndexFlatL2(points.shape[1]), points.shape[1], n_lists)
            index.nprobe = self.effort
            index.train(points)
        index.add(points)
        return FaissIndex(self, index, coordinates, rows, top_prior, classes.weights, classes.bias)


@dataclass(frozen=True, eq=False)
class FaissIndex:
    """A FAISS index, and which row each of its points stands for."""

    search: Faiss
    faiss_index: Any
    coordinates: Coordinates | None
    rows: Rows  # of each point; -1 for a point that was moved since
    top_prior: float
    weights: Array
    bias: Array

    @property
    def nbytes(self) -> int:
        """Memory of the points, and of the graph as FAISS would write it."""
        return int(_library().serialize_index(self.faiss_index).nbytes)

    def top(self, queries: Array, k: int, without: Rows) -> tuple[Rows, Array]:
        """See `Index`."""
        return top_of_shortlists(self.weights, self.bias, queries, self.shortlists(queries, k, without), k)

    def shortlists(self, queries: Array, k: int, without: Rows) -> Iterator[Rows]:
        """See `Index`."""
        n = min(max(self.search.n_candidates, k) + len(without), self.faiss_index.ntotal)
        if not n:
            yield from (np.empty(0, np.intp) for _ in queries)
            return
        for found in self.faiss_index.search(self._of_queries(queries), n)[1]:
            candidates = self.rows[found[found >= 0]]
            yield np.setdiff1d(candidates[candidates >= 0], without)

    def _of_queries(self, queries: Array) -> Array:
        if self.coordinates is None:
            return np.ascontiguousarray(queries, np.float32)
        points = queries @ self.coordinates.of_queries
        return np.ascontiguousarray(np.pad(points, ((0, 0), (0, 1))), np.float32)

    def scores(self, queries: Array, without: Rows) -> None:
        """See `Index`."""

    def updated(self, classes: Classes, rows: Rows) -> FaissIndex:
        """See `Index`. Points that moved stay where they were, without a row, and are added anew."""
        index = _library().clone_index(self.faiss_index)
        moved = rows[np.isfinite(classes.bias[rows])]
        if len(moved):
            index.add(_points(classes, self.coordinates, moved, self.top_prior))
        kept = np.where(np.isin(self.rows, rows), -1, self.rows)
        return FaissIndex(
            self.search,
            index,
            self.coordinates,
            np.concatenate([kept, moved]),
            self.top_prior,
            classes.weights,
            classes.bias,
        )

    def describe(self) -> dict[str, Any]:
        """See `Index`."""
        return {"search": f"faiss {self.search.kind} over {self.search.over}", **vars(self.search)}


def _points(classes: Classes, coordinates: Coordinates | None, rows: Rows, top_prior: float) -> Array:
    """What FAISS sees of the classes: float32, so that the best class is the nearest point.

    A prior adds to the score, so it takes away from the squared distance: one coordinate more, in which all
    queries are 0.
    """
    if coordinates is None:
        return np.ascontiguousarray(classes.means(rows), np.float32)
    log_priors = (classes.bias + classes.half_norms)[rows]
    extra = np.sqrt(2 * np.maximum(top_prior - log_priors, 0.0))
    points = times_weights(coordinates.of_weights.T, classes.weights[rows]).T
    return np.ascontiguousarray(np.column_stack([points, extra]), np.float32)


def _library() -> Any:
    try:
        import faiss
    except ImportError:
        raise needs("This search", "FAISS", "faiss") from None
    return faiss
