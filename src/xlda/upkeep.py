"""Who keeps the head current: which rows it does not have yet, and when it is made anew.

Three things can happen when somebody wants to predict. Nothing was learned since: the head is there. A few
rows changed: the next head shares all it can with the last one, and costs O(d^2) a row. So much was learned
that the covariance is another one: it is inverted anew, which is called a renewal. That takes a while, and
can be done beside the serving; see `xlda.renewal`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from xlda._internal.arrays import Rows
from xlda._internal.not_fitted import not_fitted
from xlda._internal.section import Section
from xlda.head import Head, new_head
from xlda.head.covariance import Shrinkage, Target
from xlda.head.head import ModelKind, Priors
from xlda.head.layer_rows import LayerRows
from xlda.head.plain_space import PlainSpace
from xlda.head.stored import head_from_section, head_to_section, is_kept_in_files, unrenewed_weight
from xlda.labels import Labels, LabelTable
from xlda.moments import Moments
from xlda.renewal import Known, Renewal
from xlda.search import Dense, Search, chosen_search, restored, saved_by

SETTLED = 10  # samples a feature, from which on each changes the covariance less and less
MOST_SHARE = 0.25  # of all samples, that may be learned without renewing it
BESIDE_A_LAYER = 0.1  # the least share where a layer's rows are fitted anew each time, which costs more
MUCH = 0.05  # of all samples: once so many were learned since, the next renewal waits less
MOST_NOTED = 10_000  # changed rows noted one by one, beside two for each row

log = logging.getLogger("xlda")


class Scoring(NamedTuple):
    """The parameters that a head is made with; other ones need another head."""

    model: ModelKind
    shrinkage: Shrinkage
    target: Target
    priors: Priors
    search: str | Search

    def dense_head(self, moments: Moments, table: LabelTable, layer_rows: LayerRows | None) -> Head:
        """A head of these moments that looks at all classes."""
        return new_head(
            moments,
            table,
            model=self.model,
            shrinkage=self.shrinkage,
            target=self.target,
            priors=self.priors,
            search=Dense(),
            layer_rows=layer_rows,
        )


@dataclass(frozen=True, eq=False)
class Served:
    """A head, and what it is the head of: read at once, so that no thread sees half of a change."""

    version: int  # of what was learned
    scoring: Scoring
    head: Head
    total: float  # weight of all samples at the last renewal
    n_others: int  # classes with samples beside a layer's, at the last renewal


class HeadToSave(NamedTuple):
    """A head as it is served, and what makes it that of all that was known at that moment."""

    head: Head
    changed: Rows  # that it does not have yet
    total: float  # weight of all samples at the last renewal
    weight: float  # of samples learned since

    def to_section(self, moments: Moments, table: LabelTable) -> Section | None:
        """For a file, beside what was known then. None of most kinds, and where no class has samples."""
        head = self.head
        if not is_kept_in_files(head):
            return None
        if len(self.changed):
            head = head.updated(moments, table, self.changed)
        return head_to_section(head, self.total, self.weight) if head.n_seen else None


class Upkeep:
    """The head of what is known, and what it does not have of that yet.

    Whoever changes what is known says so by `changed`; whoever wants to predict calls `head`. Both hold the
    lock, but to look whether `served` is good enough nobody needs it.
    """

    def __init__(self, saved_plan: dict[str, Any] | None = None) -> None:
        self.version = 0  # of what was learned
        self.served: Served | None = None
        self._changed: list[Rows] = []  # rows whose mean or label the head does not have yet
        self._n_changed = 0
        self._weight = 0.0  # of samples that the covariance of the head does not have yet
        self._saved_plan = saved_plan  # what the search was tuned to, while there is no head
        self._renewal: Renewal | None = None  # under way, beside the serving
        self._rest_until = 0.0  # of the clock that only goes on: no renewal before
        self._rest_until_much = 0.0  # the same where much was learned since
        self._is_overdue = False  # one is due, and could not begin yet

    def changed(self, rows: Rows, weight: float = 0.0) -> None:
        """Note that `rows` have other means or labels now, by samples of this total weight."""
        self._weight += weight
        if self._renewal is not None:
            self._renewal.missed(rows, weight)
        if self.served is not None:
            self._changed.append(rows)
            self._n_changed += len(rows)
            if self._n_changed > 2 * self.served.head.n_rows + MOST_NOTED:
                self._changed = [self._rows_changed()]
                self._n_changed = len(self._changed[0])
        self.version += 1  # who sees this and then waits for the lock sees all of the change

    def head(self, known: Known, scoring: Scoring, renew: float, background: bool = False) -> Head:
        """The head of all that was learned: the one place where it is brought up to date, or made anew.

        With `background`, where there is a head that can be brought up to date, that is done and no more.
        """
        last = self.served
        if last is None or last.scoring != scoring:
            return self._serve(self._renewed(known, scoring), 0.0)
        due = self._is_due(last, renew, known.moments, known.layer_rows)
        if due and not background:
            return self._serve(self._renewed(known, scoring), 0.0)
        head = last.head
        if self._changed:
            head = head.updated(known.moments, known.labels.table(), self._rows_changed(), known.layer_rows)
            if not head.n_seen:
                raise nothing_seen()
        if not background:
            head = head.settled(known.moments) if head.wants_settling else head
            if head.wants_renewal:
                return self._serve(self._renewed(known, scoring), 0.0)
        self._serve(Served(self.version, scoring, head, last.total, last.n_others), self._weight)
        is_wanted = background and (due or head.wants_renewal or head.wants_settling)
        self._is_overdue = is_wanted and not self._may_begin()
        if is_wanted and not self._is_overdue:
            self._begin(known, scoring, settled=None if due or head.wants_renewal else head)
        return head

    def begin_if_due(self, known: Known, scoring: Scoring, renew: float) -> bool:
        """Begin a renewal beside the serving where one is due, though nobody asks; whether there is a head.

        Rows that have changed are left to it, or to the next who asks.
        """
        last = self.served
        if last is None or last.scoring != scoring:
            return False
        if self._is_due(last, renew, known.moments, known.layer_rows) and self._may_begin():
            self._begin(known, scoring, settled=None)
        return True

    @property
    def can_begin_at_last(self) -> bool:
        """Whether a renewal that had to wait can begin, even if nothing was learned since."""
        return self._is_overdue and self._may_begin()

    def _serve(self, served: Served, unrenewed: float) -> Head:
        # The head first: an interrupt before the rest costs needless work, and the other way round a row.
        self.served = served
        self._changed, self._n_changed, self._weight = [], 0, unrenewed
        return served.head

    def go_on_from(self, earlier: Upkeep, rows: Rows, weight: float) -> None:
        """Serve what another one serves; rows have changed since, by samples of this total weight."""
        self._saved_plan, self._weight = earlier.plan_to_save(), earlier._weight
        if earlier.served is not None:
            self.served = replace(earlier.served, version=self.version)
            self.changed(rows, weight)

    def restore(self, known: Known, scoring: Scoring, section: Section) -> None:
        """Serve the head that was saved beside what is known."""
        moments, table = known.moments, known.labels.table()
        search = restored(_search(scoring.search, moments, known.labels, known.layer_rows), self._saved_plan)
        head = head_from_section(section, moments, table, search, scoring.priors == "empirical")
        self.served = Served(self.version, scoring, head, section.number("total"), 0)
        self._weight = unrenewed_weight(section)

    def to_save(self, scoring: Scoring) -> HeadToSave | None:
        """The head that is served, if there is one of this kind, and what it does not have yet."""
        last = self.served
        if last is None or last.scoring != scoring:
            return None
        rows = self._rows_changed() if self._changed else np.empty(0, np.intp)
        return HeadToSave(last.head, rows, last.total, self._weight)

    def renew_next(self) -> None:
        """Have the next head use the covariance as it is now, however little was learned since."""
        if self._weight:
            self.start_over()

    def start_over(self) -> None:
        """Have the next head made anew; what the search was tuned to is kept."""
        self._saved_plan, self.served, self._renewal = self.plan_to_save(), None, None
        self._changed, self._n_changed = [], 0

    def plan_to_save(self) -> dict[str, Any] | None:
        """What the search was last tuned to, if it needs to be."""
        saved = None if self.served is None else saved_by(self.served.head.index)
        return self._saved_plan if saved is None else saved

    def __getstate__(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "_renewal": None,
            "_rest_until": 0.0,
            "_rest_until_much": 0.0,
        }  # which are of this process alone

    # -- how it works

    def _renewed(self, known: Known, scoring: Scoring) -> Served:
        moments, layer_rows = known.moments, known.layer_rows
        self._saved_plan, self._renewal = self.plan_to_save(), None  # what is under way would be older
        if not moments.n_seen and not layer_rows:
            raise nothing_seen()
        head = self._new_head(known, scoring)(moments)
        return Served(self.version, scoring, head, moments.total, _n_others(moments, layer_rows))

    def _new_head(self, known: Known, scoring: Scoring) -> Callable[[Moments], Head]:
        """What makes a head of the moments, and of the labels as they are now."""
        table, layer_rows = known.labels.table(), known.layer_rows
        search = restored(_search(scoring.search, known.moments, known.labels, layer_rows), self._saved_plan)
        previous = None if self.served is None else self.served.head
        log.debug("renewing the head of %d classes", len(known.labels))
        return lambda moments: new_head(
            moments,
            table,
            model=scoring.model,
            shrinkage=scoring.shrinkage,
            target=scoring.target,
            priors=scoring.priors,
            search=search,
            previous=previous,
            layer_rows=layer_rows,
        )

    def _rows_changed(self) -> Rows:
        """Rows that the head does not have yet, in order, none twice."""
        rows = self._changed[0] if len(self._changed) == 1 else np.concatenate(self._changed)
        return rows if len(rows) == 1 else np.unique(rows)

    def _may_begin(self) -> bool:
        """Whether none is under way and the last has rested: as long as it took if much was learned since."""
        if self._renewal is not None and self._renewal.is_alive:
            return False
        is_much = self.served is not None and self._weight > MUCH * self.served.total
        return time.monotonic() >= (self._rest_until_much if is_much else self._rest_until)

    def _begin(self, known: Known, scoring: Scoring, settled: Head | None) -> None:
        """Begin a renewal beside the serving, or bring the changed rows of this head among the others."""
        last = self.served
        assert last is not None
        total, n_others = last.total, last.n_others
        if settled is None:
            total, n_others = known.moments.total, _n_others(known.moments, known.layer_rows)

        def take_over(head: Head, weight: float) -> None:
            if self._renewal is renewal:  # or nobody wants it any more
                unrenewed = weight if settled is None else self._weight
                self._serve(Served(self.version, scoring, head, total, n_others), unrenewed)

        def end(rest: float, rest_if_much: float) -> None:
            if self._renewal is renewal:
                self._renewal, self._rest_until = None, time.monotonic() + rest
                self._rest_until_much = time.monotonic() + rest_if_much

        make = self._new_head(known, scoring) if settled is None else settled.settled
        renewal = self._renewal = Renewal(known, make, take_over, end, with_covariance=settled is None)
        renewal.start()

    def _is_due(self, last: Served, renew: float, moments: Moments, layer_rows: LayerRows | None) -> bool:
        """Whether enough was learned to invert the covariance anew, or to fit a layer's rows anew."""
        if layer_rows is not None:
            renew = max(renew, BESIDE_A_LAYER) if renew else 0.0
            most = (1 + BESIDE_A_LAYER) * last.n_others
            if not last.total or not last.n_others <= _n_others(moments, layer_rows) <= most:
                return True
        elif self._can_tell_at_last(last, moments):
            return True
        weight, d = self._weight, moments.n_features
        if weight <= most_unrenewed(renew, last.total - weight, d):
            return False  # and no need to add up all counts, which would take a while
        return weight > most_unrenewed(renew, moments.total, d) and not moments.frozen

    def _can_tell_at_last(self, last: Served, moments: Moments) -> bool:
        """Whether there was nothing to tell how means and samples vary, and now there may be."""
        if last.scoring.model == "lda" or not isinstance(last.head.space, PlainSpace) or not self._weight:
            return False
        return moments.n_seen > 1 and moments.total > moments.n_seen and not moments.frozen


def most_unrenewed(renew: float, total: float, n_features: int) -> float:
    """Weight that may be learned before the covariance is inverted anew, of `total` learned in all.

    >>> most_unrenewed(0.01, total=1000.0, n_features=100)
    10.0
    >>> most_unrenewed(0.01, total=10_000.0, n_features=100)
    1000.0
    """
    share = renew * max(1.0, total / (SETTLED * n_features))
    return float(min(share, max(renew, MOST_SHARE)) * total)


def nothing_seen() -> Exception:
    """The error of predicting where no class has samples."""
    return not_fitted("No class of this XLDA has samples. Call fit or partial_fit first.")


def _n_others(moments: Moments, layer_rows: LayerRows | None) -> int:
    """Classes that have samples and are not a layer's."""
    return 0 if layer_rows is None else layer_rows.n_others(moments.counts)


def _search(search: str | Search, moments: Moments, labels: Labels, layer_rows: LayerRows | None) -> Search:
    """The search that the parameter stands for. One that is tuned needs classes to draw queries from."""
    if layer_rows is None or 2 * layer_rows.n_unseen(moments.counts) <= len(labels):
        return chosen_search(search, labels.n_rows, moments.n_features, moments.half)
    if search not in ("auto", "dense") and not isinstance(search, Dense):
        raise ValueError(
            f"search={search!r} needs samples of most classes, which a layer converted without "
            "embeddings has not got. Use search='auto', or convert it with embeddings."
        )
    return Dense()
