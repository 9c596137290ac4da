"""What every data set gives, and what is told when its folder is not as it should be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, overload

from xlda.photos.finding import Photo


class LayoutError(ValueError):
    """A folder that is not laid out as the official archives of the data set."""


@dataclass(frozen=True, repr=False)
class Split(Sequence[Photo]):
    """Photos of one part of a data set, made when asked for: millions of them take little memory.

    >>> split = Split(Path("CUB_200_2011/images"), ["a/1.jpg", "b/2.jpg"], ["wren", "crow"])
    >>> len(split), split[1].label
    (2, 'crow')
    """

    folder: Path
    files: list[str]
    labels: list[str]

    def __post_init__(self) -> None:
        if len(self.files) != len(self.labels):
            raise ValueError(f"{len(self.files)} files beside {len(self.labels)} labels.")

    def __repr__(self) -> str:
        return f"<Split of {len(self)} photos in {self.folder}>"

    def __len__(self) -> int:
        return len(self.files)

    @overload
    def __getitem__(self, place: int) -> Photo: ...
    @overload
    def __getitem__(self, place: slice) -> Split: ...
    def __getitem__(self, place: int | slice) -> Photo | Split:
        if isinstance(place, slice):
            return Split(self.folder, self.files[place], self.labels[place])
        return Photo(self.folder / self.files[place], self.labels[place])

    def __iter__(self) -> Iterator[Photo]:
        for file, label in zip(self.files, self.labels, strict=True):
            yield Photo(self.folder / file, label)

    def missing(self) -> Iterator[Path]:
        """Photos that are not there. It looks for each: take the first, or wait for all."""
        return (photo.path for photo in self if not photo.path.is_file())


class Dataset(NamedTuple):
    """Training and test photos. `names` has what each label is called, which may be the label itself."""

    train: Split
    test: Split
    names: dict[str, str]


def needed(folder: Path, names: Sequence[str], of: str) -> Path:
    """The first of these files or folders that is in `folder`; `of` says where they come from."""
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise LayoutError(f"No {' or '.join(names)} in {folder}. It comes with {of}.")


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers, from 1."""
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, line.strip()


def pairs(path: Path, separator: str | None, expected: str) -> Iterator[tuple[int, str, str]]:
    """Number, first field and all the rest of each line; `None` separates at blanks."""
    for number, line in numbered_lines(path):
        fields = [field.strip() for field in line.split(separator, 1)]
        if len(fields) < 2 or not all(fields):
            raise malformed(path, number, line, expected)
        yield number, fields[0], fields[1]


def mapping(path: Path, separator: str | None, expected: str) -> dict[str, str]:
    """The pairs of a file in which nothing is said twice."""
    found: dict[str, str] = {}
    for number, key, value in pairs(path, separator, expected):
        if key in found:
            raise LayoutError(f"{path}, line {number}: {key} was there before.")
        found[key] = value
    return found


def malformed(path: Path, number: int, line: str, expected: str) -> LayoutError:
    """The error for a line that cannot be understood."""
    shown = line if len(line) <= 80 else f"{line[:77]}..."
    return LayoutError(f"{path}, line {number}: {shown!r}; expected `{expected}`.")


def same_keys(path: Path, keys: set[str], other: Path, other_keys: set[str], what: str) -> None:
    """Raise an error unless two files speak of the same things."""
    if keys != other_keys:
        example = min(keys ^ other_keys)
        raise LayoutError(
            f"{path} has {len(keys)} {what}, {other} has {len(other_keys)}; {example} is in one of them only."
        )


def readable(names: dict[str, str]) -> dict[str, str]:
    """Label for each class id: its name if no two classes share one, else the id.

    >>> readable({"1": "crow", "2": "wren"}), readable({"1": "crane", "2": "crane"})
    ({'1': 'crow', '2': 'wren'}, {'1': '1', '2': '2'})
    """
    if len(set(names.values())) == len(names):
        return dict(names)
    return {class_id: class_id for class_id in names}
