"""What a fully connected layer cannot hold."""

from __future__ import annotations

from xlda.classifier import XLDA


def refuse_power(clf: XLDA) -> None:
    """Refuse a classifier that is more than a layer."""
    if clf.power_ is not None:
        raise ValueError(
            f"A layer cannot hold power={clf.power_!r}. Write an ONNX graph, which can, or take the power of "
            "the embeddings yourself and use to_linear."
        )
