"""`xlda classes`."""

from __future__ import annotations

from typing import Annotated

import typer

import xlda
from xlda.cli import options
from xlda.cli.console import note, say_json, say_table
from xlda.cli.models import whole
from xlda.label_matching import search_labels


def classes(
    model: options.ModelFile,
    query: Annotated[
        str,
        typer.Argument(help="Only those with this in them, case and accents aside.", show_default=False),
    ] = "",
    json: options.Json = False,
) -> None:
    """List or search the classes of a model, with their numbers of samples.

    Where a word of a label begins with what is searched for, the class comes first.

    $ xlda classes shop.xlda
    $ xlda classes shop.xlda kiw
    """
    clf = xlda.load(model)
    counts = dict(zip(clf.classes_.tolist(), clf.class_count_.tolist(), strict=True))
    labels = search_labels(list(counts), query) if query else sorted(counts)
    if json:
        say_json([{"label": label, "samples": whole(counts[label])} for label in labels])
        return
    say_table(("samples", "class"), [(f"{counts[label]:g}", str(label)) for label in labels])
    if query and not labels:
        note(f"no class of {model} has {query!r} in it")
