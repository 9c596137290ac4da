"""A fully connected layer: weights, biases and labels that fit each other."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from xlda._internal.arrays import Array
from xlda.labels import Label, label_list


class Layer(NamedTuple):
    """Weights (n_classes, n_features), biases (n_classes,) and labels of a fully connected layer."""

    weight: Array
    bias: Array
    labels: list[Label]

    def logits(self, embeddings: Array) -> Array:
        """What the layer says of embeddings (n, n_features), shape (n, n_classes)."""
        logits: Array = embeddings @ self.weight.T + self.bias
        return logits


def checked_layer(weight: Any, bias: Any = None, labels: Any = None) -> Layer:
    """A layer of finite arrays that fit each other, or a ValueError that says what is wrong.

    >>> checked_layer([[1.0, 0.0], [0.0, 1.0]]).labels
    [0, 1]
    """
    weight = real_numbers(weight, "weight")
    if weight.ndim != 2 or not weight.size:
        raise ValueError(f"weight has shape {weight.shape}; expected (n_classes, n_features).")
    n_classes = len(weight)
    bias = np.zeros(n_classes, weight.dtype) if bias is None else real_numbers(bias, "bias")
    if bias.shape != (n_classes,):
        raise ValueError(
            f"bias has shape {bias.shape}; weight has {n_classes} rows, so expected ({n_classes},)."
        )
    names = label_list(range(n_classes) if labels is None else labels, "labels")
    if len(names) != n_classes:
        raise ValueError(f"labels has {len(names)} entries; weight has {n_classes} rows.")
    label, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise ValueError(f"labels has {label!r} {times} times; every class needs a label of its own.")
    return Layer(weight, bias.astype(weight.dtype), names)


def real_numbers(values: Any, name: str) -> Array:
    """`values` as finite float32 or float64, or a ValueError that names them."""
    try:
        array = np.asarray(values)
        array = array.astype(np.float32 if array.dtype.itemsize < 4 else np.result_type(array, np.float32))
        if array.dtype.kind != "f":
            raise ValueError
    except (TypeError, ValueError, RuntimeError):  # the last from a torch tensor that has gradients
        raise ValueError(f"{name} is not an array of real numbers.") from None
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity.")
    return array
