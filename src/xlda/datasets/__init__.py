"""Photos and labels of known data sets, from the folders that their official archives unpack to.

`docs/datasets.md` has what each folder must hold, and where that is described.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from xlda.datasets.aliproducts import load_aliproducts
from xlda.datasets.birds import load_birds
from xlda.datasets.grocery import load_grocery, load_grocery_val
from xlda.datasets.imagenet import load_imagenet
from xlda.datasets.inaturalist import load_inaturalist, load_inaturalist_mini
from xlda.datasets.landmarks import load_landmarks
from xlda.datasets.layout import Dataset, LayoutError, Split

LOADERS: dict[str, Callable[[Path], Dataset]] = {
    "aliproducts": load_aliproducts,
    "birds": load_birds,
    "grocery": load_grocery,
    "grocery-val": load_grocery_val,
    "imagenet": load_imagenet,
    "inaturalist": load_inaturalist,
    "inaturalist-mini": load_inaturalist_mini,
    "landmarks": load_landmarks,
}

__all__ = ["LOADERS", "Dataset", "LayoutError", "Split", "load"]


def load(name: str, folder: str | os.PathLike[str]) -> Dataset:
    """The training and test photos of the data set `name`, and what its labels mean.

    Lists are read and compared with each other. Whether each photo is there shows when it is opened, or with
    `Split.missing`.

    >>> ", ".join(LOADERS)
    'aliproducts, birds, grocery, grocery-val, imagenet, inaturalist, inaturalist-mini, landmarks'
    """
    if name not in LOADERS:
        raise ValueError(f"No data set {name!r}; there are {', '.join(LOADERS)}.")
    if not Path(folder).is_dir():
        raise LayoutError(f"No folder {folder}.")
    return LOADERS[name](Path(folder))
