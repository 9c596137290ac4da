"""Fully connected layers on their way to a classifier: checked, taken for means, or left to label embeddings.

How a layer's rows stand beside what is learned is in `xlda.head.layer_rows`.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.head.covariance import Shrinkage, Target, shrinkage_number, shrunk_covariance
from xlda.head.layer_rows import LayerRows
from xlda.inputs import check_half, checked_embeddings, prepared
from xlda.labels import label_list
from xlda.layers.layer import Layer, real_numbers
from xlda.model import Model
from xlda.moments import Moments
from xlda.moments.assumed import set_covariance, trust
from xlda.sources import open_source

Assumption: TypeAlias = Literal["auto", "identity", "weights"]

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


def with_defaults(assume: Any, params: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """What to assume, which was once spelled `covariance`, and the parameters of the classifier."""
    covariance = params.get("covariance", "plastic")
    if not isinstance(covariance, str) or covariance in ("auto", *PUBLISHED):
        warnings.warn("from_linear(covariance=...) is now assume=....", DeprecationWarning, stacklevel=3)
        assume, params = covariance, {name: params[name] for name in params if name != "covariance"}
    if not isinstance(assume, str):
        params = {"model": "lda", **params}  # whose rows they are taken for
    elif assume in PUBLISHED:
        params = {"model": "lda", "shrinkage": 1e-4, "shrinkage_target": "identity", **params}
    return assume, params


def checked_assumption(
    assume: Any,
    strength: Any,
    layer: Layer,
    embeddings: Any,
    embedding_labels: Any,
    params: dict[str, Any],
) -> str | Array:
    """A name or a covariance (d, d), or a ValueError where that does not go with the rest."""
    if not (isinstance(strength, Real) and 0 < float(strength) < np.inf):
        raise ValueError(f"strength is a positive number; got {strength!r}.")
    if embeddings is None and embedding_labels is not None:
        raise ValueError("embedding_labels came without embeddings.")
    if isinstance(assume, str) and assume not in ("auto", *PUBLISHED):
        raise ValueError(f"assume is one of {('auto', *PUBLISHED)} or an array; got {assume!r}.")
    if params.get("power", "auto") not in (None, "auto") and embeddings is None:
        raise ValueError("power needs embeddings: the layer's rows are for embeddings without it.")
    if embeddings is not None and not (isinstance(assume, str) and assume == "auto"):
        raise ValueError("With embeddings, assume is 'auto': the covariance is estimated from them.")
    if isinstance(assume, str):
        return assume
    array, shape = real_numbers(assume, "assume"), (layer.weight.shape[1],) * 2
    if array.shape != shape:
        raise ValueError(f"assume has shape {array.shape}; the layer's weight asks for {shape}.")
    if not np.allclose(array, array.T):
        raise ValueError("assume is not a covariance: it is not symmetric.")
    values = np.linalg.eigvalsh(array.astype(np.float64))
    if not values[-1] > 0 or values[0] < -1e-6 * values[-1]:
        raise ValueError("assume is not a covariance: it has negative eigenvalues, or is zero.")
    return array.astype(np.float64)


def take_over(
    estimator: Any,
    model: Model,
    layer: Layer,
    assumed: str | Array,
    strength: float,
    embeddings: Any,
    embedding_labels: Any,
) -> None:
    """Have `model`, which knows the layer's labels and nothing else, go on from the layer.

    `estimator` has the parameters of the classifier.
    """
    if isinstance(assumed, str) and assumed == "auto":
        _keep_rows(estimator, model, layer, strength, embeddings, embedding_labels)
    else:
        shrinkage, target = estimator.shrinkage, estimator.shrinkage_target
        model.moments = assumed_moments(layer, assumed, strength, shrinkage, target, model.moments.half)


def _keep_rows(
    estimator: Any, model: Model, layer: Layer, strength: float, embeddings: Any, embedding_labels: Any
) -> None:
    """Keep the rows of the layer, and learn embeddings with the labels that it gives them."""
    model.moments.widen(layer.weight.dtype)
    model.moments.grow(len(layer.labels))
    if model.moments.half:
        check_half(layer.weight)
    if estimator.power_ is None:
        model.layer_rows = LayerRows(layer.weight, layer.bias, np.full(len(layer.labels), float(strength)))
    if embeddings is None:
        warnings.warn(WITHOUT_EMBEDDINGS, stacklevel=4)
        return
    known = None
    if embedding_labels is not None:
        known = model.labels.rows(label_list(embedding_labels, "embedding_labels"))
    taught = copy.deepcopy(model.moments)
    for raw, rows in labelled_by_layer(layer, estimator, embeddings, known):
        taught.update(prepared(raw, estimator.power_, taught.half), rows)
    if known is None and model.layer_rows and not model.layer_rows.covered_by(taught.counts):
        warnings.warn(TOO_FEW, stacklevel=4)
        return
    model.moments = taught
    n_without = len(layer.labels) - taught.n_seen
    if estimator.power_ is not None and n_without:
        warnings.warn(WITH_POWER.format(n_without), stacklevel=4)


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
    trust(moments, means.astype(layer.weight.dtype), np.arange(n_classes), strength)
    set_covariance(moments, covariance, dof)
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
