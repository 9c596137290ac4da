"""Samples that were taught as one class, and that the model without them takes for another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import NamedTuple

import apsw
import numpy as np

from xlda._internal.arrays import Array
from xlda.service.database import ROOTS
from xlda.service.machine import Machine

MOST = 1000  # samples that are looked at: the newest
MANY_CLASSES = 5000  # with more, no copies of the model are made for it, and they hardly differ from it
N_FOLDS = 10  # so many times, some are taken out of what was learned


class Contradiction(NamedTuple):
    """A sample, the class it was taught as, and the one that it is taken for: their ids."""

    sample_id: str
    taught: str
    taken_for: str
    is_solved: bool = False  # the model has come to agree since


class CheckedSample(NamedTuple):
    """A sample that can be looked at."""

    id: str
    class_id: str
    group: str | None
    embedding: Array


def contradictions(
    machine: Machine, reading: Callable[[], apsw.Connection], is_over: Callable[[], bool]
) -> list[Contradiction]:
    """All of the newest samples. It takes seconds; learning and predicting go on meanwhile."""
    with closing(reading()) as db:
        samples = [one for one in _newest(db) if one.class_id in machine.label_of]
    if len({one.class_id for one in samples}) < 2 or not machine.is_started:
        return []
    labels = [machine.label_of[one.class_id] for one in samples]
    embeddings = np.stack([one.embedding for one in samples])
    classifier = machine.classifier
    has_many = len(machine.label_of) > MANY_CLASSES
    labels_without = classifier._labels_about_without if has_many else classifier._labels_without
    taken_for = labels_without(embeddings, labels, _folds(samples), is_over)
    id_of = {label: class_id for class_id, label in list(machine.label_of.items())}
    return [
        Contradiction(one.id, one.class_id, id_of[found])
        for one, label, found in zip(samples, labels, taken_for, strict=True)
        if found is not None and found != label and found in id_of
    ]


def _newest(db: apsw.Connection) -> list[CheckedSample]:
    query = (
        f'{ROOTS} SELECT samples.id, roots.id, samples."group", embedding FROM samples JOIN tree ON home = '
        "tree.number JOIN classes AS roots ON roots.number = tree.root WHERE embedding IS NOT NULL "
        "ORDER BY samples.number DESC LIMIT ?"
    )
    return [
        CheckedSample(name, class_id, group, np.frombuffer(content, np.float32))
        for name, class_id, group, content in db.execute(query, (MOST,))
    ]


def _folds(samples: Sequence[CheckedSample]) -> Array:
    """Which fold each is in: those of a group together, unless a class has no others; classes are spread."""
    groups: dict[str, set[str | None]] = {}
    for one in samples:
        groups.setdefault(one.class_id, set()).add(one.group)
    folds, of_unit = np.zeros(len(samples), np.intp), dict[tuple[str, str], int]()
    for place in sorted(range(len(samples)), key=lambda place: samples[place].class_id):
        one = samples[place]
        is_alone = one.group is None or len(groups[one.class_id]) == 1
        unit = (one.class_id, f"sample {one.id}" if is_alone else f"group {one.group}")
        folds[place] = of_unit.setdefault(unit, len(of_unit)) % N_FOLDS
    return folds
