"""Grocery Store data set: photos of 81 products, taken in shops."""

from __future__ import annotations

import csv
from pathlib import Path

from xlda.datasets.layout import Dataset, LayoutError, Split, malformed, needed, numbered_lines, readable

ARCHIVE = "github.com/marcusklasson/GroceryStoreDataset, in its folder dataset/"
EXPECTED = "path, fine class, coarse class"


def load_grocery(folder: Path) -> Dataset:
    """Groceries, with the test photos of `test.txt`. Labels are names of products: `Golden-Delicious`."""
    return _load(folder, "test.txt", f"{ARCHIVE}; the data set 'grocery-val' tests on val.txt instead")


def load_grocery_val(folder: Path) -> Dataset:
    """The same, with the photos of `val.txt` to test on."""
    return _load(folder, "val.txt", ARCHIVE)


def _load(folder: Path, test: str, test_of: str) -> Dataset:
    root = needed(folder, ["classes.csv", "dataset/classes.csv"], ARCHIVE).parent
    labels = readable(_names(root / "classes.csv"))
    train = _split(needed(root, ["train.txt"], ARCHIVE), labels)
    return Dataset(
        train, _split(needed(root, [test], test_of), labels), {label: label for label in labels.values()}
    )


def _names(path: Path) -> dict[str, str]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        header = next(rows, [])
        if header[:2] != ["Class Name (str)", "Class ID (int)"]:
            raise malformed(path, 1, ",".join(header), "Class Name (str),Class ID (int),...")
        names: dict[str, str] = {}
        for row in rows:
            if len(row) < 2 or row[1].strip() in names:
                raise malformed(path, rows.line_num, ",".join(row), "name, a new id, ...")
            names[row[1].strip()] = row[0].strip()
    return names


def _split(path: Path, labels: dict[str, str]) -> Split:
    files, found = [], []
    for number, line in numbered_lines(path):
        fields = [field.strip() for field in line.rsplit(",", 2)]  # a path may have commas
        if len(fields) < 3 or not all(fields):
            raise malformed(path, number, line, EXPECTED)
        if fields[1] not in labels:
            raise LayoutError(f"{path}, line {number}: class {fields[1]!r} is not in classes.csv.")
        files.append(fields[0])
        found.append(labels[fields[1]])
    return Split(path.parent, files, found)
