"""The one thread that changes what a service knows: what waits is committed together, then answered."""

from __future__ import annotations

import asyncio
import json
import logging
import queue
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from xlda.service import log as logs
from xlda.service.book import Book
from xlda.service.changes import Transaction
from xlda.service.database import PAGES_IN_WAL, one
from xlda.service.faults import reached
from xlda.service.log import Event, LogPosition
from xlda.service.machine import MANY, Machine
from xlda.service.problems import Problem

MOST_TOGETHER = 64  # changes that are committed at once
MOST_WAITING = 1024
LEAST_FREE = 200_000_000  # bytes of disk that must be left

logger = logging.getLogger("xlda.service")


class Reply(NamedTuple):
    """What a change is answered with, and whether it was said before."""

    status: int
    body: dict[str, Any]
    is_replayed: bool = False


ChangePlan = Callable[[Transaction], dict[str, Any]]


@dataclass
class Wanted:
    """A change that somebody wants: `plan` writes it down and gives the answer, but for its `seq`."""

    operation: str
    plan: ChangePlan
    actor: str
    status: int = 200
    group: str | None = None
    key: str | None = None
    fingerprint: bytes = b""
    alone: bool = False  # whether the model must have all that came before, and so it is committed by itself
    answer: asyncio.Future[Reply] | None = None  # of whoever waits, in his event loop

    def tell(self, answer: Reply | Problem) -> None:
        """Answer, in the event loop of whoever waits, unless he is gone; the change stays in any case."""
        if self.answer is None or self.answer.done():
            return
        if isinstance(answer, Problem):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)


class Writer:
    """Takes changes one after the other, in a thread of its own.

    A change is acknowledged when it is on disk and in the model. Where the disk fails, nothing is
    acknowledged any more, and what was not acknowledged is found or not found after the next start.
    """

    def __init__(
        self, db: apsw.Connection, folder: Path, machine: Machine, book: Book, last: LogPosition
    ) -> None:
        self._db, self._folder, self.machine, self.book = db, folder, machine, book
        self.last = last
        self.failure: str | None = None
        self.changed_at = time.monotonic()
        self._queue: queue.SimpleQueue[Wanted | Callable[[], None] | None] = queue.SimpleQueue()
        self.on_events: Callable[[list[Event]], None] = lambda events: None
        self._n_pages_in_wal = 0
        self._thread = threading.Thread(target=self._run, name="xlda-writer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._db.set_wal_hook(self._note_wal)
        self._thread.start()

    @property
    def n_waiting(self) -> int:
        """Changes that nobody has looked at yet."""
        return self._queue.qsize()

    async def change(self, wanted: Wanted) -> Reply:
        """Have a change made; returns when it is on disk and in the model."""
        if self.failure is not None:
            raise Problem(503, self.failure, retry_after=60)
        if self.n_waiting >= MOST_WAITING:
            raise Problem(503, "Too many changes are waiting. Try again in a moment.", retry_after=1)
        wanted.answer = asyncio.get_running_loop().create_future()
        self._queue.put(wanted)
        return await wanted.answer

    def change_now(self, wanted: Wanted) -> Reply:
        """The same for a thread that has no event loop."""
        return asyncio.run(self.change(wanted))

    def between(self, work: Callable[[], None]) -> None:
        """Have something done between two commits, by the writer."""
        self._queue.put(work)

    def close(self) -> None:
        """Make all changes that wait, then end."""
        self._queue.put(None)
        self._thread.join()

    # -- the thread

    def _run(self) -> None:
        while True:
            first = self._queue.get()
            if first is None:
                return
            if callable(first):
                self._do(first)
                continue
            together, then = self._waiting_with(first)
            self._commit(together)
            for work in then:
                if work is None:
                    return
                self._do(work) if callable(work) else self._commit([work])

    def _do(self, work: Callable[[], None]) -> None:
        """Something between two commits; where the disk has failed, nothing is written any more."""
        if self.failure is not None:
            return
        try:
            work()
        except Exception as error:
            self.note(error)
        self._copy_wal()

    def note(self, error: BaseException) -> None:
        """Say that work between two commits failed; where it was the disk that did, this is the end."""
        if isinstance(error, apsw.FullError):
            logger.warning("the disk is full: %s", error)
        else:
            self._problem(error)

    def _note_wal(self, db: apsw.Connection, name: str, n_pages: int) -> int:
        self._n_pages_in_wal = n_pages
        return apsw.SQLITE_OK

    def _copy_wal(self) -> None:
        """Copy what was committed into the database once it is much; nobody waits for an answer then."""
        if self._n_pages_in_wal < PAGES_IN_WAL or self.failure is not None:
            return
        self._n_pages_in_wal = 0
        try:
            reached("wal-before-copy")
            self._db.wal_checkpoint()
            reached("wal-after-copy")
        except apsw.BusyError:
            pass  # another program copies it just now
        except apsw.Error as error:
            self.note(error)

    def _waiting_with(self, first: Wanted) -> tuple[list[Wanted], list[Wanted | Callable[[], None] | None]]:
        """What can be committed with a change, and what came after that and cannot."""
        together = [first]
        while not together[-1].alone and len(together) < MOST_TOGETHER:
            try:
                found = self._queue.get_nowait()
            except queue.Empty:
                break
            if isinstance(found, Wanted) and not found.alone:
                together.append(found)
            else:
                return together, [found]
        return together, []

    def _commit(self, together: list[Wanted]) -> None:
        """Write changes down, have the model follow, and answer."""
        done: list[tuple[Wanted, Reply | Problem]] = []
        changes: list[Transaction] = []
        events: list[Event] = []
        try:
            self._check_can_write()
            self._db.execute("BEGIN IMMEDIATE")
            for wanted in together:
                done.append((wanted, self._written(wanted, changes, events)))
            reached("before-commit")
            self._db.execute("COMMIT")
            reached("after-commit")
        except BaseException as error:
            self._give_up(together, error)
            return
        try:
            self._follow(changes, events)
        except BaseException as error:  # what is on disk is right, and the model is not: only a start helps
            self.failure = "The model could not follow its log. Restart the service; nothing is lost."
            self._give_up(together, error)
            return
        reached("before-answer")
        _tell(done)
        self._copy_wal()

    def _check_can_write(self) -> None:
        if self.failure is not None:
            raise Problem(503, self.failure, retry_after=60)
        if shutil.disk_usage(self._folder).free < LEAST_FREE:
            raise _disk_full()

    def _written(self, wanted: Wanted, changes: list[Transaction], events: list[Event]) -> Reply | Problem:
        """The answer to a change that was written down, or why it was not, alone of all."""
        db = self._db
        known = self._answered_before(wanted)
        if known is not None:
            return known
        db.execute("SAVEPOINT change")
        change = Transaction(db, self.machine, self.last.seq + 1)
        try:
            body = wanted.plan(change)
        except (apsw.Error, MemoryError):
            raise
        except Exception as error:
            db.execute("ROLLBACK TO change")
            db.execute("RELEASE change")
            return error if isinstance(error, Problem) else _unexpected(error)
        if not change.is_empty:
            told = (
                {"class_ids": sorted({effect[0] for effect in change.of_classes})}
                if change.of_classes
                else {}
            )
            change.about = {**told, **change.about}
            event = logs.append(
                db, self.last, wanted.actor, wanted.operation, wanted.group, change.undoes, change.body()
            )
            self.last = LogPosition(event.seq, event.checksum)
            changes.append(change)
            events.append(event)
        answer = Reply(wanted.status, {**body, "seq": self.last.seq})
        if wanted.key is not None:
            text = json.dumps(answer.body)
            row = (wanted.key, wanted.fingerprint, wanted.status, text, self.last.seq)
            db.execute("INSERT INTO requests(key, fingerprint, status, answer, seq) VALUES (?,?,?,?,?)", row)
        db.execute("RELEASE change")
        return answer

    def _answered_before(self, wanted: Wanted) -> Reply | Problem | None:
        if wanted.key is None:
            return None
        return answered_before(self._db, wanted.key, wanted.fingerprint)

    def _follow(self, changes: list[Transaction], events: list[Event]) -> None:
        machine, self.changed_at = self.machine, time.monotonic()
        steps = [step for change in changes for step in change.steps]
        samples = {name: sample for change in changes for name, sample in change.samples.items()}
        with machine.between_events, machine.lock if len(samples) <= MANY else nullcontext():
            machine.take(steps, samples)
            if any(step[0] == "become" for step in steps):
                self.book.reload(self._db, machine)
            else:
                self.book.take(steps)
            machine.position = self.last
        if events:
            self.on_events(events)

    def _give_up(self, together: list[Wanted], error: BaseException) -> None:
        """Nothing of these was committed, as far as anybody knows."""
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except apsw.Error:
            logger.exception("a transaction could not be taken back")
        problem = self._problem(error)
        try:
            self.last = logs.last_position(self._db)
        except apsw.Error:
            self.failure = self.failure or problem.detail
        _tell([(wanted, problem) for wanted in together])

    def _problem(self, error: BaseException) -> Problem:
        if isinstance(error, Problem):
            return error
        if isinstance(error, apsw.FullError):
            return _disk_full()
        logger.error("a change failed", exc_info=error)
        if isinstance(error, apsw.Error):
            self.failure = (
                "The log could not be written to the disk, so nothing is learned any more. Look at the disk, "
                "then restart the service; all that was acknowledged is safe."
            )
        return Problem(503, self.failure or "The change failed, and nothing was changed.", retry_after=60)


def answered_before(db: apsw.Connection, key: str, fingerprint: bytes) -> Reply | Problem | None:
    """What a change of this key was answered with, if it was made."""
    row = one(db, "SELECT fingerprint, status, answer FROM requests WHERE key = ?", (key,))
    if row is None:
        return None
    if row[0] != fingerprint:
        return Problem(
            422, "This Idempotency-Key was used for another request. Use a new key for each change."
        )
    return Reply(row[1], json.loads(row[2]), is_replayed=True)


def _unexpected(error: Exception) -> Problem:
    logger.error("a change failed", exc_info=error)
    return Problem(500, "The change failed, and nothing was changed. The log of the service says why.")


def _disk_full() -> Problem:
    return Problem(
        507, "The disk is nearly full, so nothing is learned. Free some space; predicting goes on meanwhile."
    )


def _tell(answers: Sequence[tuple[Wanted, Reply | Problem]]) -> None:
    """Have all who wait answered by their event loops, each of which is woken once for all of its own."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Wanted, Reply | Problem]]] = {}
    for wanted, answer in answers:
        if wanted.answer is not None:
            by_loop.setdefault(wanted.answer.get_loop(), []).append((wanted, answer))
    for loop, of_loop in by_loop.items():
        with suppress(RuntimeError):  # the event loop has ended, and with it all who waited
            loop.call_soon_threadsafe(_tell_all, of_loop)


def _tell_all(answers: Sequence[tuple[Wanted, Reply | Problem]]) -> None:
    for wanted, answer in answers:
        wanted.tell(answer)
