"""`xlda merge`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import xlda
from xlda.cli import options
from xlda.cli.console import counted, progress_bar, say, say_json
from xlda.cli.labels import tell_of_look_alikes
from xlda.cli.models import n_samples, refuse_existing, written

if TYPE_CHECKING:
    from xlda.classifier import XLDA


def merge(
    models: Annotated[list[Path], typer.Argument(help="Model files.", show_default=False)],
    out: options.Out,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Make one model of several, as if it had learned all their samples.

    $ xlda merge north.xlda south.xlda --out chain.xlda
    """
    refuse_existing(out, overwrite)
    if len({model.resolve() for model in models}) < len(models):
        raise ValueError("One of these models is given twice.")
    with written(out, overwrite):  # which may be one of them
        clf = _merged(models)
        clf.save(out)
    tell_of_look_alikes(clf.classes_.tolist())
    if json:
        say_json({"out": str(out), "classes": len(clf.classes_), "samples": n_samples(clf)})
    else:
        classes, samples = counted(len(clf.classes_), "class"), counted(n_samples(clf), "sample")
        say(f"{out}: {classes}, {samples}, of {counted(len(models), 'model')}")


def _merged(models: list[Path]) -> XLDA:
    with progress_bar("merging", len(models)) as advance:
        clf = xlda.load(models[0])
        advance(1)
        for model in models[1:]:
            other = xlda.load(model)
            if clf.backbone_ is not None:
                clf.backbone_.check_same(other.backbone_, str(models[0]))
            try:
                clf.merge(other)
            except ValueError as error:
                raise ValueError(f"{model} cannot be merged: {error}") from error
            advance(1)
    return clf
