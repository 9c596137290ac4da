"""The most memory that the first prediction takes, for each number in a covariance: prints a line a width.

    python benchmarks/width_memory.py --features 2048 5000

The covariance has d x d numbers, so this is what limits the width of embeddings. Few classes, float32.
"""

from __future__ import annotations

import argparse

import numpy as np
from process_memory import forget_peak, resident

from xlda import XLDA


def bytes_a_number(d: int) -> float:
    """Peak above what was there before, divided by d x d."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, d)).astype(np.float32), np.arange(300) % 10
    before = resident()
    forget_peak()
    XLDA().partial_fit(X, y).predict(X[:1])
    return (resident("VmHWM") - before) / d**2


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=int, nargs="+", default=[2048, 5000])
    for d in parser.parse_args().features:
        print(f"{d:,} features: {bytes_a_number(d):.1f} bytes a number of the covariance")
