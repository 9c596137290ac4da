"""Rows for a second look as a section of a file, and back, if they can be some."""

from __future__ import annotations

import numpy as np

from xlda._internal.section import Section
from xlda.moments.moments import Moments
from xlda.moments.sketches import Sketches

NAME, VERSION = "sketches", 1


def sketches_to_section(moments: Moments) -> Section:
    """The rows of all classes. Tensors may be no copies: nobody may learn until they are written."""
    assert moments.sketches is not None
    return Section(NAME, VERSION, moments.sketches.to_arrays(moments.n_classes), {})


def sketches_from_section(section: Section, moments: Moments, n_rows: int | None = None) -> Sketches:
    """The rows of these moments; what cannot be some is a ValueError, as a part of a sentence."""
    section.check_tensors("sums", "signs", "weights")
    shape = moments.n_classes, n_rows, moments.n_features
    sums = section.tensor("sums", (np.float32,), shape)
    section.tensor("signs", (np.float64,), sums.shape[:2])
    section.tensor("weights", (np.float64,), sums.shape[:1])
    if not sums.shape[1]:
        raise ValueError("it has no rows for a second look")
    return Sketches.from_arrays(section.tensors)
