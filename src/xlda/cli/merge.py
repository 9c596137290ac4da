"""`xlda merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import xlda
from xlda.cli import options
from xlda.cli.console import progress_bar, say, say_json
from xlda.cli.models import check_same_backbone, refuse_existing


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
    with progress_bar("merging", len(models)) as advance:
        clf = xlda.load(models[0])
        advance(1)
        for model in models[1:]:
            other = xlda.load(model)
            check_same_backbone(other.backbone_, clf.backbone_, str(models[0]))
            try:
                clf.merge(other)
            except ValueError as error:
                raise ValueError(f"{model} cannot be merged: {error}") from error
            advance(1)
    clf.save(out)
    if json:
        say_json({"out": str(out), "classes": len(clf.classes_), "samples": clf.n_samples_seen_})
    else:
        classes, samples = len(clf.classes_), clf.n_samples_seen_
        say(f"{out}: {classes:,} classes, {samples:,} samples, of {len(models):,} models")
