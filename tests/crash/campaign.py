"""Lives of a service, each ended by a kill, and what is checked after each start."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from pathlib import Path

import httpx

from crash import replay
from crash.clients import Clients
from crash.ledger import Ledger
from crash.process import MODEL, Served
from xlda import load

OFTEN = {  # so that everything happens in a life of a second
    "xlda.service.engine.LOOK": 0.05,
    "xlda.service.engine.BETWEEN_CHECKPOINTS": 0.15,
    "xlda.service.writer.PAGES_IN_WAL": 40,
    "xlda.service.starting.AT_ONCE": 50,
    "xlda.service.folding.AT_ONCE": 20,
}
TO_REACH = 60.0  # seconds in which a fault point must come


class Campaign:
    """One model, its clients and their ledger, over many lives of the service."""

    def __init__(
        self,
        folder,
        seed=1,
        options=(),
        change=(),
        weights=None,
        folds_after=None,
        plain=0.0,
        aside=None,
        set_=None,
        is_forked=False,
    ):
        self._is_forked = is_forked
        self.aside = Path(aside or folder)  # where the driver's own files are
        self.folder, self._options, self._change = Path(folder), list(options), change
        self._dice, self._plain = random.Random(seed), plain
        self.ledger = Ledger(self.aside / "ledger")
        self.clients = Clients(self.ledger, seed, weights)
        self.log = replay.Log(self.folder / f"{MODEL}.service" / "log.sqlite")
        self._folds_after, self._set = folds_after, {**OFTEN, **(set_ or {})}
        if folds_after is not None:
            self._options += ["--undo-days", f"{folds_after / 86400:.12f}"]
        self.embedding_of = {}  # of all samples that were sent, by digest
        self._indexed, self._checked, self._checked_seq = set(), set(), 0
        self.n_kills = self.n_starts = 0
        self.lost, self.doubled, self.invented, self.wrong = set(), set(), set(), []

    # -- lives

    def life(self, fault=None, seconds=None, n_samples=0):
        """Start, check, send again, change, and be killed: at a fault point, or at a random moment.

        A life at a random moment lasts until so many samples more were acknowledged. Gives whether the point
        was reached.
        """
        with self._served(fault) as served:
            if served.url is not None and self._is_checked(served, fault):
                self._work(served, fault, seconds, n_samples)
            served.kill()
            self.clients.join()
        self.n_kills += 1
        self._look()
        return served.process.returncode == -9 and (fault is None or self._was_reached)

    def _served(self, fault=None):
        is_plain = fault is None and not self._change and self._dice.random() < self._plain
        self.n_starts += 1
        self._was_reached = True
        served = Served(
            self.folder,
            *self._options,
            fault=fault,
            set_=None if is_plain else self._set,
            change=self._change,
            log=self.aside / "service.log",
            is_forked=self._is_forked,
        )
        if served.url is None and (fault is None or served.process.returncode != -9):
            served.kill()
            raise AssertionError(f"the service did not start: {served.said()}")
        return served

    def _is_checked(self, served, fault=None):
        """Check, and send again what was not answered; False where a fault has ended it meanwhile.

        A connection that was lost while the service lives, since one of the two was suspended, is made anew.
        """
        for is_last in (False, False, True):
            try:
                self.check(served.url)
                self.wrong += self.clients.send_again(served.url, dict(self.log.requests))
                self._look()
                return True
            except httpx.TransportError:
                has_ended = served.wait_for_end(1.0)
                if has_ended and fault is not None:
                    return False
                if has_ended or is_last:
                    raise
        return False

    def _work(self, served, fault, seconds, n_samples):
        before = self.n_samples
        self.clients.start(served.url)
        looking = threading.Event()
        looker = threading.Thread(target=self._look_often, args=(looking,), daemon=True)
        if self._folds_after is not None:
            looker.start()
        if fault is not None:
            self._was_reached = served.wait_for_end(1.0 if fault.startswith("start") else TO_REACH)
        else:
            time.sleep(self._dice.uniform(0.02, 0.6) if seconds is None else seconds)
            until = time.monotonic() + TO_REACH
            while self.n_samples - before < n_samples and time.monotonic() < until:
                time.sleep(0.002)
        looking.set()
        if looker.ident is not None:
            looker.join()

    def _look_often(self, is_over):
        while not is_over.wait(0.1):
            self._look()

    def _look(self):
        """Where events are folded soon, they are looked at before."""
        if self._folds_after is not None and self.log.database.exists():
            assert self.log.read(), "events were folded before they were seen"

    # -- checks

    @property
    def n_samples(self):
        """Samples that were acknowledged."""
        return self.ledger.n_samples

    @property
    def is_ahead(self):
        """Whether the log has events that the model file has not."""
        self._look()
        saved = load(self.folder / MODEL).log_position_["seq"] if (self.folder / MODEL).exists() else 0
        return self.log.read() and self.log.last > saved

    def check(self, url=None):
        """Compare the log with the ledger; and with what a service that has started says."""
        if not self.log.read():
            self.wrong.append(f"the log has no event {self.log.last + 1}")
        self._check_ledger()
        self._check_events()
        self.doubled |= {digest for digest, times in self.log.times_learned.items() if times > 1}
        self.wrong += [f"a client was answered {error}" for error in self.clients.errors]
        self.clients.errors.clear()
        if url is not None:
            self._check_counts(url)

    def _index(self):
        for key in self.ledger.sent - self._indexed:
            wish = self.ledger.wishes[key]
            self.embedding_of |= dict(zip(wish.digests, wish.embeddings, strict=True))
            self._indexed.add(key)

    def _check_ledger(self):
        """Acknowledged is in the log."""
        for key in self.ledger.acknowledged.keys() - self._checked:
            status, answer = self.ledger.acknowledged[key]
            wish = self.ledger.wishes[key]
            is_there = self.log.requests.get(key) == (answer["seq"], status, answer)
            if wish.labels and is_there:
                is_there = self.log.learned_by(answer["seq"]) == wish.digests
            if not is_there:
                self.lost |= set(wish.digests) or {key}
            self._checked.add(key)

    def _check_events(self):
        """The log is in what was sent."""
        self._index()
        keys = defaultdict(list)
        for key, (seq, _, _) in self.log.requests.items():
            if seq > self._checked_seq:
                keys[seq].append(key)
        for seq in range(self._checked_seq + 1, self.log.last + 1):
            operation = self.log.events[seq][1]
            sent = [
                self.ledger.wishes[key]
                for key in keys[seq]
                if key in self.ledger.sent and key not in self.ledger.refused
            ]
            if not any(wish.operation == operation for wish in sent):
                self.invented.add(seq)
            self.invented |= {
                digest for digest in self.log.learned_by(seq) if digest not in self.embedding_of
            }
        self._checked_seq = self.log.last

    def _check_counts(self, url):
        found, after = {}, ""
        with httpx.Client(base_url=url, timeout=30) as client:
            while after is not None:
                page = client.get("/v1/classes", params={"limit": 1000, "after": after}).json()
                found |= {(row["id"], row["label"]): row["count"] for row in page["classes"]}
                after = page["next"]
            seq = client.get("/v1/model").json()["seq"]
        if found != self.log.counts():
            differing = sorted(map(str, found.items() ^ self.log.counts().items()))
            self.wrong.append(f"classes and counts differ: {differing[:6]}")
        if seq != self.log.last:
            self.wrong.append(f"the service has events to {seq}, the log to {self.log.last}")

    def check_model(self):
        """Stop as an operator does; then the model file is the replay of the log from nothing."""
        with self._served() as served:
            self._is_checked(served)
            code = served.stop()
        if code != 0:
            self.wrong.append(f"it ended with code {code}: {served.said()}")
        self.check()
        if self.embedding_of and (self.folder / MODEL).exists():
            model = load(self.folder / MODEL)
            if model.log_position_["seq"] != self.log.last:
                self.wrong.append(f"the model has events to {model.log_position_['seq']} only")
            self.wrong += replay.differences(model, self.log, self.embedding_of)
        self.wrong += self.log.check_all()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.clients.join()
        self.ledger.close()

    def end(self):
        """The last check: of all that the ledger has on disk."""
        self.check_model()
        self.ledger.close()
        read = Ledger.read(self.aside / "ledger")
        assert (read.sent, read.refused) == (self.ledger.sent, self.ledger.refused)
        assert read.acknowledged == self.ledger.acknowledged
        self._checked.clear()
        self._checked_seq = 0
        self.check()

    def figures(self):
        """What came of it."""
        return {
            "kills": self.n_kills,
            "starts": self.n_starts,
            "events": self.log.last,
            "acknowledged changes": len(self.ledger.acknowledged),
            "acknowledged samples": self.n_samples,
            "lost": len(self.lost),
            "doubled": len(self.doubled),
            "invented": len(self.invented),
            "otherwise wrong": len(self.wrong),
        }

    @property
    def is_fine(self):
        return not (self.lost or self.doubled or self.invented or self.wrong)

    def assert_fine(self):
        assert self.is_fine, (self.figures(), self.wrong[:5], list(self.lost)[:5], list(self.invented)[:5])
