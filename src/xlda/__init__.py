"""A classifier head that learns new classes for ever: exact streaming LDA over embeddings."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from xlda import errors

if TYPE_CHECKING:
    from xlda.classifier import XLDA as XLDA
    from xlda.classifier import load as load
    from xlda.photos.recognizer import Recognizer as Recognizer
    from xlda.sources import open_source as open_source

__version__ = "0.1.0"
__all__ = ["XLDA", "Recognizer", "__version__", "errors", "load", "open_source"]

_HOME = {
    "XLDA": "xlda.classifier",
    "load": "xlda.classifier",
    "open_source": "xlda.sources",
    "Recognizer": "xlda.photos.recognizer",
}

logging.getLogger("xlda").addHandler(logging.NullHandler())  # silent, unless somebody listens


def __getattr__(name: str) -> Any:
    # scikit-learn takes about a second to import: the first use pays it, not `import xlda`.
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'xlda' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
