"""Some of the samples learned, kept to check the classifier with, and never to learn from.

Which ones are kept depends on the samples alone: not on their order, on batches, or on how streams were
merged. They are all samples of those classes whose labels have the smallest hashes; a class that has very
many keeps those whose embeddings have.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from xlda._internal.arrays import Array, Rows

SHARE_OF_A_CLASS = 1 / 16  # of all that are kept: the most that one class may have
NEVER = np.uint64(2**64 - 1)  # the hash of a class that is not kept, or not any more
ANYTHING = np.uint64(2**64 - 2)  # what every other hash is at most
NO_GROUP = np.int64(-1)
MOST_HALF = 65_000.0  # that a float16 holds, or nearly so
MOST_WAITING = 64  # samples: bringing in one costs as much as bringing in that many
MOST_HASHED = 256  # features that say whether two embeddings are the same, or nearly so many


class Kept(NamedTuple):
    """Samples, in an order that depends on nothing but them."""

    embeddings: Array  # (n, n_features)
    rows: Rows  # (n,): their classes
    weights: Array  # (n,)
    groups: Array  # (n,): those of a group have the same number; -1 for none


class KeptSamples:
    """Up to `most` samples of a stream, whole classes of them.

    >>> kept = KeptSamples(n_features=1, most=32)
    >>> kept.name([0, 1], [7, 9])
    >>> kept.add(np.array([[1.0], [2.0], [2.0]]), np.array([0, 1, 1]))
    >>> kept.samples().rows, kept.samples().weights
    (array([0, 1]), array([1., 2.]))
    """

    def __init__(self, n_features: int, most: int) -> None:
        self.most = most
        self.most_of_a_class = max(1, int(SHARE_OF_A_CLASS * most))
        self._cutoff = ANYTHING  # classes with a larger hash are not kept
        self._hashes = np.empty(0, np.uint64)  # of each row's label
        self._limits: dict[int, int] = {}  # of rows with very many: embeddings of this hash on are not kept
        self._embeddings = np.empty((0, n_features), np.float16)  # in slots, of which some are free
        self._entries = _Entries.none()
        self._waiting: list[Kept] = []  # samples that came a few at a time, and are not among the others yet
        self._n_waiting = 0

    def __len__(self) -> int:
        self._settle()
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """Memory."""
        waiting = sum(some.embeddings.nbytes for some in self._waiting)
        return self._embeddings.nbytes + self._hashes.nbytes + self._entries.nbytes + waiting

    def samples(self) -> Kept:
        """All that are kept."""
        self._settle()
        entries = self._entries
        some = entries.taken(np.lexsort((entries.ids, self._hashes[entries.rows])))
        return Kept(self._embeddings[some.slots], some.rows, some.weights, some.groups)

    def name(self, rows: Sequence[int], hashes: Sequence[int]) -> None:
        """Say which hashes the labels of new rows have."""
        n_rows = max(rows, default=-1) + 1
        if n_rows > len(self._hashes):
            more = np.full(max(n_rows, 5 * len(self._hashes) // 4) - len(self._hashes), NEVER)
            self._hashes = np.concatenate([self._hashes, more])
        for row, number in zip(rows, hashes, strict=True):
            self._hashes[row] = number
            self._limits.pop(row, None)

    # -- what happens to samples

    def add(
        self, embeddings: Array, rows: Rows, weights: ArrayLike | None = None, groups: Array | None = None
    ) -> None:
        """Samples were learned."""
        places = self._places_of_kept_classes(rows)
        if not len(places):
            return
        new = Kept(
            embeddings if len(places) == len(rows) > MOST_WAITING else embeddings[places],
            rows[places],
            np.ones(len(places)) if weights is None else np.asarray(weights, np.float64)[places],
            np.full(len(places), NO_GROUP) if groups is None else np.asarray(groups, np.int64)[places],
        )
        self._waiting.append(new)
        self._n_waiting += len(places)
        if self._n_waiting > MOST_WAITING:
            self._settle()

    def _settle(self) -> None:
        """Bring in what waits. Which samples are kept does not depend on when that is."""
        if not self._waiting:
            return
        waiting = self._waiting
        new = waiting[0] if len(waiting) == 1 else Kept(*map(np.concatenate, zip(*waiting, strict=True)))
        self._waiting, self._n_waiting = [], 0
        found = self._of_kept_classes(new.embeddings, new.rows)
        if found is None:
            return
        places, ids = found
        slots = -1 - places  # where they are to be had, until they have a slot
        entries = _Entries(new.rows[places], ids, new.weights[places], new.groups[places], slots)
        self._take(entries, new.embeddings)

    def remove(self, embeddings: Array, rows: Rows, weights: ArrayLike | None = None) -> None:
        """Samples were forgotten."""
        self._settle()
        found = self._of_kept_classes(embeddings, rows)
        if found is None:
            return
        places, ids = found
        gone = np.ones(len(places)) if weights is None else np.asarray(weights, np.float64)[places]
        entries = self._entries
        order = np.lexsort((entries.ids, entries.rows))
        for row, number, weight in zip(rows[places], ids, gone, strict=True):
            first = np.searchsorted(entries.rows[order], row)
            last = np.searchsorted(entries.rows[order], row, "right")
            place = first + np.searchsorted(entries.ids[order[first:last]], number)
            if place < last and entries.ids[order[place]] == number:
                entries.weights[order[place]] -= weight
        self._entries = entries.taken(np.flatnonzero(entries.weights > 1e-9))

    def drop(self, row: int) -> None:
        """A class was removed."""
        self._settle()
        self._leave_out(row)
        if row < len(self._hashes):
            self._hashes[row] = NEVER

    def join(self, into: int, other: int) -> None:
        """A class became a part of another: it stays whole if both were."""
        self._settle()
        if not self.most:
            return
        if self._keeps(into) and self._keeps(other):
            self._entries.rows[self._entries.rows == other] = into
            self._hashes[other] = NEVER
            self._limit(into, self._limits.get(other))
            self._take(_Entries.none(), self._embeddings[:0])
        else:
            self.drop(into)
            self.drop(other)

    def merge(self, other: KeptSamples, rows: Rows, new: Array) -> None:
        """Another stream's samples were learned; its class i is row `rows[i]` here, which `new[i]` or not."""
        if not self.most:
            return
        self._settle()
        other._settle()
        hashes = other._of_rows(len(rows))
        self.name(rows[new].tolist(), hashes[new].tolist())
        self._cutoff = min(self._cutoff, other._cutoff)
        torn = (hashes != self._hashes[rows]) & (hashes > other._cutoff)
        for row in rows[torn]:  # it was renamed in one of the two, where it is not kept; or that keeps none
            self.drop(int(row))
        for row, limit in other._limits.items():
            self._limit(int(rows[row]), limit)
        entries = other._entries
        moved = _Entries(rows[entries.rows], entries.ids, entries.weights, entries.groups, -1 - entries.slots)
        self._take(moved, other._embeddings)

    # -- how it works

    def _of_rows(self, n: int) -> Array:
        """Hashes of the first `n` rows, also of those that have no label."""
        hashes = np.full(n, NEVER)
        known = min(n, len(self._hashes))
        hashes[:known] = self._hashes[:known]
        return hashes

    def _limit(self, row: int, limit: int | None) -> None:
        if limit is not None:
            self._limits[row] = min(limit, self._limits.get(row, limit))

    def _limits_of(self, rows: Rows) -> Array:
        if not self._limits:
            return np.full(len(rows), NEVER)
        never = int(NEVER)
        found = (self._limits.get(row, never) for row in rows.tolist())
        return np.fromiter(found, np.uint64, len(rows))

    def _keeps(self, row: int) -> bool:
        return row < len(self._hashes) and bool(self._hashes[row] <= self._cutoff)

    def _of_kept_classes(self, embeddings: Array, rows: Rows) -> tuple[Rows, Array] | None:
        """Which samples may be kept, and the hashes of their embeddings."""
        places = self._places_of_kept_classes(rows)
        if not len(places):
            return None
        ids = embedding_hashes(embeddings, places)
        within = ids < self._limits_of(rows[places])
        return (places[within], ids[within]) if within.any() else None

    def _places_of_kept_classes(self, rows: Rows) -> Rows:
        if not self.most or not len(rows):
            return np.empty(0, np.intp)
        return np.flatnonzero(self._hashes[rows] <= self._cutoff)

    def _leave_out(self, row: int) -> None:
        self._entries = self._entries.taken(np.flatnonzero(self._entries.rows != row))

    def _take(self, new: _Entries, embeddings: Array) -> None:
        """Have these entries too, as far as they are to be kept; slots below 0 are places in `embeddings`."""
        both = self._entries.with_others(new)
        both = self._within_classes(both)
        both = self._whole_classes(both)
        coming = np.flatnonzero(both.slots < 0)
        if len(coming):
            some = embeddings[-1 - both.slots[coming]]
            free = np.ones(max(len(self._embeddings), 1), bool)[: len(self._embeddings)]
            free[both.slots[both.slots >= 0]] = False
            slots = np.flatnonzero(free)
            if len(slots) < len(coming):
                self._lengthen(len(coming) - len(slots))
                slots = np.concatenate([slots, np.arange(len(free), len(self._embeddings))])
            if self._embeddings.dtype == np.float16 and not np.abs(some).max() <= MOST_HALF:
                self._embeddings = self._embeddings.astype(np.float32)
            both.slots[coming] = slots[: len(coming)]
            self._embeddings[both.slots[coming]] = some
        self._entries = both

    def _lengthen(self, n: int) -> None:
        more = min(max(n, len(self._embeddings)), max(n, self.most - len(self._embeddings)))
        empty = np.empty((more, self._embeddings.shape[1]), self._embeddings.dtype)
        self._embeddings = np.concatenate([self._embeddings, empty])

    def _within_classes(self, entries: _Entries) -> _Entries:
        """No more of any class than it may have: those with the smallest hashes."""
        counts = np.bincount(entries.rows, minlength=1)
        for row in np.flatnonzero(counts > self.most_of_a_class):
            of_row = np.flatnonzero(entries.rows == row)
            self._limit(int(row), int(np.sort(entries.ids[of_row])[self.most_of_a_class]))
        return entries.taken(np.flatnonzero(entries.ids < self._limits_of(entries.rows)))

    def _whole_classes(self, entries: _Entries) -> _Entries:
        """As many classes as there is room for, those with the smallest hashes."""
        entries = entries.taken(np.flatnonzero(self._hashes[entries.rows] <= self._cutoff))
        if len(entries) <= self.most:
            return entries
        hashes, counts = np.unique(self._hashes[entries.rows], return_counts=True)
        n_kept = int((np.cumsum(counts) <= self.most).sum())
        self._cutoff = hashes[n_kept] - np.uint64(1)
        return entries.taken(np.flatnonzero(self._hashes[entries.rows] <= self._cutoff))

    # -- leaving and coming back

    def to_arrays(self, n_rows: int) -> dict[str, Array]:
        """All there is to know, of so many rows."""
        self._settle()
        entries = self._entries
        return {
            "embeddings": self._embeddings[entries.slots],
            "rows": entries.rows.astype(np.int64),
            "ids": entries.ids.view(np.int64),
            "weights": entries.weights,
            "groups": entries.groups,
            "hashes": self._of_rows(n_rows).view(np.int64),
            "limits": self._limits_of(np.arange(n_rows)).view(np.int64),
            "cutoff": np.array([self._cutoff]).view(np.int64),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array], most: int) -> KeptSamples:
        """What `to_arrays` gave."""
        kept = cls(arrays["embeddings"].shape[1], most)
        kept._embeddings = arrays["embeddings"]
        kept._hashes, limits = arrays["hashes"].view(np.uint64), arrays["limits"].view(np.uint64)
        limited = np.flatnonzero(limits != NEVER)
        kept._limits = dict(zip(limited.tolist(), limits[limited].tolist(), strict=True))
        kept._cutoff = arrays["cutoff"].view(np.uint64)[0]
        kept._entries = _Entries(
            arrays["rows"].astype(np.intp),
            arrays["ids"].view(np.uint64),
            arrays["weights"],
            arrays["groups"],
            np.arange(len(arrays["rows"])),
        )
        return kept

    def __getstate__(self) -> dict[str, Any]:
        self._settle()
        slots = self._entries.slots  # only what is in use
        return {
            **self.__dict__,
            "_embeddings": self._embeddings[slots],
            "_entries": self._entries._replaced(np.arange(len(slots))),
        }

    def __deepcopy__(self, memo: dict[int, Any]) -> KeptSamples:
        state, other = self.__getstate__(), KeptSamples.__new__(KeptSamples)
        embeddings = state.pop("_embeddings")  # which is a copy by now
        other.__dict__.update(copy.deepcopy(state, memo), _embeddings=embeddings)
        return other


class _Entries:
    """What is known of samples beside their embeddings, which are in slots."""

    def __init__(self, rows: Rows, ids: Array, weights: Array, groups: Array, slots: Rows) -> None:
        self.rows, self.ids, self.weights, self.groups, self.slots = rows, ids, weights, groups, slots

    @classmethod
    def none(cls) -> _Entries:
        empty = np.empty(0, np.intp)
        return cls(empty, np.empty(0, np.uint64), np.empty(0), np.empty(0, np.int64), empty)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in vars(self).values())

    def taken(self, places: Rows) -> _Entries:
        return _Entries(*(part[places] for part in vars(self).values()))

    def _replaced(self, slots: Rows) -> _Entries:
        return _Entries(self.rows, self.ids, self.weights, self.groups, slots)

    def with_others(self, others: _Entries) -> _Entries:
        """All of both; those that are the same are one, with the weight of all, where the first was."""
        parts = zip(vars(self).values(), vars(others).values(), strict=True)
        both = _Entries(*(np.concatenate(pair) for pair in parts))
        order = np.lexsort((both.slots < 0, both.ids, both.rows))
        rows, ids = both.rows[order], both.ids[order]
        is_first = np.ones(len(order), bool)
        is_first[1:] = (rows[1:] != rows[:-1]) | (ids[1:] != ids[:-1])
        first = np.flatnonzero(is_first)
        kept = both.taken(order[first])
        if len(first) < len(order):
            kept.weights = np.add.reduceat(both.weights[order], first)
            kept.groups = np.maximum.reduceat(both.groups[order], first)
        return kept


def embedding_hashes(embeddings: Array, places: Rows | slice = slice(None)) -> Array:
    """A number for each of some embeddings (n, d), the same for the same values as float32.

    Of wide ones it is made from some of the features, spread over all: no two photos agree in so many.

    >>> a, b = embedding_hashes(np.array([[1.0, 0.0, 2.0], [1.0, -0.0, 2.0]]))
    >>> bool(a == b)
    True
    """
    step = max(1, embeddings.shape[1] // MOST_HASHED)
    values = embeddings[:, ::step][places].astype(np.float32, copy=False) + np.float32(0.0)  # no -0.0
    if values.shape[1] % 2:
        values = np.concatenate([values, np.zeros((len(values), 1), np.float32)], axis=1)
    words = np.ascontiguousarray(values).view(np.uint64)
    mixed: Array = words @ _odd_numbers(words.shape[1])
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    hashes: Array = np.minimum(mixed ^ (mixed >> np.uint64(31)), ANYTHING)
    return hashes


@cache
def _odd_numbers(n: int) -> Array:
    numbers = np.random.default_rng(0).integers(0, 2**63, n, np.uint64)
    odd: Array = numbers * np.uint64(2) + np.uint64(1)
    return odd
