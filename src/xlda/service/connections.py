"""Connections that are refused before there is a request: what is no HTTP, has no end, or stops coming."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from xlda.service.gate import HEADERS
from xlda.service.problems import KIND, Problem

MOST_HEAD = 65536  # bytes of a request line with its headers
HEAD_SECONDS = 20.0  # in which they must have come
TO_READ = 1.0  # seconds in which who is still sending gets to read why he is refused

Base: Any = HttpToolsProtocol  # h11 takes folded headers, lines that end in LF alone, and HTTP/9.9


class CarefulConnection(Base):  # type: ignore[misc]
    """A connection whose requests begin within a time and a size, and that says in JSON what is wrong."""

    def __init__(self, config: Config, *args: Any, **more: Any) -> None:
        super().__init__(config, *args, **more)
        self._n_unused = 0  # bytes since something came of them
        self._is_late: asyncio.TimerHandle | None = None
        self._is_refused = False

    def connection_made(self, transport: Any) -> None:
        """Somebody has come."""
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """He has gone."""
        self._head_has_come()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some bytes have come."""
        if self._is_refused:
            return
        self._n_unused += len(data)
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._used()
        if self._is_refused or self.transport.is_closing():
            return
        if self._n_unused > MOST_HEAD:
            self._say(Problem(431, "The headers of the request are too long. Send fewer, or shorter ones."))
        elif self._is_late is None and (self.cycle is None or self.cycle.response_complete):
            self._wait_for_head()

    def on_body(self, body: bytes) -> None:
        """Some of a body has come."""
        self._used()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A body is whole."""
        self._used()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP."""
        self._say(Problem(400, "This is not a request of HTTP/1.1 that can be read. Send it again as one."))

    def _say(self, problem: Problem) -> None:
        content = json.dumps(problem.to_json()).encode()
        lines = [
            f"HTTP/1.1 {problem.status} {problem.to_json()['title']}".encode(),
            b"content-type: " + KIND.encode(),
            b"content-length: %d" % len(content),
            b"connection: close",
            *(name + b": " + value for name, value in HEADERS),
        ]
        self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + content)
        self._is_refused = True
        self._head_has_come()
        self._is_late = self.loop.call_later(TO_READ, self._end_if_late)

    def _used(self) -> None:
        self._n_unused = 0
        self._head_has_come()

    def _wait_for_head(self) -> None:
        self._is_late = self.loop.call_later(HEAD_SECONDS, self._end_if_late)

    def _head_has_come(self) -> None:
        if self._is_late is not None:
            self._is_late.cancel()
            self._is_late = None

    def _end_if_late(self) -> None:
        self._is_late = None
        if not self.transport.is_closing():
            self.transport.close()
