"""Search by a short prefix of Fisher's coordinates for all classes, and the exact score for the few left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.half_precision import times_weights
from xlda._internal.threads import in_parallel_with_blas, parts_for
from xlda.search.class_rows import ClassRows, Columns, Squares, joined, rows_of
from xlda.search.coordinates import Coordinates, fisher_coordinates, nearness
from xlda.search.dense import DenseIndex
from xlda.search.first_stage import FirstStage
from xlda.search.protocol import AnyClasses, Changed, Classes, Index, OrderedClasses
from xlda.search.ranking import about_the_best, best_of, best_places
from xlda.search.short_weights import ShortWeights
from xlda.search.tuning import (
    GATHERED,
    MOST_COORDINATES,
    ROW,
    Plan,
    Planned,
    edges_of,
    queries_to_tune,
    tuned,
)

SCORES_AT_ONCE = 2**22  # entries of the largest block of scores
MANY_QUERIES = 8  # from which on a matrix product of all coordinates pays
PRODUCT = 0.026  # nanoseconds for a multiplication in a matrix product
SEARCHED = 200_000.0  # to search for one of many queries, beside the products


@dataclass(frozen=True, eq=False)
class Fisher(Planned):
    """Nearest class in the coordinates of `xlda.search.coordinates`, by stages.

    The first stage looks at a prefix of the coordinates for all classes and keeps the best; the next looks at
    more coordinates of those kept; the last computes exact scores. How many coordinates and candidates is
    picked so that the winner is that of exact LDA for at least the share `target` of queries: of `queries`
    (n, d) where given (after `power`), else of queries drawn from the model and of samples kept for checking.
    `XLDA.audit` says what was picked. `plan` is what was picked before, for the same target and about as many
    classes.
    """

    saved_as = "fisher"

    def index(self, classes: AnyClasses, previous: Index | None = None) -> FisherIndex:
        """Compute coordinates, O(d^3 + C d p); make a plan, where the last is not for so many classes."""
        plan = self.last_plan(previous)
        n_live = int(classes.live.sum())
        if plan is not None and not (plan.is_for(n_live) and plan.prefixes[-1] <= len(classes.centre)):
            plan = None
        if isinstance(classes, OrderedClasses):
            return self._of_ordered(classes, plan)
        return self._of_plain(classes, plan)

    def _of_ordered(self, classes: OrderedClasses, plan: Plan | None) -> FisherIndex:
        if plan is not None:
            parts = classes.parts(plan.edges(classes.width))
        else:
            pieces = classes.parts(edges_of(classes.width))
            queries = queries_to_tune(classes, self.queries, self.seed, lambda: joined(pieces[:3]).whole)
            plan, parts = tuned(pieces, queries, self.target)
        rows, first, others = rows_of(parts), FirstStage.of(parts[0]), parts[1:]
        if parts[0].whole.dtype != np.float64 and not _sooner_without(plan, rows, k=1):
            others = [_shortened(part, is_stage=n < len(plan.prefixes)) for n, part in enumerate(others, 1)]
            rows = replace(rows, parts=tuple(part.weights for part in (first.columns, *others)))
        return _laid_out(self, plan, None, first, others[: len(plan.prefixes) - 1], rows)

    def _of_plain(self, classes: Classes, plan: Plan | None) -> FisherIndex:
        n_coordinates = min(MOST_COORDINATES, len(classes.centre)) if plan is None else plan.prefixes[-1]
        coordinates = fisher_coordinates(classes, n_coordinates, self.seed)
        points = times_weights(coordinates.of_weights.T, classes.rows.weights).T
        priors = classes.rows.bias + classes.half_norms
        if plan is None:
            queries = queries_to_tune(classes, self.queries, self.seed, lambda: points)
            pieces = nearness(points, priors, edges_of(n_coordinates))
            plan, stages = tuned(
                pieces,
                queries @ coordinates.of_queries,
                self.target,
                lambda rows, n: classes.rows.taken(rows).scores(queries[:n]),
                len(classes.centre),
            )
            coordinates = coordinates.first(plan.prefixes[-1])
        else:
            stages = nearness(points, priors, [0, *plan.prefixes])
        return _laid_out(self, plan, coordinates, FirstStage.of(stages[0]), stages[1:], classes.rows)


class _Unseen(NamedTuple):
    """What adds to the scores of rows and is seen by no stage, beside the weights after them."""

    offsets: Array  # (n_rows,)
    squares: Squares | None

    @classmethod
    def of(cls, rows: ClassRows, first: FirstStage, stages: Sequence[Columns]) -> _Unseen:
        seen = np.sum([stage.offsets for stage in stages], axis=0)
        offsets = np.subtract(rows.bias, seen, out=np.zeros_like(seen), where=rows.live)
        if rows.squares is None or first.missed is None:
            return cls(offsets, None)
        curvature = rows.squares.curvature.copy()
        curvature[:, : first.width] = first.missed
        curvature[:, first.width : sum(stage.width for stage in stages)] = 0.0
        return cls(offsets, replace(rows.squares, curvature=curvature))


@dataclass(frozen=True, eq=False)
class FisherIndex:
    """Coordinates of all classes, stage by stage."""

    search: Fisher
    plan: Plan
    coordinates: Coordinates | None  # None where classes are in such coordinates already: stages are parts
    first: FirstStage
    stages: tuple[Columns, ...]  # the first among them
    rows: ClassRows
    unseen: _Unseen | None  # of the scores of rows, where stages are parts of them

    @property
    def nbytes(self) -> int:
        """Memory of the coordinates, where they are not those of the classes."""
        terms = len(self.first.terms) * self.rows.bias.nbytes
        if self.coordinates is None:
            return terms + (1 + len(self.stages)) * self.rows.bias.nbytes
        stages = sum(stage.nbytes for stage in self.stages)
        return terms + stages + self.coordinates.of_queries.nbytes + self.coordinates.of_weights.nbytes

    def top(self, queries: Array, k: int, without: Rows) -> tuple[Rows, Array]:
        """See `Index`."""
        if len(queries) >= MANY_QUERIES and _sooner_without(self.plan, self.rows, k):
            return DenseIndex(self.rows).top(queries, k, without)
        rows = np.empty((len(queries), k), np.intp)
        scores = np.empty((len(queries), k), queries.dtype)
        step = max(1, SCORES_AT_ONCE // max(len(self.rows), 1))
        searched = self._searched_at_once if len(queries) >= MANY_QUERIES else self._searched

        def search(start: int, stop: int, _part: int) -> None:
            for begin in range(start, stop, step):
                block = slice(begin, min(begin + step, stop))
                for number, (some, known) in enumerate(searched(queries[block], k, without), begin):
                    exact = self._exact(queries[number], some, known)
                    rows[number], scores[number] = best_of(exact, some, k)

        parts = parts_for(self.rows.size) if len(queries) > 1 else 1
        in_parallel_with_blas(search, len(queries), min(parts, max(len(queries), 1)), wait=False)
        return rows, scores

    def shortlists(self, queries: Array, k: int, without: Rows) -> Iterator[Rows]:
        """See `Index`."""
        return (rows for rows, _ in self._searched(queries, k, without))

    def _searched(self, queries: Array, k: int, without: Rows) -> Iterator[tuple[Rows, Array]]:
        """Candidates of each query, in order, and what they score by all stages."""
        points = queries if self.coordinates is None else queries @ self.coordinates.of_queries
        by_first = self.first.scores(points[:, : self.first.width])
        by_first[:, without] = -np.inf
        for point, scores in zip(points, by_first, strict=True):
            yield self._by_other_stages(point, scores, k)

    def _searched_at_once(self, queries: Array, k: int, without: Rows) -> Iterator[tuple[Rows, Array]]:
        """The same by the coordinates of all stages for all classes: of many queries, products cost less."""
        points = queries if self.coordinates is None else queries @ self.coordinates.of_queries
        scores, start = self.first.scores(points[:, : self.first.width]), self.first.width
        for stage in self.stages[1:]:
            scores += stage.scores(points[:, start : start + stage.width])
            start += stage.width
        scores[:, without] = -np.inf
        n_kept = self.plan.n_kept(len(self.stages) - 1, k)
        for some in scores:
            rows = best_places(some, n_kept)
            yield rows, some[rows]

    def _by_other_stages(self, point: Array, scores: Array, k: int) -> tuple[Rows, Array]:
        """The best by all stages of classes that have these scores by the first, and their scores."""
        find = best_places if len(self.stages) == 1 else about_the_best
        rows, start = find(scores, self.plan.n_kept(0, k)), self.first.width
        scores = scores[rows]
        for number, stage in enumerate(self.stages[1:], 1):
            stop = start + stage.width
            scores += stage.scores_of(point[start:stop], rows)
            places = best_places(scores, self.plan.n_kept(number, k))
            rows, scores, start = rows[places], scores[places], stop
        return rows, scores

    def _exact(self, query: Array, rows: Rows, known: Array) -> Array:
        """Scores of rows that have the score `known` by all stages."""
        if self.unseen is None:
            return self.rows.scores_of(query, rows)
        scores = known + self.unseen.offsets.take(rows)
        scores += self.rows.scores_from(len(self.stages), query, rows)
        if self.unseen.squares is not None:
            scores += self.unseen.squares.of_rows(query, rows)
        return scores

    def scores(self, queries: Array, without: Rows) -> None:
        """See `Index`."""

    def updated(self, changed: Changed) -> FisherIndex:
        """See `Index`."""
        edges = [0, *np.cumsum([stage.width for stage in self.stages]).tolist()]
        if self.coordinates is None:
            new = [changed.part(start, stop) for start, stop in pairwise(edges)]
        else:
            points = times_weights(self.coordinates.of_weights.T, changed.as_scored.weights).T
            new = nearness(points, changed.as_scored.bias + changed.half_norms, edges)
        first = self.first.with_rows(new[0], changed.rows, changed.n_rows)
        others = [
            stage.with_rows(other, changed.rows, changed.n_rows)
            for stage, other in zip(self.stages[1:], new[1:], strict=True)
        ]
        rows = self.rows.with_rows(changed.as_scored, changed.rows, changed.n_rows)
        return _laid_out(self.search, self.plan, self.coordinates, first, others, rows)

    def to_save(self) -> dict[str, Any]:
        """See `Saving`: the plan."""
        return {self.search.saved_as: asdict(self.plan)}

    def columns(self) -> list[Columns] | None:
        """See `InColumns`."""
        if self.unseen is None:
            return None
        after = self.rows.parts[len(self.stages) :]
        return [*self.stages, *(Columns(part, self.unseen.offsets) for part in after)]

    def describe(self) -> dict[str, Any]:
        """See `Index`."""
        return {
            "search": "fisher",
            "target": self.search.target,
            "coordinates": self.plan.prefixes,
            "candidates": self.plan.kept,
            "scored by": self.rows.width,
            "agreement when it was picked": self.plan.agreement,
            "queries it was picked on": self.plan.n_queries,
        }


def _shortened(part: Columns, is_stage: bool) -> Columns:
    """Columns that are looked at for few classes, and along which these differ less, as short numbers."""
    if isinstance(part.weights, ShortWeights):
        return part
    kind = np.int8 if part.whole.dtype == np.float16 and not is_stage else np.int16
    return replace(part, weights=ShortWeights.of(part.whole, kind))


def _sooner_without(plan: Plan, rows: ClassRows, k: int) -> bool:
    """Whether a product of many queries and all weights takes less time than a search for them."""
    ends = (*plan.prefixes[1:], rows.width)
    gathered = [
        plan.n_kept(number, k) * (ROW + GATHERED * (stop - start))
        for number, (start, stop) in enumerate(zip(plan.prefixes, ends, strict=True))
    ]
    saved = PRODUCT * len(rows) * (rows.width - plan.prefixes[0])
    return bool(saved < SEARCHED + sum(gathered))


def _laid_out(
    search: Fisher,
    plan: Plan,
    coordinates: Coordinates | None,
    first: FirstStage,
    others: Sequence[Columns],
    rows: ClassRows,
) -> FisherIndex:
    """An index whose rows are in the same memory as the stages, where these are parts of them."""
    stages, unseen = (first.columns, *others), None
    if coordinates is None:
        rows = replace(rows, parts=(*(stage.weights for stage in stages), *rows.parts[len(stages) :]))
        unseen = _Unseen.of(rows, first, stages)
    return FisherIndex(search, plan, coordinates, first, stages, rows, unseen)
