"""Which samples a command takes, and with which labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

from xlda.errors import UnknownClassError
from xlda.label_matching import KnownLabels

if TYPE_CHECKING:
    from xlda.label_matching import LabelResolver


@dataclass(frozen=True)
class Choice:
    """Which samples are taken, by their labels, all where none are named; and the labels that they get.

    `resolver` says what labels mean; without one they mean themselves. With `each_once`, copies of a photo
    are left out. With `of_folders`, a photo without a label may have that of its folder.
    """

    only: list[str] | None = None
    without: list[str] | None = None
    label: str | None = None
    resolver: LabelResolver | None = None
    each_once: bool = True
    of_folders: bool = True
    found: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.label is not None and not self.label.strip():
            raise typer.BadParameter("--label is empty.")

    @property
    def is_all(self) -> bool:
        """Whether labels do not matter."""
        return not self.only and not self.without

    def takes(self, label: object) -> bool:
        """Whether samples with this label are wanted."""
        text = str(label)
        self.found.add(text)
        return (not self.only or text in self.only) and text not in (self.without or ())

    def check(self) -> None:
        """Refuse names that no sample had."""
        for name in (*(self.only or ()), *(self.without or ())):
            if name not in self.found:
                known = KnownLabels(sorted(self.found))
                hint = [repr(label) for label in known.match(name).alike or known.nearest(name)]
                more = f" Is it {' or '.join(hint)}?" if hint else ""
                raise UnknownClassError(f"There is no class {name!r} among these samples.{more}")

    def labels(self, given: list[Any]) -> list[Any]:
        """The labels to use for samples with these; None is left."""
        if self.label is not None:
            given = [self.label] * len(given)
        if self.resolver is None:
            return given
        meant = iter(self.resolver.resolve([label for label in given if label is not None]))
        return [None if label is None else next(meant) for label in given]
