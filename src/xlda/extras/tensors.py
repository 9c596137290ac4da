"""Layers in safetensors and `.npz` files, as named tensors."""

from __future__ import annotations

import os

from xlda.classifier import XLDA
from xlda.extras._exported import refuse_more_than_a_layer
from xlda.layers import tensors
from xlda.layers.tensors import read_layer

__all__ = ["read_layer", "write_layer"]


def write_layer(clf: XLDA, path: str | os.PathLike[str]) -> None:
    """The equal layer as tensors "weight" and "bias", float32, and labels: `.safetensors` or `.npz`."""
    refuse_more_than_a_layer(clf)
    tensors.write_layer(clf.to_layer(), path)
