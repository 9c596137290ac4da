"""Moments as a section of a file, and back, if they can be some."""

from __future__ import annotations

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.section import Section
from xlda._internal.triangles import n_packed, packed, unpacked
from xlda.lifting import Lift
from xlda.moments.moments import Moments
from xlda.moments.published_rule import PublishedMoments
from xlda.moments.restored import arrays_of, restored

NAME, VERSION = "moments", 3  # the second may have the spread of class means
WHOLE, HALF = 2, 3  # the version by whether the scatter is a matrix, or half of it, as that of a lift is
OF_RULE: dict[str, type[Moments]] = {"exact": Moments, "slda": PublishedMoments}
ROWS_AT_ONCE = 256  # of the scatter, that are compared
TENSORS = ("counts", "origin", "offsets", "scatter")
SPREAD = "spread"


def moments_to_section(moments: Moments) -> Section:
    """All that was learned. Tensors may be no copies: nobody may learn until they are written."""
    tensors, numbers = arrays_of(moments)
    below = bool((np.diag(tensors["scatter"]) < 0).any())
    if moments.lift is None:
        return Section(NAME, WHOLE, tensors, {**numbers, "below_zero": below})
    tensors["scatter"] = packed(tensors["scatter"])
    return Section(NAME, HALF, tensors, {**numbers, "below_zero": below})


def moments_from_section(section: Section, rule: str, lift: Lift | None = None) -> Moments:
    """Moments by this rule; what cannot be some is a ValueError that says why, as a part of a sentence."""
    has_spread = SPREAD in section.tensors
    section.check_tensors(*TENSORS, *([SPREAD] if has_spread else []))
    offsets = section.tensor("offsets", (np.float16, np.float32, np.float64), (None, None))
    n_classes, n_features = offsets.shape
    counts = section.tensor("counts", (np.float64,), (n_classes,))
    origin = section.tensor("origin", (np.float32, np.float64), (n_features,))
    if not n_features:
        raise ValueError("it has no features")
    scatter = _scatter(section, n_features)
    if offsets.dtype not in (origin.dtype, np.float16):
        raise ValueError(f"its offsets are of {offsets.dtype}, its origin of {origin.dtype}")
    _check_counts(counts)
    _check_scatter(scatter, section.info.get("below_zero", True))
    numbers = {
        "n_samples": section.whole_number("n_samples"),
        "dof_of_dropped": section.number("dof_of_dropped"),
        "frozen_dof": _frozen_dof(section),
    }
    if has_spread:
        numbers |= _spread(section, n_features)
    return restored(OF_RULE[rule], {**section.tensors, "scatter": scatter}, numbers, lift)


def check_width(section: Section, width: int) -> None:
    """Refuse moments of other than so many features, before anything is made for these."""
    section.tensor("offsets", (np.float16, np.float32, np.float64), (None, width))
    section.tensor("scatter", (np.float64,), (n_packed(width),))


def _scatter(section: Section, n_features: int) -> Array:
    if section.version < HALF:
        return section.tensor("scatter", (np.float64,), (n_features, n_features))
    half = section.tensor("scatter", (np.float64,), (n_packed(n_features),))
    return unpacked(half, n_features, symmetric=True)


def _check_counts(counts: Array) -> None:
    if (counts < 0).any():
        raise ValueError("counts are negative")
    with np.errstate(over="ignore"):
        if not np.isfinite(counts.sum()):
            raise ValueError("counts add up to more than a number can hold")


def _check_scatter(scatter: Array, below_zero: bool) -> None:
    """Refuse what no samples give. Forgetting may leave a little less than nothing: then a file says so."""
    for start in range(0, len(scatter), ROWS_AT_ONCE):
        stop = start + ROWS_AT_ONCE
        if not np.array_equal(scatter[start:stop, :stop], scatter[:stop, start:stop].T):
            raise ValueError("its scatter is not symmetric")
    if below_zero is not True and (np.diag(scatter) < 0).any():
        raise ValueError("its scatter is negative")


def _frozen_dof(section: Section) -> float | None:
    if section.info.get("frozen_dof", "") is None:
        return None
    dof = section.number("frozen_dof")
    if dof < 0:
        raise ValueError("its degrees of freedom are negative")
    return dof


def _spread(section: Section, n_features: int) -> dict[str, float]:
    """How class means differ, if it can be that: its numbers."""
    spread = section.tensor(SPREAD, (np.float64,), (n_features, n_features))
    if not np.allclose(spread, spread.T):
        raise ValueError("the spread of its class means is not symmetric")
    size, share = section.number("spread_size"), section.number("spread_share")
    if not size > 0 or not 0 <= share <= 1:
        raise ValueError("the spread of its class means is nothing that can be")
    return {"spread_size": size, "spread_share": share}
