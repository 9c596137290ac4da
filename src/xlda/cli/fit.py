"""`xlda fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

import xlda
from xlda.cli import options
from xlda.cli.choice import Choice
from xlda.cli.console import counted, say, say_json
from xlda.cli.labels import tell_of_look_alikes
from xlda.cli.models import n_samples, named_backbone, refuse_existing, written
from xlda.cli.samples import are_embeddings, from_files, from_photos, with_files_of_folders
from xlda.sources import open_source

if TYPE_CHECKING:
    from pathlib import Path

    from xlda.classifier import XLDA


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
            help="Learn so many random features of each embedding instead, as 4096: mostly somewhat better "
            "with many similar classes, and slower.",
            show_default=False,
        ),
    ] = None,
    second_look: Annotated[
        int | None,
        typer.Option(
            "--second-look",
            help="Keep so many rows of each class, as 16, to compare the nearest classes once more: better "
            "with many similar classes.",
            show_default=False,
        ),
    ] = None,
    on_error: options.Skip = "stop",
    overwrite: options.Overwrite = False,
    ray: options.Ray = None,
    json: options.Json = False,
) -> None:
    """Make a model of photos or embeddings.

    With --ray, all machines of a cluster share the work: of embeddings, which may be a folder of files.

    $ xlda fit photos/ --out shop.xlda
    $ xlda fit embeddings/ --out shop.xlda --ray auto
    $ xlda fit photos.parquet --out shop.xlda --priors empirical
    """
    refuse_existing(out, overwrite)
    given: dict[str, Any] = {"model": model, "priors": priors, "precision": precision}  # the library checks
    exponent = None if power == "none" else _number_or_name(power)
    given |= {"shrinkage": _number_or_name(shrinkage), "power": exponent, "lift": lift}
    given["second_look"] = second_look
    if ray is not None:
        if only or without or backbone is not None or size is not None or views is not None or cut_head:
            raise typer.BadParameter("--ray learns all of some embeddings: nothing can be chosen beside it.")
        clf = _on_ray(where, ray, given)
        _finish(clf, out, overwrite, json)
        return
    clf = xlda.XLDA(**given)
    choice = Choice(only, without, of_folders=len(where) > 1)
    where = with_files_of_folders(where)
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
    _finish(clf, out, overwrite, json)


def _on_ray(where: list[str], address: str, params: dict[str, Any]) -> XLDA:
    """A model of files of embeddings, and of folders of such."""
    from xlda.extras import ray

    files = [file for one in where for file in open_source(one).files]
    ray.connect(address)
    return ray.fit(files, **params)


def _finish(clf: XLDA, out: Path, overwrite: bool, json: bool) -> None:
    """Save the model, and say what it is."""
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
