"""The client for programs with an event loop: that of `synchronous`, but for the sending."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from xlda._internal.files import replaced
from xlda.client import calls
from xlda.client.answers import (
    Change,
    ClassDetails,
    ClassInfo,
    Feedback,
    ModelInfo,
    Prediction,
    ServiceEvent,
    Taught,
    TaughtBatch,
)
from xlda.client.calls import Call, PhotoLike
from xlda.client.event_stream import EventReader
from xlda.client.sending import Connection, anyio, httpx, quiet_timeout, refused, settings

if TYPE_CHECKING:
    import ssl

    from xlda.client.calls import Embeddings

T = TypeVar("T")
PIECE = 1 << 18  # bytes of a file sent at once


class AsyncClient(Connection["httpx.AsyncClient"]):
    """A service at `url`. Use it in an `async with` block, or close it; tasks of one loop may share it.

    What fails because of the connection, or because the service has too much to do, is sent again up to
    `retries` times, later each time. A change is made once all the same: each has a `key`, one of its own or
    the one that is given, and a key that the service has seen gives the answer of then. What the service
    refuses is a ServiceError; where nobody answers, it is a NoServiceError.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 4,
        verify: ssl.SSLContext | bool = True,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(url, retries)
        self._timeout = timeout
        self._http = httpx.AsyncClient(transport=transport, **settings(self._url, token, timeout, verify))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    # -- predicting and teaching

    @overload
    async def predict(
        self,
        photo: PhotoLike,
        k: int | None = None,
        unknown: float | None = None,
        among: Sequence[str] = (),
        *,
        like: int | None = None,
    ) -> Prediction: ...
    @overload
    async def predict(
        self,
        photo: Embeddings,
        k: int | None = None,
        unknown: float | None = None,
        among: Sequence[str] = (),
        *,
        backbone: str | None = None,
    ) -> list[Prediction]: ...
    async def predict(
        self,
        photo: PhotoLike | Embeddings,
        k: int | None = None,
        unknown: float | None = None,
        among: Sequence[str] = (),
        *,
        backbone: str | None = None,
        like: int | None = None,
    ) -> Prediction | list[Prediction]:
        """What a photo shows, a path or the bytes of a file; or what each of some embeddings (n, d) does.

        `k` is how many classes to name; with `unknown`, at most that share of known things is said to be
        unknown; `among` are the labels that it may be. With `like`, so many samples are named that a photo
        looks most like.
        """
        found: Prediction | list[Prediction] = await self._send(
            calls.predict(photo, k, unknown, among, backbone, like)
        )
        return found

    async def teach(
        self,
        photo: PhotoLike,
        label: str,
        group: str | None = None,
        *,
        unless_warned: bool = False,
        key: str | None = None,
    ) -> Taught:
        """Learn a photo. Those of a `group` are undone together.

        With `unless_warned`, nothing is learned where something may be wrong with it.
        """
        return await self._send(calls.teach(photo, label, group, key, unless_warned))

    async def teach_embeddings(
        self,
        embeddings: Embeddings,
        labels: Sequence[str],
        groups: Sequence[str] | None = None,
        *,
        backbone: str | None = None,
        key: str | None = None,
    ) -> TaughtBatch:
        """Learn embeddings (n, d), all or nothing."""
        return await self._send(calls.teach_embeddings(embeddings, labels, groups, backbone, key))

    async def feedback(
        self,
        prediction_id: str,
        *,
        correct: bool = False,
        label: str | None = None,
        not_: str | None = None,
        unknown: bool = False,
        key: str | None = None,
    ) -> Feedback:
        """Say of a prediction that it was correct, the right label, which class id it is not, or unknown."""
        return await self._send(calls.feedback(prediction_id, correct, label, not_, unknown, key))

    async def relabel(self, sample_ids: str | Sequence[str], label: str, *, key: str | None = None) -> Change:
        """Give a sample another label, or several: they are one change, and one undo."""
        return await self._send(calls.relabel(sample_ids, label, key))

    async def forget(self, sample_ids: str | Sequence[str], *, key: str | None = None) -> Change:
        """Forget a sample, as if it had never been learned; or several, as one change."""
        return await self._send(calls.forget(sample_ids, key))

    async def undo(
        self,
        seq: int | None = None,
        *,
        seqs: Sequence[int] | None = None,
        group: str | None = None,
        key: str | None = None,
    ) -> Change:
        """Undo the change `seq`, or several at once; undoing an undo redoes."""
        return await self._send(calls.undo(seq, seqs, group, key))

    # -- classes

    async def classes(self, q: str | None = None, limit: int | None = None) -> AsyncIterator[ClassInfo]:
        """All classes, or those that `q` finds; asked for as they are used, in pages of `limit`."""
        after, page = None, await self._send(calls.classes(q, limit, None))
        while True:
            for one in page.classes:
                yield one
            if page.next is None or page.next == after:
                return
            after = page.next
            page = await self._send(calls.classes(q, limit, after))

    async def class_(self, class_id: str) -> ClassDetails:
        """One class, with its samples."""
        return await self._send(calls.class_(class_id))

    async def add_class(self, label: str, *, key: str | None = None) -> Change:
        """Make a class that has no samples yet."""
        return await self._send(calls.add_class(label, key))

    async def rename_class(
        self, class_id: str, label: str, *, if_match: str | None = None, key: str | None = None
    ) -> Change:
        """Give a class another label; with the `etag` that it had, unless others changed it since."""
        return await self._send(calls.rename_class(class_id, label, if_match, key))

    async def merge_classes(
        self, class_id: str, other: str, *, if_match: str | None = None, key: str | None = None
    ) -> Change:
        """Make one class of two: the samples of `other` are of `class_id` from then on."""
        return await self._send(calls.merge_classes(class_id, other, if_match, key))

    async def remove_class(
        self, class_id: str, *, if_match: str | None = None, key: str | None = None
    ) -> Change:
        """Forget a class with all its samples."""
        return await self._send(calls.remove_class(class_id, if_match, key))

    # -- the model, and what a person should look at

    async def model(self) -> ModelInfo:
        """What is served, how good it is, and what it takes on the disk."""
        return await self._send(calls.model())

    async def history(self) -> Any:
        """Expected accuracy by `seq`, as the service says it."""
        return await self._send(calls.as_answered("model/history"))

    async def confusable(self) -> Any:
        """Pairs of classes that are taken for each other, as the service says it."""
        return await self._send(calls.as_answered("confusable"))

    async def review(self) -> Any:
        """What a person should look at, as the service says it."""
        return await self._send(calls.as_answered("review"))

    async def review_apply(
        self,
        ids: Sequence[str],
        *,
        label: str | None = None,
        dismiss: bool = False,
        not_: str | None = None,
        ignore: bool = False,
        keep: bool = False,
        key: str | None = None,
    ) -> Change:
        """One act for many of these: a label for all, away with them, or which class id they are not.

        With `ignore`, what looks like them is not put aside any more; with `keep`, samples that contradict
        others are right as they are.
        """
        return await self._send(calls.review_apply(ids, label, dismiss, not_, key, ignore, keep))

    async def photo(
        self, of: Literal["samples", "classes", "review"], its_id: str, size: int | None = None
    ) -> bytes:
        """A small JPEG picture of a sample, a class, or something to review."""
        return await self._send(calls.photo(of, its_id, size))

    # -- what happens, and files

    async def events(self, last_event_id: str | int | None = None) -> AsyncIterator[ServiceEvent]:
        """What happens from now on, or after `last_event_id`; it ends where the service is gone for good.

        A connection that breaks is opened again, and nothing of what happened meanwhile is missed.
        """
        reader, attempts = (
            EventReader(None if last_event_id is None else str(last_event_id)),
            self._attempts(),
        )
        while True:
            call = calls.events(reader.last_id)
            try:
                request = self._request(call, None, timeout=quiet_timeout(self._timeout))
                async with _streamed(self._http, request) as response:
                    wait = attempts.wait_after(response)
                    if wait is None:
                        if response.status_code == 204:  # the service's way to say: never again
                            return
                        await _read_refusal(response, call)
                        attempts.start_again()
                        reader.start_again()
                        async for piece in response.aiter_bytes():
                            for event in reader.feed(piece):
                                yield event
                        wait = attempts.wait() if reader.retry is None else reader.retry
            except httpx.TransportError as error:
                wait = attempts.wait_after_error(error, call)
            await anyio.sleep(wait)

    async def export(
        self, path: str | os.PathLike[str], *, as_: Literal["imagefolder"] | None = None
    ) -> None:
        """Write the model and its log to a file, as of one `seq`; or all photos, as a zip of folders.

        The file is written whole, or not at all.
        """
        call = calls.export(as_)
        with replaced(path) as unfinished:
            await self._exchange(call, lambda response: _write(response, unfinished))

    async def import_(self, path: str | os.PathLike[str], *, key: str | None = None) -> Change:
        """Give the service a file that `export` wrote."""
        return await self._send(calls.import_(path, key))

    # -- sending

    async def _send(self, call: Call[T]) -> T:
        async def receive(response: httpx.Response) -> T:
            await response.aread()
            return call.read(response)

        return await self._exchange(call, receive)

    async def _exchange(self, call: Call[Any], receive: Callable[[httpx.Response], Awaitable[T]]) -> T:
        """Send a request until it is answered, or has failed too often."""
        attempts = self._attempts()
        while True:
            try:
                request = self._request(call, _body(call.body))
                async with _streamed(self._http, request) as response:
                    wait = attempts.wait_after(response)
                    if wait is None:
                        await _read_refusal(response, call)
                        return await receive(response)
            except httpx.TransportError as error:
                wait = attempts.wait_after_error(error, call)
            await anyio.sleep(wait)


@asynccontextmanager
async def _streamed(http: httpx.AsyncClient, request: httpx.Request) -> AsyncIterator[httpx.Response]:
    response = await http.send(request, stream=True)
    try:
        yield response
    finally:
        await response.aclose()


def _body(body: bytes | Path | None) -> Any:
    """A body to send: a file is read anew each time."""
    return _pieces(body) if isinstance(body, Path) else body


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    async with await anyio.open_file(path, "rb") as file:
        while piece := await file.read(PIECE):
            yield piece


async def _read_refusal(response: httpx.Response, call: Call[Any]) -> None:
    if not response.is_success:
        await response.aread()
    refused(response, call)


async def _write(response: httpx.Response, path: Path) -> None:
    async with await anyio.open_file(path, "wb") as file:
        async for piece in response.aiter_bytes():
            await file.write(piece)
