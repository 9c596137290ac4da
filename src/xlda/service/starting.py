"""From files to a running model: the checkpoint, and what the log has that came after it."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from xlda import model_file
from xlda._internal.files import flush_to_disk
from xlda._internal.safetensors_file import read_header
from xlda.errors import DamagedFileError
from xlda.fleet.start import start_id
from xlda.identity import BackboneIdentity
from xlda.labels import Label
from xlda.learner.learner import Learner
from xlda.service import log as logs
from xlda.service.changes import SAMPLE, SampleRow
from xlda.service.database import damaged, one, opened
from xlda.service.faults import reached
from xlda.service.log import Event, LogPosition
from xlda.service.machine import LearnedSample, Machine
from xlda.service.places import ServicePlaces

AT_ONCE = 1000  # events that are replayed together
MOST_VERIFIED = 50_000  # events before those: reading so many takes half a second

logger = logging.getLogger("xlda.service")


def read_classifier(path: Path) -> Learner:
    """The classifier in the model file, or a new one where there is none."""
    if not path.exists():
        return Learner(background=True)
    classifier: Learner = model_file.read(path, Learner)
    classifier.background = True
    return classifier


def finish_restore(places: ServicePlaces) -> None:
    """Put a model that was restored into its place, where that was not finished."""
    if places.unpacked.exists() and not places.model.exists():
        places.unpacked.rename(places.model)
        reached("restore-after-rename")
        flush_to_disk(places.model.parent)


def started(
    places: ServicePlaces, classifier: Learner, vfs: str | None = None
) -> tuple[apsw.Connection, Machine]:
    """The database and the model with all that its log has; a new log where there is none.

    What does not fit together is an error in one sentence, and nothing is changed.
    """
    db = opened(places.database, vfs)
    try:
        reached("start-after-open")
        return db, _caught_up(db, places, Machine(classifier, places.folder / "fleet"))
    except (apsw.CorruptError, apsw.NotADBError) as error:
        db.close()
        raise damaged(places.database, str(error)) from error
    except BaseException:
        db.close()
        raise


def _caught_up(db: apsw.Connection, places: ServicePlaces, machine: Machine) -> Machine:
    """The model with all that the log has."""
    classifier = machine.classifier
    if one(db, "SELECT value FROM facts WHERE name = 'log'") is None:
        _begin(db, places, machine)
    else:
        position = _position_of_file(db, places, classifier)
        if position.seq == 0 and machine.is_started and not classifier.class_ids_:
            machine.give_ids(json.loads(one(db, "SELECT value FROM facts WHERE name = 'first ids'")[0]))
        _verify(db, places.database, position)
        replay(db, places.database, machine, position)
        _adopt(db, machine)
    reached("start-after-adopting")
    fleet = one(db, "SELECT value FROM facts WHERE name = 'fleet'")
    if fleet is not None and json.loads(fleet[0])["is_in"]:
        machine.know_others(json.loads(fleet[0])["others"])
    backbone = one(db, "SELECT value FROM facts WHERE name = 'backbone'")
    if machine.is_started and classifier.backbone_ is None and backbone is not None:
        classifier.backbone_ = BackboneIdentity.from_json(json.loads(backbone[0]))
    return machine


def _verify(db: apsw.Connection, path: Path, until: LogPosition) -> None:
    """Refuse a log that was damaged before what is replayed; of a very long one, the newest part is read."""
    start = logs.folded_position(db)
    if until.seq - start.seq > MOST_VERIFIED:
        event = logs.event_of(db, until.seq - MOST_VERIFIED)
        if event is None:
            raise damaged(path, f"event {until.seq - MOST_VERIFIED} of its log is missing")
        start = LogPosition(event.seq, event.checksum)
    for event in logs.checked_events(db, path, start):
        if event.seq >= until.seq:
            return


def _begin(db: apsw.Connection, places: ServicePlaces, machine: Machine) -> None:
    """A new log of the model as it is."""
    facts: dict[str, Any] = {"log": secrets.token_hex(16), "start": _digest(places.model)}
    if machine.width is not None:
        facts["width"] = machine.width
    with db:
        _adopt(db, machine, facts["start"])
        facts["first ids"] = json.dumps([[class_id, label] for class_id, label in machine.label_of.items()])
        db.executemany("INSERT INTO facts(name, value) VALUES (?, ?)", list(facts.items()))


def _digest(model: Path) -> str:
    """What a model file says its contents are; empty where there is none."""
    if not model.exists():
        return ""
    with model.open("rb") as file:
        return str(read_header(file).metadata.get("sha256", "?"))


def _position_of_file(db: apsw.Connection, places: ServicePlaces, classifier: Learner) -> LogPosition:
    """How much of the log the model file has."""
    facts = dict(db.execute("SELECT name, value FROM facts WHERE name IN ('log', 'start')"))
    noted = getattr(classifier, "log_position_", None)
    folded, last = logs.folded_position(db), logs.last_position(db)
    if noted is None:
        if _digest(places.model) != facts["start"]:
            raise _not_together(places)
        position = LogPosition(0, b"")
    elif noted.get("log") != facts["log"]:
        raise _not_together(places)
    else:
        position = LogPosition(int(noted["seq"]), bytes.fromhex(noted["checksum"]))
    if not folded.seq <= position.seq <= last.seq:
        raise DamagedFileError(
            f"{places.model} has learned up to event {position.seq}, and its log has {folded.seq + 1} to "
            f"{last.seq}: one of the two is an older copy. Restore both from one backup."
        )
    event = logs.event_of(db, position.seq)
    if event is not None and event.checksum != position.checksum:
        raise _not_together(places)
    return position


def _not_together(places: ServicePlaces) -> DamagedFileError:
    return DamagedFileError(
        f"{places.model} is not the model that the log in {places.folder} belongs to. Restore both from one "
        "backup, or move that folder away to start a new log; what it could undo cannot be undone then."
    )


def replay(db: apsw.Connection, path: Path, machine: Machine, start: LogPosition) -> None:
    """Have the model take all steps after a position; what is not as it was written is an error."""
    events = logs.checked_events(db, path, start)
    machine.position, n_events = start, 0
    while some := list(islice(events, AT_ONCE)):
        samples = _samples_of(db, path, some)
        machine.take((step for event in some for step in event.body.get("steps", [])), samples)
        machine.position = LogPosition(some[-1].seq, some[-1].checksum)
        n_events += len(some)
        reached("start-in-replay")
    if n_events:
        logger.info("%d events replayed", n_events)


def _samples_of(db: apsw.Connection, path: Path, events: Iterable[Event]) -> dict[str, LearnedSample]:
    """Samples that the steps of some events need, and that are as they were learned."""
    wanted: set[str] = set()
    digests: dict[str, str] = {}
    for event in events:
        for step in event.body.get("steps", []):
            if step[0] in ("learn", "forget"):
                wanted.update(entry[-1] for entry in step[1])
        digests |= {effect[0]: effect[3] for effect in event.body.get("samples", []) if len(effect) > 3}
    numbers = json.dumps([int(name.partition("-")[0], 16) for name in wanted])
    found: dict[str, LearnedSample] = {}
    query = f"SELECT {SAMPLE} FROM samples WHERE number IN (SELECT value FROM json_each(?))"
    for row in map(SampleRow._make, db.execute(query, (numbers,))):
        if row.embedding is None or digests.get(row.id, "") not in ("", logs.embedding_digest(row.embedding)):
            raise damaged(path, f"the embedding of sample {row.id} is not what was learned")
        found[row.id] = LearnedSample(np.frombuffer(row.embedding, np.float32), row.group)
    if missing := wanted - found.keys():
        raise damaged(path, f"sample {min(missing)} of its log is missing")
    return found


def _new_id(digest: str, label: Label) -> str:
    return start_id(digest, label) if digest else secrets.token_hex(16)


def _adopt(db: apsw.Connection, machine: Machine, digest: str = "") -> None:
    """Have all classes of the model in the database: also what commands have made of it since.

    With the digest of its file they get ids that are the same wherever a log begins with that file.
    """
    classifier = machine.classifier
    labels: list[Label] = classifier.classes_.tolist() if machine.is_started else []
    id_of = dict(classifier.class_ids_) if machine.is_started else {}
    counts = dict(zip(labels, classifier.class_count_.tolist(), strict=True)) if labels else {}
    known = {row[0]: row[1:] for row in db.execute(
        "SELECT id, label, parent IS NULL AND is_there AND NOT is_removed FROM classes"
    )}  # fmt: skip
    news = [(id_of.get(label) or _new_id(digest, label), label) for label in labels]
    inserted = [(new, label, int(counts[label] > 0)) for new, label in news if new not in known]
    renamed = [(label, new) for new, label in news if new in known and known[new] != (label, 1)]
    if not inserted and not renamed:
        return
    seq = logs.last_position(db).seq
    with db:
        gone = [(class_id,) for label, class_id in renamed]
        db.executemany(
            "UPDATE classes SET is_removed = 1 WHERE id = ?", gone
        )  # so that labels may be swapped
        if renamed or (seq and inserted):
            labels_in_file = {label for _, label in news}
            stale = [
                (class_id,)
                for class_id, (label, is_current) in known.items()
                if is_current and label in labels_in_file and class_id not in dict(news)
            ]
            db.executemany("UPDATE classes SET is_removed = 1 WHERE id = ?", stale)
        for label, class_id in renamed:
            db.execute(
                "UPDATE classes SET label = ?, parent = NULL, is_there = 1, is_removed = 0 WHERE id = ?",
                (label, class_id),
            )
        db.executemany("INSERT INTO classes(id, label, is_there, from_file) VALUES (?, ?, 1, ?)", inserted)
    machine.give_ids(news)
