"""Layers in safetensors and `.npz` files, as named tensors."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from xlda._internal.arrays import Array
from xlda._internal.files import replaced
from xlda.layers.layer import Layer, checked_layer
from xlda.storage import save_tensors

FLOATS = ("F16", "F32", "F64")
LABELS = "xlda.labels"  # in the metadata of a safetensors file: a list in JSON


def read_layer(
    path: str | os.PathLike[str], weight: str | None = None, bias: str | None = None, labels: Any = None
) -> Layer:
    """Layer of the tensors named `weight` (n_classes, n_features) and `bias`.

    Where the weight is not named, the file must hold one tensor with two axes; the bias may be named alike:
    "head.weight" and "head.bias". Labels are those that `write_layer` wrote, unless others are given.
    """
    path = Path(path)
    tensors, known = _tensors(path)
    if weight is None:
        matrices = [name for name, tensor in tensors.items() if tensor.ndim == 2]
        if len(matrices) != 1:
            raise ValueError(
                f"{path} has {len(matrices)} tensors with two axes ({', '.join(matrices) or 'none'}): "
                "say which is the weight."
            )
        (weight,) = matrices
    alike = weight.removesuffix("weight") + "bias"
    bias = bias or (alike if alike in tensors else None)
    for name in (weight, bias):
        if name is not None and name not in tensors:
            raise ValueError(f"{path} has no tensor {name!r}; it has {', '.join(tensors) or 'none'}.")
    return checked_layer(
        tensors[weight], None if bias is None else tensors[bias], known if labels is None else labels
    )


def write_layer(layer: Layer, path: str | os.PathLike[str]) -> None:
    """A layer as tensors "weight" and "bias", float32, and labels: `.safetensors` or `.npz`."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".safetensors", ".npz"):
        raise ValueError(f"{path} is neither .safetensors nor .npz.")
    tensors: dict[str, Any] = {
        "weight": layer.weight.astype(np.float32),
        "bias": layer.bias.astype(np.float32),
    }
    with replaced(path) as unfinished:
        if suffix == ".npz":
            with unfinished.open("wb") as file:
                np.savez(file, **tensors, labels=np.array(layer.labels))
        else:
            save_tensors(tensors, unfinished, {LABELS: json.dumps(layer.labels)})


def _tensors(path: Path) -> tuple[dict[str, Array], Any]:
    """Floating-point tensors by name, and labels where there are any."""
    with path.open("rb"):
        pass  # a missing or forbidden file is the system's own error, with its name
    try:
        if path.suffix.lower() == ".npz":
            with np.load(path, allow_pickle=False) as file:
                tensors = dict(file)
            labels = tensors.pop("labels", None)
        else:
            with safe_open(path, framework="np") as file:
                kinds = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
                if "BF16" in kinds.values() and not set(kinds.values()) & set(FLOATS):
                    raise ValueError("its tensors are BF16, which NumPy has not got; save them as F32")
                tensors = {name: file.get_tensor(name) for name, kind in kinds.items() if kind in FLOATS}
                labels = json.loads((file.metadata() or {}).get(LABELS, "null"))
    except (SafetensorError, zipfile.BadZipFile, ValueError) as error:
        raise ValueError(f"{path} cannot be read as named tensors: {error}.") from error
    return {name: tensor for name, tensor in tensors.items() if tensor.dtype.kind == "f"}, labels
