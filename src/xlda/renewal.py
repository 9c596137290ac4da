"""A head that is made beside the serving, in a thread of its own.

It is made of what was known when that began. Rows that are learned meanwhile are noted and brought in before
it takes over, most of them in the thread as well; the last few while nobody else can learn or ask.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

from xlda._internal.arrays import Rows
from xlda._internal.threads import alone
from xlda.head import Head
from xlda.head.layer_rows import LayerRows
from xlda.labels import Labels
from xlda.moments import Moments
from xlda.moments.view import MomentsView

A_FEW = 16  # rows that are brought in while others wait
MOST_ROUNDS = 8  # of bringing in what was learned in the round before
REST = 4.0  # times as long as it took, until the next begins, unless much was learned since
AFTER_A_FAILURE = 60.0  # seconds until it is tried again

log = logging.getLogger("xlda")


class Known(Protocol):
    """What was learned, and the lock that protects it."""

    layer_rows: LayerRows | None
    lock: threading.RLock

    @property
    def moments(self) -> Moments:
        """Counts, means and scatter, with all samples in them."""
        ...

    @property
    def labels(self) -> Labels:
        """Labels of all samples."""
        ...


class Renewal:
    """A head under way.

    `make` is called in a thread with the moments as they are now; `take_over`, with the lock held, with the
    head that came of it and the weight that was learned since; `end`, with the lock held, when all is over,
    with the seconds until the next should begin, and those where much was learned since. Whoever makes this
    holds the lock; where `make` needs no covariance, it takes less time `with_covariance=False`.
    """

    def __init__(
        self,
        known: Known,
        make: Callable[[Moments], Head],
        take_over: Callable[[Head, float], object],
        end: Callable[[float, float], object],
        with_covariance: bool,
    ) -> None:
        self._known, self._make, self._take_over, self._end = known, make, take_over, end
        self._view: MomentsView | None = MomentsView(known.moments, with_covariance)
        self._process = os.getpid()
        self._missed: list[Rows] = []
        self._weight = 0.0

    def start(self) -> None:
        """Begin, and do not wait for it. An interpreter that ends does not wait either."""
        threading.Thread(target=self._run, name="xlda-renewal", daemon=True).start()

    @property
    def is_alive(self) -> bool:
        """Whether its thread may be running: a forked process does not have it."""
        return self._process == os.getpid()

    def missed(self, rows: Rows, weight: float) -> None:
        """Note that `rows` have changed, by samples of this total weight; the lock is held."""
        self._missed.append(rows)
        self._weight += weight

    def _run(self) -> None:
        begin, rest, rest_if_much = time.monotonic(), AFTER_A_FAILURE, AFTER_A_FAILURE
        try:
            with alone():
                self._renew()
            rest_if_much = time.monotonic() - begin
            rest = REST * rest_if_much
        except Exception:
            log.exception("making a head beside the serving failed; the one there is goes on serving")
        finally:
            with self._known.lock:
                self._end(rest, rest_if_much)

    def _renew(self) -> None:
        known = self._known
        assert self._view is not None
        head = self._make(self._view)
        self._view = None  # learning need not put aside what it changes any more
        for _ in range(MOST_ROUNDS):
            with known.lock:
                moments = known.moments  # which may bring in samples that wait, and so comes first
                if len(self._rows_missed()) <= A_FEW:
                    break
                rows, self._missed = self._rows_missed(), []
                view = MomentsView(moments, with_covariance=False)
                table, layer_rows = known.labels.table(), known.layer_rows
            head = head.updated(view, table, rows, layer_rows)
            if head.wants_settling:
                head = head.settled(view)
        with known.lock:
            moments, rows = known.moments, self._rows_missed()
            if len(rows):
                head = head.updated(moments, known.labels.table(), rows, known.layer_rows)
            self._take_over(head, self._weight)

    def _rows_missed(self) -> Rows:
        return np.unique(np.concatenate(self._missed)) if self._missed else np.empty(0, np.intp)
