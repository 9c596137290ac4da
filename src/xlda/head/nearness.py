"""How likely a head is to take a class for others, by how near these are and how many samples all have."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.head.bayes_space import BayesSpace
from xlda.head.head import Head

NEIGHBOURS = 20  # classes that one may be taken for


class Nearness(NamedTuple):
    """What is to be expected of some classes."""

    rows: Rows  # (n,)
    wrong: Array  # (n,): share of their samples that are taken for others
    wrong_at_best: Array  # (n,): the same with any number of samples more
    neighbour: Rows  # (n,): the row that each is most often taken for


def nearness(head: Head, rows: Rows, temperature: float) -> Nearness:
    """What the model expects of these classes, one after the other.

    A sample z of class c is normal with the mean m_c and the variances v_c, so the lead of c on another class
    o has a mean, the divergence of the two, and a variance that are sums over the coordinates; by both, z is
    taken for o with the probability Phi(-mean / sd). Real samples scatter by more than the model says: scores
    have a `temperature`, by which the variance of the lead is multiplied. With more samples of c, v_c becomes
    1, and the mean moves by as much as is not known of it now.
    """
    assert isinstance(head.space, BayesSpace)
    k = min(NEIGHBOURS + 1, head.n_seen)
    wrong, at_best = np.zeros(len(rows)), np.zeros(len(rows))
    neighbour = np.full(len(rows), -1)
    for number, row in enumerate(rows):
        mean, variance = _located(head, rows[number : number + 1])
        query = np.zeros((1, head.space.width), head.centre.dtype)
        query[:, : mean.shape[1]] = mean
        others = np.sort(head.top_of_queries(query, k)[0][0])
        others = others[others != row][:NEIGHBOURS]
        if not len(others):
            continue
        means, variances = _located(head, others)
        squares = np.square(means - mean)
        odds = _taken_for(squares, variance, variances, temperature)
        wrong[number], neighbour[number] = 1.0 - np.prod(1.0 - odds), others[odds.argmax()]
        known_better = _taken_for(squares + (variance - 1.0), 1.0, variances, temperature)
        at_best[number] = 1.0 - np.prod(1.0 - known_better)
    return Nearness(rows, wrong, np.minimum(at_best, wrong), neighbour)


def _located(head: Head, rows: Rows) -> tuple[Array, Array]:
    """Where samples of classes are, and their variances there, each (n, n_coordinates), float64."""
    assert isinstance(head.space, BayesSpace)
    own, n = head.among(rows).index.rows, head.space.n_coordinates
    groups = np.zeros(len(rows), np.intp) if own.squares is None else own.squares.groups
    variances = head.space.table.variance[groups]
    return own.weights[:, :n].astype(np.float64) * variances, variances


def _taken_for(squares: Array, own: Array | float, others: Array, temperature: float) -> Array:
    """Probability that a sample scores less by its own class than by each of the others, (n,)."""
    from scipy.special import ndtr

    mean = (0.5 * ((own + squares) / others - 1.0) + 0.5 * np.log(others / own)).sum(axis=1)
    variance = (0.5 * (own / others - 1.0) ** 2 + own * squares / others**2).sum(axis=1)
    odds: Array = ndtr(-mean / np.sqrt(temperature * np.maximum(variance, np.finfo(np.float64).tiny)))
    return odds
