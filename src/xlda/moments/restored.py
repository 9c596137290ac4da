"""Moments turned into arrays, and moments of such arrays."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from xlda._internal.arrays import Array
from xlda.lifting import Lift
from xlda.moments.kept_spread import KeptSpread
from xlda.moments.moments import Moments

Kind = TypeVar("Kind", bound=Moments)


def arrays_of(moments: Moments) -> tuple[dict[str, Array], dict[str, Any]]:
    """Counts, means and scatter, as tensors (not copied where that can be) and as numbers."""
    moments.check_whole()
    tensors: dict[str, Array] = {
        "counts": moments._counts[: moments.n_classes],
        "origin": moments._origin,
        "offsets": moments._offsets_of(slice(None)),
        "scatter": moments.scatter,
    }
    numbers = {
        "n_samples": moments.n_samples,
        "dof_of_dropped": moments._dof_of_dropped,
        "frozen_dof": moments._frozen_dof,
    }
    spread = moments.kept_spread
    if spread is not None:
        tensors["spread"] = spread.matrix
        numbers |= {"spread_size": spread.size, "spread_share": spread.share}
    return tensors, numbers


def restored(
    kind: type[Kind], tensors: dict[str, Array], numbers: dict[str, Any], lift: Lift | None = None
) -> Kind:
    """What `arrays_of` gave, as moments again. They keep the tensors, and change them."""
    offsets = tensors["offsets"]
    moments = kind(offsets.shape[1], half=offsets.dtype == np.float16, lift=lift)
    moments._origin = tensors["origin"]
    moments._n_classes = len(offsets)
    moments._counts, moments._offsets, moments._n_seen = tensors["counts"], offsets, None
    moments._set_origin(tensors["origin"])
    moments._scatter.widen(moments._origin.dtype)
    moments._scatter.replace(tensors["scatter"])
    moments._has_origin = bool(moments._counts.any())
    moments._n_samples = numbers["n_samples"]
    moments._dof_of_dropped = numbers["dof_of_dropped"]
    moments._frozen_dof = numbers["frozen_dof"]
    if "spread" in tensors:
        moments.kept_spread = KeptSpread(tensors["spread"], numbers["spread_size"], numbers["spread_share"])
    return moments
