"""A classifier as a file, and back."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from xlda import storage
from xlda.head.layer_rows import LayerRows
from xlda.identity import BackboneIdentity
from xlda.labels import Labels
from xlda.model import Model
from xlda.search import search_from_json, search_to_json
from xlda.upkeep import Upkeep


def write(path: str | os.PathLike[str], clf: Any, model: Model) -> None:
    """Write all that `clf` has learned, which is `model`, and its parameters."""
    tensors, numbers = model.moments.to_arrays()
    if model.layer_rows is not None:
        tensors |= model.layer_rows.to_arrays()
    params, backbone = clf.get_params(deep=False), BackboneIdentity.from_json(clf.backbone_)
    plain = {name: _plain(value) for name, value in params.items() if name != "search"}
    info = {
        "params": {**plain, "search": search_to_json(clf.search)},
        "labels": model.labels.table().names.tolist(),
        "numbers": numbers,
        "feature_names": getattr(clf, "feature_names_in_", np.empty(0)).tolist(),
        "backbone": None if backbone is None else backbone.to_json(),
        "plan": model.upkeep.plan_to_save(),
    }
    storage.write(path, tensors, info, version=1 if model.layer_rows is None else 2)


def read(path: str | os.PathLike[str], kind: type[Any]) -> Any:
    """The classifier, of this kind, that a file holds."""
    tensors, info = storage.read(path)
    params = {"search": "auto", **info["params"]}
    clf = kind(**{**params, "search": search_from_json(params["search"])})
    clf.n_features_in_ = tensors["offsets"].shape[1]
    clf._start(Labels(info["labels"]))
    clf._model.moments = type(clf._model.moments).from_arrays(tensors, info["numbers"])
    clf._model.layer_rows = LayerRows.from_arrays(tensors)
    clf._model.upkeep = Upkeep(info.get("plan"))
    clf.backbone_ = BackboneIdentity.from_json(info.get("backbone"))
    if info["feature_names"]:
        clf.feature_names_in_ = np.array(info["feature_names"], dtype=object)
    return clf


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
