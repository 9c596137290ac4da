"""`xlda forget`."""

from __future__ import annotations

from typing import Annotated

import typer

from xlda.cli import options
from xlda.cli.console import say, say_json
from xlda.cli.models import as_labels, changed
from xlda.cli.samples import Choice, for_model


def forget(
    model: options.Model,
    where: Annotated[
        list[str] | None,
        typer.Argument(help="Photos or embeddings that were learned, as for `learn`.", show_default=False),
    ] = None,
    label: options.Label = None,
    classes: Annotated[
        list[str] | None,
        typer.Option("--class", "-c", help="Let this class go as a whole.", show_default=False),
    ] = None,
    only: options.Only = None,
    without: options.Without = None,
    backbone: options.OwnBackbone = None,
    on_error: options.Skip = options.OnError.stop,
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
    with changed(model) as clf:
        n_before = clf.class_count_.sum()
        for name in as_labels(clf, classes or []):
            clf.remove_class(name)
        if where:
            samples = for_model(where, clf, model, backbone, on_error, Choice(only, without, label))
            for batch in samples.labelled("forgetting"):
                clf.forget(batch.embeddings, batch.labels)
        n_left = round(clf.class_count_.sum())
        n_forgotten = round(n_before) - n_left
    if json:
        say_json({"model": str(model), "forgotten": n_forgotten, "classes": len(clf.classes_)})
    else:
        say(
            f"{model}: {n_forgotten:,} samples forgotten; {len(clf.classes_):,} classes, "
            f"{n_left:,} samples left"
        )
