"""What a fleet must come to, in plain float64 loops: all samples in one list, and all that was said."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np


def classes_by_loop(names: dict[str, Any], said: list[Any]) -> dict[str, Any]:
    """The label of the class that each id is part of, or which removed one."""
    label, parent, gone = dict(names), {}, {}
    for one in sorted(said, key=lambda one: (one.clock, one.box)):
        {"label": label, "parent": parent, "gone": gone}[one.field][one.class_id] = one.value
    found = {}
    for name in label:
        at, seen = name, [name]
        while parent.get(at) in label:
            at = parent[at]
            if at in seen:
                at = min(seen[seen.index(at) :])
                break
            seen.append(at)
        found[name] = ("removed", at) if gone.get(at) else label[at]
    return found


def moments_by_loop(samples: list[tuple[str, Any]], label_of: dict[str, Any]) -> dict[str, Any]:
    """Counts, means and covariance of one who saw every sample, pairs of class id and embedding."""
    live, dropped = defaultdict(list), defaultdict(list)
    for class_id, embedding in samples:
        label = label_of[class_id]
        (dropped if isinstance(label, tuple) else live)[label].append(np.asarray(embedding, np.float64))
    blocks = [np.array(block) for block in (*live.values(), *dropped.values())]
    scatter = sum((block - block.mean(0)).T @ (block - block.mean(0)) for block in blocks)
    dof = sum(len(block) - 1 for block in blocks)
    return {
        "counts": {label: len(block) for label, block in live.items()},
        "means": {label: np.array(block).mean(0) for label, block in live.items()},
        "covariance": scatter / max(dof, 1),
    }


def check_model(model: Any, wanted: dict[str, Any]) -> None:
    """Counts exactly, means and covariance to 1e-5."""
    counts = dict(zip(model.classes_.tolist(), model.class_count_.tolist(), strict=True))
    assert {label: count for label, count in counts.items() if count} == wanted["counts"]
    means = dict(zip(model.classes_.tolist(), model.means_, strict=True))
    for label, mean in wanted["means"].items():
        np.testing.assert_allclose(means[label], mean, atol=1e-5)
    np.testing.assert_allclose(model.covariance_, wanted["covariance"], atol=1e-5)
