"""Search by a short prefix of Fisher's coordinates for all classes, and the exact score for the few left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.half_precision import times_weights
from xlda._internal.threads import in_parallel_with_blas, parts_for
from xlda.search.coordinates import Coordinates, fisher_coordinates
from xlda.search.dense import DenseIndex
from xlda.search.protocol import Classes, Index
from xlda.search.ranking import best_places, top_of_shortlists
from xlda.search.tuning import GATHERED, ROW, Plan, tuned

MOST_COORDINATES = 384  # that a plan may use
SCORES_AT_ONCE = 2**22  # entries of the largest block of scores
MANY_QUERIES = 8  # from which on a matrix product of all coordinates pays
GROWN = 1.5  # times as many classes: the plan is made anew
PRODUCT = 0.026  # nanoseconds for a multiplication in a matrix product
SAVED_AS = "fisher"  # the plan, in a file
SEARCHED = 200_000.0  # to search for one of many queries, beside the products


@dataclass(frozen=True, eq=False)
class Fisher:
    """Nearest class in the coordinates of `xlda.search.coordinates`, by stages.

    The first stage looks at a prefix of the coordinates for all classes and keeps the best; the next looks at
    more coordinates of those kept; the last computes exact scores. How many coordinates and candidates is
    picked so that the winner is that of exact LDA for at least the share `target` of queries: of `queries`
    (n, d) where given (after `power`), else of queries drawn from the model. `XLDA.audit` says what was
    picked. `plan` is what was picked before, for the same target and about as many classes.
    """

    target: float = 0.999
    queries: Array | None = None
    seed: int = 0
    plan: Plan | None = None

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            raise ValueError(f"target is a share between 0 and 1; got {self.target!r}.")

    def index(self, classes: Classes, previous: Index | None = None) -> FisherIndex:
        """Compute coordinates, O(d^3 + C d p); make a plan, where the last is not for so many classes."""
        plan = self._last_plan(previous)
        grown = 0.0 if plan is None else int(np.isfinite(classes.bias).sum()) / max(plan.n_classes, 1)
        if plan is not None and not (1 / GROWN < grown < GROWN and plan.prefixes[-1] <= len(classes.centre)):
            plan = None
        n_coordinates = min(MOST_COORDINATES, len(classes.centre)) if plan is None else plan.prefixes[-1]
        coordinates = fisher_coordinates(classes, n_coordinates, self.seed)
        points = times_weights(coordinates.of_weights.T, classes.weights).T
        if plan is None:
            plan = tuned(classes, coordinates, points, self.target, self.queries, self.seed)
            coordinates = coordinates.first(plan.prefixes[-1])
        stages = tuple(Stage.of(classes, points, *edges) for edges in plan.stages)
        return FisherIndex(self, plan, coordinates, stages, classes.weights, classes.bias)

    def restored(self, saved: dict[str, Any]) -> Fisher:
        """See `Restoring`. A plan of one's own, and queries to make one for, come first."""
        if self.queries is not None or self.plan is not None:
            return self
        return replace(self, plan=Plan.from_json(saved.get(SAVED_AS)))

    def _last_plan(self, previous: Index | None) -> Plan | None:
        """That of the last index, if it was picked in the same way, or the one given."""
        if isinstance(previous, FisherIndex):
            last = previous.search
            if (last.target, last.seed) == (self.target, self.seed) and last.queries is self.queries:
                return previous.plan
        return self.plan if self.plan is not None and self.plan.target == self.target else None


@dataclass(frozen=True, eq=False)
class Stage:
    """Some of the coordinates of every class, and what they add to its score beside the product."""

    start: int
    stop: int
    points: Array  # (n_rows, stop - start)
    offsets: Array  # (n_rows,)

    @classmethod
    def of(cls, classes: Classes, points: Array, start: int, stop: int) -> Stage:
        """Columns `start` to `stop` of `points`; the first stage adds the priors."""
        some = np.ascontiguousarray(points[:, start:stop])
        offsets = -0.5 * np.einsum("ij,ij->i", some, some)
        if start == 0:
            offsets += classes.bias + classes.half_norms
        return cls(start, stop, some, offsets)

    def with_rows(self, other: Stage, rows: Rows, n_rows: int) -> Stage:
        """`n_rows` rows: those of this stage, but `rows` from the other one."""
        points = np.zeros((n_rows, self.stop - self.start), self.points.dtype)
        offsets = np.full(n_rows, -np.inf, self.offsets.dtype)
        points[: len(self.points)], offsets[: len(self.offsets)] = self.points, self.offsets
        points[rows], offsets[rows] = other.points, other.offsets
        return Stage(self.start, self.stop, points, offsets)


@dataclass(frozen=True, eq=False)
class FisherIndex:
    """Coordinates of all classes, stage by stage."""

    search: Fisher
    plan: Plan
    coordinates: Coordinates
    stages: tuple[Stage, ...]
    weights: Array
    bias: Array

    @property
    def nbytes(self) -> int:
        """Memory of the coordinates."""
        stages = sum(stage.points.nbytes + stage.offsets.nbytes for stage in self.stages)
        return stages + self.coordinates.of_queries.nbytes + self.coordinates.of_weights.nbytes

    def top(self, queries: Array, k: int, without: Rows) -> tuple[Rows, Array]:
        """See `Index`."""
        if len(queries) >= MANY_QUERIES and self._sooner_without(k):
            return DenseIndex(self.weights, self.bias).top(queries, k, without)
        rows = np.empty((len(queries), k), np.intp)
        scores = np.empty((len(queries), k), queries.dtype)
        step = max(1, SCORES_AT_ONCE // max(len(self.weights), 1))

        def search(start: int, stop: int, _part: int) -> None:
            for begin in range(start, stop, step):
                block = slice(begin, min(begin + step, stop))
                found = self.shortlists(queries[block], k, without)
                rows[block], scores[block] = top_of_shortlists(
                    self.weights, self.bias, queries[block], found, k
                )

        parts = parts_for(self.weights.size) if len(queries) > 1 else 1
        in_parallel_with_blas(search, len(queries), min(parts, max(len(queries), 1)), wait=False)
        return rows, scores

    def _sooner_without(self, k: int) -> bool:
        """Whether a product of many queries and all weights takes less time than a search for them."""
        n_rows, d = self.weights.shape
        rescored = self.plan.n_kept(len(self.stages) - 1, k) * (ROW + GATHERED * d)
        saved = PRODUCT * n_rows * (d - self.plan.prefixes[-1])
        return bool(saved < SEARCHED + rescored)

    def shortlists(self, queries: Array, k: int, without: Rows) -> Iterator[Rows]:
        """See `Index`."""
        find = self._of_many if len(queries) >= MANY_QUERIES else self._of_few
        return find(queries @ self.coordinates.of_queries, k, without)

    def _of_few(self, points: Array, k: int, without: Rows) -> Iterator[Rows]:
        """Candidates of each query, in order, stage by stage."""
        for point in points:
            scores = self.stages[0].points @ point[: self.stages[0].stop]
            scores += self.stages[0].offsets
            scores[without] = -np.inf
            rows = best_places(scores, self.plan.n_kept(0, k))
            scores = scores[rows]
            for number, stage in enumerate(self.stages[1:], 1):
                scores += stage.points.take(rows, axis=0) @ point[stage.start : stage.stop]
                scores += stage.offsets[rows]
                places = best_places(scores, self.plan.n_kept(number, k))
                rows, scores = rows[places], scores[places]
            yield rows

    def _of_many(self, points: Array, k: int, without: Rows) -> Iterator[Rows]:
        """Candidates of each query, in order, by all coordinates: as matrix products they cost little."""
        scores = np.zeros((len(points), len(self.weights)), points.dtype)
        for stage in self.stages:
            scores += points[:, stage.start : stage.stop] @ stage.points.T
            scores += stage.offsets
        scores[:, without] = -np.inf
        n_kept = self.plan.n_kept(len(self.stages) - 1, k)
        for row in scores:
            yield best_places(row, n_kept)

    def scores(self, queries: Array, without: Rows) -> None:
        """See `Index`."""

    def updated(self, classes: Classes, rows: Rows) -> FisherIndex:
        """See `Index`."""
        changed = replace(
            classes,
            weights=classes.weights[rows],
            bias=classes.bias[rows],
            half_norms=classes.half_norms[rows],
        )
        points = times_weights(self.coordinates.of_weights.T, changed.weights).T
        n_rows = len(classes.weights)
        stages = tuple(
            stage.with_rows(Stage.of(changed, points, stage.start, stage.stop), rows, n_rows)
            for stage in self.stages
        )
        return FisherIndex(self.search, self.plan, self.coordinates, stages, classes.weights, classes.bias)

    def to_save(self) -> dict[str, Any]:
        """See `Saving`: the plan."""
        return {SAVED_AS: asdict(self.plan)}

    def describe(self) -> dict[str, Any]:
        """See `Index`."""
        return {
            "search": "fisher",
            "target": self.search.target,
            "coordinates": self.plan.prefixes,
            "candidates": self.plan.kept,
            "agreement when it was picked": self.plan.agreement,
            "queries it was picked on": self.plan.n_queries,
        }
