"""How many coordinates to look at, and how many candidates to keep: measured, not guessed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.half_precision import times_weights
from xlda.search.coordinates import Coordinates
from xlda.search.protocol import Classes
from xlda.search.ranking import best_columns

PREFIXES = (32, 48, 64, 96, 128, 192, 256, 384)
FIVE = 5  # of the best: what `predict_topk` gives unless told otherwise
NEAREST_BY = 64  # coordinates that say which classes are near to another
FAMILIES = (2, 4, 8)  # how many of them
N_QUERIES = 1024  # drawn from the model where none are given
SCORES_AT_ONCE = 2**23  # entries of the largest block of scores
MOST = 2**48  # classes, and more than there can be

MOST_STAGES = 4  # before the exact scores
STREAMED = 0.1  # nanoseconds to read a number in order
GATHERED, ROW = 0.5, 30.0  # to read one of a chosen row, and to get at such a row
STAGE = 30_000.0  # to begin with a stage


@dataclass(frozen=True)
class Plan:
    """Look at the first `prefixes[0]` coordinates of all classes and keep the `kept[0]` best, and so on."""

    prefixes: tuple[int, ...]
    kept: tuple[int, ...]
    kept_for_five: tuple[int, ...]  # so that the five best are among them
    n_classes: int
    target: float  # the share of winners to keep
    n_queries: int  # that it was measured on
    agreement: float  # share of these with the winner among those kept

    @classmethod
    def from_json(cls, fields: Any) -> Plan | None:
        """A plan as it was read from a file; None where it cannot be one."""
        if not isinstance(fields, dict) or set(fields) != set(cls.__dataclass_fields__):
            return None
        numbers = [fields["prefixes"], fields["kept"], fields["kept_for_five"]]
        if not all(_are_counts(some) and len(some) == len(numbers[0]) for some in numbers):
            return None
        lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
        plan = cls(**{**fields, **lists})
        shares = plan.target, plan.agreement
        growing = all(before < after for before, after in pairwise((0, *plan.prefixes)))
        if not growing or not _are_counts([plan.n_classes, plan.n_queries]):
            return None
        return plan if all(isinstance(share, float) and 0 <= share <= 1 for share in shares) else None

    def n_kept(self, stage: int, k: int) -> int:
        """Candidates that a stage keeps for the `k` best; between one and five, and beyond, on a line."""
        best, five = self.kept[stage], self.kept_for_five[stage]
        return best if k == 1 else max(k, best + (five - best) * (k - 1) // (FIVE - 1))

    @property
    def stages(self) -> list[tuple[int, int]]:
        """Where the coordinates of each stage begin and end."""
        return list(pairwise((0, *self.prefixes)))


def _are_counts(values: Any) -> bool:
    """Whether these are positive whole numbers, at least one."""
    if not isinstance(values, list | tuple) or not values:
        return False
    return all(type(value) is int and 0 < value < MOST for value in values)


def tuned(
    classes: Classes, coordinates: Coordinates, points: Array, target: float, queries: Array | None, seed: int
) -> Plan:
    """The plan of least cost that keeps the exact winner of the share `target` of the queries.

    `points` (n_rows, p) are coordinates of the class means. Costs one dense product of queries and weights.
    """
    if queries is None:
        queries, rows = classes.draw(N_QUERIES, np.random.default_rng(seed))
        queries[::2] += _into_the_family(classes, points, rows[::2])
    else:
        queries = np.asarray(queries, classes.centre.dtype)
        if queries.shape[1:] != classes.centre.shape or not len(queries) or not np.isfinite(queries).all():
            raise ValueError(
                f"Fisher needs queries that are finite and of shape (n, {len(classes.centre)}); "
                f"got shape {queries.shape}."
            )
        queries = queries - classes.centre
    prefixes = [p for p in PREFIXES if p < points.shape[1]] + [points.shape[1]]
    best, five = _places_of_winners(classes, queries @ coordinates.of_queries, points, queries, prefixes)
    n_live, d = int(np.isfinite(classes.bias).sum()), len(classes.centre)

    def cost(chosen: tuple[int, ...]) -> float:
        kept = _enough([best[p] for p in chosen], target)
        widths = [after - before for before, after in pairwise((*chosen, chosen[-1] + d))]
        gathered = [n * (ROW + GATHERED * width) for n, width in zip(kept, widths, strict=True)]
        return STREAMED * n_live * chosen[0] + sum(gathered) + STAGE * len(chosen)

    ways = [way for n_stages in range(1, MOST_STAGES + 1) for way in combinations(prefixes, n_stages)]
    chosen = min(ways, key=cost)
    kept = _enough([best[p] for p in chosen], target)
    found = np.all([best[p] <= some for p, some in zip(chosen, kept, strict=True)], axis=0)
    return Plan(
        chosen,
        kept,
        _enough([five[p] for p in chosen], target),
        n_live,
        target,
        len(queries),
        float(found.mean()),
    )


def _into_the_family(classes: Classes, points: Array, rows: Rows) -> Array:
    """From the mean of each class to the middle of it and the few nearest to it, (n, d).

    Where classes come in families, true means are nearer to each other than learned ones, and the search must
    tell many apart that are alike. The model knows of no families: drawn from it alone, queries are too easy.
    """
    some = points[:, :NEAREST_BY]
    squared = np.where(np.isfinite(classes.bias), np.einsum("ij,ij->i", some, some), np.inf)
    ways = np.zeros((len(rows), len(classes.centre)), points.dtype)
    for number, row in enumerate(rows):
        distances = squared - 2 * (some @ some[row])
        size = min(FAMILIES[number % len(FAMILIES)], int(np.isfinite(squared).sum()))
        family = np.argpartition(distances, size - 1)[:size]
        ways[number] = classes.means(family).mean(axis=0) - classes.means(np.array([row]))[0]
    return ways


def _enough(places: list[Rows], target: float) -> tuple[int, ...]:
    """Candidates to keep in each stage, where `places` says how many each query needs there.

    The queries that may be lost are those that need most in the first stage: a few outliers, which mostly
    need many in the next as well.

    >>> _enough([np.array([9, 700, 5, 8]), np.array([1, 90, 2, 3])], target=0.75)
    (9, 3)
    """
    n_lost = int((1 - target) * len(places[0]))
    found = np.argsort(places[0], kind="stable")[: len(places[0]) - n_lost]
    return tuple(int(some[found].max()) for some in places)


def _places_of_winners(
    classes: Classes, query_points: Array, points: Array, queries: Array, prefixes: list[int]
) -> tuple[dict[int, Rows], dict[int, Rows]]:
    """How many to keep by each prefix to keep the exact winner of each query, and the five best."""
    best = {p: np.empty(len(queries), np.intp) for p in prefixes}
    five = {p: np.empty(len(queries), np.intp) for p in prefixes}
    n_best = min(FIVE, int(np.isfinite(classes.bias).sum()))
    step = max(1, SCORES_AT_ONCE // max(len(points), 1))
    priors = np.where(np.isfinite(classes.bias), classes.bias + classes.half_norms, -np.inf)
    for start in range(0, len(queries), step):
        block = slice(start, min(start + step, len(queries)))
        scores = times_weights(queries[block], classes.weights)
        scores += classes.bias
        winners = best_columns(scores, n_best)[0]
        scores[:] = priors
        for first, last in pairwise((0, *prefixes)):
            some = points[:, first:last]
            scores += query_points[block, first:last] @ some.T
            scores -= 0.5 * np.einsum("ij,ij->i", some, some)
            of_winners = np.take_along_axis(scores, winners, axis=1)
            best[last][block] = (scores >= of_winners[:, :1]).sum(axis=1)
            five[last][block] = (scores >= of_winners.min(axis=1, keepdims=True)).sum(axis=1)
    return best, five
