"""Classifiers that are a fully connected layer and nothing else."""

from __future__ import annotations

from xlda.arrays import Array
from xlda.classifier import XLDA


def plain_layer(clf: XLDA) -> tuple[Array, Array]:
    """Weights and bias of a classifier that is a layer and nothing else."""
    if clf.power is not None:
        raise ValueError(
            f"A layer cannot hold power={clf.power!r}. Use xlda.extras.onnx.write, or take the power of the "
            "embeddings yourself and use to_linear."
        )
    return clf.to_linear()
