"""What the driver wants, has sent and was told, on disk before anything happens."""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

WIDTH = 8


@dataclass
class Wish:
    """A change that the driver wants; with `labels` it is a batch of samples, made anew from `seed`."""

    key: str
    operation: str
    method: str
    path: str
    body: dict[str, Any] | None = None
    labels: list[str] = field(default_factory=list)
    seed: int = 0

    @cached_property
    def embeddings(self):
        """Of the samples, (n, WIDTH), float32; with a negative number, so no power is chosen for them."""
        found = np.random.default_rng(self.seed).normal(size=(len(self.labels), WIDTH))
        found[:, 0] = -np.abs(found[:, 0])
        return found.astype(np.float32)

    @cached_property
    def digests(self):
        """What the log says of each embedding."""
        return [hashlib.blake2b(row.tobytes(), digest_size=16).hexdigest() for row in self.embeddings]

    def content(self):
        """The body and its type."""
        if self.labels:
            file = io.BytesIO()
            np.savez(file, embedding=self.embeddings, label=np.array(self.labels))
            return file.getvalue(), "application/x-npz"
        return b"" if self.body is None else json.dumps(self.body).encode(), "application/json"


class Ledger:
    """Lines of JSON: intent, sent, acknowledged, refused. What was sent and has neither is not known of."""

    def __init__(self, path):
        self._file = path.open("ab")
        self._lock = threading.Lock()
        self.wishes: dict[str, Wish] = {}
        self.sent: set[str] = set()
        self.acknowledged: dict[str, tuple[int, dict[str, Any]]] = {}
        self.refused: set[str] = set()
        self.n_samples = 0  # that were acknowledged

    def close(self):
        self._file.close()

    def _write(self, *lines):
        with self._lock:
            self._file.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
            self._file.flush()
            os.fdatasync(self._file.fileno())

    def intend(self, wish):
        self._write({"intent": asdict(wish)})
        self.wishes[wish.key] = wish

    def send(self, key):
        self._write({"sent": key})
        self.sent.add(key)

    def acknowledge(self, key, status, answer):
        self._write({"acknowledged": key, "status": status, "answer": answer})
        with self._lock:
            if key not in self.acknowledged:
                self.acknowledged[key] = (status, answer)
                self.n_samples += len(self.wishes[key].labels)

    def refuse(self, key, status):
        self._write({"refused": key, "status": status})
        self.refused.add(key)

    def unknown(self):
        """Keys of changes that were sent and never answered."""
        open_ = self.sent - self.acknowledged.keys() - self.refused
        return [key for key in self.wishes if key in open_]

    @classmethod
    def read(cls, path):
        """What is on disk, as another who reads it finds it."""
        found = cls(path)
        found.close()
        for line in path.read_bytes().splitlines():
            entry = json.loads(line)
            if "intent" in entry:
                wish = Wish(**entry["intent"])
                found.wishes[wish.key] = wish
            elif "sent" in entry:
                found.sent.add(entry["sent"])
            elif "acknowledged" in entry:
                found.acknowledged.setdefault(entry["acknowledged"], (entry["status"], entry["answer"]))
            else:
                found.refused.add(entry["refused"])
        return found
