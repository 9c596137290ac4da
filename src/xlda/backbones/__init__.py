"""From photos to embeddings by a frozen network, without torch. Needs `pip install 'xlda[images]'`."""

from __future__ import annotations

from importlib import import_module

try:
    for _needed in ("onnx", "onnxruntime", "PIL"):
        import_module(_needed)
except ModuleNotFoundError as error:
    raise ImportError(f"xlda.backbones needs {error.name}: pip install 'xlda[images]'") from None

from xlda.backbones.lite0 import classifier_layer
from xlda.backbones.loading import describe, load
from xlda.backbones.network import Backbone
from xlda.backbones.preprocessing import Preprocessing

__all__ = ["Backbone", "Preprocessing", "classifier_layer", "describe", "load"]
