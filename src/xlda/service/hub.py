"""Those who listen to events as they happen."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from xlda.service.log import Event

MOST_BEHIND = 1000  # events that a listener may be behind; he comes again and is told from where he was


class Hub:
    """Tells every listener of every event, in the event loop."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[Event | None]] = set()
        self.is_closed = False

    def __len__(self) -> int:
        return len(self._queues)

    @contextmanager
    def listening(self) -> Iterator[asyncio.Queue[Event | None]]:
        """Events from now on; None at the end."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._queues.add(queue)
        if self.is_closed:
            queue.put_nowait(None)
        try:
            yield queue
        finally:
            self._queues.discard(queue)

    def tell(self, events: list[Event]) -> None:
        """Some more have happened."""
        for queue in list(self._queues):
            if queue.qsize() > MOST_BEHIND:
                self._queues.discard(queue)
                queue.put_nowait(None)
                continue
            for event in events:
                queue.put_nowait(event)

    def close(self) -> None:
        """There will be no more."""
        self.is_closed = True
        for queue in self._queues:
            queue.put_nowait(None)
