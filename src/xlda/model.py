"""All that a classifier has learned: labels, moments and the rows of a layer, changed together."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.interrupts import interrupt_afterwards
from xlda._internal.locks import fork_safe_lock
from xlda.calibration.calibration import Calibration
from xlda.head import Head, spread_to_keep
from xlda.head.layer_rows import LayerRows
from xlda.labels import Label, Labels, LabelTable, check_lengths, label_hash
from xlda.moments import ForgetError, Moments
from xlda.moments.blocks import check_has, restore, split
from xlda.moments.comparison import same_rows
from xlda.moments.sample_buffer import A_FEW, SampleBuffer
from xlda.moments.sketches import SketchRows
from xlda.upkeep import Scoring, Upkeep


class Model:
    """What was learned, and the head that scores it.

    Embeddings, labels and weights are checked by whoever calls. Every change holds the lock, is whole or
    does not happen, and is told to the upkeep.
    """

    def __init__(self, moments: Moments, labels: Labels | None = None, started_with: Any = None) -> None:
        self._moments = moments
        self._labels = Labels() if labels is None else labels
        self.layer_rows: LayerRows | None = None  # rows of a layer that nobody has samples of
        self.started_with = started_with  # parameters that cannot change once something was learned
        self.calibration: Calibration | None = None  # how sure answers are, once that was measured
        self._upkeep = Upkeep()
        self._few = SampleBuffer()  # samples that are in nothing of the above yet
        self.lock = fork_safe_lock()  # learning and bringing the head up to date take turns
        known = self._labels.table().row_of
        self._name([*known], [*known.values()])

    # -- what there is, with all samples in it

    @property
    def moments(self) -> Moments:
        """Counts, means and scatter."""
        self._settle()
        return self._moments

    @moments.setter
    def moments(self, moments: Moments) -> None:
        self._moments = moments

    @property
    def labels(self) -> Labels:
        """Which row a label has."""
        self._settle()
        return self._labels

    @property
    def upkeep(self) -> Upkeep:
        """Who keeps the head current."""
        self._settle()
        return self._upkeep

    @upkeep.setter
    def upkeep(self, upkeep: Upkeep) -> None:
        self._upkeep = upkeep

    @property
    def frozen(self) -> bool:
        """Whether the covariance has stopped learning."""
        return self._moments.frozen

    def _settle(self) -> None:
        """Learn the samples in the buffer, for whoever reads."""
        if len(self._few):
            with self.lock, interrupt_afterwards():
                embeddings, labels = self._few.samples()
                if labels:  # another thread may have been the first
                    self._learn(embeddings, labels)
                    self._few.clear()  # and not before: where memory cannot be had, they are not lost

    def go_on_from(self, earlier: Model) -> None:
        """Serve the head of an earlier model, whose rows this has too, with what has changed since in it."""
        with self.lock:
            moments, before, n = self.moments, earlier.moments, earlier.labels.n_rows
            is_same = same_rows(moments, before)
            names, old = (model.labels.table().names for model in (self, earlier))
            is_same[:n] &= names[:n] == old
            added = moments.counts
            added[:n] -= before.counts
            self.upkeep.go_on_from(earlier.upkeep, np.flatnonzero(~is_same), float(np.abs(added).sum()))

    # -- learning

    def learn(
        self,
        embeddings: Array,
        labels: list[Label],
        weights: Array | None = None,
        ahead: Sequence[Label] = (),
        groups: Array | None = None,
    ) -> None:
        """Learn samples of known labels and of new ones; labels named `ahead` become known without any."""
        with self.lock:
            self._labels.check_kind(ahead, labels)
            is_few = len(labels) <= A_FEW and len(self._labels) and not ahead
            if is_few and weights is None and groups is None:
                self._learn_later(embeddings, labels)
                return
            self._settle()
            self._learn(embeddings, labels, weights, ahead, groups)

    def _learn_later(self, embeddings: Array, labels: list[Label]) -> None:
        """Put a few samples into the buffer, after all that could be wrong with them was looked at."""
        check_lengths(labels)
        if not self._few.has_room_for(embeddings):
            self._settle()
        self._moments.check_whole()
        self._moments.reserve(self._labels.n_rows + len(self._few) + len(labels))
        self._few.add(embeddings, labels)

    def _learn(
        self,
        embeddings: Array,
        labels: list[Label],
        weights: Array | None = None,
        ahead: Sequence[Label] = (),
        groups: Array | None = None,
    ) -> None:
        rows = None if ahead else self._labels.rows_if_known(labels)
        if rows is not None:
            self._take(embeddings, rows, weights, groups)
            return
        with interrupt_afterwards():  # or a class could come without its samples
            self._take(embeddings, self._welcome(ahead, labels), weights, groups)

    def _take(self, embeddings: Array, rows: Rows, weights: Array | None, groups: Array | None) -> None:
        # In this order an interrupt between the two costs a needless look at these rows, and no sample.
        self._upkeep.changed(rows, len(rows) if weights is None else weights.sum())
        self._moments.update(embeddings, rows, weights, groups)

    def _welcome(self, ahead: Sequence[Label], labels: list[Label]) -> Rows:
        """Rows of `labels`, making room for those that are new and for those named ahead."""
        new = self._labels.newcomers(ahead, labels)
        self._moments.reserve(self._labels.n_rows_with(len(new)))  # memory first: it may not be had
        self._name(new, self._labels.give_rows(new))
        self._moments.grow(self._labels.n_rows)
        if ahead:
            self._upkeep.changed(self._labels.rows(ahead))
        rows = self._labels.rows_if_known(labels)
        assert rows is not None  # by now
        return rows

    def _name(self, labels: Sequence[Label], rows: Sequence[int]) -> None:
        """Tell the samples kept for checking which labels are new."""
        if labels and self._moments.kept.most:
            self._moments.kept.name(rows, [label_hash(label) for label in labels])

    def forget(self, embeddings: Array, labels: list[Label], weights: Array | None = None) -> None:
        """Undo having learned these samples; more than a class has is an error that names it."""
        with self.lock, interrupt_afterwards():
            rows = self.labels.rows(labels)
            try:
                self.moments.forget(embeddings, rows, weights)
            except ForgetError as error:
                name = self.labels.name(error.row)
                raise ValueError(
                    f"Cannot forget {error.taken:g} of class {name!r}: it has learned {error.have:g}."
                ) from None
            self.upkeep.changed(rows, len(rows) if weights is None else weights.sum())

    def remove(self, label: Label) -> None:
        """Let a class go; what it taught about the covariance stays."""
        with self.lock, interrupt_afterwards():
            row = int(self.labels.rows([label])[0])
            count = float(self.moments.counts_of(np.array([row]))[0])
            self.moments.drop(row)
            self._move(row, -1)
            self.labels.remove(label)
            if self.layer_rows is not None and self.layer_rows.has(row):
                self.layer_rows = self.layer_rows.without(row) or None
                self.upkeep.start_over()
            self.upkeep.changed(np.array([row]), count)  # it is missed in how class means differ

    def rename(self, old: Label, new: Label) -> None:
        """Give a class another label."""
        with self.lock, interrupt_afterwards():
            self.upkeep.changed(np.array([self.labels.rename(old, new)]))

    def join(self, into: Label, other: Label) -> None:
        """Make one class a part of another."""
        with self.lock, interrupt_afterwards():
            kept, gone = self.labels.rows([into, other]).tolist()
            if kept == gone:
                raise ValueError(f"merge_classes needs two classes; got {into!r} twice.")
            for row in (kept, gone):
                if self.layer_rows is not None and self.layer_rows.has(row):
                    name = self.labels.name(row)
                    raise ValueError(f"Class {name!r} comes from a layer, whose rows cannot be merged.")
            count = float(self.moments.counts_of(gone))
            self.moments.join(kept, gone)
            self._move(gone, kept)
            self.labels.remove(other)
            self.upkeep.changed(np.array([kept, gone]), count)

    def split(
        self, label: Label, new: Label, count: float, mean: Array, sketch: SketchRows | None = None
    ) -> None:
        """Make samples of a class, of which these are count and mean, a class of their own."""
        with self.lock, interrupt_afterwards():
            row = int(self.labels.rows([label])[0])
            if new in self.labels:
                raise ValueError(f"Class {new!r} exists already.")
            if self.layer_rows is not None and self.layer_rows.has(row):
                raise ValueError(f"Class {label!r} comes from a layer, whose rows cannot be split.")
            try:
                check_has(self.moments, row, count)
            except ForgetError as error:
                raise ValueError(
                    f"Cannot take {error.taken:g} of class {label!r}: it has learned {error.have:g}."
                ) from None
            made = self._row_for(new)
            split(self.moments, row, made, count, mean, sketch)
            self.upkeep.changed(np.array([row, made]), count)

    def restore(self, label: Label, count: float, mean: Array, sketch: SketchRows | None = None) -> None:
        """Have a class again that was removed, with so many samples of this mean."""
        with self.lock, interrupt_afterwards():
            if label in self.labels and self.moments.counts_of(self.labels.rows([label]))[0] > 0:
                raise ValueError(f"Class {label!r} has samples already.")
            row = self._row_for(label)
            restore(self.moments, row, count, mean, sketch)
            self.upkeep.changed(np.array([row]), count)

    def _row_for(self, label: Label) -> int:
        """The row of a label that may be new."""
        self.labels.check_kind([label])
        self._welcome([label], [])
        return int(self.labels.rows([label])[0])

    def merge(self, other: Model) -> None:
        """Learn all that another model has learned from samples."""
        one, two = sorted((self, other), key=lambda model: id(model.lock))  # so that none waits for ever
        with one.lock, two.lock, interrupt_afterwards():
            table = other.labels.table()
            theirs = table.sorted_rows
            labels = table.names[theirs].tolist()
            self.labels.check_kind(labels)
            newcomers = self.labels.newcomers(labels)
            self.moments.reserve(self.labels.n_rows_with(len(newcomers)))
            rows, new = np.zeros(other.moments.n_classes, np.intp), np.zeros(other.moments.n_classes, bool)
            new[theirs] = np.isin(labels, newcomers)
            rows[theirs] = self.labels.add(labels)
            self.moments.grow(self.labels.n_rows)
            self.moments.merge(other.moments, rows, new)
            self._take_confirmed(other.calibration, rows)
            self.upkeep.changed(rows[theirs], other.moments.weight_learned)

    def take_calibration(self, measured: Calibration, table: LabelTable) -> None:
        """What was measured when labels were as in `table`; what was confirmed since is not lost by it."""
        with self.lock:
            then = table.names
            is_same = then == self.labels.table().names[: len(then)]  # a row may be another class's by now
            measured = measured.in_rows(np.where(is_same, np.arange(len(then)), -1))
            last = self.calibration or Calibration.none()
            self.calibration = measured.with_confirmed(last.confirmed, last.confirmed_unknown)

    def _move(self, row: int, to: int) -> None:
        """Tell what was measured of a class that it is another one now, or that it is gone (-1)."""
        if self.calibration is not None:
            rows = np.arange(self.labels.n_rows)
            rows[row] = to
            self.calibration = self.calibration.in_rows(rows)

    def _take_confirmed(self, other: Calibration | None, rows: Rows) -> None:
        """Answers that were confirmed to another model, whose class i is row `rows[i]` here."""
        if other is not None and len(other.confirmed) + len(other.confirmed_unknown):
            moved, mine = other.in_rows(rows), self.calibration or Calibration.none()
            self.calibration = mine.with_confirmed(moved.confirmed, moved.confirmed_unknown)

    def freeze(self, scoring: Scoring) -> None:
        """Keep the covariance as it is, and how class means differ; counts and means go on learning."""
        with self.lock:
            if self.moments.frozen or not self.moments.n_seen:
                return
            spread = None
            if scoring.model == "bayes":
                spread = spread_to_keep(self.moments, scoring.shrinkage, scoring.target)
            self.moments.freeze(spread)

    def drop_sketches(self) -> None:
        """Look once from now on: let the rows for a second look go."""
        with self.lock, interrupt_afterwards():
            if self.moments.sketches is not None:
                self.moments.sketches = None
                self.started_with = self.started_with._replace(second_look=None)
                self.upkeep.start_over()

    def head(self, scoring: Scoring, renew: float, background: bool = False) -> Head:
        """The head of all that was learned before this call; with `background`, renewed beside it."""
        upkeep = self.upkeep
        served = upkeep.served  # read once: another thread may be putting the next one there
        can_wait = not (background and upkeep.can_begin_at_last)
        if (
            served is not None
            and served.version == self.upkeep.version
            and served.scoring == scoring
            and can_wait
        ):
            return served.head
        with self.lock:
            return self.upkeep.head(self, scoring, renew, background)

    @property
    def nbytes(self) -> dict[str, int]:
        """Memory of each part, but the head."""
        layer = {} if self.layer_rows is None else {"imported layer": self.layer_rows.nbytes}
        return {**self.moments.nbytes, **layer}

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        other = Model.__new__(Model)
        other.__setstate__(self._copied(memo))
        return other

    def __getstate__(self) -> dict[str, Any]:
        return self._copied({})  # a copy: the lock is let go before it is written

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, lock=fork_safe_lock(), _few=SampleBuffer())

    def _copied(self, memo: dict[int, Any]) -> dict[str, Any]:
        with self.lock:
            self._settle()
            left_out = ("lock", "_few")
            parts = {name: part for name, part in self.__dict__.items() if name not in left_out}
            return copy.deepcopy(parts, memo)
