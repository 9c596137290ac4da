"""Samples kept for checking as a section of a file, and back, if they can be some."""

from __future__ import annotations

import numpy as np

from xlda._internal.section import Section
from xlda.moments.kept_samples import KeptSamples
from xlda.moments.moments import Moments

NAME, VERSION = "kept", 1


def kept_to_section(moments: Moments) -> Section:
    """All samples that are kept."""
    return Section(NAME, VERSION, moments.kept.to_arrays(moments.n_classes), {})


def kept_from_section(section: Section, moments: Moments, most: int) -> KeptSamples:
    """The samples kept of these moments; what cannot be some is a ValueError, as a part of a sentence."""
    names = ("embeddings", "rows", "ids", "weights", "groups", "hashes", "limits", "cutoff")
    section.check_tensors(*names)
    rows = section.tensor("rows", (np.int64,), (None,))
    n = len(rows)
    section.tensor("embeddings", (np.float16, np.float32), (n, moments.n_inputs))
    weights = section.tensor("weights", (np.float64,), (n,))
    for name, length in (("ids", n), ("groups", n), ("hashes", None), ("limits", None), ("cutoff", 1)):
        section.tensor(name, (np.int64,), (moments.n_classes if length is None else length,))
    if n > most:
        raise ValueError(f"it keeps {n} samples for checking, and says {most}")
    if n and not (rows.min() >= 0 and rows.max() < moments.n_classes):
        raise ValueError("it keeps samples of a class that it does not have")
    if not (weights > 0).all():
        raise ValueError("it keeps samples without a weight")
    counts = np.bincount(rows, weights, minlength=moments.n_classes)
    if (counts > moments.counts * (1 + 1e-6)).any():
        raise ValueError("it keeps more samples of a class than it has learned")
    return KeptSamples.from_arrays(section.tensors, most)
