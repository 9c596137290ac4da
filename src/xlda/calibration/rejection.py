"""How well answers were judged: whether the sure ones are right, and the unknown told from the known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xlda._internal.arrays import Array
from xlda.calibration.figures import BINS, calibration_error

COVERAGES = (0.5, 0.8, 0.9, 1.0)
KNOWN_TAKEN = 0.95  # of the known are taken for known: how many of the unknown are, then?


@dataclass(frozen=True)
class Confidence:
    """Probabilities of answers about known classes, and whether these were right."""

    probabilities: Array  # (n,), of the best class
    right: Array  # (n,)

    @property
    def calibration_error(self) -> float:
        """How far probabilities are from how often answers are right, on average, in bins of as many."""
        return calibration_error(self.probabilities, self.right, np.ones(len(self.right)))

    def risks(self) -> tuple[Array, Array]:
        """Shares of answers that are given, the surest first, and of these the share of wrong ones."""
        order = np.argsort(-self.probabilities, kind="stable")
        n = np.arange(1, len(order) + 1)
        wrong = np.cumsum(~self.right[order])
        return n / max(len(order), 1), wrong / n

    def accuracy_at(self) -> dict[str, float]:
        """Share of right answers where only so many are given, the surest."""
        _, risks = self.risks()
        places = {share: max(int(np.ceil(share * len(risks))), 1) - 1 for share in COVERAGES}
        return {f"{share:g}": float(1.0 - risks[place]) for share, place in places.items() if len(risks)}

    def reliability(self) -> list[tuple[float, float]]:
        """Mean probability and share of right answers in each bin of as many."""
        order = np.argsort(self.probabilities, kind="stable")
        bins = [some for some in np.array_split(order, BINS) if len(some)]
        return [(float(self.probabilities[some].mean()), float(self.right[some].mean())) for some in bins]


@dataclass(frozen=True)
class Rejection:
    """Samples of known classes and of others, and how well they were told apart."""

    auroc: float  # probability that a known one is more like the known classes than an unknown one
    fpr_at_95: float  # of the unknown, the share taken for known where 95 % of the known are
    known_rejected: float
    unknown_caught: float
    n_known: int
    n_unknown: int

    @classmethod
    def of(cls, novelty: Array, is_known: Array, rejected: Array) -> Rejection | None:
        """From how much each sample is like the known classes; None where all are known, or none."""
        from sklearn.metrics import roc_auc_score, roc_curve

        n_known, n_unknown = int(is_known.sum()), int((~is_known).sum())
        if not n_known or not n_unknown or np.isnan(novelty).any():
            return None
        taken, of_known, _ = roc_curve(is_known, novelty, drop_intermediate=False)
        return cls(
            float(roc_auc_score(is_known, novelty)),
            float(taken[np.argmax(of_known >= KNOWN_TAKEN)]),
            float(rejected[is_known].mean()),
            float(rejected[~is_known].mean()),
            n_known,
            n_unknown,
        )
