"""A classifier as a file, of any format so far, and back.

Nothing that is read is trusted: a file with the right checksum may still be made up.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from xlda import storage
from xlda._internal.section import MOST, Section
from xlda.calibration import calibration_stored
from xlda.calibration.calibration_stored import (
    calibration_from_section,
    calibration_to_section,
    figures_from_section,
    figures_to_section,
)
from xlda.errors import NewerFileError
from xlda.head import layer_rows
from xlda.head import stored as head_stored
from xlda.head.layer_rows import LayerRows
from xlda.identity import BackboneIdentity
from xlda.labels import Label, Labels
from xlda.model import Model
from xlda.moments import Moments, kept_stored, stored
from xlda.moments.kept_stored import kept_from_section, kept_to_section
from xlda.moments.stored import moments_from_section, moments_to_section
from xlda.parameters import check_parameters, learning_parameters
from xlda.search import search_from_json, search_to_json
from xlda.upkeep import Upkeep

KNOWN = {  # sections, and the newest version of each
    "params": 3,
    "chosen": 1,
    "labels": 1,
    stored.NAME: stored.VERSION,
    kept_stored.NAME: kept_stored.VERSION,
    calibration_stored.NAME: calibration_stored.VERSION,
    calibration_stored.FIGURES: calibration_stored.FIGURES_VERSION,
    "search": 1,
    head_stored.NAME: head_stored.VERSION,
    layer_rows.SECTION: layer_rows.SECTION_VERSION,
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
        "model": "lda",
    }
}
DEFAULTS[2] = {**DEFAULTS[1], "model": "bayes", "shrinkage": "auto", "power": "auto"}
DEFAULTS[3] = {**DEFAULTS[2], "check_samples": 2048, "like": "visit"}
for _version in (1, 2):  # nothing was kept
    DEFAULTS[_version] |= {"check_samples": 0, "like": "visit"}

_log = logging.getLogger("xlda")


def write(path: str | os.PathLike[str], clf: Any, model: Model) -> None:
    """Write a classifier, and the model that it has learned, whole or not at all.

    Nobody may learn meanwhile: tensors are not copied.
    """
    backbone = BackboneIdentity.from_json(clf.backbone_)
    search = model.upkeep.plan_to_save()
    features = [str(name) for name in getattr(clf, "feature_names_in_", [])]
    sections = [
        Section("params", KNOWN["params"], info=_params_to_json(clf.get_params(deep=False))),
        Section("labels", KNOWN["labels"], info={"names": model.labels.table().names.tolist()}),
        moments_to_section(model.moments),
    ]
    if model.moments.kept.most:
        sections.append(kept_to_section(model.moments))
    if model.calibration is not None:
        sections.append(calibration_to_section(model.calibration))
        if model.calibration.can_tell:
            sections.append(figures_to_section(model.calibration, clf.like))
    if clf.power == "auto" and hasattr(clf, "power_"):
        sections.append(Section("chosen", KNOWN["chosen"], info={"power": clf.power_}))
    if model.layer_rows is not None:
        sections.append(model.layer_rows.to_section())
    head = model.upkeep.to_section()
    if head is not None:
        sections.append(head)
    if search is not None:
        sections.append(Section("search", KNOWN["search"], info=search, may_be_ignored=True))
    if backbone is not None:
        sections.append(Section("backbone", KNOWN["backbone"], info=backbone.to_json()))
    if features:
        sections.append(Section("features", KNOWN["features"], info={"names": features}))
    if clf.batch_keys_:
        sections.append(Section("keys", KNOWN["keys"], info={"keys": clf.batch_keys_[-MOST_KEYS:]}))
    storage.write(path, sections)
    _tell("saved", path, model)


def read(path: str | os.PathLike[str], kind: type[Any]) -> Any:
    """A classifier of this kind from what `write` wrote, in any format so far.

    A damaged or made-up file is a `DamagedFileError`, one of a newer xlda a `NewerFileError`.
    """
    sections = storage.read(path, KNOWN)
    with storage.said_of(path):
        clf = _composed(sections, kind)
    _tell("loaded", path, clf._model)
    return clf


def _composed(sections: storage.Sections, kind: type[Any]) -> Any:
    for name in NEEDED:
        if name not in sections:
            raise ValueError(f"it has no section {name!r}")
    clf = kind(**_params_from_json(sections["params"], frozenset(kind().get_params(deep=False))))
    check_parameters(clf)
    moments = moments_from_section(sections["moments"], clf.rule)
    if moments.half != (clf.precision == "half"):
        raise ValueError("its means are of another precision than it says")
    labels = _labels(sections["labels"], moments)
    optional = {name: sections.get(name) for name in ("layer", "search", "backbone", "features", "keys")}
    layer, search, backbone, features, keys = optional.values()
    if clf.power != "auto":
        clf.power_ = clf.power
    elif "chosen" in sections:
        clf.power_ = _power(sections["chosen"])
    elif moments.n_seen:
        raise ValueError("it does not say which power was chosen")
    model = Model(moments, Labels(labels), learning_parameters(clf))
    kept = sections.get(kept_stored.NAME)
    if kept is not None:
        moments.kept = kept_from_section(kept, moments, clf.check_samples)
    calibration = sections.get(calibration_stored.NAME)
    if calibration is not None:
        model.calibration = calibration_from_section(calibration, model.labels.n_rows)
        if calibration_stored.FIGURES in sections:
            figures = figures_from_section(sections[calibration_stored.FIGURES])
            model.calibration = replace(model.calibration, given=figures)
    if layer is not None:
        model.layer_rows = LayerRows.from_section(layer, labels, moments.n_features)
    model.upkeep = Upkeep(None if search is None else search.info)
    clf._model, clf.n_features_in_ = model, moments.n_features
    head = sections.get(head_stored.NAME)
    if head is not None and layer is None:
        model.upkeep.restore(model, clf._scoring(), head)
    clf.backbone_ = None if backbone is None else BackboneIdentity.from_json(backbone.info)
    clf.batch_keys_ = [] if keys is None else keys.texts("keys")[-MOST_KEYS:]
    if features is not None:
        clf.feature_names_in_ = np.array(_feature_names(features, moments.n_features), dtype=object)
    return clf


def _params_to_json(params: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in params.items()}
    del plain["background"]  # which says how it runs here, and not what it is
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


def _power(section: Section) -> float | None:
    section.check_tensors()
    if section.info.get("power", "") is None:
        return None
    power = section.number("power")
    if not 0 < power < np.inf:
        raise ValueError("the power that was chosen is nothing that can be")
    return power


def _feature_names(section: Section, n_features: int) -> list[str]:
    names = section.texts("names")
    if len(names) != n_features:
        raise ValueError(f"it has names of {len(names)} features, and has {n_features}")
    return names


def _tell(what: str, path: str | os.PathLike[str], model: Model) -> None:
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
