"""From evidence to a temperature, a correction of the best, a threshold and the odds of being known."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from xlda._internal.arrays import Array
from xlda.calibration.evidence import Evidence

TEMPERATURE = 12.0  # of scores, where nothing was measured: about that of shop photos
LEAST, MOST = 0.05, 1000.0  # that a temperature may be
MOST_LOGIT = 20.0
HALVINGS = 20  # of an exponent, to find it
A_LITTLE = 1e-6  # by so much the best is likelier than the second, at least
PRIOR = 2.0  # samples that a correction of nothing is worth
LEAST_END, MOST_END = 0.5, 0.999999  # of a probability, where an answer could not be surer
BINS = 15
ENOUGH = 200  # samples with as many of their class: they have a threshold of their own
COUNTS = (1.5, 2.5, 5.5, 15.5)  # samples of a class, between groups that may


@dataclass(frozen=True, eq=False)
class Line:
    """A logistic curve."""

    at_zero: float
    slope: float
    most: float = 1.0  # that it ever reaches

    def of(self, values: Array) -> Array:
        """Probabilities."""
        with np.errstate(over="ignore"):  # of what is infinitely unlikely
            found: Array = self.most / (1.0 + np.exp(-self.at_zero - self.slope * values))
        return found


AS_IT_IS = Line(0.0, 1.0)


class FittedFigures(NamedTuple):
    """All that is fitted to evidence once, and needed for every answer."""

    temperature: float
    correction: Line  # of the probability of the best
    known_line: Line  # the odds of being known, by novelty


def temperature(evidence: Evidence) -> float:
    """What scores are divided by so that the right classes are as likely as they are often right."""
    from scipy.optimize import minimize_scalar  # which takes long to import
    from scipy.special import logsumexp

    told = evidence.place >= 0
    if not evidence.weights[told].any():
        return TEMPERATURE
    scores = evidence.scores[told].astype(np.float64)
    own = scores[np.arange(len(scores)), evidence.place[told]]
    weights = evidence.weights[told].astype(np.float64)

    def surprise(log: float) -> float:
        each = logsumexp(scores / np.exp(log), axis=1) - own / np.exp(log)
        return float(weights @ each)

    found = minimize_scalar(surprise, bounds=(np.log(LEAST), np.log(MOST)), method="bounded")
    return float(np.exp(found.x))


def shares(scores: Array, temperature: float) -> Array:
    """Probabilities of the classes with these scores (n, k), float64."""
    scaled = (scores - scores[:, :1]).astype(np.float64) / temperature
    parts = np.exp(scaled)
    probabilities: Array = parts / parts.sum(axis=1, keepdims=True)
    return probabilities


def logit(probabilities: Array) -> Array:
    """Log odds, of what is nearly certain no more than of some."""
    with np.errstate(divide="ignore"):
        odds = np.log(probabilities) - np.log1p(-probabilities)
    clipped: Array = np.clip(odds, -MOST_LOGIT, MOST_LOGIT)
    return clipped


def correction(evidence: Evidence, temperature: float) -> Line:
    """How often the best class is right, by what its share says (Platt).

    Some answers are wrong however sure they are: a label was, or two classes look the same. So it ends below
    1; a curve that has to reach it would call all others less sure than they are.
    """
    if len(evidence) == 0:
        return AS_IT_IS
    told = logit(shares(evidence.scores, temperature)[:, 0])
    return _fitted(told, evidence.right, evidence.weights.astype(np.float64), least_end=LEAST_END)


def _fitted(values: Array, outcomes: Array, weights: Array, least_end: float = 1.0) -> Line:
    """The likeliest curve, beside some samples for one that changes nothing; it ends no lower than told."""
    from scipy.optimize import minimize  # which takes long to import

    def surprise(line: Array) -> float:
        reached = line[0] + line[1] * values
        right = np.log(line[2]) - np.logaddexp(0.0, -reached)
        wrong = np.logaddexp(-reached, np.log1p(-line[2])) - np.logaddexp(0.0, -reached)
        prior = line[0] ** 2 + (line[1] - 1.0) ** 2 - np.log(line[2])
        return float(PRIOR * prior - weights @ np.where(outcomes, right, wrong))

    bounds = [(None, None), (1e-3, None), (least_end, MOST_END if least_end < 1.0 else 1.0)]
    begin = np.array([0.0, 1.0, bounds[2][1]])
    with np.errstate(divide="ignore"):
        found = minimize(surprise, begin, method="L-BFGS-B", bounds=bounds)
    return Line(*(float(number) for number in found.x))


def corrected(probabilities: Array, line: Line) -> Array:
    """Probabilities (n, k), best first, with that of the best as it should be; the best stays the best."""
    best, others = probabilities[:, 0], probabilities[:, 1:].sum(axis=1)
    is_open = best < 1.0
    wanted = np.where(is_open, line.of(logit(best)), 1.0)
    scaled = probabilities * ((1.0 - wanted) / np.where(is_open, others, 1.0))[:, None]
    scaled[:, 0] = wanted
    if probabilities.shape[1] > 1:
        too_low = scaled[:, 1] >= wanted - A_LITTLE
        if too_low.any():
            scaled[too_low] = _evened(probabilities[too_low], wanted[too_low])
    return scaled


def _evened(probabilities: Array, wanted: Array) -> Array:
    """Probabilities (n, k), best first, made more alike until that of the best is as wanted, or all are."""
    logs = np.log(np.maximum(probabilities, np.finfo(np.float64).tiny))
    logs -= logs[:, :1]
    low, high = np.zeros((len(logs), 1)), np.ones((len(logs), 1))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        too_sure = np.exp(middle * logs).sum(axis=1, keepdims=True) * wanted[:, None] < 1.0
        low, high = np.where(too_sure, low, middle), np.where(too_sure, middle, high)
    evened = np.exp(high * logs)
    evened[:, 0] *= 1.0 + 2.0 * A_LITTLE
    found: Array = evened / evened.sum(axis=1, keepdims=True)
    return found


def threshold(scores: Array, weights: Array, share: float) -> float:
    """The score below which at most this share of such samples is; -inf where there are too few to tell.

    >>> threshold(np.arange(99.0), np.ones(99), 0.05)
    4.0
    """
    if not len(scores):
        return -np.inf
    order = np.argsort(scores, kind="stable")
    below = np.cumsum(weights[order], dtype=np.float64)
    allowed = share * below[-1] * (len(scores) + 1) / len(scores)
    number = int(np.searchsorted(below, allowed * (1 + 1e-9), "right"))
    return float(scores[order][number - 1]) if number else -np.inf


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Below which novelty is unknown, by the samples that the best class has."""

    common: float
    of_groups: Array  # of groups of counts; the common one where a group has too few

    @classmethod
    def of(cls, evidence: Evidence, share: float) -> Thresholds:
        """So that this share of the known is rejected."""
        scores, weights = evidence.novelty, evidence.weights
        common = threshold(scores, weights, share)
        groups = np.digitize(evidence.counts, COUNTS)
        own = np.full(len(COUNTS) + 1, common)
        for group in np.unique(groups):
            of_group = groups == group
            if of_group.sum() >= ENOUGH:
                own[group] = threshold(scores[of_group], weights[of_group], share)
        return cls(common, own)

    @cached_property
    def is_common(self) -> bool:
        """Whether it is the same for all classes."""
        return bool((self.of_groups == self.common).all())

    def at(self, counts: Array) -> Array:
        """Those of classes with so many samples."""
        found: Array = self.of_groups[np.digitize(counts, COUNTS)]
        return found


def known_line(known: Evidence, unknown: Evidence) -> Line:
    """The odds of being known, by novelty, where known and unknown are as likely."""
    if not len(known) or not len(unknown):
        return Line(0.0, 0.0)
    known, unknown = known.weighing(0.5), unknown.weighing(0.5)
    values = np.concatenate([known.novelty, unknown.novelty]).astype(np.float64)
    scale = max(float(np.std(values)), np.finfo(np.float64).tiny)
    middle = float(np.mean(values))
    outcomes = np.arange(len(values)) < len(known)
    weights = np.concatenate([known.weights, unknown.weights]).astype(np.float64) * len(values)
    line = _fitted((values - middle) / scale, outcomes, weights)
    return Line(line.at_zero - line.slope * middle / scale, line.slope / scale)


def calibration_error(probabilities: Array, right: Array, weights: Array) -> float:
    """How far probabilities of the best are from how often it is right, on average, in bins of as many."""
    order = np.argsort(probabilities, kind="stable")
    error = 0.0
    for some in np.array_split(order, min(BINS, max(len(order), 1))):
        total = float(weights[some].sum())
        if total:
            gap = np.average(probabilities[some], weights=weights[some]) - np.average(
                right[some], weights=weights[some]
            )
            error += total * abs(float(gap))
    return error / float(weights.sum()) if len(order) else 0.0
