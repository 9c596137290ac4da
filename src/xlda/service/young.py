"""Telling the unknown while a model is too young to measure itself.

A photo is of something new where it is less like all that was taught than photos of one class are like each
other. What counts is the distance of a photo from the one that is most like it, one less their likeness.
Its logarithm varies about as much whatever is looked at, so that only its mean has to be learned: from the
photos of each class, and as long as these are few, from a usual value.

What a model measures of itself when it has just become able to finds few of the unknown, and calls too many
of the known unsure. So it takes over little by little: the share of the known to be rejected is divided.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from statistics import NormalDist

import apsw
import numpy as np

from xlda._internal.arrays import Array
from xlda.service.database import ROOTS, one
from xlda.service.likeness import directions

MOST = 1000  # samples that are looked at; with more, a model can measure itself
MOST_OF_A_CLASS = 32  # the newest
YOUNG, GROWN_UP = 48, 480  # samples, between which what the model has measured comes to count alone
# Chosen on half of the products of a shop and on drawn things, one to five photos each; docs/serve.md has the
# other half.
USUAL = 0.2  # distance of a photo from the one that is most like it, of two or three of its class
USUAL_WEIGHS = 2.0  # photos
SPREAD = 0.33  # of the logarithm of distances
LEAST = 1e-3  # distance: below that, it is the same photo


class YoungModel:
    """Photos that were taught, as far as they are in the database, and how far apart those of a class are."""

    def __init__(self, reading: Callable[[], apsw.Connection]) -> None:
        self._reading = reading
        self._turn = threading.Lock()
        self._seq = -1  # of the last event that was looked at
        self._last_number = 0  # of a sample
        self._of_class: dict[int, Array] = {}  # directions (n, d), by the number of the class
        self._all: Array | None = None
        self._has_others: object = None  # whether there are samples that the database does not have
        self._usual = np.log(USUAL)  # the mean of what the photos of the classes say, and of what is usual

    def is_strange(self, embeddings: Array, share: float, seq: int, n_classes: int) -> Array:
        """Which of some samples (n, d) are like nothing that was taught; `share` of the known may be.

        Nothing is strange where not all samples of the `n_classes` classes are in the database.
        """
        known, usual = self._current(seq, n_classes)
        if known is None or known.shape[1] != embeddings.shape[1]:
            return np.zeros(len(embeddings), bool)
        return are_strange(directions(embeddings), known, usual, share)

    def weight(self, seq: int, n_classes: int) -> float:
        """How much this counts beside what a model has measured: from 1 down to 0, as it grows up."""
        known, _ = self._current(seq, n_classes)
        if known is None:
            return 0.0
        grown = (len(known) - YOUNG) / (GROWN_UP - YOUNG)
        return round(min(max(1.0 - grown, 0.0), 1.0), 1)

    def _current(self, seq: int, n_classes: int) -> tuple[Array | None, float]:
        if n_classes > MOST:
            return None, 0.0
        with self._turn:
            if seq > self._seq:
                with closing(self._reading()) as db:
                    self._refresh(db)
                self._seq = seq
            if self._has_others or len(self._of_class) < n_classes:
                return None, 0.0
            return self._all, self._usual

    def _refresh(self, db: apsw.Connection) -> None:
        """Look at what came since; at all of it, where anything else has changed."""
        seq, last = self._seq, self._last_number
        self._has_others = one(db, "SELECT 1 FROM classes WHERE from_file UNION SELECT 1 FROM folded")
        if self._has_others:  # then nobody asks for what is here
            self._of_class, self._all, self._last_number = {}, None, 0
            return
        changed = one(db, "SELECT 1 FROM classes WHERE touched > ?", (seq,)) or one(
            db, "SELECT 1 FROM samples WHERE touched > ? AND number <= ?", (seq, last)
        )
        self._of_class = {} if changed else self._of_class
        newest = (
            f"{ROOTS}, ranked AS (SELECT samples.number, root, row_number() OVER (PARTITION BY root ORDER BY "
            "samples.number DESC) AS place FROM samples JOIN tree ON home = tree.number WHERE embedding IS "
            "NOT NULL AND samples.number > ?) SELECT root, embedding, number FROM ranked JOIN samples USING "
            "(number) WHERE place <= ? ORDER BY number LIMIT ?"
        )
        found: dict[int, list[Array]] = {}
        start = 0 if changed else last
        for root, embedding, number in db.execute(newest, (start, MOST_OF_A_CLASS, MOST + 1)):
            found.setdefault(root, []).append(np.frombuffer(embedding, np.float32))
            self._last_number = max(self._last_number, number)
        for root, new in found.items():
            known = [self._of_class[root]] if root in self._of_class else []
            self._of_class[root] = np.concatenate([*known, directions(np.stack(new))])[-MOST_OF_A_CLASS:]
        if changed or found:
            self._note_usual()

    def _note_usual(self) -> None:
        classes = list(self._of_class.values())
        n_samples = sum(map(len, classes))
        self._all = np.concatenate(classes) if 0 < n_samples <= MOST else None
        self._usual = usual_distance(classes)


def usual_distance(classes: Sequence[Array]) -> float:
    """How far photos of a class are from the one that is most like them, as a logarithm.

    What some classes tell, each directions (n, d), and what is usual.
    """
    told = np.concatenate([np.empty(0), *(_apart(some) for some in classes if len(some) > 1)])
    return float((USUAL_WEIGHS * np.log(USUAL) + told.sum()) / (USUAL_WEIGHS + len(told)))


def are_strange(asked: Array, known: Array, usual: float, share: float) -> Array:
    """Which of some directions (n, d) are farther from all that are known than all but `share` of these."""
    nearest = (asked @ known.T).max(axis=1)
    strange: Array = _log_distance(nearest) > usual + SPREAD * NormalDist().inv_cdf(1.0 - share)
    return strange


def _apart(some: Array) -> Array:
    """How far each photo of a class is from the one of its class that is most like it, as a logarithm."""
    alike = some @ some.T
    np.fill_diagonal(alike, -1.0)
    return _log_distance(alike.max(axis=1))


def _log_distance(likeness: Array) -> Array:
    found: Array = np.log(np.maximum(1.0 - likeness, LEAST))
    return found
