"""`xlda predict`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from xlda.cli import options
from xlda.cli.console import say, say_json, say_table
from xlda.cli.models import opened
from xlda.cli.samples import for_model


def predict(
    model: options.ModelFile,
    where: options.Where,
    k: Annotated[int, typer.Option("-k", "--top", min=1, help="How many classes to name, best first.")] = 5,
    backbone: options.OwnBackbone = None,
    on_error: options.Skip = "stop",
    json: options.Json = False,
) -> None:
    """Say what photos show: the best classes with their scores.

    A score is a log posterior up to a constant: a class that is 2.3 ahead is ten times as likely, if the
    model has it right. With few photos of each class it is far too sure.

    $ xlda predict shop.xlda photo.jpg
    """
    recognizer = opened(model, backbone)
    found: list[dict[str, Any]] = []
    for batch in for_model(where, recognizer, backbone, on_error).batches("predicting"):
        labels, scores = recognizer.classifier.predict_topk(batch.embeddings, k)
        for name, best, values in zip(batch.names, labels.tolist(), scores.tolist(), strict=True):
            ranked = [{"label": label, "score": score} for label, score in zip(best, values, strict=True)]
            found.append({"name": name, "best": ranked})
    if json:
        say_json(found)
        return
    for one in found:
        say(one["name"])
        say_table(("score", "label"), [(best["score"], str(best["label"])) for best in one["best"]])
