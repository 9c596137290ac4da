"""Google Landmarks v2, clean: 1 580 470 photos of 81 313 landmarks."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from xlda.datasets.layout import Dataset, LayoutError, Split, malformed, mapping, needed, pairs

ARCHIVE = "github.com/cvdfoundation/google-landmark"
CLEAN, NAMES, SOLUTION = "train_clean.csv", "train_label_to_category.csv", "recognition_solution_v2.1.csv"


def load_landmarks(folder: Path) -> Dataset:
    """Landmarks. Labels are ids: `142820`; names come from `train_label_to_category.csv`, if it is there.

    The test photos are those of `recognition_solution_v2.1.csv` that show a landmark of the training photos,
    the first of them being the label; there are none where that file is missing. Photos are in `train/` and
    `test/`, and the lists beside these folders, in them, or in `metadata/`.
    """
    files, labels = [], []
    for landmark, images in _clean(_list(folder, CLEAN, "train")):
        files += [_file(image) for image in images]
        labels += [landmark] * len(images)
    train = Split(needed(folder, ["train"], f"{ARCHIVE}: unpack train/images_*.tar there"), files, labels)
    known = dict.fromkeys(labels)
    names = _names(folder)
    return Dataset(train, _test(folder, known), {label: names.get(label, label) for label in known})


def _list(folder: Path, name: str, part: str) -> Path:
    return needed(folder, [name, f"{part}/{name}", f"metadata/{name}"], f"{ARCHIVE}: the list {name}")


def _clean(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Landmarks with their images. Lines are longer than Python's csv module accepts."""
    for number, landmark, images in pairs(path, ",", "landmark_id,images"):
        if number == 1 and landmark == "landmark_id":
            continue
        found = images.strip('"').split()
        if not landmark.isdecimal() or min(map(len, found), default=0) < 3:
            raise malformed(path, number, f"{landmark},{images}", "landmark_id,images")
        yield landmark, found


def _file(image: str) -> str:
    return f"{image[0]}/{image[1]}/{image[2]}/{image}.jpg"


def _names(folder: Path) -> dict[str, str]:
    try:
        path = _list(folder, NAMES, "train")
    except LayoutError:
        return {}
    pages = mapping(path, ",", "landmark_id,category")
    return {
        landmark: unquote(page.strip('"')).rpartition("Category:")[2].replace("_", " ")
        for landmark, page in pages.items()
    }


def _test(folder: Path, known: dict[str, None]) -> Split:
    try:
        path = _list(folder, SOLUTION, "test")
    except LayoutError:
        return Split(folder / "test", [], [])
    files, labels = [], []
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        for row in rows:
            if row.get("id") is None or row.get("landmarks") is None:
                raise malformed(
                    path, rows.line_num, ",".join(filter(None, row.values())), "id,landmarks,Usage"
                )
            shown = [landmark for landmark in row["landmarks"].split() if landmark in known]
            if shown:
                files.append(_file(row["id"]))
                labels.append(shown[0])
    return Split(needed(folder, ["test"], f"{ARCHIVE}: unpack test/images_*.tar there"), files, labels)
