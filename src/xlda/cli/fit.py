"""`xlda fit`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

import xlda
from xlda.cli import options
from xlda.cli.console import say, say_json
from xlda.cli.models import named_backbone, refuse_existing
from xlda.cli.samples import Choice, are_embeddings, from_files, from_photos


class Priors(StrEnum):
    """How likely a class is before anything is seen."""

    equal = "equal"
    empirical = "empirical"


class Precision(StrEnum):
    """How means and weights are kept."""

    full = "full"
    half = "half"


def fit(
    where: options.Where,
    out: options.Out,
    only: options.Only = None,
    without: options.Without = None,
    backbone: options.BackboneName = None,
    size: options.Size = None,
    cut_head: options.CutHead = False,
    shrinkage: Annotated[str, typer.Option("--shrinkage", help="0 to 1, or oas, or ledoit-wolf.")] = "0.3",
    power: Annotated[
        float | None,
        typer.Option("--power", help="Signed power of the embeddings; 0.5 helps pooled activations."),
    ] = None,
    priors: Annotated[
        Priors, typer.Option("--priors", help="empirical: what came more often is more likely.")
    ] = Priors.equal,
    precision: Annotated[
        Precision, typer.Option("--precision", help="half: half the memory.")
    ] = Precision.full,
    on_error: options.Skip = options.OnError.stop,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Make a model of photos or embeddings.

    $ xlda fit photos/ --out shop.xlda
    $ xlda fit photos.parquet --out shop.xlda --power 0.5
    """
    refuse_existing(out, overwrite)
    clf = xlda.XLDA(
        shrinkage=_number_or_name(shrinkage),
        power=power,
        priors=priors.value,
        precision=precision.value,
    )
    choice = Choice(only, without)
    if are_embeddings(where):
        if backbone is not None or size is not None or cut_head:
            raise typer.BadParameter("--backbone, --size and --cut-head are for photos, not for embeddings.")
        samples = from_files(where, choice)
    else:
        samples = from_photos(where, named_backbone(backbone, size, cut_head), on_error, choice)
    for batch in samples.labelled("learning"):
        clf.partial_fit(batch.embeddings, batch.labels)
    clf.backbone_ = samples.info
    clf.save(out)
    if json:
        say_json({"out": str(out), "classes": len(clf.classes_), "samples": clf.n_samples_seen_})
    else:
        say(f"{out}: {clf.n_samples_seen_:,} samples of {len(clf.classes_):,} classes")


def _number_or_name(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text
