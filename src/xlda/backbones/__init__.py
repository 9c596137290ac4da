"""From photos to embeddings by a frozen network, without torch. Needs the extra `images`."""

from __future__ import annotations

from importlib import import_module

from xlda._internal.extras import needs

try:
    for _needed in ("onnxruntime", "PIL"):
        import_module(_needed)
except ModuleNotFoundError as error:
    raise needs("xlda.backbones", f"{error.name}", "images") from None

from xlda.backbones.efficientnet_lite import classifier_layer
from xlda.backbones.loading import describe, load
from xlda.backbones.network import Backbone
from xlda.backbones.preprocessing import Preprocessing

__all__ = ["Backbone", "Preprocessing", "classifier_layer", "describe", "load"]
