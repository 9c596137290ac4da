"""What every way to search has in common.

A `Search` is a recipe that a user chooses; `index` applies it to the classes as they are at one moment. An
`Index` never changes, so any number of threads may use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.search.class_rows import ClassRows, Columns, rows_of


@dataclass(frozen=True, eq=False)
class Classes:
    """Classes to be searched, those of plain LDA: the score of a query x is x . weights + bias.

    Queries and means are relative to `centre`. A row with the bias -inf never wins.
    """

    rows: ClassRows
    half_norms: Array  # (n_rows,): half of mean . weights, which is the bias of equal priors, negated
    inverse: Array  # (d, d): weights are means @ inverse
    centre: Array  # (d,)
    means: Callable[[Rows | slice], Array]
    draw: Callable[[int, np.random.Generator], tuple[Array, Rows]]  # so many queries, and their rows
    kept: Callable[[int, np.random.Generator], Array]  # at most so many queries made of real samples
    queries: Callable[[Array], Array]  # embeddings as queries

    @property
    def live(self) -> Array:
        """Which rows can win, (n_rows,)."""
        return self.rows.live


@dataclass(frozen=True, eq=False)
class OrderedClasses:
    """Classes whose coordinates are ordered: those first in which they differ most.

    In these coordinates samples of a class are independent, so the first ones alone give scores as well:
    those of a classifier that knows of no others.
    """

    live: Array  # (n_rows,): which can win
    parts: Callable[[Sequence[int]], list[Columns]]  # as many as edges, from each edge to the next
    steepness: Array  # (width,): times this, the squares of a query are taken away from all scores, unseen
    width: int  # coordinates
    dtype: np.dtype[np.floating]
    means: Callable[[Rows | slice], Array]  # where the classes are, as far as is known
    draw: Callable[[int, np.random.Generator], tuple[Array, Rows]]
    kept: Callable[[int, np.random.Generator], Array]
    queries: Callable[[Array], Array]

    @property
    def centre(self) -> Array:
        """Queries and means are relative to this point."""
        return np.zeros(self.width, self.dtype)

    @cached_property
    def rows(self) -> ClassRows:
        """All coordinates of all classes."""
        return rows_of(self.parts([0, self.width]))


AnyClasses: TypeAlias = Classes | OrderedClasses


class Index(Protocol):
    """The classes, made ready to be searched."""

    @property
    def rows(self) -> ClassRows:
        """The classes."""

    @property
    def nbytes(self) -> int:
        """Memory it takes beside those."""

    def top(self, queries: Array, k: int, without: Rows) -> tuple[Rows, Array]:
        """Rows and scores of the `k` best for each query (n, d), each (n, k), best first.

        Rows in `without` are left out; of equals the lower comes first. Where an index finds fewer than `k`,
        what is missing has the row 0 and the score -inf.
        """

    def shortlists(self, queries: Array, k: int, without: Rows) -> Iterable[Rows]:
        """Rows looked at for the `k` best of each query, in order."""

    def scores(self, queries: Array, without: Rows) -> Array | None:
        """Scores of all rows for each query, (n, n_rows): those not looked at -inf, or NaN for a logit of 0.

        None, from most: an index is there to save work, and who asks for all scores wants them computed.
        """

    def updated(self, changed: Changed) -> Index:
        """An index of the classes with some changed, and of those that are new."""

    def describe(self) -> dict[str, Any]:
        """What was picked, for people to read."""


@dataclass(frozen=True, eq=False)
class Changed:
    """Classes that changed since an index was made, and are to be brought into it."""

    rows: Rows  # which
    n_rows: int  # of all classes
    as_scored: ClassRows  # these rows, their weights in one part
    half_norms: Array  # of these rows, as `Classes` has them
    means: Callable[[], Array]  # of these rows, in the coordinates of queries
    offsets: Callable[[int, int], Array] | None  # what some coordinates of ordered classes add to their bias

    def part(self, start: int, stop: int) -> Columns:
        """Some coordinates of these rows, ordered ones; the first coordinates have the priors."""
        assert self.offsets is not None
        squares, weights = self.as_scored.squares, self.as_scored.weights
        if start:
            offsets = self.offsets(start, stop)
        else:
            offsets = self.as_scored.bias - self.offsets(stop, weights.shape[1])
        some = None if squares is None else squares.columns(start, stop)
        return Columns(weights[:, start:stop], offsets, some)


class Search(Protocol):
    """A way to find the best classes."""

    def index(self, classes: AnyClasses, previous: Index | None = None) -> Index:
        """Make the classes ready to be searched. `previous` is the last index of the same classifier."""


@runtime_checkable
class Saving(Protocol):
    """An `Index` that took long to make, and can say what will make the next one sooner."""

    def to_save(self) -> dict[str, Any]:
        """What is worth keeping, also in a file: a dict that JSON can hold, for `Restoring`."""


@runtime_checkable
class Restoring(Protocol):
    """A `Search` that takes back what an index of it gave."""

    def restored(self, saved: dict[str, Any]) -> Search:
        """This search with what `Saving` gave, perhaps in a file; itself where that is of no use to it."""


@runtime_checkable
class InColumns(Protocol):
    """An `Index` that has classes as `Search.index` would take them again."""

    def columns(self) -> list[Columns] | None:
        """Ordered classes part by part; None where they are not ordered."""


@runtime_checkable
class MadeOf(Protocol):
    """An `Index` that has arrays which take long to make."""

    def tensors(self) -> dict[str, Array]:
        """What is worth keeping in a file, for `MakingAgain`."""


@runtime_checkable
class MakingAgain(Protocol):
    """A `Search` that takes back the arrays of an index of it."""

    def index_again(self, classes: AnyClasses, tensors: Mapping[str, Array]) -> Index:
        """The index of the same classes; what cannot be its arrays is a ValueError, a part of a sentence."""


def columns_of(index: Index) -> list[Columns] | None:
    """Classes part by part, as `Search.index` would take them again; None, of most."""
    return index.columns() if isinstance(index, InColumns) else None


def saved_by(index: Index | None) -> dict[str, Any] | None:
    """What is worth keeping of an index, for whoever makes the next one; None, of most."""
    return index.to_save() if isinstance(index, Saving) else None


def restored(search: Search, saved: dict[str, Any] | None) -> Search:
    """A search with what `saved_by` gave, if it takes that."""
    return search if saved is None or not isinstance(search, Restoring) else search.restored(saved)
