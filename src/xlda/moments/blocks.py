"""Classes as blocks of samples, of which only the count and the mean are known: taken apart and put back.

A block is one heavy sample at its mean, as where two classes are joined. What its samples scatter about that
mean is in the pool, and stays there. Rows for a second look are sums: those of a block can be taken along.
"""

from __future__ import annotations

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.moments.batch_update import EMPTY
from xlda.moments.forgetting import ForgetError
from xlda.moments.moments import Moments
from xlda.moments.origin import origin_for
from xlda.moments.sketches import SketchRows


def block_of(moments: Moments, row: int) -> tuple[float, Array]:
    """Count and mean (n_features,) of a class, float64; the mean is NaN where it has no samples."""
    count = float(moments.counts_of(np.array([row]))[0])
    if not count:
        return 0.0, np.full(moments.n_features, np.nan)
    mean: Array = moments._origin.astype(np.float64) + moments._offsets[row]
    return count, mean


def rows_of(moments: Moments, row: int) -> SketchRows | None:
    """The rows of a class for a second look; None where there is none."""
    moments.check_whole()
    return None if moments.sketches is None else moments.sketches.rows_of(row, moments._origin)


def split(
    moments: Moments, row: int, new: int, count: float, mean: Array, rows: SketchRows | None = None
) -> None:
    """Make a block of class `row` class `new`, which has no samples: what undoes `Moments.join`. O(d).

    More than the class has is an error and changes nothing. All that it has is moved, wherever its mean is.
    Without the `rows` of a part for a second look, nobody knows which samples are in those of either class.
    """
    check_has(moments, row, count)
    if not count:
        return
    with moments._changing():
        have = float(moments._counts[row])
        if count >= have * (1 - EMPTY):
            count, block, rows = have, moments._offsets[row : row + 1].copy(), rows_of(moments, row)
            moments._clear(row)
        else:
            block = _offsets_of_mean(moments, mean)
            moments._absorb_many(block, None, np.array([row]), np.array([count]), sign=-1)
            if moments.sketches is not None and rows is not None:
                moments.sketches.add_rows(row, rows, moments._origin, sign=-1)
        moments._absorb_many(block, None, np.array([new]), np.array([count]), sign=1)
        for each in (row, new):  # nobody knows which of the samples went where
            moments.kept.drop(each)
        _take_rows(moments, new, rows)
        if moments.sketches is not None and rows is None:
            moments.sketches.clear(np.array([row]))


def check_has(moments: Moments, row: int, count: float) -> None:
    """Refuse to take more of a class than it has."""
    have = float(moments.counts_of(np.array([row]))[0])
    if count > have * (1 + EMPTY):
        raise ForgetError(row, count, have)


def restore(moments: Moments, row: int, count: float, mean: Array, rows: SketchRows | None = None) -> None:
    """Have a class again that was let go, in a row without samples: what undoes `Moments.drop`. O(d)."""
    with moments._changing():
        moments.kept.drop(row)
        if not count:
            return
        if not moments._has_origin:
            moments._set_origin(origin_for(mean[None]))
        block = _offsets_of_mean(moments, mean)
        moments._absorb_many(block, None, np.array([row]), np.array([count]), sign=1)
        _take_rows(moments, row, rows)
        moments._dof_of_dropped -= count - 1.0


def take_away(moments: Moments, other: Moments, rows: Rows) -> None:
    """Take away another stream that was merged, whose class i is row `rows[i]` here. O(C d + d^2).

    More than a class has is an error and changes nothing. Nobody knows which of the samples kept for checking
    were its: those of its classes are not kept any more.
    """
    seen = np.flatnonzero(other._counts[: other.n_classes])
    taken = np.bincount(rows[seen], other._counts[seen], minlength=moments.n_classes)
    short = np.flatnonzero(taken > moments.counts * (1 + EMPTY))
    if short.size:
        raise ForgetError(int(short[0]), float(taken[short[0]]), float(moments.counts[short[0]]))
    shift: Array = (moments._origin.astype(np.float64) - other._origin).astype(moments.dtype)
    with moments._changing():
        moments._absorb_many(other._offsets[seen], shift, rows[seen], other._counts[seen], sign=-1)
        moments._scatter.take_away(other._scatter)
        if moments.sketches is not None and other.sketches is not None:
            moments.sketches.merge(other.sketches, rows, -shift, sign=-1)
        moments._dof_of_dropped -= other._dof_of_dropped
        moments._n_samples -= other._n_samples
        for row in np.unique(rows[seen]).tolist():
            moments.kept.drop(row)
        if not moments._counts.any() and not moments._dof_of_dropped and not moments.frozen:
            moments._scatter.clear()


def _take_rows(moments: Moments, row: int, rows: SketchRows | None) -> None:
    """Have these rows for a second look of a class, or none."""
    if moments.sketches is not None:
        moments.sketches.clear(np.array([row]))
        if rows is not None:
            moments.sketches.add_rows(row, rows, moments._origin)


def _offsets_of_mean(moments: Moments, mean: Array) -> Array:
    """A mean less the origin, (1, n_features), as means are kept."""
    offset: Array = (mean - moments._origin.astype(np.float64)).astype(moments.dtype)
    return offset[None]
