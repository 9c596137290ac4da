"""The samples that a photo looks most like: why it was taken for what it was."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np

from xlda._internal.arrays import Array
from xlda.service.database import SUBTREE, one
from xlda.service.engine import Engine
from xlda.service.likeness import directions

CLASSES = 3  # of the best, whose samples are looked at
OF_A_CLASS = 100  # the newest


def similar(engine: Engine, embedding: Array, top: list[dict[str, Any]], n: int) -> list[dict[str, Any]]:
    """The `n` samples of the best classes that look most like it, of those that have a photo."""
    query = (
        f"{SUBTREE} SELECT id, embedding FROM samples WHERE home IN (SELECT number FROM tree) AND photo IS "
        "NOT NULL AND embedding IS NOT NULL ORDER BY number DESC LIMIT ?"
    )
    found: list[tuple[float, dict[str, Any]]] = []
    [own] = directions(embedding[None])
    with closing(engine.reading()) as db:
        for candidate in top[:CLASSES]:
            row = one(db, "SELECT number FROM classes WHERE id = ?", (candidate["class_id"],))
            samples: list[Any] = db.execute(query, (row[0], OF_A_CLASS)).fetchall() if row is not None else []
            if not samples:
                continue
            known = directions(np.stack([np.frombuffer(content, np.float32) for _, content in samples]))
            named = {"class_id": candidate["class_id"], "label": candidate["label"]}
            alike = (known @ own).tolist()
            found += [
                (share, {"sample_id": sample_id, **named})
                for share, (sample_id, _) in zip(alike, samples, strict=True)
            ]
    found.sort(key=lambda pair: -pair[0])
    return [sample for _, sample in found[:n]]
