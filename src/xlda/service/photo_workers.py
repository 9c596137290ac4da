"""Photos of requests that come one by one to embeddings: what waits goes through the network together."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.threads import n_threads
from xlda.errors import XLDAError
from xlda.photos.decoding import open_with_size
from xlda.service.photo_quality import warnings_of

if TYPE_CHECKING:
    from PIL.Image import Image

    from xlda.backbones import Backbone

__all__ = ["EmbeddedPhoto", "PhotoWorkers", "QueueFullError", "WorkersClosedError"]

EACH = 4  # photos that a worker takes at a time
MOST_WAITING = 64
MOST_WAITING_BYTES = 200_000_000


class QueueFullError(XLDAError, RuntimeError):
    """A photo that was refused since too many wait already; it may be sent again a little later."""


class WorkersClosedError(QueueFullError):
    """A photo that was refused, or had not been begun, since the service ends."""


class EmbeddedPhoto(NamedTuple):
    """An `embedding` (d,) of float32, and the `size` of the upload, upright: width and height.

    What is wrong with the photo comes a moment later, so that whoever needs the embedding has it at once.
    """

    embedding: Array
    size: tuple[int, int]
    warnings: Future[list[str]]

    async def warned(self) -> list[str]:
        """What is wrong with it; nothing, where that was not wanted."""
        return self.warnings.result() if self.warnings.done() else await asyncio.wrap_future(self.warnings)


class _Asked(NamedTuple):
    """A photo that waits."""

    content: bytes
    want_warnings: bool
    answer: Future[EmbeddedPhoto]

    def warnings(self, image: Image, size: tuple[int, int]) -> list[str]:
        """What is wrong with it, where that is wanted."""
        return warnings_of(image, size) if self.want_warnings else []


class _Opened(NamedTuple):
    """A photo that was begun, with all that is known of it but its embedding."""

    pixels: Array
    answer: Future[EmbeddedPhoto]
    size: tuple[int, int]
    warnings: Future[list[str]]


class PhotoWorkers:
    """Threads that open and embed the photos of many requests, from an event loop's point of view.

    A photo that is alone gets all cores. Else each worker, of which there is one a core, takes a fair share
    of what waits, up to four photos, and embeds them by itself. Nobody waits for company.
    """

    def __init__(
        self,
        backbone: Backbone,
        most_waiting: int = MOST_WAITING,
        threads: int | None = None,
        most_waiting_bytes: int = MOST_WAITING_BYTES,
    ) -> None:
        self._backbone = backbone
        self._most_waiting, self._most_bytes = most_waiting, most_waiting_bytes
        self._waiting: deque[_Asked] = deque()
        self._n_bytes = 0  # of those that wait
        self._n_busy = 0
        self._is_closed = False
        self._news = threading.Condition()
        self._threads = [
            threading.Thread(target=self._work, name=f"xlda-photos-{number}", daemon=True)
            for number in range(threads or n_threads())
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Photos that nobody has begun with."""
        return len(self._waiting)

    @property
    def busy(self) -> int:
        """Photos under way."""
        return self._n_busy

    async def embed(self, content: bytes, want_warnings: bool = True) -> EmbeddedPhoto:
        """The embedding of an uploaded photo, and what else there is to know of it.

        A BadImage says what is wrong with it; a QueueFullError comes at once. Where whoever asks is
        cancelled, the photo is skipped, unless it was begun. Whoever only predicts needs no warnings, which
        take about a millisecond.
        """
        asked = _Asked(content, want_warnings, Future())
        self._enter(asked)
        try:
            return await asyncio.wrap_future(asked.answer)
        except asyncio.CancelledError:
            self._leave(asked)
            raise

    def close(self) -> None:
        """Finish what is under way and refuse the rest; returns when all threads have ended."""
        with self._news:
            self._is_closed = True
            refused = list(self._waiting)
            self._waiting.clear()
            self._n_bytes = 0
            self._news.notify_all()
        for asked in refused:
            if asked.answer.set_running_or_notify_cancel():
                asked.answer.set_exception(_closed())
        for thread in self._threads:
            thread.join()

    # -- the queue

    def _enter(self, asked: _Asked) -> None:
        n_bytes = len(asked.content)
        with self._news:
            if self._is_closed:
                raise _closed()
            is_too_much = self._waiting and self._n_bytes + n_bytes > self._most_bytes
            if is_too_much or len(self._waiting) >= self._most_waiting:
                raise QueueFullError(f"{len(self._waiting)} photos are waiting already; try again soon.")
            self._waiting.append(asked)
            self._n_bytes += n_bytes
            self._news.notify()

    def _leave(self, asked: _Asked) -> None:
        with self._news:
            if any(asked is one for one in self._waiting):
                self._waiting = deque(one for one in self._waiting if one is not asked)
                self._n_bytes -= len(asked.content)

    def _taken(self) -> tuple[list[_Asked], bool]:
        """What a worker shall do next, and whether that is all there is to do; nothing at the end."""
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._is_closed)
            n_waiting = len(self._waiting)
            is_alone = n_waiting == 1 and not self._n_busy
            fair = -(-n_waiting // len(self._threads))
            some = [self._waiting.popleft() for _ in range(min(EACH, fair))]
            self._n_bytes -= sum(len(asked.content) for asked in some)
            self._n_busy += len(some)
            return some, is_alone

    # -- the work

    def _work(self) -> None:
        while self._has_worked():
            pass  # between two times, nothing holds the photos of the last one in memory

    def _has_worked(self) -> bool:
        """Take some photos and embed them; False where there will be none any more."""
        some, is_alone = self._taken()
        begun = [asked for asked in some if asked.answer.set_running_or_notify_cancel()]
        if is_alone and begun:
            self._embed_alone(begun[0])
        else:
            self._embed_some(begun)
        with self._news:
            self._n_busy -= len(some)
        return bool(some)

    def _embed_alone(self, asked: _Asked) -> None:
        try:
            image, size = self._opened(asked)
            embedding = self._backbone.embed_one(image)
        except Exception as error:  # whatever it is, who asked shall know, and the worker goes on
            asked.answer.set_exception(error)
            return
        warnings: Future[list[str]] = Future()
        warnings.set_running_or_notify_cancel()  # whoever does not wait for it any more leaves it alone
        asked.answer.set_result(EmbeddedPhoto(embedding, size, warnings))
        try:  # while others judge the embedding
            warnings.set_result(asked.warnings(image, size))
        except Exception as error:
            warnings.set_exception(error)

    def _embed_some(self, some: list[_Asked]) -> None:
        opened = [one for one in map(self._prepared, some) if one is not None]
        if opened:
            self._embed_opened(opened)

    def _prepared(self, asked: _Asked) -> _Opened | None:
        """The photo opened and prepared, or None where it is answered that it cannot be."""
        try:
            image, size = self._opened(asked)
            warnings: Future[list[str]] = Future()
            warnings.set_result(asked.warnings(image, size))  # before the network, which needs less memory
            return _Opened(self._backbone.prepare(image), asked.answer, size, warnings)
        except Exception as error:
            asked.answer.set_exception(error)
            return None

    def _opened(self, asked: _Asked) -> tuple[Image, tuple[int, int]]:
        return open_with_size(asked.content, least_side=self._backbone.least_side)

    def _embed_opened(self, opened: list[_Opened]) -> None:
        try:
            embeddings = self._backbone.embed_here(np.stack([one.pixels for one in opened]))
            results = [
                EmbeddedPhoto(embedding.copy(), one.size, one.warnings)
                for one, embedding in zip(opened, embeddings, strict=True)
            ]
        except Exception as error:
            if len(opened) == 1:
                opened[0].answer.set_exception(error)
                return
            for one in opened:  # one of them spoils it for all
                self._embed_opened([one])
            return
        for one, result in zip(opened, results, strict=True):
            one.answer.set_result(result)


def _closed() -> WorkersClosedError:
    return WorkersClosedError("The service is ending and takes no more photos; try again soon.")
