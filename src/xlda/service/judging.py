"""Answers as they are sent."""

from __future__ import annotations

import math
from typing import Any

from xlda._internal.arrays import Array
from xlda.labels import Label
from xlda.service.engine import Engine

SURE = 0.8  # probability: below that, somebody should look
NOTHING: dict[str, Any] = {
    "label": None,
    "class_id": None,
    "probability": None,
    "p_known": None,
    "sure": False,
    "top": [],
}


def predictions(
    engine: Engine, embeddings: Array, k: int, unknown: float | None, among: list[Label] | None
) -> tuple[int, list[dict[str, Any]]]:
    """The last event that was known, and what each of some samples (n, d) is."""
    seq, judged, strange = engine.judge(embeddings, k, unknown, among)
    if judged is None:
        return seq, [dict(NOTHING) for _ in embeddings]
    id_of = engine.book.id_of
    found = []
    columns = (judged.labels, judged.probabilities, judged.p_known, judged.is_unknown, strange)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for labels, shares, p_known, is_unknown, is_strange in rows:
        top = [
            {"label": str(label), "class_id": id_of(label), "probability": share}
            for label, share in zip(labels, shares, strict=True)
        ]
        found.append(
            {
                "label": None if is_unknown else top[0]["label"],
                "class_id": None if is_unknown else top[0]["class_id"],
                "probability": top[0]["probability"],
                "p_known": None if math.isnan(p_known) else p_known,
                "sure": not is_unknown and not is_strange and top[0]["probability"] >= SURE,
                "top": top,
            }
        )
    return seq, found
