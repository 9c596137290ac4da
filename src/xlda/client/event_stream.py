"""Server-sent events: from bytes, as they come, to events.

Lines end at line feeds and carriage returns alone; a label may have other signs that Python ends lines at.
"""

from __future__ import annotations

import json
import re
from typing import Any

from xlda.client.answers import ServiceEvent

_END_OF_LINE = re.compile(rb"\r\n|\n|\r")


class EventReader:
    r"""Takes bytes in pieces of any size. `last_id` and `retry`, in seconds, are as the stream last said.

    >>> reader = EventReader()
    >>> reader.feed(b'id: 17\nevent: taught\ndata: {"label"')
    []
    >>> reader.feed(b': "kiwi"}\n\n')
    [ServiceEvent(id='17', kind='taught', data={'label': 'kiwi'})]
    """

    def __init__(self, last_id: str | None = None) -> None:
        self.last_id = last_id
        self.retry: float | None = None
        self.start_again()

    def start_again(self) -> None:
        """A new connection: what was not complete is not missed, since it comes again."""
        self._rest = b""
        self._begin()

    def feed(self, piece: bytes) -> list[ServiceEvent]:
        """The events that are complete with this piece."""
        text = self._rest + piece
        end = len(text) - text.endswith(b"\r")  # which may be half of a line's end
        *lines, last = _END_OF_LINE.split(text[:end])
        self._rest = last + text[end:]
        events = [self._line(line.decode("utf-8", "replace")) for line in lines]
        return [event for event in events if event is not None]

    def _begin(self) -> None:
        self._kind = ""
        self._data: list[str] = []
        self._id = self.last_id

    def _line(self, line: str) -> ServiceEvent | None:
        if not line:
            return self._complete()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._kind = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry = int(value) / 1000
        return None

    def _complete(self) -> ServiceEvent | None:
        self.last_id = self._id
        event = ServiceEvent(self._id, self._kind or "message", _decoded("\n".join(self._data)))
        has_data = bool(self._data)
        self._begin()
        return event if has_data else None


def _decoded(text: str) -> Any:
    """JSON, which the service sends; anything else stays text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
