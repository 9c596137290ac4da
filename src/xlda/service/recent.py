"""Photos that were asked about lately, so that what people say of the answers can be learned."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from xlda._internal.arrays import Array

MOST, SECONDS = 10_000, 3600.0
MOST_BYTES = 32_000_000  # of uploads; of those before, only the embedding is remembered


@dataclass(slots=True)
class AskedPhoto:
    """A photo, what was answered, and what it has taught since."""

    embedding: Array
    content: bytes | None
    judged: dict[str, Any]
    at: float
    sample_id: str | None = None  # that was learned from it
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # of those who say what became of it


class Recent:
    """The last photos that were asked about. To be used by one thread, the event loop's."""

    def __init__(self) -> None:
        self._asked: OrderedDict[str, AskedPhoto] = OrderedDict()
        self._with_content: OrderedDict[str, int] = OrderedDict()
        self.n_bytes = 0

    def __len__(self) -> int:
        return len(self._asked)

    def add(self, embedding: Array, content: bytes, judged: dict[str, Any]) -> str:
        """Remember one; gives its id."""
        asked_id = secrets.token_hex(16)
        self._asked[asked_id] = AskedPhoto(embedding, content, judged, time.monotonic())
        self._with_content[asked_id] = len(content)
        self.n_bytes += len(content)
        self._forget_old()
        return asked_id

    def find(self, asked_id: str) -> AskedPhoto | None:
        """The one with this id, while it is remembered."""
        self._forget_old()
        return self._asked.get(asked_id)

    def _forget_old(self) -> None:
        long_ago = time.monotonic() - SECONDS
        while self._asked and (len(self._asked) > MOST or next(iter(self._asked.values())).at < long_ago):
            asked_id, _ = self._asked.popitem(last=False)
            self.n_bytes -= self._with_content.pop(asked_id, 0)
        while self.n_bytes > MOST_BYTES and len(self._with_content) > 1:
            asked_id, n_bytes = self._with_content.popitem(last=False)
            self.n_bytes -= n_bytes
            self._asked[asked_id].content = None
