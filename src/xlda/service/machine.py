"""The classifier of a service, which takes the steps that stand in the log, and answers beside that."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xlda import model_file
from xlda._internal.arrays import Array
from xlda.fleet.joined import sums_in
from xlda.fleet.message import Message
from xlda.fleet.sums import Sums
from xlda.identity import BackboneIdentity
from xlda.inputs import prepared
from xlda.labels import Label
from xlda.learner.learner import Learner
from xlda.service.log import LogPosition
from xlda.service.steps import Block, Step, unpacked

MANY = 256  # samples that are learned while others wait


class LearnedSample(NamedTuple):
    """An embedding (d,), float32, and the name of the samples that it was taken with."""

    embedding: Array
    group: str | None = None


class Machine:
    """A classifier whose classes have ids, and how far the log is in it.

    Only one thread takes steps. `lock` is held while it does, so that whoever asks finds whole events, unless
    they are very large.
    """

    def __init__(self, classifier: Learner, fleet: Path | None = None) -> None:
        self.classifier = classifier
        self._fleet, self._others_files = fleet, list[str]()  # what others have taught
        self._others: Sums | None = None  # the same, once somebody needs it
        self._coming = dict[str, Learner]()  # what was read of files before it was time for them
        self.lock = threading.RLock()
        self.between_events = threading.Lock()  # held while steps are taken, however many: for what is saved
        self.position = LogPosition(0, b"")  # of the last event that is in it
        self.label_of: dict[str, Label] = {}  # of classes that the classifier knows, by id
        self._identity: BackboneIdentity | None = (
            None  # of the next samples, which the classifier is not told
        )
        if self.is_started:
            self.label_of = {number: label for label, number in classifier.class_ids_.items()}

    @property
    def seq(self) -> int:
        """The last event that is in it."""
        return self.position.seq

    @property
    def is_started(self) -> bool:
        """Whether anything was ever learned."""
        return self.classifier.__sklearn_is_fitted__()

    def give_ids(self, pairs: Iterable[tuple[str, Label]]) -> None:
        """Say which ids the classes that the classifier knows have: pairs of id and label."""
        self.label_of = dict(pairs)
        self.classifier.class_ids_ |= {label: class_id for class_id, label in self.label_of.items()}

    @property
    def width(self) -> int | None:
        """Numbers in an embedding, once that is known."""
        return getattr(self.classifier, "n_features_in_", None)

    def in_model_space(self, embeddings: Array) -> Array:
        """Embeddings as the moments have them, float64."""
        power = getattr(self.classifier, "power_", None)
        found = prepared(np.asarray(embeddings, np.float32), power)
        if self.is_started:
            found = self.classifier._model.moments.lifted(found)
        return found.astype(np.float64)

    def block(self, class_id: str) -> Block | None:
        """All samples of a class as one; None where it has none."""
        label = self.label_of.get(class_id)
        if label is None:
            return None
        count, mean = self.classifier.class_moments(label)
        return Block(count, mean, self.classifier.class_rows(label)) if count > 0 else None

    def block_of(self, embeddings: Array) -> Block:
        """Samples (n, d) as one, as the model has it."""
        return Block.of(self.in_model_space(embeddings), self.classifier.second_look)

    # -- others of a fleet

    def know_others(self, files: list[str]) -> None:
        """Say in which files is what other boxes of a fleet have taught: all of it, and what came since."""
        self._others_files, self._others = files, None

    @property
    def is_in_fleet(self) -> bool:
        """Whether others have a part in what it knows."""
        return bool(self._others_files)

    def block_of_others(self, class_id: str) -> Block | None:
        """What others have taught of a class id, and nobody can change here; None where that is nothing."""
        if not self._others_files or self._fleet is None:
            return None
        if self._others is None:
            self._others = sums_in([self._fleet / file for file in self._others_files])
        found = self._others.block(class_id)
        return None if found is None else Block(*found)

    def is_of_layer(self, class_id: str) -> bool:
        """Whether a class has a row of a layer that was trained elsewhere."""
        label = self.label_of.get(class_id)
        rows = self.classifier._model.layer_rows if self.is_started else None
        if label is None or rows is None:
            return False
        return bool(rows.has(int(self.classifier._model.labels.rows([label])[0])))

    # -- taking steps

    def take(self, steps: Iterable[Step], samples: Mapping[str, LearnedSample]) -> None:
        """Do what events say; steps that learn are taken together as long as nothing else comes between.

        With so many samples that others would wait for long, they may ask between some and others of them.
        """
        steps = list(steps)
        n_samples = sum(len(step[1]) for step in steps if step[0] == "learn")
        with self.lock if n_samples <= MANY else nullcontext():
            self._take(steps, samples)

    def _take(self, steps: Sequence[Step], samples: Mapping[str, LearnedSample]) -> None:
        learning: list[list[Any]] = []
        for step in steps:
            if step[0] == "learn":
                learning += step[1]
                if not self.is_started:  # what is chosen by the first samples is chosen by this step alone
                    learning = self._learn(learning, samples)
                continue
            learning = self._learn(learning, samples)
            self._take_one(step, samples)
        self._learn(learning, samples)

    def _learn(self, entries: list[list[Any]], samples: Mapping[str, LearnedSample]) -> list[list[Any]]:
        """Learn samples; gives the empty list of those that wait."""
        for start in range(0, len(entries), MANY):
            with self.lock:
                self._learn_some(entries[start : start + MANY], samples)
        if self._identity is not None and entries:
            self.classifier.backbone_, self._identity = self._identity, None
        return []

    def _learn_some(self, entries: list[list[Any]], samples: Mapping[str, LearnedSample]) -> None:
        grouped = [entry for entry in entries if samples[entry[2]].group is not None]
        alone = [entry for entry in entries if samples[entry[2]].group is None]
        for some in (alone, grouped):
            if some:
                labels = [self._label(class_id, label) for class_id, label, _ in some]
                found = [samples[sample_id] for _, _, sample_id in some]
                groups = [str(one.group) for one in found] if some is grouped else None
                embeddings = np.stack([one.embedding for one in found])
                self.classifier.partial_fit(embeddings, labels, groups=groups)
                for class_id, _, _ in some:
                    self._note(class_id)

    def _label(self, class_id: str, label: Label) -> Label:
        return self.label_of.setdefault(class_id, label)

    def _note(self, class_id: str) -> None:
        self.classifier.class_ids_[self.label_of[class_id]] = class_id

    def _take_one(self, step: Step, samples: Mapping[str, LearnedSample]) -> None:
        kind, *rest = step
        getattr(self, f"_{kind}")(*rest, **({"samples": samples} if kind == "forget" else {}))

    def _forget(self, entries: list[list[str]], samples: Mapping[str, LearnedSample]) -> None:
        embeddings = np.stack([samples[sample_id].embedding for _, sample_id in entries])
        self.classifier.forget(embeddings, [self.label_of[class_id] for class_id, _ in entries])

    def _name(self, class_id: str, label: Label) -> None:
        if class_id in self.label_of and self.label_of[class_id] != label:
            self.classifier.rename_class(self.label_of[class_id], label)
            self.label_of[class_id] = label

    def _join(self, into: str, other: str) -> None:
        if other not in self.label_of:
            return
        if into not in self.label_of:  # which has no samples, and no row yet
            if self.block(other) is not None:
                raise ValueError("A class without samples takes over by another name; the log is not right.")
            self._drop(other)
            return
        self.classifier.merge_classes(self.label_of[into], self.label_of.pop(other))

    def _split(self, into: str, other: str, label: Label, *block: Any) -> None:
        some = Block.from_json([*block])
        self.classifier.split_class(self.label_of[into], label, some.count, some.mean, some.rows)
        self.label_of[other] = label
        self._note(other)

    def _drop(self, class_id: str) -> None:
        if class_id in self.label_of:
            self.classifier.remove_class(self.label_of.pop(class_id))

    def _restore(self, class_id: str, label: Label, *block: Any) -> None:
        some = Block.from_json([*block])
        self.classifier.restore_class(label, some.count, some.mean, some.rows)
        self.label_of[class_id] = label
        self._note(class_id)

    def _heard(self, others: list[str], entries: list[list[Any]]) -> None:
        assert self._fleet is not None
        samples = Message.read(self._fleet / others[-1]).samples
        assert samples is not None
        model, taught = self.classifier._model, set(samples.ids)
        entries = [entry for entry in entries if entry[0] in taught]
        label_of = {name: self._label(class_id, label) for name, class_id, label, _ in entries}
        for sign in (1, -1):
            some = samples.chosen(np.flatnonzero(samples.signs == sign))
            labels = [label_of[name] for name in some.ids]
            if sign > 0 and labels:
                model.learn(some.embeddings, labels, groups=some.groups)
            elif labels:
                model.forget(some.embeddings, labels)
        for _, class_id, _, _ in entries:
            self._note(class_id)
        self.know_others(others)

    def read_ahead(self, file: str) -> None:
        """Read the model that it will become, which takes long, while others may still ask."""
        assert self._fleet is not None
        self._coming = {file: model_file.read(self._fleet / file, Learner)}

    def _become(self, file: str, others: list[str]) -> None:
        if file not in self._coming:
            self.read_ahead(file)
        self.classifier = self._coming.pop(file)
        self.classifier.background = True
        self.label_of = {class_id: label for label, class_id in self.classifier.class_ids_.items()}
        self.know_others(others)

    def _backbone(self, identity: dict[str, Any]) -> None:
        self._identity = BackboneIdentity.from_json(identity)

    def _confirm(self, class_id: str | None, embedding: str) -> None:
        self._tell_of_answer("confirm", class_id, embedding)

    def _unconfirm(self, class_id: str | None, embedding: str) -> None:
        self._tell_of_answer("_unconfirm", class_id, embedding)

    def _tell_of_answer(self, method: str, class_id: str | None, embedding: str) -> None:
        calibration = self.classifier._model.calibration if self.is_started else None
        if calibration is not None and calibration.can_tell and (not class_id or class_id in self.label_of):
            truth = None if class_id is None else self.label_of[class_id]
            getattr(self.classifier, method)(unpacked(embedding)[None], np.array([truth], object))
