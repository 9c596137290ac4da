"""The client for programs without an event loop."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
from xlda.client.sending import Connection, httpx, quiet_timeout, refused, settings

if TYPE_CHECKING:
    import ssl

    from xlda.client.calls import Embeddings

T = TypeVar("T")


class Client(Connection["httpx.Client"]):
    """A service at `url`. Use it in a `with` block, or close it; threads may share it.

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
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        super().__init__(url, retries)
        self._timeout = timeout
        self._http = httpx.Client(transport=transport, **settings(self._url, token, timeout, verify))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    # -- predicting and teaching

    @overload
    def predict(
        self,
        photo: PhotoLike,
        k: int | None = None,
        unknown: float | None = None,
        among: Sequence[str] = (),
        *,
        like: int | None = None,
    ) -> Prediction: ...
    @overload
    def predict(
        self,
        photo: Embeddings,
        k: int | None = None,
        unknown: float | None = None,
        among: Sequence[str] = (),
        *,
        backbone: str | None = None,
    ) -> list[Prediction]: ...
    def predict(
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
        found: Prediction | list[Prediction] = self._send(
            calls.predict(photo, k, unknown, among, backbone, like)
        )
        return found

    def teach(
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
        return self._send(calls.teach(photo, label, group, key, unless_warned))

    def teach_embeddings(
        self,
        embeddings: Embeddings,
        labels: Sequence[str],
        groups: Sequence[str] | None = None,
        *,
        backbone: str | None = None,
        key: str | None = None,
    ) -> TaughtBatch:
        """Learn embeddings (n, d), all or nothing."""
        return self._send(calls.teach_embeddings(embeddings, labels, groups, backbone, key))

    def feedback(
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
        return self._send(calls.feedback(prediction_id, correct, label, not_, unknown, key))

    def relabel(self, sample_ids: str | Sequence[str], label: str, *, key: str | None = None) -> Change:
        """Give a sample another label, or several: they are one change, and one undo."""
        return self._send(calls.relabel(sample_ids, label, key))

    def forget(self, sample_ids: str | Sequence[str], *, key: str | None = None) -> Change:
        """Forget a sample, as if it had never been learned; or several, as one change."""
        return self._send(calls.forget(sample_ids, key))

    def undo(
        self,
        seq: int | None = None,
        *,
        seqs: Sequence[int] | None = None,
        group: str | None = None,
        key: str | None = None,
    ) -> Change:
        """Undo the change `seq`, or several at once; undoing an undo redoes."""
        return self._send(calls.undo(seq, seqs, group, key))

    # -- classes

    def classes(self, q: str | None = None, limit: int | None = None) -> Iterator[ClassInfo]:
        """All classes, or those that `q` finds; asked for as they are used, in pages of `limit`."""
        after, page = None, self._send(calls.classes(q, limit, None))
        while True:
            yield from page.classes
            if page.next is None or page.next == after:
                return
            after = page.next
            page = self._send(calls.classes(q, limit, after))

    def class_(self, class_id: str) -> ClassDetails:
        """One class, with its samples."""
        return self._send(calls.class_(class_id))

    def add_class(self, label: str, *, key: str | None = None) -> Change:
        """Make a class that has no samples yet."""
        return self._send(calls.add_class(label, key))

    def rename_class(
        self, class_id: str, label: str, *, if_match: str | None = None, key: str | None = None
    ) -> Change:
        """Give a class another label; with the `etag` that it had, unless others changed it since."""
        return self._send(calls.rename_class(class_id, label, if_match, key))

    def merge_classes(
        self, class_id: str, other: str, *, if_match: str | None = None, key: str | None = None
    ) -> Change:
        """Make one class of two: the samples of `other` are of `class_id` from then on."""
        return self._send(calls.merge_classes(class_id, other, if_match, key))

    def remove_class(self, class_id: str, *, if_match: str | None = None, key: str | None = None) -> Change:
        """Forget a class with all its samples."""
        return self._send(calls.remove_class(class_id, if_match, key))

    # -- the model, and what a person should look at

    def model(self) -> ModelInfo:
        """What is served, how good it is, and what it takes on the disk."""
        return self._send(calls.model())

    def history(self) -> Any:
        """Expected accuracy by `seq`, as the service says it."""
        return self._send(calls.as_answered("model/history"))

    def confusable(self) -> Any:
        """Pairs of classes that are taken for each other, as the service says it."""
        return self._send(calls.as_answered("confusable"))

    def review(self) -> Any:
        """What a person should look at, as the service says it."""
        return self._send(calls.as_answered("review"))

    def review_apply(
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
        return self._send(calls.review_apply(ids, label, dismiss, not_, key, ignore, keep))

    def photo(
        self, of: Literal["samples", "classes", "review"], its_id: str, size: int | None = None
    ) -> bytes:
        """A small JPEG picture of a sample, a class, or something to review."""
        return self._send(calls.photo(of, its_id, size))

    # -- what happens, and files

    def events(self, last_event_id: str | int | None = None) -> Iterator[ServiceEvent]:
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
                with _streamed(self._http, request) as response:
                    wait = attempts.wait_after(response)
                    if wait is None:
                        if response.status_code == 204:  # the service's way to say: never again
                            return
                        _read_refusal(response, call)
                        attempts.start_again()
                        reader.start_again()
                        for piece in response.iter_bytes():
                            yield from reader.feed(piece)
                        wait = attempts.wait() if reader.retry is None else reader.retry
            except httpx.TransportError as error:
                wait = attempts.wait_after_error(error, call)
            time.sleep(wait)

    def export(self, path: str | os.PathLike[str], *, as_: Literal["imagefolder"] | None = None) -> None:
        """Write the model and its log to a file, as of one `seq`; or all photos, as a zip of folders.

        The file is written whole, or not at all.
        """
        call = calls.export(as_)
        with replaced(path) as unfinished:
            self._exchange(call, lambda response: _write(response, unfinished))

    def import_(self, path: str | os.PathLike[str], *, key: str | None = None) -> Change:
        """Give the service a file that `export` wrote."""
        return self._send(calls.import_(path, key))

    # -- sending

    def _send(self, call: Call[T]) -> T:
        def receive(response: httpx.Response) -> T:
            response.read()
            return call.read(response)

        return self._exchange(call, receive)

    def _exchange(self, call: Call[Any], receive: Callable[[httpx.Response], T]) -> T:
        """Send a request until it is answered, or has failed too often."""
        attempts = self._attempts()
        while True:
            try:
                with _opened(call.body) as body, _streamed(self._http, self._request(call, body)) as response:
                    wait = attempts.wait_after(response)
                    if wait is None:
                        _read_refusal(response, call)
                        return receive(response)
            except httpx.TransportError as error:
                wait = attempts.wait_after_error(error, call)
            time.sleep(wait)


@contextmanager
def _streamed(http: httpx.Client, request: httpx.Request) -> Iterator[httpx.Response]:
    response = http.send(request, stream=True)
    try:
        yield response
    finally:
        response.close()


@contextmanager
def _opened(body: bytes | Path | None) -> Iterator[Any]:
    """A body to send: a file is read anew each time."""
    if isinstance(body, Path):
        with body.open("rb") as file:
            yield file
    else:
        yield body


def _read_refusal(response: httpx.Response, call: Call[Any]) -> None:
    if not response.is_success:
        response.read()
    refused(response, call)


def _write(response: httpx.Response, path: Path) -> None:
    with path.open("wb") as file:
        for piece in response.iter_bytes():
            file.write(piece)
