"""What a parameter would bring, tried on the samples that were kept, and on nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from xlda._internal.arrays import Array
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
NEEDED = "that takes 200 kept samples or more, of ten classes or more, three of each on average"


@dataclass(frozen=True)
class ParameterTrial:
    """How often each way is right about samples of the classes that were kept, each as if not learned."""

    name: str  # of the parameter
    value: int  # that was tried
    plain: float  # share of right answers without it
    tried: float  # and with it
    low: float  # between which their difference probably is,
    high: float  # tried less plain
    n_samples: int
    n_classes: int

    @classmethod
    def of_lift(cls, kept: Kept, lift: Lift) -> ParameterTrial | None:
        """Try random features; None where there are too few samples to tell anything."""
        return cls._of("lift", lift.width, kept, lambda: right(kept, lift=lift))

    @classmethod
    def of_second_look(cls, kept: Kept, n_rows: int) -> ParameterTrial | None:
        """Try a second look with so many rows of each class; None where there are too few samples."""
        return cls._of("second_look", n_rows, kept, lambda: right(kept, sketch_rows=n_rows))

    @classmethod
    def _of(cls, name: str, value: int, kept: Kept, trial: Callable[[], Array]) -> ParameterTrial | None:
        n_classes = len(np.unique(kept.rows))
        enough = len(kept.rows) >= max(FEWEST, FEWEST_OF_A_CLASS * n_classes) and n_classes >= FEWEST_CLASSES
        if not enough:
            return None
        return cls.between(name, value, right(kept), trial(), n_classes)

    @classmethod
    def between(cls, name: str, value: int, plain: Array, tried: Array, n_classes: int) -> ParameterTrial:
        """From which samples each way is right about, (n,), the same ones."""
        gain = tried.astype(np.float64) - plain
        n, mean = len(gain), float(gain.mean())
        # Of few samples about which the two differ, the spread is not known from these alone.
        spread = (float(np.abs(gain).sum()) + 1.0 - n * mean**2) ** 0.5 / n
        half = DEVIATIONS * spread
        shares = float(plain.mean()), float(tried.mean())
        return cls(name, value, *shares, mean - half, mean + half, n, n_classes)

    @property
    def helps(self) -> bool | None:
        """Whether it is worth it; None where it cannot be told."""
        if self.low > 0:
            return True
        return False if self.high < 0 else None

    def __str__(self) -> str:
        measured = (
            f"{self.tried:.1%} right with {self.name}={self.value}, {self.plain:.1%} without, of "
            f"{self.n_samples:,} kept samples of {self.n_classes:,} classes, learned from these alone "
            f"({_in_points(self.low, self.high)} points)"
        )
        what = f"a {self.name.replace('_', ' ')}"
        said = {True: f"{what} helps", False: f"{what} does harm", None: f"{what}: no difference is seen"}
        return f"{said[self.helps]}: {measured}"


def not_tried(name: str, why: str | None = None) -> str:
    """A sentence for whoever wanted to try a parameter; without a reason, too few samples are kept."""
    return f"a {name.replace('_', ' ')} was not tried: {why or NEEDED}"


def _in_points(low: float, high: float) -> str:
    """Two differences, with as many digits as it takes to tell both from none.

    >>> _in_points(0.0003, 0.04), _in_points(-0.01, 0.02)
    ('+0.03 to +4.00', '-1.0 to +2.0')
    """
    enough = (n for n in range(1, 8) if round(100 * low, n) and round(100 * high, n))
    digits = next(enough, 1)
    return f"{100 * low:+.{digits}f} to {100 * high:+.{digits}f}"


def right(kept: Kept, lift: Lift | None = None, sketch_rows: int | None = None) -> Array:
    """About which samples the answer is right, (n,), each asked for where its fold was not learned."""
    embeddings = kept.embeddings.astype(np.float32)
    known, rows = np.unique(kept.rows, return_inverse=True)
    folds = np.empty(len(rows), np.intp)
    folds[np.argsort(rows, kind="stable")] = np.arange(len(rows)) % N_FOLDS
    is_right: Array = np.zeros(len(rows), bool)
    for number in range(N_FOLDS):
        learned, asked = folds != number, folds == number
        width = embeddings.shape[1] if lift is None else lift.width
        moments = Moments(width, lift=lift, sketch_rows=sketch_rows)
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
