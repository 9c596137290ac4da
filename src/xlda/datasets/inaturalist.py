"""iNaturalist of 2017, 2018 and 2021: 5 089, 8 142 and 10 000 species."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from xlda.datasets.layout import Dataset, LayoutError, Split, readable

ARCHIVE = "github.com/visipedia/inat_comp"


class _Image(NamedTuple):
    id: Any
    file: str


class _Annotation(NamedTuple):
    image: Any
    category: Any


def load_inaturalist(folder: Path) -> Dataset:
    """Species, with the validation photos to test on. Labels are names if no two species share one, else ids.

    The names of 2018 were hidden at first; a file `categories.json` in the folder has them.
    """
    return _load(folder, r"train(20\d\d)?\.json")


def load_inaturalist_mini(folder: Path) -> Dataset:
    """The same for the smaller training set of 2021, `train_mini.json`."""
    return _load(folder, r"train_mini\.json")


def _load(folder: Path, pattern: str) -> Dataset:
    path = _only(folder, pattern)
    train, test = _read(path), _read(_only(folder, r"val(20\d\d)?\.json"))
    categories = train["categories"]
    if (folder / "categories.json").exists():
        categories = _parsed(folder / "categories.json")
    labels = readable({str(category["id"]): str(category["name"]) for category in categories})
    names = {labels[str(category["id"])]: str(category["name"]) for category in categories}
    return Dataset(_split(train, labels), _split(test, labels), names)


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(path for path in folder.glob("*.json") if re.fullmatch(pattern, path.name))
    if len(found) != 1:
        there = ", ".join(sorted(path.name for path in folder.glob("*.json"))) or "no .json file"
        shown = pattern.replace("\\", "").replace("(20dd)?", "[year]")
        raise LayoutError(f"Expected one {shown} in {folder}, from {ARCHIVE}; there is {there}.")
    return found[0]


def _read(path: Path) -> dict[str, Any]:
    content = _parsed(path)
    for field in ("images", "annotations", "categories"):
        if not isinstance(content, dict) or not isinstance(content.get(field), list):
            raise LayoutError(f"{path} has no list of {field!r}; test lists without labels cannot be used.")
    return {**content, "path": path}


def _parsed(path: Path) -> Any:
    """The content, with images and annotations cut down as they come: there are millions."""

    def slim(values: dict[str, Any]) -> Any:
        if "file_name" in values and "id" in values:
            return _Image(values["id"], values["file_name"])
        if "image_id" in values and "category_id" in values:
            return _Annotation(values["image_id"], values["category_id"])
        return values

    try:
        return json.loads(path.read_bytes(), object_hook=slim)
    except ValueError as error:
        raise LayoutError(f"{path} is not JSON: {error}.") from error


def _split(content: dict[str, Any], labels: dict[str, str]) -> Split:
    path: Path = content["path"]
    images, annotations = content["images"], content["annotations"]
    if not all(isinstance(image, _Image) for image in images):
        raise LayoutError(f'{path} has images without "id" and "file_name".')
    if not all(isinstance(annotation, _Annotation) for annotation in annotations):
        raise LayoutError(f'{path} has annotations without "image_id" and "category_id".')
    classes = {annotation.image: str(annotation.category) for annotation in annotations}
    if len(images) != len(annotations) or classes.keys() != {image.id for image in images}:
        raise LayoutError(
            f"{path} has {len(images)} images and {len(annotations)} annotations; expected one for each."
        )
    if unknown := set(classes.values()) - set(labels):
        raise LayoutError(f"{path} has photos of category {min(unknown)}, which has no name.")
    return Split(
        path.parent, [image.file for image in images], [labels[classes[image.id]] for image in images]
    )
