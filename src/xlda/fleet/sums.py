"""What was taught, by class id: counts, means and one scatter, to which samples and other sums are added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.section import Section
from xlda.errors import RefusedContributionError
from xlda.fleet.registers import is_id
from xlda.fleet.space import Space
from xlda.labels import Label, label_hash
from xlda.moments import ForgetError, Moments
from xlda.moments.blocks import block_of, take_away
from xlda.moments.kept_stored import kept_from_section, kept_to_section
from xlda.moments.stored import moments_from_section, moments_to_section

CHECK_SAMPLES = 2048  # samples kept for checking, at most
NO_GROUP = -1


@dataclass(frozen=True, eq=False)
class SignedSamples:
    """SignedSamples that are added (`signs` 1) or taken away (-1), as the moments have them.

    `embeddings` (n, width) are float32, `ids` (n,) are class ids, whose labels are in `names`; `groups` (n,)
    are the same for samples that were taken together, and -1 for those that were not.
    """

    embeddings: Array
    ids: Sequence[str]
    names: Mapping[str, Label]
    signs: Array
    groups: Array

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(
        cls,
        embeddings: Any,
        ids: Sequence[str],
        names: Mapping[str, Label],
        sign: int = 1,
        groups: Any = None,
    ) -> SignedSamples:
        """SignedSamples that are all added, or all taken away."""
        n = len(ids)
        numbers = np.full(n, NO_GROUP) if groups is None else groups
        return cls(
            np.ascontiguousarray(embeddings, np.float32), ids, names, np.full(n, sign, np.int8), numbers
        )

    @classmethod
    def together(cls, some: Iterable[SignedSamples]) -> SignedSamples | None:
        """All of them, or None where there are none."""
        parts = [part for part in some if len(part)]
        if not parts:
            return None
        names = {name: label for part in reversed(parts) for name, label in part.names.items()}
        arrays = ([getattr(part, name) for part in parts] for name in ("embeddings", "signs", "groups"))
        embeddings, signs, groups = map(np.concatenate, arrays)
        return cls(embeddings, [name for part in parts for name in part.ids], names, signs, groups)

    def chosen(self, places: Any) -> SignedSamples:
        """Some of them."""
        ids = [self.ids[place] for place in np.asarray(places).tolist()]
        names = {name: self.names[name] for name in dict.fromkeys(ids)}
        return SignedSamples(self.embeddings[places], ids, names, self.signs[places], self.groups[places])


class Sums:
    """Sums of what was taught, a row for each class id, with the label that it had when it came.

    Adding is in any order, and what was added can be taken away again.

    >>> taught = Sums(Space(2))
    >>> taught.add(SignedSamples.of([[0.0, 0.0], [2.0, 0.0]], ["a1", "a1"], {"a1": "kiwi"}))
    >>> taught.block("a1")
    (2.0, array([1., 0.]))
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.names: dict[str, Label] = {}  # in the order of the rows
        self._row_of: dict[str, int] = {}
        self.moments = Moments(space.width, half=space.half, check_samples=CHECK_SAMPLES)

    @property
    def n_samples(self) -> int:
        """SignedSamples in all."""
        return self.moments.n_samples

    @property
    def counts(self) -> dict[str, float]:
        """SignedSamples of each class id that has any."""
        counts = self.moments.counts.tolist()
        return {name: counts[row] for name, row in self._row_of.items() if counts[row]}

    def block(self, class_id: str) -> tuple[float, Array] | None:
        """Count and mean of a class id; None where it has no samples."""
        row = self._row_of.get(class_id)
        if row is None:
            return None
        count, mean = block_of(self.moments, row)
        return (count, mean) if count else None

    def add(self, samples: SignedSamples) -> None:
        """Take in samples: first those that are added, then those that are taken away."""
        rows = self.rows(samples.ids, samples.names)
        plus, minus = np.flatnonzero(samples.signs > 0), np.flatnonzero(samples.signs < 0)
        if len(plus):
            groups = samples.groups[plus].astype(np.int64)
            self.moments.update(samples.embeddings[plus], rows[plus], groups=groups)
        if len(minus):
            try:
                self.moments.forget(samples.embeddings[minus], rows[minus])
            except ForgetError as error:
                raise self._too_many(error) from None

    def merge(self, other: Sums) -> None:
        """Take in all that was taught elsewhere."""
        rows = self.rows(list(other.names), other.names)
        self.moments.merge(other.moments, rows, np.zeros(len(rows), bool))

    def take_away(self, other: Sums) -> None:
        """Be without what was merged."""
        rows = self.rows(list(other.names), other.names)
        try:
            take_away(self.moments, other.moments, rows)
        except ForgetError as error:
            raise self._too_many(error) from None

    def rows(self, ids: Sequence[str], names: Mapping[str, Label]) -> Rows:
        """Rows of class ids, with new ones for those that have none."""
        new = [name for name in dict.fromkeys(ids) if name not in self._row_of]
        for name in set(ids):
            if name in self.names:  # of two labels the smaller, so that the order does not matter
                self.names[name] = min(self.names[name], names[name], key=_order)
        if new:
            first = len(self.names)
            self.names |= {name: names[name] for name in new}
            numbers = range(first, first + len(new))
            self._row_of |= dict(zip(new, numbers, strict=True))
            self.moments.kept.name(list(numbers), [label_hash(names[name]) for name in new])
            self.moments.grow(len(self.names))
        return np.fromiter(map(self._row_of.__getitem__, ids), np.intp, len(ids))

    def _too_many(self, error: ForgetError) -> RefusedContributionError:
        name = list(self.names)[error.row]
        return RefusedContributionError(
            f"{error.taken:g} samples of class {name} are taken away, and it has {error.have:g}."
        )

    # -- in files

    def to_sections(self, name: str) -> list[Section]:
        """As parts of a file, whose names begin so."""
        section = moments_to_section(self.moments)
        names = [[class_id, label] for class_id, label in self.names.items()]
        info = {**section.info, "names": names}
        kept = replace(kept_to_section(self.moments), name=f"{name} kept")
        return [replace(section, name=name, info=info), kept]

    @classmethod
    def from_sections(cls, sections: Mapping[str, Section], name: str, space: Space) -> Sums | None:
        """What `to_sections` gave; None where there is none. What cannot be that is a ValueError."""
        if name not in sections:
            return None
        taught, section = cls(space), sections[name]
        taught.names = checked_names(section.info.get("names"))
        taught._row_of = {class_id: row for row, class_id in enumerate(taught.names)}
        taught.moments = moments_from_section(section, "exact")
        if taught.moments.n_classes != len(taught.names) or taught.moments.n_features != space.width:
            raise ValueError("its sums are of other classes or another width than it says")
        if taught.moments.half != space.half:
            raise ValueError("its means are of another precision than it says")
        kept = sections.get(f"{name} kept")
        if kept is None:
            raise ValueError("it does not say which samples it keeps for checking")
        taught.moments.kept = kept_from_section(kept, taught.moments, CHECK_SAMPLES)
        return taught


def checked_names(stored: Any) -> dict[str, Label]:
    """Labels by class id, from what a file has."""
    if not isinstance(stored, list) or not all(
        isinstance(pair, list) and len(pair) == 2 and is_id(pair[0]) and type(pair[1]) in (str, int)
        for pair in stored
    ):
        raise ValueError("its classes have no ids and labels that can be")
    names = dict(stored)
    if len(names) < len(stored):
        raise ValueError("it has a class id twice")
    return names


def _order(label: Label) -> tuple[str, str]:
    return type(label).__name__, str(label)
