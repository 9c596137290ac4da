"""Clusters by k-means, of a few hundred samples: as scikit-learn's `KMeans`, which takes long to import."""

from __future__ import annotations

import math

import numpy as np

from xlda._internal.arrays import Array, Rows

MOST_ROUNDS = 300
STILL = 1e-4  # of the variance: centres that move by less have arrived


def clusters(samples: Array, n: int) -> Rows:
    """Which of `n` clusters each of the samples (n_samples, d), at least as many, is in.

    The same as of `KMeans(n, n_init=1, random_state=0)` of scikit-learn, but for rounding, and but for
    clusters that lose all their samples.

    >>> clusters(np.array([[0.0], [9.0], [0.1], [9.1]]), 2).tolist()
    [0, 1, 0, 1]
    """
    samples = samples - samples.mean(axis=0)
    centres = samples[_seeds(samples, n)]
    still = STILL * float(samples.var(axis=0).mean())
    found = np.full(len(samples), -1, np.intp)
    for _ in range(MOST_ROUNDS):
        nearest: Rows = _squared_distances(centres, samples).argmin(axis=0)
        sizes = np.bincount(nearest, minlength=n)
        last, centres = centres, centres.copy()
        for number in np.flatnonzero(sizes):
            centres[number] = samples[nearest == number].mean(axis=0)
        if np.array_equal(nearest, found):
            return nearest
        found = nearest
        if np.square(centres - last).sum() <= still:
            break
    return np.asarray(_squared_distances(centres, samples).argmin(axis=0))


def _seeds(samples: Array, n: int) -> list[int]:
    """Samples to begin with: each far from those before it, the best of some drawn by chance."""
    chance, n_samples = np.random.RandomState(0), len(samples)
    seeds = [int(chance.choice(n_samples, p=np.full(n_samples, 1.0 / n_samples)))]
    nearest = _squared_distances(samples[seeds], samples)[0]
    for _ in range(1, n):
        drawn = chance.uniform(size=2 + int(math.log(n))) * nearest.sum()
        candidates = np.searchsorted(np.cumsum(nearest), drawn).clip(max=n_samples - 1)
        distances = np.minimum(nearest, _squared_distances(samples[candidates], samples))
        best = int(distances.sum(axis=1).argmin())
        nearest = distances[best]
        seeds.append(int(candidates[best]))
    return seeds


def _squared_distances(points: Array, samples: Array) -> Array:
    """From each of the points to each of the samples."""
    products = -2.0 * (points @ samples.T)
    products += np.square(points).sum(axis=1)[:, None]
    products += np.square(samples).sum(axis=1)
    distances: Array = products.clip(min=0.0)
    return distances
