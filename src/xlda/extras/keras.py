"""Keras `Dense` layers, as the arrays that they are. Keras itself is not needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlda._internal.arrays import Array
from xlda.classifier import XLDA
from xlda.extras._exported import refuse_more_than_a_layer
from xlda.layers.layer import Layer, checked_layer


def read_layer(dense: Any, labels: Any = None) -> Layer:
    """Layer of a `Dense`, or of what its `get_weights` gives: a kernel (n_features, n_classes), and a bias.

    >>> read_layer([np.ones((4, 3)), np.zeros(3)]).weight.shape
    (3, 4)
    """
    arrays = dense.get_weights() if hasattr(dense, "get_weights") else list(dense)
    if len(arrays) not in (1, 2) or np.ndim(arrays[0]) != 2:
        shapes = [np.shape(array) for array in arrays]
        raise ValueError(
            f"A Dense layer has a kernel (n_features, n_classes) and a bias; got shapes {shapes}."
        )
    return checked_layer(np.asarray(arrays[0]).T, arrays[1] if len(arrays) == 2 else None, labels)


def to_weights(clf: XLDA) -> list[Array]:
    """Kernel and bias of the equal `Dense` layer, float32, as `set_weights` takes them."""
    refuse_more_than_a_layer(clf)
    weight, bias = clf.to_linear()
    return [np.ascontiguousarray(weight.T, np.float32), bias.astype(np.float32)]
