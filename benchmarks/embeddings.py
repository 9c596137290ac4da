"""Embeddings to search among: real ones, and for more classes synthetic ones with the real ones' spectrum.

    python benchmarks/embeddings.py --npz glyphs.npz     learns the spectrum and stores it

The file holds `X` (n, d) and `y` (n,), four samples a class. In the basis in which both covariances are
diagonal, the spectrum is the variance within classes and that of the true class means along each axis, in the
units of the embeddings. Synthetic classes have the same, and come in families: as in reality, a class has
near relatives, which independent draws in many dimensions would not have.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.linalg import eigh

from xlda.moments import Moments

SPECTRUM = Path(__file__).parent / "spectrum.npz"
N_QUERIES = 4096  # at least; of few classes they come again
PER_CLASS = 3  # samples to learn from
FAMILY, KINSHIP = 8, 0.8  # synthetic classes that share a part of their mean, and that share of its variance


@dataclass
class Data:
    """Samples to learn, and queries."""

    name: str
    X: np.ndarray
    y: np.ndarray
    queries: np.ndarray
    query_labels: np.ndarray


def real(path: Path, n_classes: int, seed: int = 0) -> Data:
    """`n_classes` of the classes in the file: one sample of each is a query, the others are learned."""
    with np.load(path) as file:
        X, y = file["X"], file["y"]
    rng = np.random.default_rng(seed)
    order = np.argsort(y, kind="stable").reshape(-1, PER_CLASS + 1)
    chosen = order[rng.permutation(len(order))[:n_classes]]
    held_out = rng.integers(0, PER_CLASS + 1, len(chosen))
    is_query = held_out[:, None] == np.arange(PER_CLASS + 1)
    learn, ask = chosen[~is_query], rng.permutation(chosen[is_query])
    learn, ask = rng.permutation(learn), np.resize(ask, max(len(ask), N_QUERIES))
    return Data("real", X[learn].astype(np.float32), y[learn], X[ask].astype(np.float32), y[ask])


def synthetic(n_classes: int, seed: int = 0) -> Data:
    """As many classes as wanted."""
    rng = np.random.default_rng(seed)
    with np.load(SPECTRUM) as file:
        within, between = file["within"] ** 0.5, file["between"] ** 0.5
    d = len(within)
    families = rng.standard_normal((-(-n_classes // FAMILY), d), dtype=np.float32) * between
    means = KINSHIP**0.5 * np.repeat(families, FAMILY, axis=0)[:n_classes]
    means += (1 - KINSHIP) ** 0.5 * rng.standard_normal((n_classes, d), dtype=np.float32) * between
    y = rng.permutation(np.repeat(np.arange(n_classes), PER_CLASS))
    X = means[y] + rng.standard_normal((len(y), d), dtype=np.float32) * within
    asked = rng.integers(0, n_classes, N_QUERIES)
    queries = means[asked] + rng.standard_normal((len(asked), d), dtype=np.float32) * within
    return Data("synthetic", X, y, queries, asked)


def learn_spectrum(path: Path) -> None:
    """Store the spectrum of a file of real embeddings."""
    with np.load(path) as file:
        X, rows = file["X"].astype(np.float32), np.unique(file["y"], return_inverse=True)[1]
    moments = Moments(X.shape[1])
    for start in range(0, len(X), 4096):
        moments.update(X[start : start + 4096], rows[start : start + 4096])
    within = moments.covariance()
    means = moments.means_from(moments.centre()).astype(np.float64)
    between = means.T @ means / len(means) - within * np.mean(1 / moments.counts)
    ridge = 1e-6 * np.trace(within) / len(within) * np.eye(len(within))
    ratio, axes = eigh(between, within + ridge)
    length = (axes**2).sum(axis=0)
    np.savez(
        SPECTRUM,
        within=(1 / length).astype(np.float32),
        between=(np.maximum(ratio, 0.0) / length).astype(np.float32),
    )
    print(f"{len(means):,} classes; stored in {SPECTRUM.name}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--npz", type=Path, required=True)
    learn_spectrum(parser.parse_args().npz)
