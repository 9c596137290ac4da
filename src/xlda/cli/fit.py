"""`xlda fit`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import xlda
from xlda.cli import options
from xlda.cli.choice import Choice
from xlda.cli.console import counted, say, say_json
from xlda.cli.labels import tell_of_look_alikes
from xlda.cli.models import n_samples, named_backbone, refuse_existing, written
from xlda.cli.samples import are_embeddings, from_files, from_photos


def fit(
    where: options.Where,
    out: options.Out,
    only: options.Only = None,
    without: options.Without = None,
    backbone: options.BackboneName = None,
    size: options.Size = None,
    views: options.Views = None,
    cut_head: options.CutHead = False,
    model: Annotated[
        str,
        typer.Option("--model", help="bayes: a class with one sample stands beside classes with many; lda."),
    ] = "bayes",
    shrinkage: Annotated[
        str, typer.Option("--shrinkage", help="auto, 0 to 1, oas, or ledoit-wolf.")
    ] = "auto",
    power: Annotated[
        str,
        typer.Option(
            "--power",
            help="Signed power of the embeddings, or none; auto: 0.5 where they are never negative.",
        ),
    ] = "auto",
    priors: Annotated[
        str, typer.Option("--priors", help="equal; or empirical: what came more often is more likely.")
    ] = "equal",
    precision: Annotated[str, typer.Option("--precision", help="full; or half: half the memory.")] = "full",
    lift: Annotated[
        int | None,
        typer.Option(
            "--lift",
            help="Learn so many random features of each embedding instead, as 4096: better where classes "
            "have dozens of samples, and slower.",
            show_default=False,
        ),
    ] = None,
    on_error: options.Skip = "stop",
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Make a model of photos or embeddings.

    $ xlda fit photos/ --out shop.xlda
    $ xlda fit photos.parquet --out shop.xlda --priors empirical
    """
    refuse_existing(out, overwrite)
    given: dict[str, Any] = {"model": model, "priors": priors, "precision": precision}  # the library checks
    exponent = None if power == "none" else _number_or_name(power)
    clf = xlda.XLDA(shrinkage=_number_or_name(shrinkage), power=exponent, lift=lift, **given)
    choice = Choice(only, without, of_folders=len(where) > 1)
    if are_embeddings(where):
        if backbone is not None or size is not None or views is not None or cut_head:
            raise typer.BadParameter(
                "--backbone, --size, --views and --cut-head are for photos, not for embeddings."
            )
        samples = from_files(where, choice)
    else:
        samples = from_photos(where, named_backbone(backbone, size, cut_head, views), on_error, choice)
    for batch in samples.labelled("learning"):
        clf.partial_fit(batch.embeddings, batch.labels)
    clf.backbone_ = samples.identity
    clf.calibrate_if_due()
    with written(out, overwrite):
        clf.save(out)
    tell_of_look_alikes(clf.classes_.tolist())
    if json:
        say_json({"out": str(out), "classes": len(clf.classes_), "samples": n_samples(clf)})
    else:
        say(f"{out}: {counted(n_samples(clf), 'sample')} of {counted(len(clf.classes_), 'class')}")


def _number_or_name(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text
