"""A service without its network: the model, its log, photos, and who keeps them in order."""

from __future__ import annotations

import json
import logging
import math
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import apsw
import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.files import flush_to_disk
from xlda._internal.model_lock import ModelLock
from xlda._internal.not_fitted import is_not_fitted
from xlda._internal.threads import alone
from xlda.calibration.assessment import Assessment
from xlda.identity import BackboneIdentity
from xlda.labels import Label
from xlda.predictor.answers import Judged
from xlda.predictor.snapshot import Snapshot
from xlda.service import log as logs
from xlda.service.book import Book
from xlda.service.contradictions import Contradiction, contradictions
from xlda.service.database import one, reader
from xlda.service.faults import reached
from xlda.service.folding import fold, forget_answers, is_needed
from xlda.service.marks import SETTINGS
from xlda.service.photo_store import PhotoStore
from xlda.service.places import ServicePlaces
from xlda.service.review import Review
from xlda.service.starting import finish_restore, read_classifier, started
from xlda.service.writer import Writer
from xlda.service.young import YoungModel

LOOK = 1.0  # seconds between two looks whether something is to be done
BETWEEN_CHECKPOINTS = 300.0  # seconds
MANY = 20_000  # samples, after which a checkpoint does not wait for that
QUIET, LONGEST_WAIT = 5.0, 900.0  # seconds without a question, before the model measures itself; at most
MOMENT = 1.0  # seconds
BETWEEN_SWEEPS = 86400.0  # seconds between two looks for photos that nobody needs
UNSURE = 0.5  # of being known: below that, it is rather not
REJECTED = 0.05  # of the known, where nobody says how many
REST = 4.0  # times as long as measuring took, before it is done again

logger = logging.getLogger("xlda.service")


@dataclass(frozen=True)
class Keeping:
    """What is kept, and for how long."""

    photos: bool = True
    photo_bytes: int = 4_000_000_000
    review: bool = True
    undo_days: float = 90.0


class Engine:
    """All that a service knows, and the threads that keep it in order.

    Whoever opens it holds the model's lock until `close`. Changes go through `writer`; all else only reads.
    """

    def __init__(
        self, places: ServicePlaces, keeping: Keeping, lock: ModelLock, vfs: str | None = None
    ) -> None:
        self.places, self.keeping, self._lock, self._vfs = places, keeping, lock, vfs
        with ThreadPoolExecutor(1) as pool:  # the store looks at every photo
            reading = pool.submit(read_classifier, places.model)
            has_photos = places.folder.exists()
            store = PhotoStore(places.photos, keeping.photo_bytes) if has_photos else None
            classifier = reading.result()
        places.make_folder()  # and not before: what is no model gets none
        places.sweep()
        self.db, self.machine = started(places, classifier, vfs)
        self.photos = store or PhotoStore(places.photos, keeping.photo_bytes)
        self.log_id = str(self._fact("log"))
        self.book = Book.load(self.db, self.machine)
        last = logs.last_position(self.db)
        self.writer = Writer(self.db, places.folder, self.machine, self.book, last)
        self.review = Review(self.db, self.reading, self.writer)
        self.assessment: Assessment | None = None
        self._young = YoungModel(self.reading)
        self.contradictions: dict[str, Contradiction] = {}  # by the id of the sample
        self._checked_seq = -1
        self._keep_photos: bool | None = None  # what was answered; None where nobody has been asked
        self.read_settings()
        self._make_head()
        self.saved_seq = self._saved_seq()
        self._saved_at = self._asked_at = self._measured_at = time.monotonic()
        self._checkpoint_turn = threading.Lock()
        self.files_stay = threading.Lock()  # held while none may be deleted that log or model may name
        self._stop = threading.Event()
        self.is_closed = False
        self._upkeep = threading.Thread(target=self._keep_in_order, name="xlda-upkeep", daemon=True)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], keeping: Keeping | None = None, vfs: str | None = None
    ) -> Engine:
        """The service's side of a model file, or of a new one."""
        places = ServicePlaces.of(path)
        if places.model.is_dir():
            raise IsADirectoryError(f"{path} is a folder; a model is a file.")
        lock = ModelLock(path)
        lock.take(for_service=True)
        try:
            finish_restore(places)
            return cls(places, keeping or Keeping(), lock, vfs)
        except BaseException:
            lock.give_back()
            raise

    def start(self) -> None:
        """Begin to take changes."""
        self.writer.start()
        self._upkeep.start()

    def close(self) -> None:
        """Finish what waits, write a checkpoint, and let go of the model."""
        self._stop.set()
        self._upkeep.join(MOMENT)  # which may be measuring, and is not needed for that any more
        self.writer.close()
        try:
            if self.writer.failure is None:
                self.checkpoint(writer_has_ended=True)
        finally:
            self.db.close()
            self._lock.give_back()

    def finish(self) -> None:
        """Write what was learned, where nobody has started this, and let go of the model."""
        self.checkpoint(writer_has_ended=True)
        self.abandon()

    def abandon(self) -> None:
        """Let go of the model without writing anything; nobody may use it any more."""
        self._stop.set()
        if self._upkeep.is_alive():
            self._upkeep.join()
            self.writer.close()
        self.is_closed = True
        self.db.close()
        self._lock.give_back()

    def reading(self) -> apsw.Connection:
        """A connection for one thread to read what was committed."""
        return reader(self.places.database, self._vfs)

    def _fact(self, name: str) -> Any:
        """What was committed; whoever asks, since the connection of the writer is for its thread alone."""
        with closing(self.reading()) as db:
            found = one(db, "SELECT value FROM facts WHERE name = ?", (name,))
        return None if found is None else found[0]

    def _make_head(self) -> None:
        """Have the head that answers before anybody asks."""
        if self.machine.is_started and self.book.n_samples():
            self.machine.classifier.snapshot()

    # -- settings

    @property
    def keeps_photos(self) -> bool:
        """Whether small photos are kept: nobody has said no."""
        return self.keeping.photos and self._keep_photos is not False

    @property
    def is_first_start(self) -> bool:
        """Whether nobody has said yet if photos are to be kept, and it is not decided."""
        return self.keeping.photos and self._keep_photos is None

    def read_settings(self) -> None:
        """Follow what was chosen; by the writer, once that is on disk."""
        found = self._fact(SETTINGS + "keep_photos")
        self._keep_photos = None if found is None else bool(found)

    # -- answers

    @property
    def identity(self) -> BackboneIdentity | None:
        """What made the embeddings, where that is known."""
        if not self.machine.is_started:
            return None
        return BackboneIdentity.from_json(self.machine.classifier.backbone_)

    def judge(
        self, embeddings: Array, k: int, unknown: float | None, among: list[Label] | None
    ) -> tuple[int, Judged | None, Array]:
        """What samples (n, d) are, and the event that had been learned; None where nothing has.

        And which of them are rather not of a known class. As long as the model cannot measure that itself,
        it is told by likeness to what was taught, and a while longer that counts as well.
        """
        self._asked_at = time.monotonic()
        seq, snapshot = self._snapshot()
        if snapshot is None:
            return seq, None, np.ones(len(embeddings), bool)
        share, n_seen = unknown or REJECTED, snapshot.head.n_seen
        if not snapshot.tells_unknown:
            judged = snapshot.judge(embeddings, k, among=among)
            strange = self._young.is_strange(embeddings, share, seq, n_seen)
            return seq, judged if unknown is None else judged._replace(is_unknown=strange), strange
        young = self._young.weight(seq, n_seen)
        measured = None if unknown is None or young == 1.0 else unknown * (1.0 - young)
        judged = snapshot.judge(embeddings, k, unknown=measured, among=among)
        strange = judged.is_unknown | (judged.p_known < UNSURE * (1.0 - young))
        if young:
            also = self._young.is_strange(embeddings, share * young, seq, n_seen)
            strange |= also
            if unknown is not None:
                judged = judged._replace(is_unknown=judged.is_unknown | also)
        return seq, judged, strange

    def _snapshot(self) -> tuple[int, Snapshot | None]:
        """The model as it is now, and its last event."""
        machine = self.machine
        with machine.lock:  # whole events, and no more than a moment
            if not machine.is_started:
                return machine.seq, None
            try:
                return machine.seq, machine.classifier.snapshot()
            except ValueError as error:
                if not is_not_fitted(error):
                    raise
                return machine.seq, None

    # -- keeping in order

    def _keep_in_order(self) -> None:
        rest_until, sweep_at = 0.0, -math.inf
        while not self._stop.wait(LOOK):
            try:
                now = time.monotonic()
                if now >= sweep_at:
                    sweep_at = now + BETWEEN_SWEEPS
                    self._sweep()
                if now >= rest_until and self._is_quiet(now):
                    with alone():  # which leaves the other cores to those who ask
                        was_measured = self._measure()
                        was_measured = self._look_for_contradictions() or was_measured
                    if was_measured:
                        rest_until = time.monotonic() + REST * (time.monotonic() - now)
                if self.machine.is_started:  # so that who asks after a while finds what was learned taken in
                    self.machine.classifier.renew_if_due()
                self.review.flush()
                if self._checkpoint_is_due():
                    self.checkpoint()
            except Exception:
                logger.exception("keeping the model in order failed; it is tried again in a minute")
                self._stop.wait(60.0)

    def _sweep(self) -> None:
        """Delete photos that nobody needs: of the review ring, or of an event that a crash has prevented."""
        try:
            with closing(self.reading()) as db:
                self.photos.sweep(lambda name: is_needed(db, name))
        except (apsw.Error, OSError):
            logger.exception("photos that nobody needs could not be deleted")

    def _is_quiet(self, now: float) -> bool:
        """Whether nobody has asked for a while, or measuring has waited for that for too long."""
        last = max(self._asked_at, self.writer.changed_at)
        if now - last < QUIET and now - self._measured_at < LONGEST_WAIT:
            return False
        self._measured_at = now
        return True

    def _measure(self) -> bool:
        """Measure how sure answers are, where enough was learned since; whether that was done."""
        classifier = self.machine.classifier
        if not self.machine.is_started:
            return False
        was_due = classifier.calibrate_if_due(progress=False)
        if was_due or (self.assessment is None and classifier._last_calibration() is not None):
            seq = self.machine.seq
            try:
                self.assessment = classifier.assess()
            except ValueError:  # the head in use is of too few samples, and the next one is being made
                return was_due
            if was_due:
                self.writer.between(lambda: self._note_history(seq))
        return was_due

    def _look_for_contradictions(self) -> bool:
        """Find samples that the model, without them, takes for another class; whether that was looked for.

        Those that were found before are kept, and said to be solved where the model has come to agree.
        """
        seq = self.machine.seq
        if seq == self._checked_seq or not self.machine.is_started:
            return False
        found = contradictions(self.machine, self.reading, self._stop.is_set)
        if not self._stop.is_set():
            before = {name: one._replace(is_solved=True) for name, one in self.contradictions.items()}
            self.contradictions = before | {one.sample_id: one for one in found}
            self._checked_seq = seq
        return True

    def _note_history(self, seq: int) -> None:
        found = self.assessment
        if found is None or found.visit is None or found.same is None:
            return
        figures = {
            name: {"accuracy": part.accuracy.value, "low": part.accuracy.low, "high": part.accuracy.high}
            for name, part in (("same", found.same), ("visit", found.visit))
        }
        row = (seq, logs.now(), json.dumps(figures))
        self.db.execute("INSERT OR REPLACE INTO history(seq, time, figures) VALUES (?, ?, ?)", row)

    def _checkpoint_is_due(self) -> bool:
        if self.machine.seq == self.saved_seq or not self.machine.is_started:
            return False
        if not self.places.model.exists():  # which commands look for
            return True
        n_samples = self.machine.seq - self.saved_seq
        return time.monotonic() - self._saved_at > BETWEEN_CHECKPOINTS or n_samples > MANY

    def checkpoint(self, writer_has_ended: bool = False) -> int:
        """Write the model as it is now, while learning goes on, and drop what need not be kept any more.

        Gives the number of the last event that is in it.
        """
        with self._checkpoint_turn:
            if not self.machine.is_started or (
                self.machine.seq == self.saved_seq and self.places.model.exists()
            ):
                return self.saved_seq
            view, seq = self._view()
            unfinished = self.places.model.with_name(f".{self.places.model.name}.checkpoint")
            view.write(unfinished)
            reached("checkpoint-before-rename")
            unfinished.replace(self.places.model)
            reached("checkpoint-after-rename")
            flush_to_disk(self.places.model.parent)
            reached("checkpoint-after-sync")
            self.saved_seq, self._saved_at = seq, time.monotonic()
            if not writer_has_ended:
                self.writer.between(lambda: self._tidy(seq))
            return seq

    def _view(self) -> tuple[Any, int]:
        """The model to be saved, and the last event that is in it."""
        with self.machine.between_events, self.machine.lock:
            position = self._position()
            classifier = self.machine.classifier
            classifier.log_position_ = position
            return classifier.view_to_save(renew=False), position["seq"]

    def _position(self) -> dict[str, Any]:
        seq, checksum = self.machine.position
        return {"log": self.log_id, "seq": seq, "checksum": checksum.hex()}

    def _saved_seq(self) -> int:
        noted = getattr(self.machine.classifier, "log_position_", None) if self.machine.is_started else None
        return -1 if noted is None else int(noted["seq"])

    def _tidy(self, saved_seq: int) -> None:
        """Drop what is too old to be undone, by the writer, some at a time; photos go with it."""
        try:
            told = self._fact("fleet")  # a fleet is told of samples before they go
            last = saved_seq if told is None else min(saved_seq, json.loads(told)["safe_seq"])
            if fold(self.db, self.machine, self.photos, last, self.keeping.undo_days):
                self.writer.between(lambda: self._tidy(saved_seq))
                return
            forget_answers(self.db)
            self.review.prune()
        except OSError:
            logger.exception("photos that are too old could not be deleted")
        except apsw.Error as error:
            self.writer.note(error)

    # -- what is asked of the database

    def rows(self, sql: str, bindings: Any = ()) -> list[Any]:
        """Rows of a query, read by a connection of its own."""
        with closing(self.reading()) as db:
            return list(db.execute(sql, bindings))
