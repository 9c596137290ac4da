"""`xlda rename`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from xlda.cli import options
from xlda.cli.console import say, say_json
from xlda.cli.models import changed
from xlda.errors import DoubtfulLabelError
from xlda.label_matching import KnownLabels

if TYPE_CHECKING:
    from xlda.labels import Label

CURE = "`xlda merge-classes` makes one class of two; --new-class renames it all the same."


def rename(
    model: options.ModelFile,
    old: Annotated[str, typer.Argument(help="Label of a class.", show_default=False)],
    new: Annotated[str, typer.Argument(help="The label that it gets.", show_default=False)],
    new_class: options.NewClass = False,
    json: options.Json = False,
) -> None:
    """Give a class another label. What it has learned stays.

    $ xlda rename shop.xlda kiwwi kiwi
    """
    if not new.strip():
        raise typer.BadParameter("the new label is empty.")
    with changed(model) as recognizer:
        known = KnownLabels(recognizer.classes)
        before, after = known.require(old), _new_label(known, old, new, new_class)
        recognizer.rename(before, after)
        n_classes = len(recognizer.classes)
    if json:
        say_json({"model": str(model), "old": before, "new": after, "classes": n_classes})
    else:
        say(f"{model}: {before} is {after} now")


def _new_label(known: KnownLabels, old: str, new: str, new_class: bool) -> Label:
    """The new label, of the same type as the others; one that is much like another class may be a slip."""
    match = known.match(new)
    alike = tuple(label for label in match.alike if str(label) != old)
    if match.how in ("known", "new") or not alike or new_class:
        return new if match.how == "end" else match.label
    raise DoubtfulLabelError(new, alike, CURE)
