"""A classifier made of what boxes have taught and said: the same wherever both are the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from xlda.fleet.registers import FleetClass, Registers, classes_of, removed_roots
from xlda.fleet.sums import Sums
from xlda.labels import Label, Labels, label_hash
from xlda.learner.learner import Learner
from xlda.model import Model
from xlda.moments import Moments
from xlda.moments.kept_samples import NEVER
from xlda.parameters import check_parameters, learning_parameters

Learns = TypeVar("Learns", bound=Learner)


def names_in(parts: Iterable[Sums]) -> dict[str, Label]:
    """Labels that class ids had when they came; of two that differ, the smaller."""
    names: dict[str, Label] = {}
    for part in parts:
        for class_id, label in part.names.items():
            names[class_id] = min(
                names.get(class_id, label), label, key=lambda one: (str(type(one)), str(one))
            )
    return names


def model_of(parts: Sequence[Sums], registers: Registers, kind: type[Learns], **params: Any) -> Learns:
    """A classifier of this kind that has learned all parts, added in this order.

    What removed classes taught of the common covariance stays, as with `XLDA.remove_class`.
    """
    space = parts[0].space
    precision = "half" if space.half else "full"
    clf = kind(**{"power": space.power, "precision": precision, **params})
    check_parameters(clf)
    classes = classes_of(names_in(parts), registers)
    first = {one.id: one.label for _, one in sorted(classes.items()) if one is not None}
    gone = removed_roots(classes, registers)
    moments, labels = summed(parts, classes, gone, list(first.items()), clf.check_samples)
    clf.n_features_in_, clf.power_ = space.width, space.power
    clf._start(Labels(labels))
    clf._model = Model(moments, Labels(labels), learning_parameters(clf))
    clf.backbone_ = space.backbone
    clf.class_ids_ = {label: class_id for class_id, label in first.items()}
    return clf


def summed(
    parts: Iterable[Sums],
    classes: Mapping[str, FleetClass | None],
    removed: Mapping[str, str],
    first: Sequence[tuple[str | None, Label | None]],
    check_samples: int,
) -> tuple[Moments, list[Label | None]]:
    """All parts by class: moments, and the label of each row.

    The rows of `first`, pairs of class id and label, come first, and all classes are among them. What was
    `removed`, ids with those that they were merged into, has rows while it is added, and then none.
    """
    parts = list(parts)
    row_of = {class_id: row for row, (class_id, _) in enumerate(first) if class_id is not None}
    labels: list[Label | None] = [label for _, label in first]
    roots = sorted({removed[name] for part in parts for name in part.names if name in removed})
    gone = {root: len(labels) + number for number, root in enumerate(roots)}
    space = parts[0].space
    moments = Moments(space.width, half=space.half, check_samples=check_samples)
    hashes = [int(NEVER) if label is None else label_hash(label) for label in labels]
    moments.kept.name(list(range(len(labels))), hashes)
    moments.kept.name([*gone.values()], [int(NEVER)] * len(gone))  # since nobody will ask for them
    moments.grow(len(labels) + len(gone))
    for part in parts:
        rows = [
            gone[removed[name]] if name in removed else row_of[_id_of(classes[name])] for name in part.names
        ]
        moments.merge(part.moments, np.array(rows, np.intp), np.zeros(len(rows), bool))
    for row in gone.values():
        moments.drop(row)
    return moments, [*labels, *(None for _ in gone)]


def _id_of(one: FleetClass | None) -> str:
    assert one is not None  # or it has a row of its own
    return one.id
