"""Answers that somebody has confirmed or corrected, as evidence."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlda._internal.arrays import Array
from xlda.calibration.evidence import Evidence, padded
from xlda.calibration.folds import BEST
from xlda.errors import UnknownClassError
from xlda.head.head import Head
from xlda.labels import Label, label_list


def confirmed_evidence(head: Head, embeddings: Array, truth: list[Any]) -> tuple[Evidence, Evidence]:
    """Evidence of samples with these labels, and of those that are of none that is known (None)."""
    told = np.array([label is not None for label in truth], bool)
    labels: list[Label] = label_list([label for label in truth if label is not None]) if told.any() else []
    row_of = head.table.row_of
    for label in labels:
        if label not in row_of:
            raise UnknownClassError(f"confirm got the label {label!r}, which is not known; None is for such.")
    rows, scores, unknown = head.top_and_unknown(embeddings, min(BEST, head.n_seen))
    scores = padded(scores - unknown[:, None])
    true_rows = np.full(len(embeddings), -1)
    true_rows[told] = [row_of[label] for label in labels]
    hit = rows == true_rows[:, None]
    place = np.where(hit.any(axis=1), hit.argmax(axis=1), -1)
    counts = head.counts_of(rows[:, 0]).astype(np.float32)
    every = Evidence(scores, place, counts, np.ones(len(place), np.float32), true_rows, rows[:, 0])
    return every.taken(told), every.taken(~told)
