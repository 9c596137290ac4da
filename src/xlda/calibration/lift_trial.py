"""What a lift would bring, tried on the samples that were kept, and on nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.calibration.share import DEVIATIONS
from xlda.head import new_head
from xlda.labels import LabelTable
from xlda.lifting import Lift
from xlda.moments import Moments
from xlda.moments.kept_samples import Kept
from xlda.search.dense import Dense

N_FOLDS = 3
FEWEST = 200  # samples; of fewer nothing is said
FEWEST_CLASSES = 10
FEWEST_OF_A_CLASS = 3  # samples, on average


@dataclass(frozen=True)
class LiftTrial:
    """How often each way is right about samples of the classes that were kept, each as if not learned."""

    lift: int  # features that were tried
    plain: float  # share of right answers without them
    lifted: float  # and with them
    low: float  # between which their difference probably is,
    high: float  # lifted less plain
    n_samples: int
    n_classes: int

    @classmethod
    def of(cls, kept: Kept, lift: Lift) -> LiftTrial | None:
        """Try it; None where there are too few samples to tell anything."""
        n_classes = len(np.unique(kept.rows))
        enough = len(kept.rows) >= max(FEWEST, FEWEST_OF_A_CLASS * n_classes) and n_classes >= FEWEST_CLASSES
        if not enough:
            return None
        embeddings = kept.embeddings.astype(np.float32)
        plain, lifted = right(embeddings, kept.rows, None), right(embeddings, kept.rows, lift)
        return cls.between(lift.width, plain, lifted, n_classes)

    @classmethod
    def between(cls, width: int, plain: Array, lifted: Array, n_classes: int) -> LiftTrial:
        """From which samples each way is right about, (n,), the same ones."""
        gain = lifted.astype(np.float64) - plain
        n, mean = len(gain), float(gain.mean())
        # Of few samples about which the two differ, the spread is not known from these alone.
        spread = (float(np.abs(gain).sum()) + 1.0 - n * mean**2) ** 0.5 / n
        half = DEVIATIONS * spread
        shares = float(plain.mean()), float(lifted.mean())
        return cls(width, *shares, mean - half, mean + half, n, n_classes)

    @property
    def helps(self) -> bool | None:
        """Whether a lift is worth it; None where it cannot be told."""
        if self.low > 0:
            return True
        return False if self.high < 0 else None

    def __str__(self) -> str:
        measured = (
            f"{self.lifted:.1%} right with lift={self.lift}, {self.plain:.1%} without, of "
            f"{self.n_samples:,} kept samples of {self.n_classes:,} classes, learned from these alone "
            f"({100 * self.low:+.1f} to {100 * self.high:+.1f} points)"
        )
        said = {True: "a lift helps", False: "a lift does harm", None: "a lift: no difference is seen"}
        return f"{said[self.helps]}: {measured}"


def right(embeddings: Array, rows: Rows, lift: Lift | None) -> Array:
    """About which samples the answer is right, (n,), each asked for where its fold was not learned."""
    known, rows = np.unique(rows, return_inverse=True)
    folds = np.empty(len(rows), np.intp)
    folds[np.argsort(rows, kind="stable")] = np.arange(len(rows)) % N_FOLDS
    is_right: Array = np.zeros(len(rows), bool)
    for number in range(N_FOLDS):
        learned, asked = folds != number, folds == number
        moments = Moments(embeddings.shape[1] if lift is None else lift.width, lift=lift)
        moments.grow(len(known))
        moments.update(embeddings[learned], rows[learned])
        head = new_head(
            moments,
            LabelTable(np.arange(len(known)).astype(object), np.int64),
            model="bayes",
            shrinkage="auto",
            target="trace",
            priors="equal",
            search=Dense(),
        )
        best = head.top(embeddings[asked], 1)[0][:, 0]
        is_right[asked] = best == rows[asked]
    return is_right
