"""Classifiers as fully connected layers, to be written down."""

from __future__ import annotations

import numpy as np

from xlda.classifier import XLDA
from xlda.layers.layer import Layer


def active_layer(clf: XLDA) -> Layer:
    """The equal layer, without classes that have no samples: their bias would be minus infinity.

    With `power`, it is for embeddings after that power.
    """
    weight, bias = clf.to_linear()
    active = np.flatnonzero(np.isfinite(bias))
    labels = clf.classes_.tolist()
    return Layer(weight[active], bias[active], [labels[row] for row in active])


def refuse_power(clf: XLDA) -> None:
    """Refuse a classifier that is more than a layer."""
    if clf.power is not None:
        raise ValueError(
            f"A layer cannot hold power={clf.power!r}. Write an ONNX graph, which can, or take the power of "
            "the embeddings yourself and use to_linear."
        )
