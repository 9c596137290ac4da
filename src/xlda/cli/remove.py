"""`xlda remove`."""

from __future__ import annotations

from typing import Annotated

import typer

from xlda.cli import options
from xlda.cli.console import counted, first_few, say, say_json
from xlda.cli.models import changed, n_samples
from xlda.label_matching import KnownLabels


def remove(
    model: options.ModelFile,
    labels: Annotated[list[str], typer.Argument(help="Labels of classes.", show_default=False)],
    json: options.Json = False,
) -> None:
    """Let classes go as a whole; no photos are needed. What they taught about all classes stays.

    It cannot be undone. To take single samples out, use `forget`.

    $ xlda remove shop.xlda kiwi lime
    """
    with changed(model) as recognizer:
        clf = recognizer.classifier
        known, n_before = KnownLabels(recognizer.classes), n_samples(clf)
        gone = list(dict.fromkeys(known.require(label) for label in labels))
        for label in gone:
            recognizer.remove(label)
    n_left = n_samples(clf)
    result = {"model": str(model), "removed": gone, "classes": len(clf.classes_), "samples": n_left}
    if json:
        say_json(result)
    else:
        with_samples = f"{first_few(gone)}, with {counted(n_before - n_left, 'sample')}"
        left = f"{counted(len(clf.classes_), 'class')}, {counted(n_left, 'sample')} left"
        say(f"{model}: removed {with_samples}; {left}")
