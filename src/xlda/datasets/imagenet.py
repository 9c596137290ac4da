"""ImageNet-1k (ILSVRC 2012): 1 281 167 photos of 1 000 classes to train, and 50 000 to test."""

from __future__ import annotations

import os
import re
from pathlib import Path

from xlda.datasets.layout import Dataset, LayoutError, Split, malformed, mapping, needed, numbered_lines

TRUTH = "ILSVRC2012_validation_ground_truth.txt"
DEVKIT = ["", "data/", "ILSVRC2012_devkit_t12/data/"]
KAGGLE = "ILSVRC/Data/CLS-LOC"


def load_imagenet(folder: Path) -> Dataset:
    """ImageNet, with the validation photos to test on. Labels are WordNet ids, since two classes are cranes.

    `train/` has a folder for each class. `val/` has too, or all photos in one; then `LOC_val_solution.csv` or
    the development kit says what they show. Names come from `LOC_synset_mapping.txt` or the kit, if there.
    """
    images = needed(
        folder, ["train", f"{KAGGLE}/train"], "ILSVRC2012_img_train.tar, a folder per class"
    ).parent
    train = _in_folders(images / "train")
    val = needed(images, ["val"], "ILSVRC2012_img_val.tar")
    test = _in_folders(val) if any(_class_folders(val)) else _flat(folder, val)
    names = _names(folder)
    return Dataset(train, test, {label: names.get(label, label) for label in dict.fromkeys(train.labels)})


def _class_folders(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(e.name for e in entries if re.fullmatch(r"n\d{8}", e.name) and e.is_dir())


def _photos(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.name.lower().endswith((".jpeg", ".jpg")))


def _in_folders(folder: Path) -> Split:
    files, labels = [], []
    for wnid in _class_folders(folder):
        found = [f"{wnid}/{name}" for name in _photos(folder / wnid)]
        files += found
        labels += [wnid] * len(found)
    if not files:
        raise LayoutError(
            f"No photos in {folder}; expected {folder.name}/n01440764/*.JPEG and so on. "
            "The archive holds a tar file for each class: unpack each into a folder of its name."
        )
    return Split(folder, files, labels)


def _flat(folder: Path, val: Path) -> Split:
    """Photos in one folder, with what they show from a list; the two must be of the same photos."""
    if (folder / "LOC_val_solution.csv").exists():
        path, shown = folder / "LOC_val_solution.csv", _solution(folder / "LOC_val_solution.csv")
    else:
        path, shown = _truth(folder)
    found = {name.rpartition(".")[0]: name for name in _photos(val)}
    if found.keys() != shown.keys():
        example = min(found.keys() ^ shown.keys())
        raise LayoutError(
            f"{val} has {len(found)} photos, {path} has {len(shown)}; {example} is in one of them only."
        )
    return Split(val, list(found.values()), [shown[name] for name in found])


def _solution(path: Path) -> dict[str, str]:
    """`ImageId,PredictionString`, the latter being `wnid x y x y` for each box."""
    lines = mapping(path, ",", "ImageId,PredictionString")
    lines.pop("ImageId", None)
    return {image: boxes.split()[0] for image, boxes in lines.items()}


def _truth(folder: Path) -> tuple[Path, dict[str, str]]:
    """One number for each photo, in their order; the kit's `meta.mat` has the class of a number."""
    kit = "ILSVRC2012_devkit_t12.tar.gz; Kaggle's LOC_val_solution.csv will do as well"
    path = needed(folder, [place + TRUTH for place in DEVKIT], kit)
    wnids = {number: wnid for number, wnid, _ in _synsets(needed(path.parent, ["meta.mat"], kit))}
    shown: dict[str, str] = {}
    for line, text in numbered_lines(path):
        if not text.isdecimal() or int(text) not in wnids:
            raise malformed(path, line, text, "a class number of meta.mat")
        shown[f"ILSVRC2012_val_{len(shown) + 1:08}"] = wnids[int(text)]
    return path, shown


def _synsets(path: Path) -> list[tuple[int, str, str]]:
    """Number, WordNet id and words of each class."""
    from scipy.io import loadmat

    synsets = loadmat(path, squeeze_me=True)["synsets"]
    columns = (synsets[field] for field in ("ILSVRC2012_ID", "WNID", "words"))
    return [(int(number), str(wnid), str(words)) for number, wnid, words in zip(*columns, strict=True)]


def _names(folder: Path) -> dict[str, str]:
    if (folder / "LOC_synset_mapping.txt").exists():
        return mapping(folder / "LOC_synset_mapping.txt", None, "wnid names")
    for place in DEVKIT:
        if (folder / place / "meta.mat").exists():
            return {wnid: words for _, wnid, words in _synsets(folder / place / "meta.mat")}
    return {}
