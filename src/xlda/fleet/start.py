"""The model that all boxes began from, as a contribution of its own, so that it counts once."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from xlda.fleet.checks import START
from xlda.fleet.joined import Joined
from xlda.fleet.message import Version
from xlda.fleet.space import Space
from xlda.fleet.sums import Sums
from xlda.identity import BackboneIdentity
from xlda.labels import Label
from xlda.learner.learner import Learner


def start_name(digest: str) -> str:
    """The name of the contribution of a model whose file has this digest."""
    return START + digest[:32]


def start_id(digest: str, label: Label) -> str:
    """The id of a class of such a model, the same on all boxes that began from it.

    >>> start_id("d1", "kiwi") == start_id("d1", "kiwi") != start_id("d2", "kiwi")
    True
    """
    text = f"{digest} {type(label).__name__} {label}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16).hexdigest()


def space_of(clf: Learner) -> Space:
    """What the embeddings of a classifier are."""
    if clf.rule != "exact" or clf.covariance != "plastic":
        raise ValueError("A fleet adds up what was learned with rule='exact' and covariance='plastic' alone.")
    if clf.lift is not None:
        raise ValueError("A fleet adds up embeddings, and this model has a lift. Use a model with lift=None.")
    if clf.second_look is not None:
        raise ValueError("A fleet adds up no rows for a second look. Use a model with second_look=None.")
    half = clf.precision == "half"
    return Space(clf.n_features_in_, clf.power_, half, BackboneIdentity.from_json(clf.backbone_))


def taught_by(clf: Learner, digest: str) -> Sums:
    """All that a classifier has learned, by class id; ids are its own where it has some."""
    taught = Sums(space_of(clf))
    with clf._locked("sync") as model:
        table, moments = model.labels.table(), model.moments
        labels = table.names[table.sorted_rows].tolist()
        names = {clf.class_ids_.get(label) or start_id(digest, label): label for label in labels}
        if not names:
            return taught
        rows = np.zeros(moments.n_classes, np.intp)
        rows[table.sorted_rows] = taught.rows(list(names), names)
        taught.moments.merge(moments, rows, np.zeros(len(rows), bool))
    return taught


def start_of(clf: Learner, digest: str) -> Joined:
    """What a common starting model contributes; `digest` tells it from others, as that of its file does."""
    taught = taught_by(clf, digest)
    start = Joined(taught.space)
    start.taught, start.versions = taught, {start_name(digest): Version(1, 1, digest[:64])}
    return start
