"""Changes of moments that are undone when they have been looked at, to the bit and without a copy of all."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from xlda._internal.arrays import Rows
from xlda.moments.moments import Moments


@contextmanager
def undone_afterwards(moments: Moments, rows: Rows) -> Iterator[None]:
    """Within the block, samples of the classes in `rows` may be forgotten, and these classes dropped.

    After it, all is as it was. That takes a copy of their means and of the scatter, and not of all means. In
    a process with several threads, nobody else may use these moments meanwhile.

    >>> moments = Moments(1)
    >>> moments.update([[1.0], [3.0]], [0, 1])
    >>> with undone_afterwards(moments, [0]):
    ...     moments.drop(0)
    ...     moments.counts
    array([0., 1.])
    >>> moments.counts
    array([1., 1.])
    """
    rows = np.unique(rows)
    moments.check_whole()
    counts, offsets = moments._counts[rows].copy(), moments._offsets[rows].copy()
    sketches = None if moments.sketches is None else moments.sketches.taken(rows)
    scatter, kept = moments._scatter.saved(), copy.deepcopy(moments.kept)
    numbers = moments._n_samples, moments._dof_of_dropped
    try:
        yield
    finally:
        with moments._changing():
            moments._counts[rows], moments._offsets[rows] = counts, offsets
            moments._scatter.put_back(scatter)
            if moments.sketches is not None and sketches is not None:
                moments.sketches.put_back(rows, sketches)
            moments.kept = kept
            moments._n_samples, moments._dof_of_dropped = numbers
            moments._n_seen = None
