"""All of a classifier as one value, which is written to a file and read from one of any format so far.

Nothing that is read is trusted: a file with the right checksum may still be made up.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from xlda import storage
from xlda._internal.section import MOST, Section
from xlda.errors import NewerFileError
from xlda.head.layer_rows import LayerRows
from xlda.identity import BackboneIdentity
from xlda.labels import Label
from xlda.moments import Moments
from xlda.moments.stored import moments_from_section, moments_to_section
from xlda.search import search_from_json, search_to_json

KNOWN = {  # sections, and the newest version of each
    "params": 1,
    "labels": 1,
    "moments": 1,
    "search": 1,
    "layer": 1,
    "backbone": 1,
    "features": 1,
    "keys": 1,
}
NEEDED = ("params", "labels", "moments")
MOST_KEYS = 1000  # of the batches learned last

# What a parameter was by default in the version of "params" that a file has. One who adds a parameter or
# changes a default makes a new version, and adds to the older ones what they did.
DEFAULTS: dict[int, dict[str, Any]] = {
    1: {
        "shrinkage": 0.3,
        "shrinkage_target": "trace",
        "covariance": "plastic",
        "rule": "exact",
        "priors": "equal",
        "power": None,
        "renew": 0.01,
        "search": "auto",
        "precision": "full",
    }
}

_log = logging.getLogger("xlda")


@dataclass(frozen=True, eq=False)
class StoredModel:
    """What a file has of a classifier."""

    params: Mapping[str, Any]
    labels: list[Label | None]  # of each row; None where it is free
    moments: Moments
    layer_rows: LayerRows | None = None
    search: dict[str, Any] | None = None  # what the search keeps: only it knows what that means
    backbone: dict[str, Any] | None = None
    feature_names: list[str] = field(default_factory=list)
    batch_keys: list[str] = field(default_factory=list)


def write_model(path: str | os.PathLike[str], model: StoredModel) -> None:
    """Write a classifier, whole or not at all. Nobody may learn meanwhile: tensors are not copied."""
    sections = [
        Section("params", KNOWN["params"], info=_params_to_json(model.params)),
        Section("labels", KNOWN["labels"], info={"names": model.labels}),
        moments_to_section(model.moments),
    ]
    if model.layer_rows is not None:
        sections.append(model.layer_rows.to_section())
    if model.search is not None:
        sections.append(Section("search", KNOWN["search"], info=model.search, may_be_ignored=True))
    if model.backbone is not None:
        sections.append(Section("backbone", KNOWN["backbone"], info=_backbone_to_json(model.backbone)))
    if model.feature_names:
        sections.append(Section("features", KNOWN["features"], info={"names": model.feature_names}))
    if model.batch_keys:
        sections.append(Section("keys", KNOWN["keys"], info={"keys": model.batch_keys[-MOST_KEYS:]}))
    storage.write(path, sections)
    _tell("saved", path, model)


def read_model(
    path: str | os.PathLike[str], parameters: Iterable[str], check: Callable[[dict[str, Any]], None]
) -> StoredModel:
    """Read what `write_model` wrote, in any format so far.

    `parameters` are the names that the classifier knows; `check` is given all of them, and raises a
    ValueError where it does not accept them. A damaged or made-up file is a `DamagedFileError`, one of a
    newer xlda a `NewerFileError`.
    """
    sections = storage.read(path, KNOWN)
    with storage.said_of(path):
        model = _composed(sections, frozenset(parameters), check)
    _tell("loaded", path, model)
    return model


def _composed(
    sections: storage.Sections, parameters: frozenset[str], check: Callable[[dict[str, Any]], None]
) -> StoredModel:
    for name in NEEDED:
        if name not in sections:
            raise ValueError(f"it has no section {name!r}")
    params = _params_from_json(sections["params"], parameters)
    check(params)
    moments = moments_from_section(sections["moments"], params["rule"])
    if moments.half != (params["precision"] == "half"):
        raise ValueError("its means are of another precision than it says")
    labels = _labels(sections["labels"], moments)
    optional = {name: sections.get(name) for name in ("layer", "search", "backbone", "features", "keys")}
    layer, search, backbone, features, keys = optional.values()
    return StoredModel(
        params,
        labels,
        moments,
        None if layer is None else LayerRows.from_section(layer, labels, moments.n_features),
        None if search is None else search.info,
        None if backbone is None else _backbone_from_json(backbone.info),
        [] if features is None else _feature_names(features, moments.n_features),
        [] if keys is None else keys.texts("keys")[-MOST_KEYS:],
    )


def _params_to_json(params: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in params.items()}
    return {**plain, "search": search_to_json(params["search"])}


def _params_from_json(section: Section, parameters: frozenset[str]) -> dict[str, Any]:
    """All parameters: those that the file has not got are what they were when it was written."""
    section.check_tensors()
    unknown = sorted(set(section.info) - parameters)
    if unknown:
        raise NewerFileError(f"the parameter {unknown[0]!r}, which this xlda does not know")
    then = {name: value for name, value in DEFAULTS[section.version].items() if name in parameters}
    params = {**then, **section.info}
    return {**params, "search": search_from_json(params["search"])}


def _labels(section: Section, moments: Moments) -> list[Label | None]:
    section.check_tensors()
    names = section.info.get("names")
    if not isinstance(names, list) or len(names) != moments.n_classes:
        raise ValueError(f"it has no list of {moments.n_classes} labels")
    live = [name for name in names if name is not None]
    if not all(type(name) is str for name in live) and not all(type(name) is int for name in live):
        raise ValueError("its labels are neither all texts nor all whole numbers")
    if any(name.endswith("\0") if isinstance(name, str) else not -MOST <= name < MOST for name in live):
        raise ValueError("it has a label that cannot be one")
    if len(set(live)) < len(live):
        raise ValueError("it has a label twice")
    if moments.counts[[name is None for name in names]].any():
        raise ValueError("it has samples of a class without a label")
    return names


def _feature_names(section: Section, n_features: int) -> list[str]:
    names = section.texts("names")
    if len(names) != n_features:
        raise ValueError(f"it has names of {len(names)} features, and has {n_features}")
    return names


def _backbone_to_json(backbone: Any) -> dict[str, Any]:
    return backbone.to_json() if isinstance(backbone, BackboneIdentity) else backbone


def _backbone_from_json(info: dict[str, Any]) -> dict[str, Any]:
    """What a file says of the backbone, if it can be so."""
    for name in ("name", "identity", "network"):
        if not isinstance(info.get(name), str | None):
            raise ValueError(f"{name} of its backbone is no text")
    for name, kind in (("preprocessing", dict), ("preprocessing_version", int), ("cut_head", bool)):
        if name in info and type(info[name]) is not kind:
            raise ValueError(f"{name} of its backbone is nothing that can be")
    width = info.get("width")
    if width is not None and (type(width) is not int or width < 1):
        raise ValueError("width of its backbone is nothing that can be")
    return info


def _tell(what: str, path: str | os.PathLike[str], model: StoredModel) -> None:
    """A line for whoever asks for it: sizes only, neither labels nor embeddings."""
    if _log.isEnabledFor(logging.DEBUG):
        moments, n_bytes = model.moments, Path(path).stat().st_size
        _log.debug(
            "%s %s: %d bytes, %d classes, %d features",
            what,
            path,
            n_bytes,
            moments.n_classes,
            moments.n_features,
        )
