"""`xlda predict`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xlda.cli import options
from xlda.cli.console import say, say_json, say_table
from xlda.cli.models import opened
from xlda.cli.samples import for_model
from xlda.cli.served import RemoteService, places, predicted

if TYPE_CHECKING:
    from xlda.photos.embedding import OnError


def predict(
    model: options.ModelOrNone = None,
    where: options.WhereOrThere = None,
    k: Annotated[int, typer.Option("-k", "--top", min=1, help="How many classes to name, best first.")] = 5,
    unknown: Annotated[
        float | None,
        typer.Option(
            "--unknown",
            help="Say `unknown` of photos like no known class; at most this share of the known is rejected.",
            show_default=False,
        ),
    ] = None,
    server: options.Server = None,
    token_from: options.TokenFrom = None,
    backbone: options.OwnBackbone = None,
    on_error: options.Skip = "stop",
    json: options.Json = False,
) -> None:
    """Say what photos show: the best classes, and how likely each is.

    Percentages are given that the photo shows one of the known classes. `known` says how likely that is,
    where unknown things are as common as known ones. Both are measured on photos that the model kept to
    check itself with, as for photos of another day.

    With --server a service is asked, and no model file is named: it gets the photos as they are.

    $ xlda predict shop.xlda photo.jpg
    $ xlda predict shop.xlda photo.jpg --unknown 0.05
    $ xlda predict --server http://127.0.0.1:8765 photo.jpg
    """
    if unknown is not None and not 0 < unknown < 1:
        raise typer.BadParameter(f"--unknown is a share between 0 and 1; got {unknown:g}.")
    file, named = places(model, where, server, token_from, backbone)
    if server is not None:
        found = predicted(RemoteService(server, token_from), named, k, unknown, on_error)
    else:
        found = _by_model(file, named, k, unknown, backbone, on_error)
    if json:
        say_json(found)
        return
    for one in found:
        known = "" if one["known"] is None else f"  ({one['known']:.0%} known)"
        said = "  unknown" if one["label"] is None else ""
        say(f"{one['name']}{said}{known}")
        rows = [(100 * best["probability"], str(best["label"])) for best in one["best"]]
        say_table(("%", "label"), rows)


def _by_model(
    model: Path, where: list[str], k: int, unknown: float | None, backbone: str | None, on_error: OnError
) -> list[dict[str, Any]]:
    from xlda.photos.recognizer import answers_of  # which takes long to import

    recognizer = opened(model, backbone)
    found: list[dict[str, Any]] = []
    for batch in for_model(where, recognizer, backbone, on_error).batches("predicting"):
        judged = recognizer.classifier.judge(batch.embeddings, k, unknown=unknown)
        for name, answer in zip(batch.names, answers_of(judged), strict=True):
            best = [candidate._asdict() for candidate in answer.top]
            found.append({"name": name, "label": answer.label, "known": answer.p_known, "best": best})
    return found
