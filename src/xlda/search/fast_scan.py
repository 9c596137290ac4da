"""Search by the codes of all classes, and the exact score for the few left; needs the extra `faiss`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.half_precision import times_weights
from xlda._internal.threads import in_parallel_with_blas, parts_for
from xlda.search.class_rows import ClassRows, Columns, rows_of
from xlda.search.codes import Codebook, coded, scanner
from xlda.search.coordinates import Coordinates, fisher_coordinates, nearness
from xlda.search.protocol import AnyClasses, Changed, Index, OrderedClasses
from xlda.search.ranking import best_columns, best_of, best_places
from xlda.search.short_weights import ShortWeights
from xlda.search.tuning import FIVE, Plan, Planned, enough, queries_to_tune

PREFIXES = (256, 384)  # coordinates that codes tell of, and that candidates are scored by first
LOOKED_THROUGH = 4096  # candidates among which the best is looked for when it is picked how many to keep
SCORES_AT_ONCE = 2**22  # entries of a block of scores
SPARED = 4  # one in so many candidates may be left out before others are looked for


@dataclass(frozen=True, eq=False)
class FastScan(Planned):
    """FAISS's fast scan of the codes of all classes, a closer look at the best of them, and exact scores.

    Codes tell of the first coordinates, those in which classes differ most. How many candidates are kept is
    picked so that the winner is the exact one for at least the share `target` of queries: of `queries` (n, d)
    where given (after `power`), else of queries drawn from the model. `plan` is what was picked before, for
    the same target and about as many classes.
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
        coordinates = None
        if isinstance(classes, OrderedClasses):
            edges = _edges(classes.width)
            parts, rows, steepness = classes.parts(edges), None, classes.steepness
        else:
            coordinates = fisher_coordinates(classes, PREFIXES[-1], self.seed)
            points = times_weights(coordinates.of_weights.T, classes.rows.weights).T
            edges = _edges(points.shape[1])
            parts = nearness(points, classes.rows.bias + classes.half_norms, edges)
            rows, steepness = classes.rows, np.full(points.shape[1], 0.5)
        if tensors is None:
            codebook = Codebook.of(parts[0], steepness[: edges[1]], self.seed)
            codes = codebook.codes(parts[0])
        else:
            codebook, codes = coded(tensors, edges[1], len(parts[0]))
        prefixes = tuple(edges[1:] if len(edges) < 4 else edges[1:3])
        plan = self.last_plan(previous)
        if plan is None or not plan.is_for(int(classes.live.sum())) or plan.prefixes != prefixes:
            plan = Plan(prefixes, prefixes, prefixes, 0, self.target, 0, 0.0)  # until it is picked
        index = _laid_out(self, plan, codebook, codes, coordinates, parts, rows)
        if not plan.n_classes:
            index = replace(index, plan=self._picked(classes, index))
        if coordinates is not None:
            return index
        parts = _shortened(parts)
        return replace(index, parts=tuple(parts), rows=rows_of(parts))

    def _picked(self, classes: AnyClasses, index: FastScanIndex) -> Plan:
        queries = queries_to_tune(classes, self.queries, self.seed, lambda: index.parts[0].whole)
        best, five = _places_of_winners(index, queries)
        kept = enough(best, self.target)
        found = np.all([some <= n for some, n in zip(best, kept, strict=True)], axis=0)
        n_live = int(index.rows.live.sum())
        return replace(
            index.plan,
            kept=kept,
            kept_for_five=enough(five, self.target),
            n_classes=max(n_live, 1),
            n_queries=len(queries),
            agreement=float(found.mean()),
        )


@dataclass(frozen=True, eq=False)
class FastScanIndex:
    """Codes of all classes, and their coordinates part by part."""

    search: FastScan
    plan: Plan
    codebook: Codebook
    codes: Array  # (n_rows, bytes)
    scan: Any  # of FAISS: the codes of classes that can win
    row_of: Rows  # of each of these
    coordinates: Coordinates | None  # None where classes are in such coordinates already
    parts: tuple[Columns, ...]  # of the coordinates
    rows: ClassRows  # where coordinates are None, in the same memory as the parts

    @property
    def nbytes(self) -> int:
        """Memory of the codes, and of the coordinates where they are not those of the classes."""
        codes = 2 * self.codes.nbytes + self.row_of.nbytes
        if self.coordinates is None:
            return codes + sum(part.offsets.nbytes for part in self.parts)
        of_queries = self.coordinates.of_queries.nbytes + self.coordinates.of_weights.nbytes
        return codes + sum(part.nbytes for part in self.parts) + of_queries

    def top(self, queries: Array, k: int, without: Rows) -> tuple[Rows, Array]:
        """See `Index`."""
        rows = np.empty((len(queries), k), np.intp)
        scores = np.empty((len(queries), k), queries.dtype)

        def search(start: int, stop: int, _part: int) -> None:
            some = queries[start:stop]
            for number, (found, known) in enumerate(self._searched(some, k, without), start):
                rows[number], scores[number] = best_of(self._exact(queries[number], found, known), found, k)

        n_parts = parts_for(self.rows.size) if len(queries) > 1 else 1
        in_parallel_with_blas(search, len(queries), min(n_parts, max(len(queries), 1)), wait=False)
        return rows, scores

    def shortlists(self, queries: Array, k: int, without: Rows) -> Iterator[Rows]:
        """See `Index`."""
        return (rows for rows, _ in self._searched(queries, k, without))

    def scanned(self, point: Array, n: int) -> Rows:
        """About the best `n` by their codes, best first; of fewer, all."""
        if n >= len(self.row_of):
            return self.row_of.copy()
        found = self.scan.search(self.codebook.tables(point[: self.plan.prefixes[0]]), n)[1][0]
        rows: Rows = self.row_of.take(found if found[-1] >= 0 else found[found >= 0])
        return rows

    def _searched(self, queries: Array, k: int, without: Rows) -> Iterator[tuple[Rows, Array]]:
        """Candidates of each query, and what they score by the first parts."""
        points = queries if self.coordinates is None else queries @ self.coordinates.of_queries
        left_out = None
        if len(without):
            left_out = np.zeros(len(self.rows), bool)
            left_out[without] = True
        n = self.plan.n_kept(0, k)
        for point in points:
            rows = self.scanned(point, n)
            if left_out is not None:
                rows = self._refilled(point, rows, n, left_out, max(k, n - n // SPARED))
            rows.sort()
            yield self._closer(point, rows, k)

    def _refilled(self, point: Array, rows: Rows, n: int, left_out: Array, least: int) -> Rows:
        """Of about the `n` best, those that are not left out: at least so many, of more if need be."""
        kept = rows[~left_out[rows]]
        if len(kept) < least and len(rows) == n:
            rows = self.scanned(point, n + int(left_out.sum()))
            kept = rows[~left_out[rows]][:n]
        return kept

    def _closer(self, point: Array, rows: Rows, k: int) -> tuple[Rows, Array]:
        """The best of some rows by the coordinates that are looked at first, and their scores."""
        start, scores = 0, np.zeros(len(rows), point.dtype)
        for part in self.parts[: len(self.plan.prefixes)]:
            scores += part.scores_of(point[start : start + part.width], rows)
            start += part.width
        if len(self.plan.prefixes) > 1:
            places = best_places(scores, self.plan.n_kept(1, k))
            rows, scores = rows[places], scores[places]
        return rows, scores

    def _exact(self, query: Array, rows: Rows, known: Array) -> Array:
        """Scores of rows that have the score `known` by the first parts."""
        if self.coordinates is not None:
            return self.rows.scores_of(query, rows)
        n_seen = self.plan.prefixes[-1]
        for part in self.parts[len(self.plan.prefixes) :]:
            known = known + part.scores_of(query[n_seen : n_seen + part.width], rows)
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
        codes = np.zeros((changed.n_rows, self.codes.shape[1]), np.uint8)
        codes[: len(self.codes)] = self.codes
        codes[changed.rows] = self.codebook.codes(new[0])
        return _laid_out(self.search, self.plan, self.codebook, codes, self.coordinates, parts, rows)

    def columns(self) -> list[Columns] | None:
        """See `InColumns`."""
        return list(self.parts) if self.coordinates is None else None

    def tensors(self) -> dict[str, Array]:
        """See `MadeOf`: codes, and what they tell of."""
        return {**self.codebook.tensors(), "codes": self.codes}

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


def _edges(width: int) -> list[int]:
    """Where parts of so many coordinates begin and end."""
    return [0, *(prefix for prefix in PREFIXES if prefix < width), width]


def _shortened(parts: Sequence[Columns]) -> list[Columns]:
    """Parts with short numbers where these will do: all but the first, in which classes differ most."""
    if parts[0].offsets.dtype == np.float64:
        return list(parts)
    return [
        part
        if isinstance(part.weights, ShortWeights) or (part is parts[0] and part.weights.dtype == np.float32)
        else replace(part, weights=ShortWeights.of(part.weights))
        for part in parts
    ]


def _laid_out(
    search: FastScan,
    plan: Plan,
    codebook: Codebook,
    codes: Array,
    coordinates: Coordinates | None,
    parts: Sequence[Columns],
    rows: ClassRows | None,
) -> FastScanIndex:
    """An index of these parts, which are the rows where there are no others."""
    live = np.flatnonzero(np.isfinite(parts[0].offsets))
    rows = rows_of(parts) if rows is None else rows
    return FastScanIndex(
        search, plan, codebook, codes, scanner(codes[live]), live, coordinates, tuple(parts), rows
    )


def _places_of_winners(index: FastScanIndex, queries: Array) -> tuple[list[Rows], list[Rows]]:
    """How many to keep by codes and by the first parts to keep the winner of each query, and five."""
    n_live, n_stages = len(index.row_of), len(index.plan.prefixes)
    best = [np.ones(len(queries), np.intp) for _ in range(n_stages)]
    five = [np.ones(len(queries), np.intp) for _ in range(n_stages)]
    points = queries if index.coordinates is None else queries @ index.coordinates.of_queries
    step = max(1, SCORES_AT_ONCE // max(len(index.rows), 1))
    n_looked_through = min(LOOKED_THROUGH, max(n_live - 1, 1))  # as all of them would come in no order

    def rank(begin: int, end: int, _part: int) -> None:
        for start in range(begin, end, step):
            block = slice(start, min(start + step, end))
            closer, exact = _by_stages_and_all(index, points[block])
            if index.coordinates is not None:
                exact = index.rows.scores(queries[block])
            winners = best_columns(exact, min(FIVE, n_live))[0]
            for number, rows in enumerate(winners, block.start):
                at = index.scanned(points[number], n_looked_through) == rows[:, None]
                places = np.where(at.any(axis=1), at.argmax(axis=1) + 1, n_live) if n_live > 1 else np.ones(1)
                best[0][number], five[0][number] = places[0], places.max()
            if n_stages > 1:
                of_winners = np.take_along_axis(closer, winners, axis=1)
                best[1][block] = np.count_nonzero(closer >= of_winners[:, :1], axis=1)
                five[1][block] = np.count_nonzero(closer >= of_winners.min(axis=1, keepdims=True), axis=1)

    in_parallel_with_blas(rank, len(queries), parts_for(len(queries) * index.rows.size))
    return best, five


def _by_stages_and_all(index: FastScanIndex, points: Array) -> tuple[Array, Array]:
    """Scores of all classes by the coordinates that are looked at first, and by all parts."""
    start, scores = index.parts[0].width, index.parts[0].scores(points[:, : index.parts[0].width])
    closer = scores
    for number, part in enumerate(index.parts[1:], 1):
        if number == len(index.plan.prefixes):
            closer = scores.copy()
        scores += part.scores(points[:, start : start + part.width])
        start += part.width
    return closer.copy() if closer is scores else closer, scores
