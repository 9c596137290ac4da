"""What a lift would bring, tried on the samples that were kept, and on nothing else.

Plain discriminant analysis of so few samples needs no covariance, however many features they have: with R
their residuals about class means, (S + l I)^-1 is (I - R' (l n I + R R')^-1 R) / l, and all that is asked for
are products of samples with samples. So both ways are tried at the cost of one table of such products each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.calibration.share import DEVIATIONS
from xlda.head.covariance import prior_shrinkage
from xlda.head.lifted_shrinkage import worth_features_by
from xlda.lifting import Lift
from xlda.moments.kept_samples import Kept

WIDTH = 4096  # features that are tried where none are in use
N_FOLDS = 5
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
        plain = _right(embeddings, kept.rows)
        lifted = _right(lift.features(embeddings), kept.rows)
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
            f"{self.lifted:.1%} right with lift={self.lift}, {self.plain:.1%} without, by plain LDA of "
            f"{self.n_samples:,} kept samples of {self.n_classes:,} classes alone ({100 * self.low:+.1f} to "
            f"{100 * self.high:+.1f} points)"
        )
        said = {True: "a lift helps", False: "a lift does harm", None: "a lift: no difference is seen"}
        return f"{said[self.helps]}: {measured}"


def _right(features: Array, rows: Rows) -> Array:
    """About which samples the answer is right, (n,), each asked for where its fold was not learned."""
    classes = np.unique(rows, return_inverse=True)[1]
    products = (features @ features.T).astype(np.float64)
    order = np.argsort(classes, kind="stable")
    folds = np.empty(len(rows), np.intp)
    folds[order] = np.arange(len(rows)) % N_FOLDS
    right = np.zeros(len(rows), bool)
    for number in range(N_FOLDS):
        learned, asked = np.flatnonzero(folds != number), np.flatnonzero(folds == number)
        found = _answers(products, classes, learned, asked, features.shape[1])
        right[asked] = found == classes[asked]
    return right


def _answers(products: Array, classes: Rows, learned: Rows, asked: Rows, d: int) -> Array:
    """Classes of the samples `asked` by plain LDA of those `learned`, from products of samples alone."""
    known, own = np.unique(classes[learned], return_inverse=True)
    mean = np.zeros((len(known), len(learned)))  # class means are mean @ samples
    mean[own, np.arange(len(learned))] = 1.0
    mean /= mean.sum(axis=1, keepdims=True)
    among, across = products[np.ix_(learned, learned)], products[np.ix_(asked, learned)]
    about = mean @ among  # products of class means and samples
    between = about @ mean.T
    residuals = among - about[own] - about[own].T + between[np.ix_(own, own)]
    dof = len(learned) - len(known)
    trace, squares = float(np.trace(residuals)) / dof, float(np.vdot(residuals, residuals)) / dof**2
    share = prior_shrinkage(worth_features_by(trace, squares, d, dof), dof)
    ridge = share / (1.0 - share) * trace / d
    residuals[np.diag_indices_from(residuals)] += ridge * dof
    towards = np.linalg.solve(residuals, (about - between[:, own]).T)  # residuals of samples, by class means
    of_asked = across - (across @ mean.T)[:, own]
    scores = across @ mean.T - of_asked @ towards
    own_scores = between - (about - between[:, own]) @ towards
    best: Array = known[(scores - 0.5 * np.diag(own_scores)).argmax(axis=1)]
    return best
