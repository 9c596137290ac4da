"""What a command does about labels: who decides where they are in doubt, and what is said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlda.cli.console import ask, can_ask, first_few, note
from xlda.errors import DoubtfulLabelError
from xlda.label_matching import LabelResolver, look_alikes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlda.labels import Label

CURE = "If that is meant, say so with --label, or rename the folder; --new-class makes a class of its own."
SOME = 3  # that are named in a line


def for_learning(known: Iterable[Label], new_class: bool) -> LabelResolver:
    """Labels to learn: where one is in doubt, `new_class` says that it is new, or whoever is there."""
    return LabelResolver(known, (lambda label, alike: label) if new_class else which_is_meant)


def for_forgetting(known: Iterable[Label]) -> LabelResolver:
    """Labels that were learned: one that is not known is an error."""
    return LabelResolver(known, new_ok=False)


def for_evaluating(known: Iterable[Label]) -> LabelResolver:
    """Labels to compare with: nothing is changed by them, so one that is like one known label means it."""
    return LabelResolver(known, lambda label, alike: alike[0] if len(alike) == 1 else label)


def which_is_meant(label: Label, alike: tuple[Label, ...]) -> Label:
    """Ask whether a known label is meant by one like it; an error where nobody can be asked."""
    if not can_ask():
        raise DoubtfulLabelError(label, alike, CURE)
    note(f"{label} is new, but much like what is known. Which is meant?")
    for number, known in enumerate(alike, start=1):
        note(f"  {number}  {known}")
    note(f"  n  {label}, a new class")
    numbers = [str(number) for number, _ in enumerate(alike, start=1)]
    answer = ask(f"{', '.join(numbers)}, n, or q to stop:", [*numbers, "n", "q"])
    if answer == "q":
        raise DoubtfulLabelError(label, alike, "Nothing was changed.")
    return label if answer == "n" else alike[int(answer) - 1]


def meant(resolver: LabelResolver | None) -> dict[str, Label]:
    """Labels that were taken for known ones, for a program to read."""
    return {} if resolver is None else {str(given): label for given, label in resolver.meant.items()}


def tell_of_meant(resolver: LabelResolver | None) -> None:
    """Say which labels were taken for known ones, in a line."""
    if resolver is not None and resolver.meant:
        pairs = [f"{given} is {label}" for given, label in resolver.meant.items()]
        note(f"taken for known classes: {first_few(pairs, SOME)}")


def tell_of_look_alikes(labels: Iterable[Label]) -> None:
    """Say which classes differ so little that one of them may be a slip, in a line."""
    groups = [" and ".join(map(str, group)) for group in look_alikes(labels)]
    if groups:
        note(f"classes that are much alike: {first_few(groups, SOME)}. `xlda merge-classes` makes them one.")
