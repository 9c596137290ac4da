"""What a search looks at for every class, laid out so that one product gives all of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.one_thread import times_vector
from xlda.search.class_rows import Columns, Squares

MOST_MISSED = 0.01  # of a typical score, by the terms; the exact score has it again


@dataclass(frozen=True, eq=False)
class FirstStage:
    """The first coordinates of all classes.

    The table that says what squares add to scores is smooth in the number of samples, so that few terms make
    up nearly all of it. A column for each takes less time than looking up the table for every class. The
    matrix is in the order of Fortran, in which one query is scored soonest.
    """

    columns: Columns  # its weights and offsets are columns of the matrix
    matrix: Array  # (n_rows, width + n_terms + 1): weights, terms, offsets
    terms: Array  # (n_terms, width): what gives the terms of a query's squares
    missed: Array | None  # (n_groups, width): of the curvature, by the terms

    @classmethod
    def of(cls, columns: Columns, terms: Array | None = None) -> FirstStage:
        """The columns of a first stage; `terms` are those of one with about the same table."""
        width, dtype = columns.width, columns.offsets.dtype
        missed, by_group = None, np.empty((0, 0))
        if columns.squares is None:
            terms = np.empty((0, width), dtype)
        else:
            terms = _main_terms(columns.squares).astype(dtype) if terms is None else terms
            missed, by_group = _apart(columns.squares, terms)
        matrix = np.empty((len(columns), width + len(terms) + 1), dtype, order="F")
        matrix[:, :width] = columns.whole
        matrix[:, -1] = columns.offsets
        if columns.squares is not None:
            for term, column in zip(by_group.T, matrix[:, width:-1].T, strict=True):
                np.take(term.astype(dtype), columns.squares.groups, out=column, mode="clip")
        laid_out = Columns(matrix[:, :width], matrix[:, -1], columns.squares)
        return cls(laid_out, matrix, terms, missed)

    @property
    def width(self) -> int:
        """Coordinates."""
        return self.columns.width

    def scores(self, queries: Array) -> Array:
        """What the coordinates (n, width) or (width,) of queries add to the score of each class, about."""
        by_terms = (queries * queries) @ self.terms.T
        extended = np.concatenate([queries, by_terms, np.ones_like(queries[..., :1])], axis=-1)
        if len(extended) == 1 or queries.ndim == 1:
            product = times_vector(self.matrix, extended.ravel())
            return product if queries.ndim == 1 else product[None]
        scores: Array = extended @ self.matrix.T
        return scores

    def with_rows(self, other: Columns, rows: Rows, n_rows: int) -> FirstStage:
        """`n_rows` rows: those that are here, but `rows` from the other."""
        had_terms = None if self.columns.squares is None else self.terms
        return FirstStage.of(self.columns.with_rows(other, rows, n_rows), had_terms)


def _main_terms(squares: Squares) -> Array:
    """As few as leave next to nothing of the table, (n_terms, width)."""
    typical = squares.typical.astype(np.float64)
    _, sizes, towards = np.linalg.svd(squares.curvature * typical, full_matrices=False)
    n_terms = int((sizes > MOST_MISSED).sum())
    terms: Array = towards[:n_terms] / typical
    return terms


def _apart(squares: Squares, terms: Array) -> tuple[Array, Array]:
    """What the terms miss of the curvature, (n_groups, width), and how much of each a group has."""
    curvature = squares.curvature.astype(np.float64)
    by_group = np.linalg.lstsq(terms.T.astype(np.float64), curvature.T, rcond=None)[0].T
    missed: Array = (curvature - by_group @ terms).astype(squares.curvature.dtype)
    return missed, by_group
