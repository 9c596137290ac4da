"""`xlda merge-classes`."""

from __future__ import annotations

from typing import Annotated

import typer

from xlda.cli import options
from xlda.cli.console import counted, say, say_json
from xlda.cli.models import changed
from xlda.label_matching import KnownLabels


def merge_classes(
    model: options.ModelFile,
    into: Annotated[str, typer.Argument(help="Label of the class that stays.", show_default=False)],
    other: Annotated[str, typer.Argument(help="Label of the one that becomes a part.", show_default=False)],
    json: options.Json = False,
) -> None:
    """Make one class of two. All their samples count as learned with the first label.

    It cannot be undone: nobody knows afterwards which samples were of which.

    $ xlda merge-classes shop.xlda kiwi Kiwi
    """
    with changed(model) as recognizer:
        known = KnownLabels(recognizer.classes)
        kept, gone = known.require(into), known.require(other)
        recognizer.merge_classes(kept, gone)
        clf = recognizer.classifier
    n = round(float(clf.class_count_[clf.classes_.tolist().index(kept)]))
    if json:
        classes = len(clf.classes_)
        say_json(
            {"model": str(model), "into": kept, "other": gone, "samples_of_class": n, "classes": classes}
        )
    else:
        left = counted(len(clf.classes_), "class")
        say(f"{model}: {gone} is a part of {kept} now, with {counted(n, 'sample')}; {left}")
