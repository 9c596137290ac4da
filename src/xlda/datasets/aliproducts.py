"""AliProducts: photos of 50 030 products, from the challenge of CVPR 2020."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from xlda.datasets.layout import Dataset, LayoutError, Split, needed

ARCHIVE = "the AliProducts challenge: train.json, val.json, and train/ and val/ of train_val.part*.tar.gz"


def load_aliproducts(folder: Path) -> Dataset:
    """Products, with the validation photos to test on. Labels are ids, `00042`; there are no names."""
    train, test = (_split(folder, part) for part in ("train", "val"))
    return Dataset(train, test, {label: label for label in sorted({*train.labels, *test.labels})})


def _split(folder: Path, part: str) -> Split:
    path = needed(folder, [f"{part}.json"], ARCHIVE)
    images = needed(folder, [part], ARCHIVE)
    ids: dict[str, str] = {}  # one text for each class, however many photos it has
    files, labels = [], []
    for place, (image, product) in enumerate(_entries(path)):
        if product is None:
            raise LayoutError(f'{path}, image {place}: {image!r}; expected "image_id" and "class_id".')
        label = ids.setdefault(product, product)
        files.append(f"{label}/{image}")
        labels.append(label)
    return Split(images, files, labels)


def _entries(path: Path) -> list[tuple[Any, str | None]]:
    """Pairs of image and class; what is not such an object comes with None."""

    def pair(values: dict[str, Any]) -> Any:
        if "image_id" in values and "class_id" in values:
            return str(values["image_id"]), str(values["class_id"]).zfill(5)  # as the folders are called
        return values

    try:
        content = json.loads(path.read_bytes(), object_hook=pair)
    except ValueError as error:
        raise LayoutError(f"{path} is not JSON: {error}.") from error
    entries = content.get("images") if isinstance(content, dict) else content
    if not isinstance(entries, list):
        raise LayoutError(f'{path} has no list of "images".')
    return [entry if isinstance(entry, tuple) else (entry, None) for entry in entries]
