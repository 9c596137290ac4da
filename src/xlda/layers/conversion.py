"""Fully connected layers on their way to a classifier: checked, taken for means, or left to label embeddings.

How a layer's rows stand beside what is learned is in `xlda.head.layer_rows`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.head.covariance import Shrinkage, Target, shrinkage_number, shrunk_covariance
from xlda.inputs import checked_embeddings
from xlda.layers.layer import Layer, real_numbers
from xlda.moments import Moments
from xlda.sources import open_source

STRENGTH = 10.0  # samples that a row of the layer is worth
BATCH = 4096  # embeddings labelled at once
TOO_FEW = (
    "Embeddings of too few of the layer's classes do more harm than good, with two of most classes needed: "
    "they are left out, and the layer is converted without any."
)
WITH_POWER = (
    "With power, the layer only labels the embeddings, and {} of its classes have none: they never win."
)
PUBLISHED = ("identity", "weights")  # the paper's covariances
WITHOUT_EMBEDDINGS = (
    "Converted without embeddings: predictions are the layer's until something is learned, and from then on "
    "less good than with embeddings, even unlabelled ones."
)


def checked_covariance(
    covariance: Any, layer: Layer, embeddings: Any, embedding_labels: Any, power: float | None
) -> str | Array:
    """A name or an array (d, d), or a ValueError where that does not go with the rest."""
    if embeddings is None and embedding_labels is not None:
        raise ValueError("embedding_labels came without embeddings.")
    if isinstance(covariance, str) and covariance not in ("auto", *PUBLISHED):
        raise ValueError(f"covariance is one of {('auto', *PUBLISHED)} or an array; got {covariance!r}.")
    if power is not None and embeddings is None:
        raise ValueError("power needs embeddings: the layer's rows are for embeddings without it.")
    if embeddings is not None and not (isinstance(covariance, str) and covariance == "auto"):
        raise ValueError("With embeddings, covariance is 'auto': it is estimated from them.")
    if isinstance(covariance, str):
        return covariance
    array, shape = real_numbers(covariance, "covariance"), (layer.weight.shape[1],) * 2
    if array.shape != shape:
        raise ValueError(f"covariance has shape {array.shape}; the layer's weight asks for {shape}.")
    if not np.allclose(array, array.T):
        raise ValueError("covariance is not symmetric.")
    values = np.linalg.eigvalsh(array.astype(np.float64))
    if not values[-1] > 0 or values[0] < -1e-6 * values[-1]:
        raise ValueError("covariance is not one: it has negative eigenvalues, or is zero.")
    return array.astype(np.float64)


def assumed_moments(
    layer: Layer, covariance: str | Array, strength: float, shrinkage: Shrinkage, target: Target, half: bool
) -> Moments:
    """Means and covariance for a layer without any embeddings; the bias is ignored.

    The paper's two ways take the rows for class means, and I ("identity") or the covariance of the rows
    ("weights") for that within classes. For an array, the means are those that LDA has such rows for.
    """
    n_classes, d = layer.weight.shape
    dof, means = strength * n_classes, layer.weight.astype(np.float64)
    if isinstance(covariance, str):
        centred = means - means.mean(axis=0)
        covariance = np.eye(d) if covariance == "identity" else centred.T @ centred / max(n_classes - 1, 1)
    else:
        number = shrinkage_number(covariance, dof, shrinkage)
        means = means @ shrunk_covariance(covariance, number, target)
    moments = Moments(d, half=half)
    moments.trust(means.astype(layer.weight.dtype), np.arange(n_classes), strength)
    moments.set_covariance(covariance, dof)
    return moments


def labelled_by_layer(
    layer: Layer, estimator: Any, embeddings: Any, rows: Rows | None
) -> Iterator[tuple[Array, Rows]]:
    """Embeddings in batches, as the layer takes them, and the row that it gives each; or `rows`, if known."""
    n = 0
    for batch in open_source(embeddings, labels=None).batches(BATCH):
        raw = checked_embeddings(estimator, batch.embeddings)
        found = layer.logits(raw).argmax(axis=1) if rows is None else rows[n : n + len(raw)]
        n += len(raw)
        if rows is not None and n > len(rows):
            break
        yield raw, found
    if not n:
        raise ValueError("embeddings has no samples.")
    if rows is not None and len(rows) != n:
        raise ValueError(f"embedding_labels has {len(rows)} entries; embeddings has {n} or more.")
