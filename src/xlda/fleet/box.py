"""A box of a fleet, for programs that have no service: it learns, names classes, and syncs with a hub."""

from __future__ import annotations

import copy
import os
import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xlda._internal.arrays import Array
from xlda.errors import UnknownClassError
from xlda.fleet.checks import check_box_name, check_label
from xlda.fleet.exchange import AnyHub, next_version, send, take
from xlda.fleet.joined import Joined
from xlda.fleet.message import Message, Version
from xlda.fleet.model import model_of, names_in
from xlda.fleet.registers import GONE, LABEL, PARENT, FleetClass, Register, Registers, classes_of
from xlda.fleet.space import Space
from xlda.fleet.sums import SignedSamples, Sums
from xlda.inputs import prepared
from xlda.labels import Label, label_list, one_label

if TYPE_CHECKING:
    from xlda.classifier import XLDA

MOST_SAMPLES = 4096  # that go as they are; more go as sums
OWN, OTHERS = "own.safetensors", "others.safetensors"  # files that a box is saved to


class Box:
    """What one box has taught, and the sum of what the others have.

    With `min_count`, samples of a class id are kept at home until there are so many of them, and leave it as
    sums alone. No samples are kept once they have left, so a class of which few remain is not taken back.

    >>> import tempfile
    >>> from xlda.fleet import FleetHub
    >>> bern, basel = Box("bern", Space(2)), Box("basel", Space(2))
    >>> _ = bern.learn([[0.0, 1.0], [0.0, 3.0]], ["kiwi", "kiwi"])
    >>> _ = basel.learn([[4.0, 0.0], [6.0, 0.0], [0.0, 2.0]], ["pear", "pear", "kiwi"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for box in (bern, basel, bern):
    ...         box.sync(FleetHub(folder))
    >>> bern.model().classes_.tolist(), bern.model().class_count_.tolist()
    (['kiwi', 'pear'], [3.0, 2.0])
    """

    def __init__(self, name: str, space: Space, min_count: int = 1) -> None:
        check_box_name(name)
        self.name, self.space, self.min_count = name, space, min_count
        self.own, self.others = Joined(space), Joined(space)
        self._waiting: list[SignedSamples] = []  # not in `own` yet
        self._sent: list[Message] = []  # that may not have arrived
        self._told_clock = 0  # what was said up to then is in messages

    # -- learning

    def learn(self, embeddings: Any, labels: Sequence[Label], groups: Any = None) -> list[str]:
        """Learn samples (n, width); gives the class id of each, by which it can be forgotten."""
        plain, given = self._prepared(embeddings, labels), label_list(labels, "labels")
        known = {one.label: one.id for one in self.classes().values() if one is not None}
        for label in dict.fromkeys(given):
            self._check_label(label, known)
        for label in dict.fromkeys(given):
            if label not in known:
                known[label] = secrets.token_hex(16)
                self._say(known[label], LABEL, label)
        ids = [known[label] for label in given]
        names = dict(zip(ids, given, strict=True))
        self._waiting.append(SignedSamples.of(plain, ids, names, 1, groups))
        return ids

    def forget(self, embeddings: Any, ids: Sequence[str]) -> None:
        """Undo having learned these samples of these class ids."""
        names = self._names()
        for name in ids:
            self._check_id(name, names)
        plain = self._prepared(embeddings, ids)
        taken = SignedSamples.of(plain, list(ids), {name: names[name] for name in ids}, -1)
        waiting = SignedSamples.together(self._waiting)
        if waiting is not None:
            waiting, taken = cancelled(waiting, taken)
            self._waiting = [waiting]
        self._waiting.append(taken)

    def _prepared(self, embeddings: Any, of_each: Sequence[Any]) -> Array:
        """Embeddings as they are added up, one for each of these."""
        plain = prepared(np.asarray(embeddings, np.float32), self.space.power, self.space.half)
        if plain.shape[1] != self.space.width:
            raise ValueError(
                f"This fleet has embeddings of {self.space.width} numbers; got {plain.shape[1]}."
            )
        if len(plain) != len(of_each):
            raise ValueError(f"{len(plain):,} embeddings need as many labels or ids; got {len(of_each):,}.")
        return plain

    def _check_label(self, label: Label, known: Iterable[Label]) -> None:
        check_label(label)
        other = next((one for one in known if type(one) is not type(label)), None)
        if other is not None:
            raise ValueError(
                f"Labels of a fleet are all texts, or all whole numbers; it has {other!r}, and got {label!r}."
            )

    def _check_id(self, class_id: str, known: Iterable[str]) -> None:
        if class_id not in known:
            raise UnknownClassError(f"There is no class with the id {class_id[:64]!r}.")

    # -- what is said of classes

    def classes(self) -> dict[str, FleetClass | None]:
        """The class that each id is part of."""
        return classes_of(self._names(), self.registers())

    def rename(self, label: Label, new: Label) -> None:
        """Give a class another label, here and everywhere."""
        new = one_label(new, "new")
        self._check_label(new, [one.label for one in self.classes().values() if one is not None])
        if any(one is not None and one.label == new for one in self.classes().values()):
            raise ValueError(f"There is a class {new!r} already. Merge the two, or choose another label.")
        self._say(self._all_of(label), LABEL, new)

    def remove(self, label: Label) -> None:
        """Let a class go. What is taught by that label from now on is another class."""
        self._say(self._all_of(label), GONE, True)

    def merge(self, into: Label, other: Label) -> str:
        """Make one class a part of another; gives the id by which `unmerge` takes it out again."""
        parent, child = self._class(into).id, self._all_of(other)
        if parent == child:
            raise ValueError(f"merge needs two classes; got {into!r} twice.")
        self._say(child, PARENT, parent)
        return child

    def unmerge(self, class_id: str) -> None:
        """Make what was merged a class of its own again."""
        self._check_id(class_id, self.classes())
        self._say(class_id, PARENT, None)

    def _class(self, label: Label) -> FleetClass:
        for one in self.classes().values():
            if one is not None and one.label == label:
                return one
        raise UnknownClassError(f"There is no class {label!r}.")

    def _all_of(self, label: Label) -> str:
        """The id of a class, to which all of its other ids were made to belong: they stay together."""
        one, registers = self._class(label), self.registers()
        for name, found in self.classes().items():
            if found == one and name != one.id and registers.value(name, PARENT) is None:
                self._say(name, PARENT, one.id)
        return one.id

    def _say(self, class_id: str, field: str, value: Any) -> None:
        clock = max(self.own.registers.clock, self.others.registers.clock) + 1
        self.own.registers.write(Register(class_id, field, value, clock, self.name))

    def registers(self) -> Registers:
        """What was said of classes, here and elsewhere."""
        found = Registers(self.own.registers)
        found.join(self.others.registers)
        return found

    def _names(self) -> dict[str, Label]:
        names = names_in([self.own.taught, self.others.taught])
        for samples in self._waiting:
            names = {**samples.names, **names}
        return names

    # -- the whole

    def taught(self) -> Sums:
        """All that this box has taught, also what is kept at home."""
        taught = copy.deepcopy(self.own.taught)
        samples = SignedSamples.together(self._waiting)
        if samples is not None:
            taught.add(samples)
        return taught

    def model(self, **params: Any) -> XLDA:
        """A classifier of all that this box and the others have taught."""
        from xlda.classifier import XLDA  # which imports scikit-learn: a service does without

        parts = [self.taught(), self.others.taught]
        return model_of(parts, self.registers(), XLDA, **params)

    # -- with a hub

    def sync(self, hub: AnyHub) -> None:
        """Send what was taught here since the last time, and take in what was taught elsewhere."""
        self.publish()
        send(self, hub)
        take(self.others, hub, self.name, hub.answer(self.name, self.others.versions))

    def publish(self) -> Message | None:
        """Make a message of what was taught and said since the last one; None where that is nothing."""
        samples = self._released()
        said = Registers(one for one in self.own.registers if one.clock > self._told_clock)
        if samples is None and not len(said):
            return None
        before = {} if self.version is None else {self.name: self.version}
        after = {self.name: next_version(self.version)}
        message = Message(self.space, before, after, registers=said, **self._as_sent(samples))
        self.own.apply(message)
        self._told_clock = self.own.registers.clock
        self._sent.append(message)
        return message

    def _released(self) -> SignedSamples | None:
        """What may leave, and waits no more: samples that are taken away, and enough of a class."""
        samples = SignedSamples.together(self._waiting)
        if samples is None:
            return None
        n_waiting = Counter(name for name, sign in zip(samples.ids, samples.signs, strict=True) if sign > 0)
        may_go = np.array(
            [
                sign < 0 or n_waiting[name] >= self.min_count
                for name, sign in zip(samples.ids, samples.signs, strict=True)
            ]
        )
        self._waiting = [samples.chosen(np.flatnonzero(~may_go))] if not may_go.all() else []
        return samples.chosen(np.flatnonzero(may_go)) if may_go.any() else None

    def _as_sent(self, samples: SignedSamples | None) -> dict[str, Any]:
        """SignedSamples as they are, or as sums where they are many or shall not be known one by one."""
        if samples is None or (len(samples) <= MOST_SAMPLES and self.min_count <= 1):
            return {"samples": samples}
        return sums_of(samples, self.space)

    @property
    def version(self) -> Version | None:
        """What it has taught; None where that is nothing."""
        return self.own.versions.get(self.name)

    def changes(self) -> list[Message]:
        """What the hub may not have yet, in order."""
        return list(self._sent)

    def whole(self) -> Message:
        """All that was published."""
        return self.own.whole()

    def arrived(self) -> None:
        """The hub has all of it."""
        self._sent = []

    def begin_epoch(self, version: Version) -> None:
        """Have this version from now on: the hub has a later one of a life that was lost here."""
        self.own.versions, self._sent = {self.name: version}, []

    # -- in files

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write all of it into a folder, made where there is none; each file whole, or not at all."""
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        self.others.whole().write(path / OTHERS)
        waiting = SignedSamples.together(self._waiting)
        own = self.own
        Message(
            self.space, None, dict(own.versions), own.taught, samples=waiting, registers=own.registers
        ).write(path / OWN)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], name: str, min_count: int = 1) -> Box:
        """What `save` wrote."""
        own, others = (Message.read(Path(folder) / file) for file in (OWN, OTHERS))
        box = cls(name, own.space, min_count)
        box._waiting = [] if own.samples is None else [own.samples]
        box.own.apply(Message(own.space, None, own.after, own.added))
        box.own.taught, box.own.registers = own.added or Sums(own.space), own.registers
        box.others.apply(others)
        return box


def cancelled(waiting: SignedSamples, taken: SignedSamples) -> tuple[SignedSamples, SignedSamples]:
    """Samples that wait and such that are taken away, without pairs of the same sample."""
    places = defaultdict(list)
    for place, (name, sign) in enumerate(zip(waiting.ids, waiting.signs.tolist(), strict=True)):
        if sign > 0:
            places[name, waiting.embeddings[place].tobytes()].append(place)
    gone, left = set(), []
    for place, name in enumerate(taken.ids):
        same = places[name, taken.embeddings[place].tobytes()]
        if same:
            gone.add(same.pop())
        else:
            left.append(place)
    stay = [place for place in range(len(waiting)) if place not in gone]
    return waiting.chosen(np.array(stay, np.intp)), taken.chosen(np.array(left, np.intp))


def sums_of(samples: SignedSamples, space: Space) -> dict[str, Any]:
    """SignedSamples as two sums: those that are added, and those that are taken away."""
    found: dict[str, Any] = {}
    for name, sign in (("added", 1), ("removed", -1)):
        some = samples.chosen(np.flatnonzero(samples.signs == sign))
        if len(some):
            found[name] = Sums(space)
            plus = SignedSamples(some.embeddings, some.ids, some.names, np.abs(some.signs), some.groups)
            found[name].add(plus)
    return found
