"""A classifier head that learns new classes for ever: exact streaming LDA over embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xlda.classifier import XLDA as XLDA
    from xlda.classifier import load as load

__version__ = "0.1.0"
__all__ = ["XLDA", "__version__", "load"]


def __getattr__(name: str) -> Any:
    # scikit-learn takes about a second to import: the first use pays it, not `import xlda`.
    if name in ("XLDA", "load"):
        from xlda import classifier

        return getattr(classifier, name)
    raise AttributeError(f"module 'xlda' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
