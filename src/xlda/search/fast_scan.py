"""Search by the codes of all classes, and the exact score for the few left; needs the extra `faiss`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.half_precision import times_weights
from xlda._internal.threads import in_parallel_with_blas, parts_for
from xlda.search.class_rows import ClassRows, Columns, joined, rows_of
from xlda.search.codes import SETS, Codebook, CodedClasses
from xlda.search.coordinates import Coordinates, fisher_coordinates, nearness
from xlda.search.places import places_of_winners
from xlda.search.protocol import AnyClasses, Changed, Index, OrderedClasses
from xlda.search.ranking import best_columns
from xlda.search.short_weights import ShortWeights
from xlda.search.tuning import Plan, Planned, enough, queries_to_tune

FIRST = (*SETS, 256)  # coordinates that codes may tell of,
CLOSER = 384  # and that candidates are scored by first
LOOKED_THROUGH = 4096  # candidates among which the best is looked for when it is picked how many to keep
NUMBERS_AT_ONCE, MOST_QUERIES = 2**19, 16  # of candidates, and queries, that are looked at together
SPARE = 2  # times as many candidates as needed are kept
SPARED = 4  # one in so many candidates may be left out before others are looked for
SCANNED = 0.07  # nanoseconds for a byte of codes,
LOOKED_AT, NUMBER = 100.0, 1.0  # for a closer look at a candidate, and for each coordinate of it,
STAGE = 20_000.0  # and to begin with such looks


@dataclass(frozen=True, eq=False)
class FastScan(Planned):
    """FAISS's fast scan of the codes of all classes, a closer look at the best of them, and exact scores.

    Codes tell of the first coordinates, those in which classes differ most. Of how many they tell and how
    many candidates are kept is picked so that the winner is the exact one for at least the share `target` of
    queries: of `queries` (n, d) where given (after `power`), else of queries drawn from the model and of
    samples kept for checking. `plan` is what was picked before, for the same target and about as many
    classes.
    """

    saved_as = "fast scan"

    def index(self, classes: AnyClasses, previous: Index | None = None) -> FastScanIndex:
        """Compute codes; pick how many candidates to keep, where it was not picked for so many classes."""
        return self._index(classes, previous, None)

    def index_again(self, classes: AnyClasses, tensors: Mapping[str, Array]) -> FastScanIndex:
        """See `MakingAgain`: codes are not computed."""
        return self._index(classes, None, tensors)

    def _index(
        self, classes: AnyClasses, previous: Index | None, tensors: Mapping[str, Array] | None
    ) -> FastScanIndex:
        given, plan = _Given.of(classes, self.seed), self.last_plan(previous)
        if plan is None or not plan.is_for(int(given.live.sum())) or not given.allows(plan):
            plan, parts, coded = self._picked(given)
        else:
            parts = given.parts(plan.edges(given.width))
            coded = given.coded(parts[0]) if tensors is None else CodedClasses.from_tensors(tensors, parts[0])
        if given.coordinates is not None:
            return FastScanIndex(self, plan, coded, given.coordinates, tuple(parts), classes.rows)
        parts = [_shortened(part, stage, len(plan.prefixes)) for stage, part in enumerate(parts)]
        return FastScanIndex(self, plan, coded, None, tuple(parts), rows_of(parts))

    def _picked(self, given: _Given) -> tuple[Plan, list[Columns], CodedClasses]:
        """The plan of least cost that keeps winners often enough, and the parts and codes that it wants."""
        stops = sorted({*given.firsts, given.closer, given.width})
        pieces = given.parts([0, *stops])

        def between(start: int, stop: int) -> Columns:
            return joined([piece for end, piece in zip(stops, pieces, strict=True) if start < end <= stop])

        nearest_by = pieces[0].whole
        queries = queries_to_tune(given.classes, self.queries, self.seed, lambda: nearest_by)
        points, exact = given.points(queries), given.exact(queries)
        places = places_of_winners(pieces, points, range(stops.index(given.closer) + 1), exact)
        best, five = (dict(zip(stops, some, strict=False)) for some in (places.best, places.five))
        ways = []
        for first in given.firsts:
            coded = given.coded(between(0, first))
            of_codes = _places_by_codes(coded, points, places.winners)
            for prefixes in given.plans_of(first):
                of_best, of_five = (
                    [by_codes, *(by_stop[stop] for stop in prefixes[1:])]
                    for by_codes, by_stop in zip(of_codes, (best, five), strict=True)
                )
                plan = self._plan(prefixes, of_best, of_five, len(coded.row_of))
                ways.append((_cost(plan, coded.codes.shape[1]), plan, coded))
        _, plan, coded = min(ways, key=lambda way: way[0])
        parts = [between(start, stop) for start, stop in pairwise(plan.edges(given.width))]
        return plan, parts, coded

    def _plan(self, prefixes: tuple[int, ...], best: list[Rows], five: list[Rows], n_live: int) -> Plan:
        """How many to keep where these say how many have to be, by codes and by closer looks."""
        kept = enough(best, 1.0 - self.target, SPARE)
        found = np.all([some <= n for some, n in zip(best, kept, strict=True)], axis=0)
        agreement = float(found.mean())
        kept_for_five = enough(five, 1.0 - self.target, SPARE)
        return Plan(prefixes, kept, kept_for_five, max(n_live, 1), self.target, len(found), agreement)


class _Given(NamedTuple):
    """Classes as codes can tell of them."""

    classes: AnyClasses
    coordinates: Coordinates | None  # None where classes are in such coordinates already
    parts: Callable[[Sequence[int]], list[Columns]]  # of the coordinates, between edges
    steepness: Array  # (width,)
    seed: int

    @classmethod
    def of(cls, classes: AnyClasses, seed: int) -> _Given:
        """Plain classes get such coordinates."""
        if isinstance(classes, OrderedClasses):
            return cls(classes, None, classes.parts, classes.steepness, seed)
        coordinates = fisher_coordinates(classes, CLOSER, seed)
        points = times_weights(coordinates.of_weights.T, classes.rows.weights).T
        priors = classes.rows.bias + classes.half_norms
        steepness = np.full(points.shape[1], 0.5)
        return cls(classes, coordinates, lambda edges: nearness(points, priors, edges), steepness, seed)

    @property
    def live(self) -> Array:
        """Which classes can win, (n_rows,)."""
        return self.classes.live

    @property
    def width(self) -> int:
        """Coordinates."""
        return len(self.steepness)

    @property
    def closer(self) -> int:
        """Coordinates that candidates are scored by first."""
        return min(CLOSER, self.width)

    @property
    def firsts(self) -> list[int]:
        """How many coordinates codes may tell of."""
        return sorted({min(first, self.width) for first in FIRST})

    def plans_of(self, first: int) -> list[tuple[int, ...]]:
        """Prefixes of plans whose codes tell of so many coordinates."""
        if first == self.closer:
            return [(first,)]
        between = [(first, some, self.closer) for some in FIRST if first < some < self.closer]
        return [(first, self.closer), *between]

    def allows(self, plan: Plan) -> bool:
        """Whether a plan can be for such classes."""
        return any(plan.prefixes in self.plans_of(first) for first in self.firsts)

    def coded(self, seen: Columns) -> CodedClasses:
        """The classes by some of their coordinates, the first."""
        codebook = Codebook.of(seen, self.steepness[: seen.width], self.seed)
        return CodedClasses.of(codebook, codebook.codes(seen), np.isfinite(seen.offsets))

    def points(self, queries: Array) -> Array:
        """Queries in these coordinates."""
        return queries if self.coordinates is None else queries @ self.coordinates.of_queries

    def exact(self, queries: Array) -> Callable[[slice, int], Array] | None:
        """Exact scores of some classes for the first queries, where they are not those of all parts."""
        if self.coordinates is None:
            return None
        return lambda rows, n: self.classes.rows.taken(rows).scores(queries[:n])


@dataclass(frozen=True, eq=False)
class FastScanIndex:
    """Codes of all classes, and their coordinates part by part."""

    search: FastScan
    plan: Plan
    coded: CodedClasses
    coordinates: Coordinates | None  # None where classes are in such coordinates already
    parts: tuple[Columns, ...]  # of the coordinates
    rows: ClassRows  # where coordinates are None, in the same memory as the parts

    @property
    def nbytes(self) -> int:
        """Memory of the codes, and of the coordinates where they are not those of the classes."""
        if self.coordinates is None:
            return self.coded.nbytes + sum(part.offsets.nbytes for part in self.parts)
        of_queries = self.coordinates.of_queries.nbytes + self.coordinates.of_weights.nbytes
        return self.coded.nbytes + sum(part.nbytes for part in self.parts) + of_queries

    def top(self, queries: Array, k: int, without: Rows) -> tuple[Rows, Array]:
        """See `Index`."""
        rows = np.empty((len(queries), k), np.intp)
        scores = np.empty((len(queries), k), queries.dtype)

        def search(start: int, stop: int, _part: int) -> None:
            for block, found, known in self._searched(queries, k, without, start, stop):
                exact = self._exact(queries[block], found, known)
                places, scores[block] = best_columns(exact, k)
                rows[block] = np.take_along_axis(found, places, axis=1)

        n_parts = parts_for(self.rows.size) if len(queries) > 1 else 1
        in_parallel_with_blas(search, len(queries), min(n_parts, max(len(queries), 1)), wait=False)
        rows[np.isneginf(scores)] = 0
        return rows, scores

    def shortlists(self, queries: Array, k: int, without: Rows) -> Iterator[Rows]:
        """See `Index`."""
        for _, rows, _ in self._searched(queries, k, without, 0, len(queries)):
            yield from (some[some >= 0] for some in rows)

    def _searched(
        self, queries: Array, k: int, without: Rows, start: int, stop: int
    ) -> Iterator[tuple[slice, Rows, Array]]:
        """Blocks of the queries, candidates of each in order, -1 for none, and what these score so far."""
        n, left_out = min(self.plan.n_kept(0, k), len(self.coded.row_of)), None
        if len(without):
            left_out = np.zeros(len(self.rows), bool)
            left_out[without] = True
        step = min(max(1, NUMBERS_AT_ONCE // max(n * self.parts[0].width, 1)), MOST_QUERIES)
        for first in range(start, stop, step):
            block = slice(first, min(first + step, stop))
            points = queries[block]
            if self.coordinates is not None:
                points = points @ self.coordinates.of_queries
            rows = self.coded.best(points, n)
            if left_out is not None:
                rows = self._refilled(points, rows, left_out, max(k, n - n // SPARED))
            rows.sort(axis=1)
            yield block, *self._closer(points, rows, k)

    def _refilled(self, points: Array, rows: Rows, left_out: Array, least: int) -> Rows:
        """Of about the best (n, m), those that are not left out: at least so many, of more if need be."""
        rows = np.where(left_out.take(rows, mode="clip"), -1, rows)
        n_rows = rows.shape[1]
        for number in np.flatnonzero(np.count_nonzero(rows >= 0, axis=1) < least):
            more = self.coded.best(points[number : number + 1], n_rows + int(left_out.sum()))[0]
            more = more[(more >= 0) & ~left_out.take(more, mode="clip")][:n_rows]
            rows[number, : len(more)], rows[number, len(more) :] = more, -1
        return rows

    def _closer(self, points: Array, rows: Rows, k: int) -> tuple[Rows, Array]:
        """The best of some rows (n, m) by the coordinates that are looked at first, and their scores."""
        start, scores = 0, np.zeros(rows.shape, points.dtype)
        if rows.size and rows[:, 0].min() < 0:  # which is the least of each
            scores[rows < 0] = -np.inf
        for stage, part in enumerate(self.parts[: len(self.plan.prefixes)]):
            scores += part.scores_of_each(points[:, start : start + part.width], rows)
            start += part.width
            n_kept = self.plan.n_kept(stage, k)
            if stage and n_kept < rows.shape[1]:  # by the first part alone, codes tell nearly as much
                places = np.argpartition(scores, -n_kept, axis=1)[:, -n_kept:]
                places.sort(axis=1)
                rows, scores = (np.take_along_axis(some, places, axis=1) for some in (rows, scores))
        return rows, scores

    def _exact(self, queries: Array, rows: Rows, known: Array) -> Array:
        """Scores of rows (n, m) that have the score `known` by the first parts."""
        if self.coordinates is not None:
            exact = [self.rows.scores_of(*some) for some in zip(queries, rows, strict=True)]
            return np.where(rows < 0, -np.inf, np.stack(exact))
        start = self.plan.prefixes[-1]
        for part in self.parts[len(self.plan.prefixes) :]:
            known = known + part.scores_of_each(queries[:, start : start + part.width], rows)
            start += part.width
        return known

    def scores(self, queries: Array, without: Rows) -> None:
        """See `Index`."""

    def updated(self, changed: Changed) -> FastScanIndex:
        """See `Index`. The points that codes tell of stay as they are."""
        edges = [0, *accumulate(part.width for part in self.parts)]
        if self.coordinates is None:
            new, rows = [changed.part(start, stop) for start, stop in pairwise(edges)], None
        else:
            points = times_weights(self.coordinates.of_weights.T, changed.as_scored.weights).T
            new = nearness(points, changed.as_scored.bias + changed.half_norms, edges)
            rows = self.rows.with_rows(changed.as_scored, changed.rows, changed.n_rows)
        parts = [
            part.with_rows(other, changed.rows, changed.n_rows)
            for part, other in zip(self.parts, new, strict=True)
        ]
        coded = self.coded.with_rows(new[0], changed.rows, np.isfinite(parts[0].offsets))
        rows = rows_of(parts) if rows is None else rows
        return replace(self, coded=coded, parts=tuple(parts), rows=rows)

    def columns(self) -> list[Columns] | None:
        """See `InColumns`."""
        return list(self.parts) if self.coordinates is None else None

    def tensors(self) -> dict[str, Array]:
        """See `MadeOf`: codes, and what they tell of."""
        return self.coded.tensors()

    def to_save(self) -> dict[str, Any]:
        """See `Saving`: the plan."""
        return {self.search.saved_as: asdict(self.plan)}

    def describe(self) -> dict[str, Any]:
        """See `Index`."""
        return {
            "search": "fast scan",
            "target": self.search.target,
            "coordinates": self.plan.prefixes,
            "candidates": self.plan.kept,
            "scored by": self.rows.width,
            "agreement when it was picked": self.plan.agreement,
            "queries it was picked on": self.plan.n_queries,
        }


def _shortened(part: Columns, stage: int, n_stages: int) -> Columns:
    """A part with short numbers where these will do: any but the first, in which classes differ most."""
    weights = part.weights
    if isinstance(weights, ShortWeights) or part.offsets.dtype == np.float64:
        return part
    if weights.dtype == np.float16:
        return replace(part, weights=ShortWeights.of(weights, np.int8 if stage >= n_stages else np.int16))
    return replace(part, weights=ShortWeights.of(weights)) if stage else part


def _cost(plan: Plan, n_bytes: int) -> float:
    """Nanoseconds for a query."""
    widths = [after - before for before, after in pairwise((0, *plan.prefixes[1:]))]
    looks = [n * (LOOKED_AT + NUMBER * width) for n, width in zip(plan.kept, widths, strict=False)]
    return SCANNED * plan.n_classes * n_bytes + sum(looks) + STAGE * len(looks)


def _places_by_codes(coded: CodedClasses, points: Array, winners: Rows) -> tuple[Rows, Rows]:
    """How many to keep by codes to keep the winner of each query, and all of its winners (n, any)."""
    n_live = len(coded.row_of)
    best, five = np.ones(len(points), np.intp), np.ones(len(points), np.intp)
    if n_live < 2:
        return best, five
    n = min(LOOKED_THROUGH, n_live - 1)  # as all of them would come in no order

    def look(start: int, stop: int, _part: int) -> None:
        for number in range(start, stop):
            at = coded.best(points[number : number + 1], n) == winners[number][:, None]
            places = np.where(at.any(axis=1), at.argmax(axis=1) + 1, n_live)
            best[number], five[number] = places[0], places.max()

    in_parallel_with_blas(look, len(points), parts_for(len(points) * coded.codes.size))
    return best, five
