"""Makes lifted-2.xlda and lifted-2.json: a model with a lift, queries, and what it answered to them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from xlda import XLDA

HERE = Path(__file__).parent


def main() -> None:
    """Make both."""
    rng = np.random.default_rng(5)
    y = np.repeat(np.arange(7), 5)
    X = np.abs(rng.normal(size=(7, 10))[y] + rng.normal(size=(len(y), 10)) / 3).astype(np.float32)
    names = np.array(["苹果", "pear", "kiwi", "gone", "plum", "fig", "lime"])
    clf = (
        XLDA(lift=40, lift_seed=7, lift_centre=np.full(10, 0.25))
        .fit(X[1:], names[y[1:]])
        .remove_class("gone")
    )
    clf.save(HERE / "lifted-2.xlda")
    labels, scores = clf.predict_topk(X[:10], 3)
    answers = {
        "queries": X[:10].tolist(),
        "labels": labels.tolist(),
        "scores": scores.tolist(),
        "means": clf.means_.tolist(),
    }
    (HERE / "lifted-2.json").write_text(json.dumps(answers, ensure_ascii=False) + "\n")


if __name__ == "__main__":  # not when the tests look for examples here
    main()
