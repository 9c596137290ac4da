"""What a fully connected layer cannot hold."""

from __future__ import annotations

from xlda.classifier import XLDA


def refuse_second_look(clf: XLDA, what: str) -> None:
    """Refuse a classifier that looks twice, where only its scores can be had."""
    if clf.second_look is not None:
        raise ValueError(
            f"{what} cannot hold second_look={clf.second_look!r}. "
            "set_params(second_look=None) drops the rows."
        )


def refuse_more_than_a_layer(clf: XLDA) -> None:
    """Refuse a classifier that does more than a layer."""
    refuse_second_look(clf, "A layer")
    if clf.lift is not None:
        raise ValueError(
            f"A layer cannot hold lift={clf.lift!r}. Write an .onnx file, which can, or in Python use "
            "to_linear for what `lifted` gives."
        )
    if clf.power_ is not None:
        raise ValueError(
            f"A layer cannot hold power={clf.power_!r}. Write an .onnx file, which can, or take the power of "
            "the embeddings yourself and use to_linear in Python."
        )
