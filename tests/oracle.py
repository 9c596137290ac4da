"""Independent answers: plain float64, two passes, no code of the package."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq


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


def whitened(covariance, shrinkage, dof):
    """W, with W' Sigma W = I for the shrunk covariance Sigma: full matrices, the symmetric root."""
    d = len(covariance)
    beta = 2 * d / (2 * d + dof) if shrinkage == "auto" else shrinkage
    shrunk = (1 - beta) * covariance + beta * np.trace(covariance) / d * np.eye(d)
    values, vectors = np.linalg.eigh(np.linalg.inv(shrunk))
    return vectors * np.sqrt(values) @ vectors.T


def weighted(k, counts, t):
    """Worth, centre, weights and bias factor of class means, were t the spread of the true ones."""
    rho = counts * t / (counts * t + 1)
    centre = sum(r * mean for r, mean in zip(rho, k, strict=True)) / rho.sum()
    return rho, centre, rho**2 / (rho**2).sum(), 1 / (1 - ((rho / rho.sum()) ** 2).sum())


def class_spread(k, counts, noise, features=None):
    """Centre, directions (columns) and psi of whitened class means k; and t and b.

    `noise` is the covariance within classes, not shrunk, whitened by the shrunk one. `features` are those
    that b is about, where they are not all that there are.
    """
    d = k.shape[1]

    def measured(t):
        _, centre, w, f = weighted(k, counts, t)
        total = sum(weight * (mean - centre) @ (mean - centre) for weight, mean in zip(w, k, strict=True))
        return max(f * total / d - (w / counts).sum() * np.trace(noise) / d, 1e-3)

    t = 1e-3
    if measured(t) > t:
        t = np.exp(brentq(lambda log: np.log(measured(np.exp(log))) - log, np.log(1e-3), np.log(1e12)))
    rho, centre, w, f = weighted(k, counts, t)
    scatter = sum(weight * np.outer(mean - centre, mean - centre) for weight, mean in zip(w, k, strict=True))
    per_mean = (w / counts).sum()
    b = 1 / (1 + (8 * (rho**2).sum() / (features or d)) ** 2)
    values, span = np.linalg.eigh(scatter)
    span = span[:, values > 1e-10 * values[-1]]  # in which means differ at all
    values, turn = np.linalg.eigh(span.T @ (f * scatter - per_mean * noise) @ span)
    values, directions = values[::-1], (span @ turn)[:, ::-1]
    if b < 0.5:
        along = np.array([u @ noise @ u for u in directions.T])
        gamma = d * (w**2).sum()
        edge = (1 + np.sqrt(gamma)) ** 2
        for j, of_mean in enumerate(per_mean * along):
            eigenvalue = values[j] / of_mean + 1
            if eigenvalue <= edge:
                values[j] = 0
            else:  # of one spike, and of its square cosine to what was measured (Paul 2007)
                spike = np.max(np.roots([1, 1 + gamma - eigenvalue, gamma]))
                values[j] = of_mean * spike * (1 - gamma / spike**2) / (1 + gamma / spike)
        told = np.argsort(-values, kind="stable")[: max((values > 0).sum(), 1)]
        values, directions = values[told], directions[:, told]
    psi = np.maximum(values, 1e-3) if t <= 1e-3 else (1 - b) * np.maximum(values, 0) + b * t
    return centre, directions, psi, t, b


def log_densities(queries, means, counts, covariance, dof, shrinkage="auto", features=None):
    """log p(query | class) less what all classes share: posterior means and predictive variances."""
    counts = np.asarray(counts, np.float64)
    W = whitened(covariance, shrinkage, dof)
    k = np.asarray(means, np.float64) @ W
    centre, directions, psi, _, _ = class_spread(k, counts, W.T @ covariance @ W, features)
    z = (np.asarray(queries, np.float64) @ W - centre) @ directions
    columns = []
    for mean, n in zip((k - centre) @ directions, counts, strict=True):
        posterior, variance = n * psi / (n * psi + 1) * mean, 1 + psi / (n * psi + 1)
        columns.append(-0.5 * ((z - posterior) ** 2 / variance + np.log(variance)).sum(axis=1))
    return np.stack(columns, axis=1)


def philox_words(key, n):
    """The first `n` words of Philox4x64-10 (Salmon et al. 2011), by its definition; counters begin at 1."""
    mask, words, block = 2**64 - 1, [], 0
    while len(words) < n:
        block += 1
        c, k = [block & mask, block >> 64, 0, 0], [key & mask, key >> 64]
        for _ in range(10):
            one, two = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
            c = [two >> 64 ^ c[1] ^ k[0], two & mask, one >> 64 ^ c[3] ^ k[1], one & mask]
            k = [k[0] + 0x9E3779B97F4A7C15 & mask, k[1] + 0xBB67AE8584CAA73B & mask]
        words += c
    return words[:n]


def random_features(embeddings, width, seed):
    """Features of embeddings (n, d), by H D H D H D of a power of two, block after block of directions."""
    embeddings = np.asarray(embeddings, np.float64)
    d = embeddings.shape[1]
    n = 64
    while n < d:
        n *= 2
    n_blocks = -(-width // n)
    words = philox_words(seed, n_blocks * 3 * n // 64)
    signs = [1 - 2 * (word >> bit & 1) for word in words for bit in range(64)]
    signs = np.array(signs, np.float64).reshape(n_blocks, 3, n)
    parity = [[(i & j).bit_count() % 2 for j in range(n)] for i in range(n)]
    hadamard = (1.0 - 2.0 * np.array(parity)) / np.sqrt(n)
    blocks = [hadamard * third @ (hadamard * second) @ (hadamard * first) for first, second, third in signs]
    directions = np.concatenate(blocks)[:width, :d] * np.sqrt(n / d)
    if d >= 8:
        embeddings = embeddings - embeddings.mean(axis=1, keepdims=True)
    along = embeddings @ directions.T
    return np.where(along < 0, 0.4 * along, along)


def lifted_features(covariance, dof):
    """Twenty features for each direction in which samples vary, as far as these are told."""
    d, trace = len(covariance), np.trace(covariance)
    rest = (covariance**2).sum() - trace**2 / dof
    directions = min(trace**2 / rest, d) if rest > 0 else d
    return min(20 * directions, d)


def lifted_shrinkage(covariance, dof):
    """A prior worth two samples for each of these."""
    worth = 2 * lifted_features(covariance, dof)
    return worth / (worth + dof)
