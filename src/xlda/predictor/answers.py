"""What was asked, and answers as they are given."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from xlda._internal.arrays import Array, Rows
from xlda.head.head import Head
from xlda.labels import LabelTable, label_list, one_label


class Asked(NamedTuple):
    """Samples, and the best classes of each."""

    head: Head  # of the labels that can win
    known: LabelTable  # all labels
    embeddings: Array
    rows: Rows  # (n, k)
    scores: Array  # (n, k)
    unknown: Array | None  # (n,): what a class without samples would score, if that was asked for

    @property
    def beside_unknown(self) -> Array:
        """Scores of the two best, less that of a class without samples."""
        assert self.unknown is not None
        scores: Array = self.scores[:, :2] - self.unknown[:, None]
        return scores


class Judged(NamedTuple):
    """Answers, and how sure they are."""

    labels: Array  # (n, k), best first
    scores: Array  # (n, k): logits
    probabilities: Array  # (n, k): given that the class is a known one
    novelty: Array  # (n,): how much each is like the known classes, as `score_samples` has it; or NaN
    p_known: Array  # (n,): probability of being of a known class; NaN where nobody can tell
    is_unknown: Array  # (n,): which were rejected


def with_unknown(labels: Array, rejected: Array, unknown_label: Any, table: LabelTable) -> Array:
    """Labels (n,) or (n, k), those of rejected samples replaced: by None, in an array of objects."""
    if unknown_label is None:
        found = labels.astype(object)
        found[rejected] = None
        return found
    label = one_label(unknown_label, "unknown_label")
    if isinstance(label, str) is not (labels.dtype.kind == "U"):
        raise ValueError(f"unknown_label is of the labels' type or None; got {unknown_label!r}.")
    if label in table.row_of:
        raise ValueError(f"unknown_label is no known label; got {unknown_label!r}, which is one.")
    width = np.array([label]).dtype
    found = labels.astype(np.promote_types(labels.dtype, width))
    found[rejected] = label
    return found


def rows_among(head: Head, among: ArrayLike) -> Rows:
    """Rows of the labels that can win."""
    wanted = label_list(among, "among")
    row_of = head.table.row_of
    unknown = [label for label in wanted if label not in row_of]
    if unknown:
        raise ValueError(f"among has the label {unknown[0]!r}, which is not known.")
    rows = np.unique(np.array([row_of[label] for label in wanted], np.intp))
    if not len(rows):
        raise ValueError("among needs at least one label.")
    return rows
