"""Photos on disk: which there are, and what they show."""

from __future__ import annotations

import csv
import glob
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
LISTS = {".txt": ",", ".csv": ",", ".tsv": "\t"}  # and what separates their columns


class Photo(NamedTuple):
    """A file, and what it shows, if that is known.

    >>> Photo(Path("shop/apple/1.jpg"), "apple").label
    'apple'
    """

    path: Path
    label: str | None


def find_photos(where: str | os.PathLike[str], *, missing_ok: bool = False) -> list[Photo]:
    """JPEG, PNG and WebP photos with their labels, from one of these:

    - a folder: every photo in it, however deep. Its label is its own folder, seen from the one given:
      `apple`, or `fruit/apple`. Photos right in the folder have None.
    - a pattern such as `shop/**/*.jpg`. Labels as for the folder before the first wildcard, here `shop`.
    - a list: a `.txt`, `.csv` or `.tsv` file with `path, label` in each line, in that order. Paths are seen
      from the folder of the list. A first line `path, label`, quotes and more columns may be there; a line
      without a label gives None.
    - one photo; its label is None.

    Folders and patterns give a sorted list without hidden files; a list keeps its order. A file in a list
    that is not there is an error, unless `missing_ok` leaves that to whoever opens it.
    """
    path = Path(where)
    if path.is_dir():
        photos = [Photo(file, _label(file, path)) for file in _walk(path)]
    elif path.exists():
        photos = _from_file(path, missing_ok)
    elif glob.has_magic(str(where)):
        photos = _from_pattern(str(where))
    else:
        raise FileNotFoundError(f"No such file or folder: {path}")
    if not photos:
        raise FileNotFoundError(f"No photos in {path}: looked for {', '.join(SUFFIXES)} files.")
    return photos


def _walk(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Photos in and below `folder`, sorted; a link to a folder that it is in leads nowhere."""
    here = folder.resolve()
    if here in above:
        return
    with os.scandir(folder) as found:
        entries = sorted((entry.name, entry.is_dir()) for entry in found if not entry.name.startswith("."))
    for name, is_folder in entries:
        if is_folder:
            yield from _walk(folder / name, (*above, here))
        elif _is_photo(name):
            yield folder / name


def _from_pattern(pattern: str) -> list[Photo]:
    root = Path(*itertools.takewhile(lambda part: not glob.has_magic(part), Path(pattern).parts[:-1]))
    files = sorted(Path(file) for file in glob.glob(pattern, recursive=True) if _is_photo(file))  # noqa: PTH207
    return [Photo(file, _label(file, root)) for file in files if file.is_file()]


def _from_file(path: Path, missing_ok: bool) -> list[Photo]:
    if _is_photo(path.name):
        return [Photo(path, None)]
    if path.suffix.lower() in LISTS:
        return _from_list(path, missing_ok)
    raise ValueError(
        f"{path} is no photo ({', '.join(SUFFIXES)}) and no list of photos ({', '.join(LISTS)})."
    )


def _from_list(path: Path, missing_ok: bool) -> list[Photo]:
    lines: dict[str, int] = {}
    photos = []
    for line, row in _rows(path):
        if line == 1 and [cell.lower() for cell in row[:2]] in (["path"], ["path", "label"]):
            continue
        file = path.parent / row[0]
        first = lines.setdefault(os.path.normpath(file), line)
        if first != line:
            raise ValueError(f"{path}, line {line}: {row[0]} is in line {first} already.")
        if not _is_photo(row[0]):
            raise ValueError(
                f"{path}, line {line}: {row[0]!r} is no {', '.join(SUFFIXES)} file; expected `path, label`."
            )
        if not missing_ok and not file.is_file():
            raise FileNotFoundError(f"{path}, line {line}: no file {file}")
        photos.append(Photo(file, (row[1] if len(row) > 1 else "") or None))
    return photos


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Number and stripped cells of each line that is not blank."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=LISTS[path.suffix.lower()], skipinitialspace=True, strict=True)
        try:
            for row in reader:
                if any(cell.strip() for cell in row):
                    yield reader.line_num, [cell.strip() for cell in row]
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(
                f"{path}, after line {reader.line_num}: {error}; expected `path, label`."
            ) from error


def _is_photo(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def _label(file: Path, root: Path) -> str | None:
    parent = file.parent.relative_to(root).as_posix()
    return None if parent == "." else parent
