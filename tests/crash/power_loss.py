"""Power losses: a file system that holds back what was not synced, and then loses or tears a part of it.

The real engine and its writer run in this process on a VFS of SQLite through which every write goes. What the
process reads is what it wrote; beside that, the `Disk` knows what would be found after a loss of power.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import apsw

from crash import replay
from crash.clients import LABELS
from crash.ledger import Wish
from xlda.service import database, engine, plans, writer
from xlda.service.changes import NewSample
from xlda.service.engine import Engine, Keeping
from xlda.service.problems import Problem
from xlda.service.writer import Wanted

NAMES = itertools.count(1)
NEW_MODEL_AFTER = 20  # losses
N_CLIENTS = 6


@dataclass
class Image:
    """A file as it is on the disk, and what was written to it since the last sync."""

    durable: bytearray = field(default_factory=bytearray)
    waiting: list = field(default_factory=list)  # (offset, bytes), or the length that it was cut to
    has_entry: bool = False  # whether the folder that names it is on the disk

    def sync(self):
        for change in self.waiting:
            _apply(self.durable, change)
        self.waiting.clear()

    def survivor(self, dice):
        """What is found after a loss of power: any part of what waits, in sectors, some of them torn."""
        found = bytearray(self.durable)
        share, sector = dice.choice([0.0, 0.3, 0.7, 0.95, 1.0]), dice.choice([512, 4096])
        for change in self.waiting:
            if isinstance(change, int):
                if dice.random() < share:
                    _apply(found, change)
                continue
            offset, content = change
            for start in range(0, len(content), sector):
                piece = content[start : start + sector]
                if dice.random() < 0.05:
                    piece = piece[: dice.randrange(len(piece) + 1)]
                if dice.random() < share:
                    _apply(found, (offset + start, piece))
        return bytes(found)


def _apply(content, change):
    if isinstance(change, int):
        del content[change:]
        return
    offset, new = change
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(new)] = new


class Disk(apsw.VFS):
    """The file system. It has power until so many writes and syncs were made."""

    def __init__(self, dice):
        self.name = f"disk-{next(NAMES)}"
        super().__init__(self.name, "")
        self._dice, self.lock = dice, threading.RLock()
        self.images: dict[str, Image] = {}
        self._deleted: dict[str, Image] = {}  # files whose end is not on the disk yet
        self.left, self.survivors = 0, None
        self.model, self._durable_model = Path(), None
        self.n_syncs = 0

    def start(self, model, n_operations):
        """Power, for so many operations; the files are as they were left."""
        self.left, self.survivors, self.model = n_operations, None, model
        self._deleted.clear()
        self._durable_model = model.read_bytes() if model.exists() else None

    @property
    def has_power(self):
        return self.survivors is None

    def step(self):
        """One operation; the power may go before it."""
        self.left -= 1
        if self.has_power and self.left < 0:
            self.cut()
        if not self.has_power:
            raise apsw.IOError("there is no power")

    def cut(self):
        """The power goes: from now on nothing is written, and what survives is chosen."""
        with self.lock:
            if not self.has_power:
                return
            dice = self._dice
            self.survivors = {
                name: image.survivor(dice)
                for name, image in self.images.items()
                if image.has_entry or dice.random() < 0.5
            }
            for name, image in self._deleted.items():
                if name not in self.images and dice.random() < 0.5:
                    self.survivors[name] = image.survivor(dice)
            current = self.model.read_bytes() if self.model.exists() else None
            self._surviving_model = dice.choice([current, self._durable_model])

    def note_model(self, *_):
        """The folder of the model was synced, and so the model's name is that of the newest file."""
        with self.lock:
            if self.has_power:
                self._durable_model = self.model.read_bytes() if self.model.exists() else None

    def restore(self, folder):
        """Have the files that survived, and no others of the database."""
        for path in folder.glob("log.sqlite*"):
            path.unlink()
        for name, content in self.survivors.items():
            Path(name).write_bytes(content)
        self.images = {name: Image(bytearray(new), [], True) for name, new in self.survivors.items()}
        if self._surviving_model is None:
            self.model.unlink(missing_ok=True)
        else:
            self.model.write_bytes(self._surviving_model)

    # -- what SQLite calls

    def xOpen(self, name, flags):  # noqa: N802
        if name is None:
            return super().xOpen(name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        return File(self, name, path, flags)

    def xDelete(self, name, sync_folder):  # noqa: N802
        with self.lock:
            self.step()
            super().xDelete(name, sync_folder)
            self._deleted[name] = self.images.pop(name)
            if sync_folder:
                self.sync_folder()

    def sync_folder(self):
        """What the folder names is on the disk."""
        self._deleted.clear()
        for image in self.images.values():
            image.has_entry = True


class File(apsw.VFSFile):
    """A file of the disk."""

    def __init__(self, disk, name, path, flags):
        super().__init__("", name, flags)
        self._disk, self._path = disk, path
        journals = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
        with disk.lock:
            self._image = disk.images.get(path)
            if self._image is None:
                self._image = disk.images[path] = Image()
                self._syncs_folder = bool(flags[0] & journals)
            else:
                self._syncs_folder = False

    def xWrite(self, content, offset):  # noqa: N802
        with self._disk.lock:
            self._disk.step()
            super().xWrite(content, offset)
            self._image.waiting.append((offset, bytes(content)))

    def xTruncate(self, length):  # noqa: N802
        with self._disk.lock:
            self._disk.step()
            super().xTruncate(length)
            self._image.waiting.append(length)

    def xSync(self, flags):  # noqa: N802
        with self._disk.lock:
            self._disk.step()
            self._image.sync()
            self._disk.n_syncs += 1
            if self._syncs_folder:  # as SQLite's own does for a new journal
                self._disk.sync_folder()
                self._syncs_folder = False


def _abandon(running):
    """End the threads of an engine without power, and what it holds."""
    try:
        running.abandon()
    except apsw.IOError:  # SQLite would have liked to copy its WAL
        running._lock.give_back()


class LogOf(replay.Log):
    """The log of an engine in this process, read through its disk."""

    def __init__(self, engine):
        super().__init__(engine.places.database)
        self._engine = engine

    def connect(self):
        return closing(self._engine.reading())


class Outages:
    """Losses of power one after the other: `one` is a life from a start to the next loss."""

    def __init__(self, folder, seed=1, synchronous="full"):
        self._folder, self._dice, self._synchronous = folder, random.Random(seed), synchronous
        self.disk = Disk(self._dice)
        self.n_losses = self.n_starts_cut = 0
        self.lost, self.doubled, self.invented, self.wrong = set(), set(), set(), []
        self.n_samples = self.n_acknowledged = 0
        self._new_model()

    def _new_model(self):
        self._model = self._folder / f"model-{next(NAMES)}" / "shop.xlda"
        self._model.parent.mkdir()
        self.disk.images.clear()
        self._folds = self._dice.random() < 0.3  # at once; then samples are only ever learned
        self._sent, self._acknowledged = {}, {}
        self._seqs = []

    def figures(self):
        return {
            "power losses": self.n_losses,
            "of these while starting": self.n_starts_cut,
            "syncs": self.disk.n_syncs,
            "acknowledged changes": self.n_acknowledged,
            "acknowledged samples": self.n_samples,
            "lost": len(self.lost),
            "doubled": len(self.doubled),
            "invented": len(self.invented),
            "otherwise wrong": len(self.wrong),
        }

    @property
    def is_fine(self):
        return not (self.lost or self.doubled or self.invented or self.wrong)

    def one(self):
        """Start, check, change, and lose the power."""
        if self.n_losses and self.n_losses % NEW_MODEL_AFTER == 0:
            self._new_model()
        with ExitStack() as patches:
            self._patch(patches)
            self._life()
        self.n_losses += 1

    def _patch(self, patches):
        for module, name, value in (
            (engine, "LOOK", 0.01),
            (engine, "BETWEEN_CHECKPOINTS", 0.03),
            (engine, "flush_to_disk", self.disk.note_model),
            (writer, "PAGES_IN_WAL", 30),
        ):
            patches.enter_context(mock.patch.object(module, name, value))
        connected = database._connected

        def connected_so(*arguments):
            connection = connected(*arguments)
            connection.pragma("synchronous", self._synchronous)
            return connection

        if self._synchronous != "full":
            patches.enter_context(mock.patch.object(database, "_connected", connected_so))

    def _life(self):
        dice, disk = self._dice, self.disk
        disk.start(self._model, dice.choice([dice.randint(0, 40), dice.randint(40, 500)]))
        keeping = Keeping(photos=False, review=False, undo_days=0.0 if self._folds else 90.0)
        running = None
        try:
            running = Engine.open(self._model, keeping, vfs=disk.name)
            self._check(running)
            running.start()
            asyncio.run(self._work(running))
        except Exception as error:
            if not disk.has_power and isinstance(error, apsw.Error | OSError):
                self.n_starts_cut += 1
            elif self._synchronous == "full":
                raise
            else:
                self.wrong.append(repr(error))  # which is what comes of it: all is lost
                self.lost |= {digest for key in self._acknowledged for digest in self._sent[key].digests}
        finally:
            disk.cut()
            if running is not None:
                _abandon(running)
        disk.restore(self._model.parent / f"{self._model.name}.service")
        if self.wrong and self._synchronous != "full":
            self._new_model()

    # -- changes

    async def _work(self, running):
        await asyncio.gather(*(self._client(running) for _ in range(N_CLIENTS)))

    async def _client(self, running):
        while self.disk.has_power:
            wish, plan = self._wish(running)
            self._sent[wish.key] = wish
            wanted = Wanted(wish.operation, plan, "a client", key=wish.key, fingerprint=wish.key.encode())
            wanted.alone = wish.operation in ("merge", "undo")
            try:
                answer = await running.writer.change(wanted)
            except Problem as problem:
                if problem.status == 503:
                    return
                del self._sent[wish.key]
                await asyncio.sleep(0)
                continue
            self._acknowledged[wish.key] = (answer.body["seq"], answer.status, answer.body)
            self._seqs.append(answer.body["seq"])
            self.n_acknowledged += 1
            self.n_samples += len(wish.labels)

    def _wish(self, running):
        """A change, and its plan."""
        dice, key = self._dice, f"key-{next(NAMES)}"
        kinds = ["learn"] if self._folds else ["learn"] * 6 + ["create", "rename", "merge", "undo"]
        operation, ids = dice.choice(kinds), list(running.book.by_id)
        wish = Wish(key, operation, "", "")
        if operation == "create":
            return wish, plans.create_class(f"{key} of its own")
        if operation == "rename" and ids:
            return wish, plans.rename_class(dice.choice(ids), f"{key} by another name", None)
        if operation == "merge" and len(ids) > 1:
            return wish, plans.merge_classes(*dice.sample(ids, 2), None)
        if operation == "undo" and self._seqs:
            return wish, plans.undo([dice.choice(self._seqs[-20:])])
        labels = dice.choices(LABELS[:12], k=dice.randint(1, 8))
        wish = Wish(key, "learn", "", "", labels=labels, seed=dice.getrandbits(63))
        samples = [NewSample(row, label) for row, label in zip(wish.embeddings, labels, strict=True)]
        return wish, plans.teach_batch(samples)

    # -- checks

    def _check(self, running):
        log = LogOf(running)
        requests = self._requests(running)
        for key, answer in self._acknowledged.items():
            if requests.get(key) != answer:
                self.lost |= set(self._sent[key].digests) or {key}
        self.invented |= requests.keys() - self._sent.keys()
        if self._folds:
            log = _Learned([self._sent[key] for key in requests if key in self._sent])
        else:
            self._check_log(log)
        if running.machine.is_started and not self.lost:
            embedding_of = {}
            for wish in self._sent.values():
                embedding_of |= dict(zip(wish.digests, wish.embeddings, strict=True))
            self.wrong += replay.differences(running.machine.classifier, log, embedding_of)

    def _check_log(self, log):
        if not log.read():
            self.wrong.append(f"the log has no event {log.last + 1}")
        known = {digest for wish in self._sent.values() for digest in wish.digests}
        self.doubled |= {digest for digest, times in log.times_learned.items() if times > 1}
        self.invented |= log.times_learned.keys() - known
        for key, (seq, _, _) in self._acknowledged.items():
            if self._sent[key].labels and log.learned_by(seq) != self._sent[key].digests:
                self.lost |= set(self._sent[key].digests)
        self.wrong += log.check_all()

    def _requests(self, running):
        log = LogOf(running)
        with log.connect() as db:
            log.requests = {
                key: (seq, status, replay.json.loads(answer))
                for key, seq, status, answer in db.execute("SELECT key, seq, status, answer FROM requests")
            }
        return log.requests


class _Learned:
    """In place of a log whose events are folded: samples that were only ever learned."""

    def __init__(self, wishes):
        self._digests = {}
        for wish in wishes:
            for label, digest in zip(wish.labels, wish.digests, strict=True):
                self._digests.setdefault(label, []).append(digest)
        self.classes = {label: {"label": label} for label in self._digests}

    def assignment(self):
        return self._digests
