"""A classifier as a file, of any format so far, and back.

Nothing that is read is trusted: a file with the right checksum may still be made up.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from xlda import storage
from xlda._internal.safetensors_file import InMemory
from xlda._internal.section import MOST, Section
from xlda.calibration import calibration_stored
from xlda.calibration.calibration import Calibration
from xlda.calibration.calibration_stored import (
    calibration_from_section,
    calibration_to_section,
    figures_from_section,
    figures_to_section,
)
from xlda.calibration.folds import Like
from xlda.errors import NewerFileError
from xlda.head import layer_rows
from xlda.head import stored as head_stored
from xlda.head.layer_rows import LayerRows
from xlda.identity import BackboneIdentity
from xlda.labels import Label, Labels, LabelTable
from xlda.lifting import Lift
from xlda.lifting.random_features import RULE
from xlda.model import Model
from xlda.moments import Moments, kept_stored, sketches_stored, stored
from xlda.moments.kept_stored import kept_from_section, kept_to_section
from xlda.moments.sketches_stored import sketches_from_section, sketches_to_section
from xlda.moments.stored import check_width, moments_from_section, moments_to_section
from xlda.moments.view import MomentsView
from xlda.parameters import check_parameters, learning_parameters, lift_for
from xlda.search import search_from_json, search_to_json
from xlda.upkeep import HeadToSave, Upkeep

KNOWN = {  # sections, and the newest version of each
    "params": 5,
    "chosen": 1,
    "lift": 1,
    "labels": 1,
    stored.NAME: stored.VERSION,
    kept_stored.NAME: kept_stored.VERSION,
    sketches_stored.NAME: sketches_stored.VERSION,
    calibration_stored.NAME: calibration_stored.VERSION,
    calibration_stored.FIGURES: calibration_stored.FIGURES_VERSION,
    "search": 1,
    head_stored.NAME: head_stored.VERSION,
    layer_rows.SECTION: layer_rows.SECTION_VERSION,
    "backbone": 1,
    "features": 1,
    "keys": 1,
    "ids": 1,
    "log": 1,
}
NEEDED = ("params", "labels", "moments")
MOST_KEYS = 1000  # of the batches learned last
MOST_OF_AN_ID = 64  # characters
MOST_INPUTS = 2**16  # numbers of an embedding that is lifted

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
DEFAULTS[4] = DEFAULTS[3]
for _version in DEFAULTS:  # nothing was lifted before version 4
    DEFAULTS[_version] = {**DEFAULTS[_version], "lift": None, "lift_seed": 0, "lift_centre": None}
DEFAULTS[5] = DEFAULTS[4]
for _version in DEFAULTS:  # nobody looked twice before version 5
    DEFAULTS[_version] = {**DEFAULTS[_version], "second_look": None}

_log = logging.getLogger("xlda")


@dataclass(frozen=True, eq=False)
class SaveView:
    """A classifier as it was at one moment, to be written later, while it goes on learning.

    Until it is gone, learning puts aside each class mean that it changes; see `MomentsView`.
    """

    params: dict[str, Any]
    table: LabelTable
    moments: MomentsView
    calibration: Calibration | None
    like: Like
    chosen: dict[str, float | None] | None  # the power, where it was chosen
    layer_rows: LayerRows | None
    head: HeadToSave | None
    plan: dict[str, Any] | None
    backbone: BackboneIdentity | None
    features: list[str]
    keys: list[str]
    ids: dict[Label, str]
    log_position: Any

    @classmethod
    def of(cls, clf: Any, model: Model) -> SaveView:
        """What a classifier and the model that it has learned are now; the lock of the model is held."""
        return cls(
            _params_to_json(clf.get_params(deep=False)),
            model.labels.table(),
            MomentsView(model.moments, with_covariance=True),
            model.calibration,
            clf.like,
            {"power": clf.power_} if clf.power == "auto" and hasattr(clf, "power_") else None,
            model.layer_rows,
            model.upkeep.to_save(clf._scoring()),
            model.upkeep.plan_to_save(),
            BackboneIdentity.from_json(clf.backbone_),
            [str(name) for name in getattr(clf, "feature_names_in_", [])],
            clf.batch_keys_[-MOST_KEYS:],
            dict(clf.class_ids_),
            copy.deepcopy(clf.log_position_),
        )

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write it to one file, whole or not at all; no lock is held."""
        storage.write(path, self._sections())
        _tell("saved", path, self.moments)

    def to_bytes(self) -> bytes:
        """What `write` would write."""
        return storage.to_bytes(self._sections())

    def _sections(self) -> Iterator[Section]:
        yield Section("params", KNOWN["params"], info=self.params)
        yield Section("labels", KNOWN["labels"], info={"names": self.table.names.tolist()})
        yield moments_to_section(self.moments)
        if self.moments.kept.most:
            yield kept_to_section(self.moments)
        if self.moments.sketches is not None:
            yield sketches_to_section(self.moments)
        if self.calibration is not None:
            yield calibration_to_section(self.calibration)
            if self.calibration.can_tell:
                yield figures_to_section(self.calibration, self.like)
        if self.layer_rows is not None:
            yield self.layer_rows.to_section()
        head = None if self.head is None else self.head.to_section(self.moments, self.table)
        if head is not None and self._has_room_for(head):
            yield head
        yield from self._small_sections()

    def _has_room_for(self, head: Section) -> bool:
        """Whether the file stays about as large as means and a covariance are; else it is made when loaded.

        That is so without a lift, where a head is small. Half of a symmetric matrix is not written with one:
        what is kept for checking has its place, and the head where it is as small as that.
        """
        if self.moments.lift is None:
            return True
        size = sum(tensor.nbytes for tensor in head.tensors.values())
        return size + self.moments.kept.nbytes <= 4 * self.moments.n_features**2

    def _small_sections(self) -> Iterator[Section]:
        if self.moments.lift is not None:
            yield Section("lift", KNOWN["lift"], info=self.moments.lift.to_json())
        if self.chosen is not None:
            yield Section("chosen", KNOWN["chosen"], info=self.chosen)
        if self.plan is not None:
            yield Section("search", KNOWN["search"], info=self.plan, may_be_ignored=True)
        if self.backbone is not None:
            yield Section("backbone", KNOWN["backbone"], info=self.backbone.to_json())
        if self.features:
            yield Section("features", KNOWN["features"], info={"names": self.features})
        if self.keys:
            yield Section("keys", KNOWN["keys"], info={"keys": self.keys})
        if self.ids:
            ids = [self.ids.get(name) for name in self.table.names.tolist()]
            if not _are_ids(ids):
                raise ValueError(f"class_ids_ are texts of 1 to {MOST_OF_AN_ID} characters, none twice.")
            yield Section("ids", KNOWN["ids"], info={"ids": ids})
        if self.log_position is not None:
            if not isinstance(self.log_position, dict):
                raise ValueError("log_position_ is a dict that JSON can hold, or None.")
            yield Section("log", KNOWN["log"], info={"position": self.log_position})


def read(path: str | os.PathLike[str], kind: type[Any]) -> Any:
    """A classifier of this kind from what `write` wrote, in any format so far.

    A damaged or made-up file is a `DamagedFileError`, one of a newer xlda a `NewerFileError`.
    """
    sections = storage.read(path, KNOWN)
    with storage.said_of(path):
        clf = _composed(sections, kind)
    _tell("loaded", path, clf._model.moments)
    return clf


def from_bytes(data: InMemory, kind: type[Any]) -> Any:
    """A classifier of this kind from what `SaveView.to_bytes` gave; errors as `read` has them."""
    sections = storage.from_bytes(data, KNOWN)
    with storage.said_of(storage.IN_MEMORY):
        return _composed(sections, kind)


def _composed(sections: storage.Sections, kind: type[Any]) -> Any:
    for name in NEEDED:
        if name not in sections:
            raise ValueError(f"it has no section {name!r}")
    clf = kind(**_params_from_json(sections["params"], frozenset(kind().get_params(deep=False))))
    check_parameters(clf)
    moments = moments_from_section(sections["moments"], clf.rule, _lift(clf, sections))
    if moments.half != (clf.precision == "half"):
        raise ValueError("its means are of another precision than it says")
    _take_sketches(moments, clf.second_look, sections.get(sketches_stored.NAME))
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
    clf._model, clf.n_features_in_ = model, moments.n_inputs
    head = sections.get(head_stored.NAME)
    if head is not None and layer is None:
        model.upkeep.restore(model, clf._scoring(), head)
    clf.backbone_ = None if backbone is None else BackboneIdentity.from_json(backbone.info)
    clf.batch_keys_ = [] if keys is None else keys.texts("keys")[-MOST_KEYS:]
    clf.class_ids_ = _ids(sections["ids"], labels) if "ids" in sections else {}
    clf.log_position_ = _log_position(sections["log"]) if "log" in sections else None
    if features is not None:
        clf.feature_names_in_ = np.array(_feature_names(features, moments.n_inputs), dtype=object)
    return clf


def _params_to_json(params: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in params.items()}
    del plain["background"]  # which says how it runs here, and not what it is
    if plain["lift_centre"] is not None:
        plain["lift_centre"] = np.asarray(plain["lift_centre"], np.float32).tolist()
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


def _lift(clf: Any, sections: storage.Sections) -> Lift | None:
    """The lift that a file says, if its random numbers are the same here as they were where it was made."""
    section = sections.get("lift")
    if (clf.lift is None) is not (section is None):
        raise ValueError("it says both that its features are lifted and that they are not")
    if section is None:
        return None
    section.check_tensors()
    check_width(sections["moments"], clf.lift)  # before anything is drawn
    n_inputs = section.whole_number("n_inputs")
    if not 1 <= n_inputs <= MOST_INPUTS:
        raise ValueError(f"it has embeddings of {n_inputs} numbers")
    rule = section.whole_number("rule")
    if rule > RULE:
        raise NewerFileError("random features of a newer rule")
    if rule < RULE:
        raise ValueError("it has random features of an older rule, which are not made any more: learn anew")
    lift = lift_for(clf, n_inputs)
    assert lift is not None
    if section.info.get("checksum") != lift.to_json()["checksum"]:
        raise ValueError("its random features are others than those made here of the same seed")
    return lift


def _take_sketches(moments: Moments, n_rows: int | None, section: Section | None) -> None:
    """Have the rows for a second look that a file has, if it says that there are some."""
    if (n_rows is None) is not (section is None):
        raise ValueError("it says both that there are rows for a second look and that there are none")
    if section is not None:
        moments.sketches = sketches_from_section(section, moments, n_rows)


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


def _ids(section: Section, labels: list[Label | None]) -> dict[Label, str]:
    section.check_tensors()
    ids = section.info.get("ids")
    if not isinstance(ids, list) or len(ids) != len(labels) or not _are_ids(ids):
        raise ValueError("its ids of classes are nothing that can be")
    found = {label: name for label, name in zip(labels, ids, strict=True) if name is not None}
    if None in found:
        raise ValueError("it has the id of a class without a label")
    return {label: name for label, name in found.items() if label is not None}


def _are_ids(ids: list[Any]) -> bool:
    """Whether these are ids, none twice, or None."""
    given = [name for name in ids if name is not None]
    fit = all(isinstance(name, str) and 0 < len(name) <= MOST_OF_AN_ID for name in given)
    return fit and len(set(given)) == len(given)


def _log_position(section: Section) -> dict[str, Any]:
    section.check_tensors()
    position = section.info.get("position")
    if not isinstance(position, dict):
        raise ValueError("what its log had reached is no dict")
    return position


def _tell(what: str, path: str | os.PathLike[str], moments: Moments) -> None:
    """A line for whoever asks for it: sizes only, neither labels nor embeddings."""
    if _log.isEnabledFor(logging.DEBUG):
        n_bytes = Path(path).stat().st_size
        _log.debug(
            "%s %s: %d bytes, %d classes, %d features",
            what,
            path,
            n_bytes,
            moments.n_classes,
            moments.n_features,
        )
