"""A service as a box of a fleet: what it was taught goes to a hub, and what others were taught comes in.

Files in the folder `fleet` have its own contribution, the sum of the others, and, until the next checkpoint,
the model that came of both. The database says which of them count, in the transactions that they belong to.
"""

from __future__ import annotations

import copy
import json
import secrets
from collections.abc import Mapping
from contextlib import closing
from functools import cached_property
from typing import Any

import apsw
import numpy as np

from xlda._internal.threads import alone
from xlda.errors import RefusedContributionError
from xlda.fleet.box import MOST_SAMPLES, sums_of
from xlda.fleet.checks import check_box_name
from xlda.fleet.exchange import AnyHub, next_version, send, take
from xlda.fleet.joined import Joined
from xlda.fleet.message import Message, Version, Versions
from xlda.fleet.model import names_in, summed
from xlda.fleet.registers import (
    PARENT,
    FleetClass,
    Registers,
    classes_of,
    labels_of,
    removed_roots,
)
from xlda.fleet.space import Space
from xlda.fleet.start import space_of, start_name, taught_by
from xlda.fleet.sums import SignedSamples, Sums
from xlda.labels import Label, Labels
from xlda.learner.learner import Learner
from xlda.model import Model
from xlda.parameters import learning_parameters
from xlda.service import fleet_tables as tables
from xlda.service.changes import Transaction
from xlda.service.database import ROOTS, one
from xlda.service.engine import Engine
from xlda.service.faults import reached
from xlda.service.fleet_files import delete_others, read_part, write_part
from xlda.service.fleet_hearing import heard_entries
from xlda.service.fleet_start import apart_again
from xlda.service.problems import Problem
from xlda.service.writer import ChangePlan, Wanted

FACT = "fleet"
MOST_FILES = 64  # that one part is read from, before it is written anew
TOO_OLD = (
    "Some samples of this model are too old to be told from those that it began with. Sync another box that "
    "began from the same file first, or begin a new box from that file."
)


class FleetMember:
    """What a box has told, what it knows of others, and how both are kept. One at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._folder = engine, engine.places.folder / "fleet"
        self._fact: dict[str, Any] = json.loads(engine._fact(FACT) or "{}")
        self._sent: list[Message] = []
        self._answer: Message | None = None  # what the hub said before this box had joined
        self.has_become = False  # whether the model was made anew, since classes have changed elsewhere
        self._is_untidy = False  # whether there are files that do not count any more
        if self._fact:
            self._space = Space.from_json(self._fact["space"])

    # -- as `send` needs it

    @property
    def name(self) -> str:
        """What it is called at the hub."""
        return str(self._fact["box"])

    @property
    def version(self) -> Version | None:
        """What it has told; None where that is nothing."""
        found = self._fact["version"]
        return None if found is None else Version(*found)

    @property
    def versions(self) -> Versions:
        """What it knows of others."""
        return {box: Version(*version) for box, version in self._fact["versions"].items()}

    @cached_property
    def own(self) -> Joined:
        """All that was told."""
        return read_part(self._folder, self._fact["own"], self._space)

    @cached_property
    def others(self) -> Joined:
        """All that others have told."""
        return read_part(self._folder, self._fact["others"], self._space)

    def changes(self) -> list[Message]:
        """What the hub may not have yet."""
        return list(self._sent)

    def whole(self) -> Message:
        """All that was told."""
        return self.own.whole()

    def arrived(self) -> None:
        """The hub has all of it."""
        self._sent = []

    def begin_epoch(self, version: Version) -> None:
        """Have this version from now on."""
        self.own.versions, self._sent = {self.name: version}, []
        self._changed(lambda change: self._keep(change, own=self.own))

    # -- joining

    def join(self, hub: AnyHub, box: str | None, min_count: int | None) -> None:
        """Become a box of the fleet, where it is none yet; the model that it began from goes there first."""
        if self._fact and box not in (None, self.name) and not self._fact.get("is_told", True):
            self._leave()
        if self._fact and box not in (None, self.name):
            raise ValueError(f"This box is {self.name} in its fleet; it cannot be {box} as well.")
        if self._fact:
            if min_count not in (None, self._fact["min_count"]):
                self._fact["min_count"] = min_count
                self._changed(lambda change: self._keep(change))
            return
        if box is None:
            raise ValueError("A box has a name, of small letters, digits, `.`, `_` and `-`: give --box.")
        check_box_name(box)
        self._space = self._found_space(hub, box)
        self._folder.mkdir(exist_ok=True)
        self._fact = {
            "box": box, "min_count": min_count or 1, "space": self._space.to_json(), "is_in": False,
            "is_told": False, "version": None, "versions": {}, "clock": 0, "pending": [], "safe_seq": 0,
        }  # fmt: skip
        self.own, self.others = Joined(self._space), Joined(self._space)
        start: list[Joined] = []

        def look(change: Transaction) -> dict[str, Any]:
            start.extend(self._began(change))
            return {"is_whole": tables.has_all(change.db, json.loads(change.fact("first ids") or "[]"))}

        def plan(change: Transaction) -> dict[str, Any]:
            change.db.execute(tables.TABLES)
            tables.note_begun(change.db, json.loads(change.fact("first ids") or "[]"))
            self._began(change)
            return self._keep(change, own=self.own, others=self.others)

        looked = self._changed(look)
        for began in start:
            self._bring_start(hub, began, looked["is_whole"])
        self._changed(plan)  # and not before: what fails until then is begun anew the next time

    def _leave(self) -> None:
        """Be no box any more, of whom no hub has ever heard: so that it may get another name."""

        def plan(change: Transaction) -> dict[str, Any]:
            for table in ("contributed", "fleet_classes"):
                change.db.execute(f"DELETE FROM {table}")
            change.set_fact(FACT, "{}")
            return {}

        self._changed(plan)
        self._fact = {}

    def _found_space(self, hub: AnyHub, box: str) -> Space:
        if self._engine.machine.is_started:
            return space_of(self._engine.machine.classifier)
        self._answer = hub.answer(box, {})
        if self._answer is None:
            raise ValueError(
                "Neither this box nor the hub has learned anything yet. Teach one of them first."
            )
        return self._answer.space

    def _began(self, change: Transaction) -> list[Joined]:
        """What the model had before its log began: a contribution of its own, or a part of this box's."""
        machine = change.machine
        if not machine.is_started:
            return []
        digest = str(change.fact("start") or "")
        base = taught_by(machine.classifier, digest)
        live = _by_root(change, self._space)
        if live is not None:
            base.add(live)
        apart_again(change.db, base)
        first: dict[str, Label] = dict(json.loads(change.fact("first ids") or "[]"))
        base.names |= {name: first[name] for name in base.names if name in first}
        if not any(count > 1e-6 for count in base.counts.values()):
            return []
        if not digest:  # it began with nothing: these were learned here, long ago
            self.own.taught = base
            return []
        if one(change.db, "SELECT 1 FROM folded LIMIT 1") is not None:
            raise Problem(409, TOO_OLD)
        start = Joined(self._space)
        start.taught, start.versions = base, {start_name(digest): Version(1, 1, digest[:32])}
        return [start]

    def _bring_start(self, hub: AnyHub, start: Joined, is_whole: bool) -> None:
        [name] = start.versions
        if hub.version(name) is not None:
            return
        if not is_whole:
            raise RefusedContributionError(
                "Classes that this box began with were removed here. Sync another box that began from the "
                "same file first, or undo that."
            )
        hub.put(start.whole())

    # -- telling

    def publish(self) -> None:
        """Make a message of what was taught and said here since the last one."""

        def plan(change: Transaction) -> dict[str, Any]:
            moved = tables.moved_samples(change.db)
            told = tables.released(moved, self._fact["min_count"])
            told += tables.withdrawn(change.db, told, self._fact["min_count"])
            self._note_said(change)
            samples = tables.signed(told, tables.labels_of_samples(change.db, told), self._space)
            is_base = self.version is None and bool(self.own.taught.names)
            if samples is None and not self._fact["pending"] and not is_base:
                return {}
            before = {} if self.version is None else {self.name: self.version}
            after = next_version(self.version)
            said = Registers.from_json(self._fact["pending"])
            message = Message(
                self._space, before, {self.name: after}, registers=said, **self._as_sent(samples)
            )
            self._sent = [] if is_base else [message]
            tables.note_contributed(change.db, told)
            is_held = bool({one.number for one in moved} - {one.number for one in told if one.after})
            self._fact |= {"version": list(after), "pending": []}
            self._fact["safe_seq"] = self._fact["safe_seq"] if is_held else change.seq - 1
            return self._append(change, "own", message)

        self._changed(plan)

    def _as_sent(self, samples: SignedSamples | None) -> dict[str, Any]:
        if samples is None or (len(samples) <= MOST_SAMPLES and self._fact["min_count"] <= 1):
            return {"samples": samples}
        return sums_of(samples, self._space)

    def tell(self, hub: AnyHub, takes_place: bool) -> None:
        """Have the hub know it. The name is settled once the hub was reached and has not refused it."""
        is_first = not self._fact.get("is_told", True)
        if is_first:
            if hub.version(self.name) is not None and not takes_place:
                raise RefusedContributionError(
                    f"The hub has a box {self.name} already. Give this one another name with --box; if it "
                    "takes the place of that one, use --rejoin."
                )
            self._note_told(True)
        try:
            send(self, hub)
        except RefusedContributionError:
            if is_first and hub.version(self.name) != self.version:
                self._note_told(False)
            raise

    def _note_told(self, is_told: bool) -> None:
        self._fact["is_told"] = is_told
        self._changed(lambda change: self._keep(change))

    def _note_said(self, change: Transaction) -> bool:
        """Note what was said of classes here since the fleet last agreed; whether anything was."""
        said = tables.said_here(change.db, self._fact["clock"] + 1, self._parent_of, self.name)
        if said:
            self._fact["pending"] += [list(one) for one in said]
            self._fact["clock"] += 1
            tables.note_agreed(change.db)
        return bool(said)

    def _parent_of(self, class_id: str) -> Any:
        return self._known().value(class_id, PARENT)

    # -- taking in

    def take(self, hub: AnyHub) -> int:
        """Have the model know what others have taught; gives the event that brought it, or the last one."""
        answer = self._answer or hub.answer(self.name, self.versions)
        if answer is not None and answer.before is not None:
            told = self._changed(lambda change: self._heard(change, answer))
            if told.get("heard"):
                return int(told["seq"])
        if not take(self.others, hub, self.name, answer):
            return self._engine.machine.seq
        ahead = self._made_ahead()
        seq = int(self._changed(lambda change: self._become(change, ahead))["seq"])
        self._is_untidy = self.has_become = True
        return seq

    def _heard(self, change: Transaction, answer: Message) -> dict[str, Any]:
        """Have the model learn samples of others as its own, where no class becomes another one by them."""
        if self._note_said(change):
            self._keep(change)
            return {"heard": False}
        entries = None
        if self._fact["is_in"] and change.machine.is_started and answer.before is not None:
            fits = all(self.versions.get(box) == answer.before.get(box) for box in answer.after)
            entries = heard_entries(change, answer) if fits else None
        if entries is None:
            return {"heard": False}
        for class_id, label in entries.new:
            tables.add_class(change.db, class_id, label, change.seq)
        self._fact["versions"] |= {box: list(version) for box, version in answer.after.items()}
        self._fact["clock"] = max(self._fact["clock"], answer.registers.clock)
        self._append(change, "others", answer)
        change.steps += [["name", class_id, label] for class_id, label in entries.new]
        change.steps.append(["heard", self._fact["others"], entries.changes])
        change.about |= {"boxes": len(self.versions) + 1}
        return {"heard": True}

    def _made_ahead(self) -> Learner:
        """The model as it would be now, with its head, which takes long and is made beside the serving."""
        known = self._known()
        with closing(self._engine.reading()) as db, db:  # one transaction: both are of the same moment
            names, mine = self._names(db), self._mine(db)
        classes = classes_of(names, known)
        made = self._made([mine, self.others.taught], classes, removed_roots(classes, known), None)
        with alone():
            made.view_to_save()
        return made

    def _become(self, change: Transaction, ahead: Learner) -> dict[str, Any]:
        """Make the model of what all boxes have taught and said, with the head that was made ahead."""
        self._note_said(change)
        known, names = self._known(), self._names(change.db)
        classes, labels = classes_of(names, known), labels_of(names, known)
        tables.set_states(change.db, classes, labels, known, change.seq)
        tables.note_agreed(change.db)
        mine = self._mine(change.db)
        change.db.execute("UPDATE classes SET from_file = 0")
        file = f"model-{secrets.token_hex(8)}.xlda"
        made = self._made([mine, self.others.taught], classes, removed_roots(classes, known), ahead)
        made._model.go_on_from(ahead._model)
        made.view_to_save(renew=False).write(self._folder / file)
        reached("fleet-file-written")
        change.machine.read_ahead(file)
        self._fact |= {"is_in": True, "clock": max(self._fact["clock"], known.clock)}
        self._keep(change, others=self.others)
        change.steps.append(["become", file, self._fact["others"]])
        change.about |= {"boxes": len(self.versions) + 1}
        return {}

    def _names(self, db: apsw.Connection) -> dict[str, Label]:
        return {**tables.live_labels(db), **names_in([self.own.taught, self.others.taught])}

    def _mine(self, db: apsw.Connection) -> Sums:
        """All samples of this box as they count now, also those that it has not told of."""
        mine = copy.deepcopy(self.own.taught)
        moved = tables.moved_samples(db)
        samples = tables.signed(moved, tables.labels_of_samples(db, moved), self._space)
        if samples is not None:
            mine.add(samples)
        return mine

    def _made(
        self,
        parts: list[Sums],
        classes: Mapping[str, FleetClass | None],
        removed: Mapping[str, str],
        ahead: Learner | None,
    ) -> Learner:
        """A classifier of all that was taught; its rows are those of that made ahead, or of that served."""
        machine = self._engine.machine
        with machine.lock:
            old, is_started = machine.classifier, machine.is_started
            served = _ids_by_row(old, {label: name for name, label in machine.label_of.items()})
        rows = _rows_of(served if ahead is None else _ids_by_row(ahead, ahead.class_ids_), classes)
        precision = "half" if self._space.half else "full"
        made = Learner(**{**old.get_params(), "precision": precision})
        moments, labels = summed(parts, classes, removed, rows, made.check_samples)
        made.n_features_in_, made.power_ = self._space.width, self._space.power
        made._start(Labels(labels))
        made._model = Model(moments, Labels(labels), learning_parameters(made))
        made.backbone_ = self._space.backbone
        made.class_ids_ = {label: name for name, label in rows if name is not None and label is not None}
        if is_started:
            made._model.layer_rows, made.batch_keys_ = old._model.layer_rows, old.batch_keys_
            if old._model.calibration is not None:
                row_of = {name: row for row, (name, _) in enumerate(rows) if name is not None}
                roots = [classes.get(name) for name in served]
                moved = [-1 if one is None else row_of[one.id] for one in roots]
                made._model.calibration = old._model.calibration.in_rows(np.array(moved, np.intp))
        return made

    # -- how it is kept

    def _known(self) -> Registers:
        known = Registers(self.own.registers)
        known.join(Registers.from_json(self._fact["pending"]))
        known.join(self.others.registers)
        return known

    def _keep(self, change: Transaction, **parts: Joined) -> dict[str, Any]:
        """Write parts to files of new names, and have them count with this change."""
        for name, part in parts.items():
            self._fact[name] = [write_part(self._folder, name, part.whole())]
        if "own" in parts:
            mine = self.own.versions.get(self.name)
            self._fact["version"] = None if mine is None else list(mine)
        if "others" in parts:
            versions = self.others.versions.items()
            self._fact["versions"] = {box: list(version) for box, version in versions}
        change.set_fact(FACT, json.dumps(self._fact))
        return {}

    def _append(self, change: Transaction, name: str, message: Message) -> dict[str, Any]:
        """Write what has changed of a part to one more file; once they are many, all others as one."""
        if len(self._fact[name]) >= MOST_FILES:
            self._is_untidy = True
            self._fact[name] = [write_part(self._folder, name, getattr(self, name).whole())]
        if name in self.__dict__:
            getattr(self, name).apply(message)
        self._fact[name] = [*self._fact[name], write_part(self._folder, name, message)]
        reached("fleet-file-written")
        change.set_fact(FACT, json.dumps(self._fact))
        return {}

    def _changed(self, plan: ChangePlan) -> dict[str, Any]:
        return self._engine.writer.change_now(Wanted("sync", plan, "fleet", alone=True)).body

    def tidy(self) -> None:
        """Write the model, and delete files that do not count any more, where there may be any."""
        if not self._is_untidy:
            return
        self._engine.checkpoint()
        with self._engine.files_stay:
            delete_others(self._folder, [*self._fact["own"], *self._fact["others"]])


def _by_root(change: Transaction, space: Space) -> SignedSamples | None:
    """All samples of the database, to be taken away from the classes that the model has them in."""
    rows = change.db.execute(
        f'{ROOTS} SELECT samples.number, root.id, NULL, samples.embedding, samples."group" FROM samples '
        "JOIN tree ON tree.number = samples.home JOIN classes AS root ON root.number = tree.root "
        "WHERE samples.embedding IS NOT NULL"
    )
    found = [tables.MovedSample(*row) for row in rows]
    return tables.signed(found, tables.labels_of_samples(change.db, found), space)


def _ids_by_row(classifier: Learner, id_of: Mapping[Label, str]) -> list[str]:
    """The class id of each row; an empty one where there is no class."""
    if not hasattr(classifier, "_model"):
        return []
    return [id_of.get(label, "") for label in classifier._model.labels.table().names.tolist()]


def _rows_of(
    before: list[str], classes: Mapping[str, FleetClass | None]
) -> list[tuple[str | None, Label | None]]:
    """Class id and label of each row: classes keep the rows that they had before, and new ones come after."""
    left = dict(sorted((one.id, one.label) for one in classes.values() if one is not None))
    rows: list[tuple[str | None, Label | None]] = []
    for name in before:
        found = classes.get(name)
        if found is not None and found.id in left:
            rows.append((found.id, left.pop(found.id)))
        else:
            rows.append((None, None))
    return [*rows, *left.items()]
