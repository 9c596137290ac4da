"""Independent answers: plain float64, two passes, no code of the package."""

from __future__ import annotations

import numpy as np


def pooled(embeddings, labels, weights=None):
    """Count and mean of each class (dicts), and the unbiased pooled within-class covariance."""
    embeddings = np.asarray(embeddings, np.float64)
    weights = np.ones(len(embeddings)) if weights is None else np.asarray(weights, np.float64)
    counts, means = {}, {}
    scatter = np.zeros((embeddings.shape[1],) * 2)
    for label in sorted(set(labels)):
        mine = np.flatnonzero([other == label for other in labels])
        counts[label] = weights[mine].sum()
        means[label] = (weights[mine, None] * embeddings[mine]).sum(0) / counts[label]
        for i in mine:
            residual = embeddings[i] - means[label]
            scatter += weights[i] * np.outer(residual, residual)
    total = weights.sum()
    return counts, means, scatter / max(total - len(counts), min(total, 1.0))


def scores(embeddings, means, covariance, shrinkage, target="trace"):
    """Published logits: w = inverse mean, b = -1/2 mean . w; one column a class, in the order of `means`."""
    size = len(covariance)
    variance = np.trace(covariance) / size if target == "trace" else 1.0
    shrunk = (1 - shrinkage) * covariance + shrinkage * variance * np.eye(size)
    columns = []
    for mean in means:
        weight = np.linalg.solve(shrunk, mean)
        columns.append(np.asarray(embeddings, np.float64) @ weight - 0.5 * mean @ weight)
    return np.stack(columns, axis=1)


def published_rule(embeddings, labels):
    """Means (dict) and Sigma by the three published formulas, one sample after the other."""
    size = embeddings.shape[1]
    sigma = np.zeros((size, size))
    means, counts = {}, {}
    for t, (z, label) in enumerate(zip(np.asarray(embeddings, np.float64), labels, strict=True)):
        mean, count = means.get(label, np.zeros(size)), counts.get(label, 0)
        delta = t / (t + 1) * np.outer(z - mean, z - mean)
        sigma = (t * sigma + delta) / (t + 1)
        means[label] = (count * mean + z) / (count + 1)
        counts[label] = count + 1
    return means, sigma
