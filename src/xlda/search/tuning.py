"""How many coordinates to look at, and how many candidates to keep: measured, not guessed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any, ClassVar, Self

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.threads import in_parallel_with_blas, parts_for
from xlda.search.class_rows import Columns, joined
from xlda.search.places import FIVE, places_of_winners
from xlda.search.protocol import AnyClasses
from xlda.search.ranking import best_places

PREFIXES = (32, 48, 64, 96, 128, 192, 256, 384)
NEAREST_BY = 64  # coordinates that say which classes are near to another
FAMILIES = (2, 4, 8)  # how many of them
N_QUERIES = 1024  # of each kind, where none are given
CHOSEN_BY = 4  # one in so many queries says which prefixes to look at
MOST_COORDINATES = 384  # that a stage may use
GROWN = 1.2  # times as many classes: the plan is made anew
MOST = 2**48  # classes, and more than there can be

MAY_BE_LOST = 0.25  # of what the target allows; the rest is for queries unlike those it is tuned by
SPARE = 3  # times as many candidates as needed are kept
TWENTY = 20  # classes that share the probability of an answer
MOST_STAGES = 4  # before the exact scores
STREAMED, FROM_AFAR = 0.05, 0.15  # nanoseconds to read a number in order: from a cache, and from memory
IN_CACHE = 2**22  # numbers that a cache may hold
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
        """Candidates that a stage keeps for the `k` best; between one and five, and beyond, on a line.

        Whoever wants two wants the lead of the best, and has enough in what is kept for that. Whoever wants
        twenty wants what they add to a sum, and has nearly all of them in what is kept for five.
        """
        best, five = self.kept[stage], self.kept_for_five[stage]
        steps = min(k, FIVE) - 1 if k <= TWENTY else k - 1
        return max(k, best) if k <= 2 else max(k, best + (five - best) * steps // (FIVE - 1))

    def is_for(self, n_classes: int) -> bool:
        """Whether it was made for about so many classes."""
        return 1 / GROWN < n_classes / max(self.n_classes, 1) < GROWN

    def edges(self, width: int) -> list[int]:
        """Where the coordinates of each stage begin, and those after the last, and where they end."""
        return [0, *self.prefixes] if self.prefixes[-1] == width else [0, *self.prefixes, width]


@dataclass(frozen=True, eq=False)
class Planned:
    """A search that is tuned: by `queries` where given, else by queries drawn from the model."""

    target: float = 0.999
    queries: Array | None = None
    seed: int = 0
    plan: Plan | None = None

    saved_as: ClassVar[str]  # the plan, in a file

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            raise ValueError(f"target is a share between 0 and 1; got {self.target!r}.")

    def restored(self, saved: dict[str, Any]) -> Self:
        """See `Restoring`. A plan of one's own, and queries to make one for, come first."""
        if self.queries is not None or self.plan is not None:
            return self
        return replace(self, plan=Plan.from_json(saved.get(self.saved_as)))

    def last_plan(self, previous: Any) -> Plan | None:
        """That of the last index, if it was picked in the same way, or the one given."""
        last = getattr(previous, "search", None)
        if isinstance(last, type(self)) and last._is_tuned_as(self):
            found: Plan = previous.plan
            return found
        return self.plan if self.plan is not None and self.plan.target == self.target else None

    def _is_tuned_as(self, other: Planned) -> bool:
        settings = (self.target, self.seed) == (other.target, other.seed)
        return settings and self.queries is other.queries


def _are_counts(values: Any) -> bool:
    """Whether these are positive whole numbers, at least one."""
    if not isinstance(values, list | tuple) or not values:
        return False
    return all(type(value) is int and 0 < value < MOST for value in values)


def edges_of(width: int) -> list[int]:
    """Where pieces of `width` coordinates begin and end, so that all prefixes can be looked at."""
    return [0, *(p for p in PREFIXES if p < width), width]


def tuned(
    pieces: Sequence[Columns],
    queries: Array,
    target: float,
    exact: Callable[[slice, int], Array] | None = None,
    n_exact: int = 0,
) -> tuple[Plan, list[Columns]]:
    """The plan of least cost that keeps the exact winner of the share `target` of the queries; its stages.

    `queries` are in the coordinates of the `pieces`, which follow one another. Exact scores are those of all
    pieces; or `exact` gives them, for some of the classes and the first queries, from `n_exact` numbers a
    class. After the stages comes the rest of the pieces, if they say what is exact. Prefixes are chosen by
    some of the queries, for which each is tried; how many to keep is measured on all. Costs a dense product
    of queries and classes.
    """
    stops = np.cumsum([piece.width for piece in pieces]).tolist()
    n_live = int(np.isfinite(pieces[0].offsets).sum())
    chosen = _cheapest(pieces, stops, queries[: len(queries) // CHOSEN_BY + 1], target, exact, n_exact)
    ends = chosen if exact is not None or chosen[-1] == stops[-1] else (*chosen, stops[-1])
    parts = []
    for start, stop in pairwise((0, *ends)):
        parts.append(joined([piece for end, piece in zip(stops, pieces, strict=True) if start < end <= stop]))
    places = places_of_winners(parts, queries, range(len(chosen)), exact)
    lost = MAY_BE_LOST * (1.0 - target)
    kept = enough(places.best, lost, SPARE)
    found = np.all([some <= n for some, n in zip(places.best, kept, strict=True)], axis=0)
    plan = Plan(
        chosen,
        kept,
        enough(places.five, lost, SPARE),
        n_live,
        target,
        len(queries),
        float(found.mean()),
    )
    return plan, parts


def _cheapest(
    pieces: Sequence[Columns],
    stops: list[int],
    queries: Array,
    target: float,
    exact: Callable[[slice, int], Array] | None,
    n_exact: int,
) -> tuple[int, ...]:
    """The prefixes of least cost."""
    prefixes = [stop for stop in stops if stop <= MOST_COORDINATES]
    places = places_of_winners(pieces, queries, range(len(prefixes)), exact)
    best = dict(zip(prefixes, places.best, strict=True))
    n_live = int(np.isfinite(pieces[0].offsets).sum())
    if exact is None:
        n_exact = stops[-1]

    def cost(chosen: tuple[int, ...]) -> float:
        kept = enough([best[p] for p in chosen], MAY_BE_LOST * (1.0 - target), SPARE)
        widths = [after - before for before, after in pairwise((*chosen, chosen[-1] + n_exact))]
        gathered = [n * (ROW + GATHERED * width) for n, width in zip(kept, widths, strict=True)]
        n_read = n_live * chosen[0]
        read = STREAMED * min(n_read, IN_CACHE) + FROM_AFAR * max(n_read - IN_CACHE, 0)
        return read + sum(gathered) + STAGE * len(chosen)

    ways = [way for n_stages in range(1, MOST_STAGES + 1) for way in combinations(prefixes, n_stages)]
    return min(ways, key=cost)


def queries_to_tune(
    classes: AnyClasses, queries: Array | None, seed: int, nearest_by: Callable[[], Array]
) -> Array:
    """Queries as they may well come: those given, or some drawn from the classes and some made of samples.

    `nearest_by` gives the coordinates that say which classes are near to each other.
    """
    if queries is None:
        rng = np.random.default_rng(seed)
        drawn, rows = classes.draw(N_QUERIES, rng)
        drawn[::2] += _into_the_family(classes, nearest_by(), rows[::2])
        both = np.concatenate([drawn, classes.kept(N_QUERIES, rng)])
        return both[rng.permutation(len(both))]  # so that some of them are as all are
    given = np.asarray(queries, classes.centre.dtype)
    wanted = f"A search needs queries that are finite and of shape (n, n_features); got shape {given.shape}."
    if given.ndim != 2 or not len(given) or not np.isfinite(given).all():
        raise ValueError(wanted)
    try:
        return classes.queries(given)
    except ValueError as error:  # they have another width
        raise ValueError(wanted) from error


def _into_the_family(classes: AnyClasses, points: Array, rows: Rows) -> Array:
    """From the mean of each class to the middle of it and the few nearest to it, (n, d).

    Where classes come in families, true means are nearer to each other than learned ones, and the search must
    tell many apart that are alike. The model knows of no families: drawn from it alone, queries are too easy.
    """
    some = points[:, :NEAREST_BY].astype(classes.centre.dtype)  # float16 would take for ever
    squared = np.where(classes.live, np.einsum("ij,ij->i", some, some), np.inf)
    ways = np.zeros((len(rows), len(classes.centre)), some.dtype)
    n_live = int(np.isfinite(squared).sum())

    def find(start: int, stop: int, _part: int) -> None:
        for number in range(start, stop):
            row = rows[number]
            nearness = 2 * (some @ some[row]) - squared
            family = best_places(nearness, min(FAMILIES[number % len(FAMILIES)], n_live))
            ways[number] = classes.means(family).mean(axis=0) - classes.means(np.array([row]))[0]

    in_parallel_with_blas(find, len(rows), parts_for(len(rows) * some.size))
    return ways


def enough(places: list[Rows], lost: float, spare: int) -> tuple[int, ...]:
    """Candidates to keep in each stage, where `places` says how many each query needs there.

    The share `lost` of the queries may be: those that need most in the first stage, a few outliers, which
    mostly need many in the next as well. All stages keep `spare` times as many as are needed: real queries
    are harder than those drawn, and what each stage loses comes on top of what the others do.

    >>> enough([np.array([9, 700, 5, 8]), np.array([1, 90, 2, 3])], lost=0.25, spare=2)
    (18, 6)
    """
    n_lost = int(lost * len(places[0]))
    found = np.argsort(places[0], kind="stable")[: len(places[0]) - n_lost]
    return tuple(spare * int(some[found].max()) for some in places)
