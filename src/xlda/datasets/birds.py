"""Caltech-UCSD Birds 200-2011: 200 species, 5 994 photos to train and 5 794 to test."""

from __future__ import annotations

import re
from pathlib import Path

from xlda.datasets.layout import Dataset, LayoutError, Split, mapping, needed, readable, same_keys

ARCHIVE = "CUB_200_2011.tgz"


def load_birds(folder: Path) -> Dataset:
    """Birds, from the folder `CUB_200_2011` or the one above. Labels are names: `Black footed Albatross`."""
    root = needed(folder, ["images.txt", "CUB_200_2011/images.txt"], ARCHIVE).parent
    files = _table(root, "images.txt", "image_id image_name")
    classes = _table(root, "image_class_labels.txt", "image_id class_id")
    trains = _table(root, "train_test_split.txt", "image_id is_training_image")
    for name, table in (("image_class_labels.txt", classes), ("train_test_split.txt", trains)):
        same_keys(root / "images.txt", set(files), root / name, set(table), "images")
    labels = _labels(root, set(classes.values()))
    images = needed(root, ["images"], ARCHIVE)

    def split(flag: str) -> Split:
        chosen = [image for image in files if trains[image] == flag]
        return Split(images, [files[image] for image in chosen], [labels[classes[image]] for image in chosen])

    if unknown := set(trains.values()) - {"0", "1"}:
        raise LayoutError(f"{root / 'train_test_split.txt'} says {min(unknown)!r}; expected 1 or 0.")
    return Dataset(split("1"), split("0"), {label: label for label in labels.values()})


def _table(root: Path, name: str, expected: str) -> dict[str, str]:
    return mapping(needed(root, [name], ARCHIVE), None, expected)


def _labels(root: Path, used: set[str]) -> dict[str, str]:
    """Labels by class id; `001.Black_footed_Albatross` is a number and a name."""
    names = _table(root, "classes.txt", "class_id class_name")
    if unknown := used - set(names):
        raise LayoutError(f"{root / 'classes.txt'} has no class {min(unknown)}.")
    return readable({number: re.sub(r"^\d+\.", "", name).replace("_", " ") for number, name in names.items()})
