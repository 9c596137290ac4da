"""Photos in the places that a command was given: each once, with what it shows, and what else lies there."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from xlda.cli.console import first_few, note

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlda.photos.embedding import OnError
    from xlda.photos.finding import Photo


def found_photos(where: Sequence[str], on_error: OnError, of_folders: bool = False) -> list[Photo]:
    """All photos in these places, in their order; a file that comes twice is said and taken once.

    With `of_folders`, photos right in a place that has no folder for each class have that place's own name.
    """
    from xlda.photos.finding import find_photos

    photos: list[Photo] = []
    of_folder: Counter[str] = Counter()
    for one in where:
        found = find_photos(one, missing_ok=on_error == "skip")
        if of_folders and _is_one_class(Path(one), found):
            found = [photo._replace(label=_folder_name(photo.path)) for photo in found]
            of_folder.update(photo.label for photo in found if photo.label)
        photos += found
        _tell_of_others(Path(one))
    _tell_of_folders(of_folder)
    return _each_once(photos, [os.path.realpath(photo.path) for photo in photos])


def without_copies(photos: list[Photo]) -> list[Photo]:
    """Photos of which none is the same as another, byte by byte, under the same label."""
    from xlda.photos.repeats import repeated_photos

    repeats = repeated_photos([photo.path for photo in photos])
    firsts = [repeats.get(place, place) for place in range(len(photos))]
    double = [pair for pair in repeats.items() if photos[pair[0]].label != photos[pair[1]].label]
    if double:
        place, first = double[0]
        example = f"{photos[first].path} and {photos[place].path}"
        note(f"the same photo with two labels, taken with both: {len(double):,} ({example})")
    return _each_once(photos, [f"{first} {photo.label}" for first, photo in zip(firsts, photos, strict=True)])


def _each_once(photos: list[Photo], names: list[str]) -> list[Photo]:
    """The first photo of each name; what is left out is said."""
    first = dict(zip(reversed(names), reversed(photos), strict=True))
    kept = [photo for name, photo in zip(names, photos, strict=True) if first[name] is photo]
    if len(kept) < len(photos):
        again = next(
            str(photo.path) if photo.path == first[name].path else f"{photo.path} is {first[name].path}"
            for name, photo in zip(names, photos, strict=True)
            if first[name] is not photo
        )
        note(f"the same photo again, taken once: {len(photos) - len(kept):,} ({again})")
    return kept


def _is_one_class(place: Path, photos: list[Photo]) -> bool:
    """Whether its photos have no labels, and it names the folder that they are in; a list has its own."""
    from xlda.photos.finding import LISTS

    is_list = place.is_file() and place.suffix.lower() in LISTS
    names_folder = place.is_dir() or len(place.parts) > 1
    return names_folder and not is_list and all(photo.label is None for photo in photos)


def _folder_name(path: Path) -> str | None:
    return Path(os.path.abspath(path)).parent.name or None  # noqa: PTH100 (a link keeps its name)


def _tell_of_folders(labels: Counter[str]) -> None:
    if labels:
        n = labels.total()
        whose = (
            "1 photo has the label of its folder"
            if n == 1
            else f"{n:,} photos have the label of their folder"
        )
        note(f"{whose}: {first_few(list(labels))}")


def _tell_of_others(folder: Path) -> None:
    """Say which files in a folder are not taken for photos."""
    from xlda.photos.finding import SUFFIXES

    if not folder.is_dir():
        return
    others = Counter(Path(name).suffix.lower() or "other" for name in _file_names(folder))
    ignored = [f"{n:,} {suffix}" for suffix, n in sorted(others.items()) if suffix not in SUFFIXES]
    if ignored:
        note(f"ignored in {folder}: {', '.join(ignored)} files")


def _file_names(folder: Path) -> Iterator[str]:
    return (name for _, _, files in os.walk(folder) for name in files if not name.startswith("."))
