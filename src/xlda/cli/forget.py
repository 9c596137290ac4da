"""`xlda forget`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from xlda.cli import options
from xlda.cli.choice import Choice
from xlda.cli.console import counted, say, say_json
from xlda.cli.labels import for_forgetting, meant
from xlda.cli.models import changed, n_samples
from xlda.cli.samples import for_model


def forget(
    model: options.ModelFile,
    where: Annotated[
        list[str] | None,
        typer.Argument(help="Photos or embeddings that were learned, as for `learn`.", show_default=False),
    ] = None,
    label: options.LabelOfAll = None,
    classes: Annotated[
        list[str] | None,
        typer.Option(
            "--class", "-c", help="Let this class go as a whole, as `remove` does.", show_default=False
        ),
    ] = None,
    only: options.Only = None,
    without: options.Without = None,
    backbone: options.OwnBackbone = None,
    on_error: options.Skip = "stop",
    json: options.Json = False,
) -> None:
    """Undo having learned samples, exactly; or let whole classes go.

    Give what was learned, with the label that it was learned with: a sample that never was harms the model,
    and that cannot be noticed.

    $ xlda forget shop.xlda wrong.jpg --label kiwi
    $ xlda forget shop.xlda --class kiwi
    """
    if not where and not classes:
        raise typer.BadParameter("give samples to forget, or --class.")
    with changed(model, backbone) as recognizer, recognizer.changing() as clf:
        n_before, resolver = n_samples(clf), for_forgetting(recognizer.classes)
        for name in [resolver.known.require(name) for name in classes or []]:
            clf.remove_class(name)
        if where:
            choice = Choice(only, without, label, resolver)
            samples = for_model(where, recognizer, backbone, on_error, choice)
            for batch in samples.labelled("forgetting"):
                clf.forget(batch.embeddings, batch.labels)
    n_left = n_samples(clf)
    result: dict[str, Any] = {
        "model": str(model),
        "forgotten": n_before - n_left,
        "taken_for_known": meant(resolver),
        "classes": len(clf.classes_),
        "samples": n_left,
    }
    if json:
        say_json(result)
    else:
        left = f"{counted(result['classes'], 'class')}, {counted(n_left, 'sample')} left"
        say(f"{model}: {counted(result['forgotten'], 'sample')} forgotten; {left}")
