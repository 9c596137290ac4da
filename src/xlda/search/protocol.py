"""What every way to search has in common.

A `Search` is a recipe that a user chooses; `index` applies it to the classes as they are at one moment. An
`Index` never changes, so any number of threads may use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from xlda._internal.arrays import Array, Rows


@dataclass(frozen=True, eq=False)
class Classes:
    """Classes to be searched, one a row: the score of a query x is x . weights + bias.

    Queries and means are relative to `centre`. A row with the bias -inf never wins.
    """

    weights: Array  # (n_rows, d)
    bias: Array  # (n_rows,)
    half_norms: Array  # (n_rows,): half of mean . weights, which is the bias of equal priors, negated
    inverse: Array  # (d, d): weights are means @ inverse
    centre: Array  # (d,)
    means: Callable[[Rows | slice], Array]
    draw: Callable[[int, np.random.Generator], tuple[Array, Rows]]  # so many queries, and their rows


class Index(Protocol):
    """The classes, made ready to be searched."""

    @property
    def nbytes(self) -> int:
        """Memory it takes beside the weights and biases."""

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

    def updated(self, classes: Classes, rows: Rows) -> Index:
        """An index of `classes`, which differ from those indexed here in `rows` and in more of them."""

    def describe(self) -> dict[str, Any]:
        """What was picked, for people to read."""


class Search(Protocol):
    """A way to find the best classes."""

    def index(self, classes: Classes, previous: Index | None = None) -> Index:
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


def saved_by(index: Index | None) -> dict[str, Any] | None:
    """What is worth keeping of an index, for whoever makes the next one; None, of most."""
    return index.to_save() if isinstance(index, Saving) else None


def restored(search: Search, saved: dict[str, Any] | None) -> Search:
    """A search with what `saved_by` gave, if it takes that."""
    return search if saved is None or not isinstance(search, Restoring) else search.restored(saved)
