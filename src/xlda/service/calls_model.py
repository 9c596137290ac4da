"""Calls that tell of the model: what it is, what happened, what a person should look at."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import closing
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

import xlda
from xlda.service import plans, recent, review
from xlda.service.advice import confusable, expected
from xlda.service.changes import NewSample, sample_number
from xlda.service.gate import COOKIE, SESSION_SECONDS
from xlda.service.labels_in import clean_label
from xlda.service.log import events_after
from xlda.service.problems import Problem
from xlda.service.requests_in import (
    Id,
    answered,
    asker_of,
    ids_of,
    json_of,
    only_fields,
    scoped,
    service_of,
    text_of,
)
from xlda.service.service import Service
from xlda.service.shapes import (
    ID,
    IDS,
    LABEL,
    YES,
    AnyShape,
    FeedbackShape,
    refusals,
    responses,
    takes_json,
)
from xlda.service.small_photos import small_jpeg
from xlda.service.writer import LEAST_FREE

router = APIRouter()

AT_ONCE = 500  # events that are read at a time
PING = 15.0  # seconds without an event, after which a listener is told that all is well
PHOTO: dict[int | str, Any] = {
    200: {
        "content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}},
        "description": "A JPEG file.",
    }
}


@router.get("/v1/model", dependencies=[scoped("read")], responses=responses(AnyShape))
async def model(request: Request) -> Response:
    """What the model is, how good it is, and what is kept of what."""
    service = service_of(request)
    return JSONResponse(await service.read(lambda: described(service)))


def described(service: Service) -> dict[str, Any]:
    """The model in numbers."""
    engine, book = service.engine, service.engine.book
    identity, machine = engine.identity, engine.machine
    return {
        "version": xlda.__version__,
        "model": engine.places.model.name,
        "classes": len(book),
        "samples": book.n_samples(),
        "features": machine.width,
        "labels": "integer" if book.kind is int else "text",
        "backbone": None if identity is None else identity.to_json(),
        "takes_photos": service.workers is not None,
        "seq": machine.seq,
        "expected_accuracy": expected(engine),
        "disk": use(service),
    }


def use(service: Service) -> dict[str, Any]:
    """What each thing that is kept takes, and its limits."""
    engine, keeping = service.engine, service.engine.keeping
    log_files = [engine.places.database.with_name(engine.places.database.name + end) for end in ("", "-wal")]
    return {
        "free_bytes": shutil.disk_usage(engine.places.folder).free,
        "least_free_bytes": LEAST_FREE,
        "photos": {
            "kept": keeping.photos,
            "bytes": engine.photos.n_bytes,
            "limit_bytes": keeping.photo_bytes,
        },
        "review": {
            "kept": keeping.review,
            "items": len(engine.review),
            "limit_items": review.MOST,
            "limit_days": review.DAYS,
        },
        "predictions": {
            "items": len(service.recent),
            "limit_items": recent.MOST,
            "limit_seconds": recent.SECONDS,
            "bytes": service.recent.n_bytes,
            "limit_bytes": recent.MOST_BYTES,
        },
        "log": {
            "bytes": sum(file.stat().st_size for file in log_files if file.exists()),
            "undo_days": keeping.undo_days,
        },
    }


@router.get("/v1/model/history", dependencies=[scoped("read")], responses=responses(AnyShape))
async def history(request: Request) -> Response:
    """Expected accuracy with its interval, by `seq`."""
    service = service_of(request)
    rows = await service.read(
        lambda: service.engine.rows("SELECT seq, time, figures FROM history ORDER BY seq")
    )
    return JSONResponse({"history": [{"seq": seq, "time": at, **json.loads(text)} for seq, at, text in rows]})


@router.get("/v1/confusable", dependencies=[scoped("read")], responses=responses(AnyShape))
async def confusable_pairs(request: Request) -> Response:
    """Pairs of classes that are taken for each other."""
    return JSONResponse({"pairs": confusable(service_of(request).engine)})


@router.get(
    "/v1/events",
    dependencies=[scoped("read")],
    responses={
        **refusals(),
        200: {"content": {"text/event-stream": {}}, "description": "Events as they happen."},
    },
)
async def events(
    request: Request,
    last_event_id: Annotated[str | None, Header(max_length=30)] = None,
    since: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None,
) -> Response:
    """Events as they happen; `Last-Event-ID` (or `since`) resumes after that one."""
    service = service_of(request)
    start = service.engine.machine.seq if since is None else since
    if last_event_id is not None:
        if not last_event_id.isdecimal():
            raise Problem(422, "Last-Event-ID is the `seq` of an event.")
        start = int(last_event_id)
    headers = {"X-Accel-Buffering": "no"}  # a proxy shall pass on what comes
    return StreamingResponse(_stream(service, start), media_type="text/event-stream", headers=headers)


async def _stream(service: Service, start: int) -> AsyncIterator[str]:
    with service.hub.listening() as queue:
        yield ": events of an xlda service\n\n"
        last = start
        while some := await service.read(partial(_events, service, last)):
            for event in some:
                yield _told(event.to_json())
            last = some[-1].seq
        while True:
            try:
                event = await asyncio.wait_for(queue.get(), PING)
            except TimeoutError:
                yield ": all is well\n\n"
                continue
            if event is None:
                return
            if event.seq > last:
                last = event.seq
                yield _told(event.to_json())


def _events(service: Service, after: int) -> list[Any]:
    with closing(service.engine.reading()) as db:
        return list(events_after(db, min(after, 2**63 - 1), AT_ONCE))


def _told(event: dict[str, Any]) -> str:
    return f"id: {event['seq']}\ndata: {json.dumps(event)}\n\n"


# -- review


@router.get("/v1/review", dependencies=[scoped("read")], responses=responses(AnyShape))
async def to_review(request: Request) -> Response:
    """Answers that a person should look at, those that look alike together."""
    service = service_of(request)

    def put_together() -> list[dict[str, Any]]:
        service.engine.review.flush()
        groups = review.grouped(service.engine.review.items())
        return [{"size": len(group), "items": [item.to_json() for item in group]} for group in groups]

    return JSONResponse({"groups": await service.read(put_together)})


@router.post(
    "/v1/review:apply",
    dependencies=[scoped("teach")],
    responses=responses(FeedbackShape, 404, 409, 415, 507),
    openapi_extra=takes_json(
        {"ids": IDS, "label": LABEL}, {"ids": IDS, "dismiss": YES}, {"ids": IDS, "not": ID}
    ),
)
async def apply_review(request: Request) -> Response:
    """Settle several at once: `{ids, label}`, `{ids, dismiss: true}` or `{ids, not: class_id}`."""
    service, found = service_of(request), await json_of(request)
    asker = asker_of(request, await request.body())
    before = await service.answered_before(asker)
    if before is not None:
        return answered(before)
    only_fields(found, "ids", "label", "dismiss", "not")
    ids = ids_of(found, "ids", review.MOST)
    if len(found) != 2:
        raise Problem(422, "The body has `ids`, and one of `label`, `dismiss` and `not`.")
    if "dismiss" in found and found["dismiss"] is not True:
        raise Problem(422, "`dismiss` is true, or is not there.")
    label = clean_label(text_of(found, "label"), service.engine.book) if "label" in found else None
    denied = text_of(found, "not", "id") if "not" in found else None
    items = await service.read(lambda: service.engine.review.items(ids))
    if len(items) < len(ids):
        raise Problem(404, f"{len(ids) - len(items)} of these are not kept for review any more.")
    samples = []
    if label is not None:
        samples = [NewSample(item.embedding, label, item.photo) for item in items]
    plan = plans.apply_review(ids, samples, service.identity, denied)
    return answered(await service.changed(asker, "review", plan))


# -- photos


PhotoSize = Annotated[int, Query(ge=16, le=512)]


@router.get(
    "/v1/samples/{sample_id}/photo",
    dependencies=[scoped("read")],
    responses={**refusals(404), **PHOTO},
)
async def photo_of_sample(request: Request, sample_id: Id, size: PhotoSize = 512) -> Response:
    """The photo of a sample, as it is kept."""
    query = (
        "WITH RECURSIVE up(number, parent, is_current) AS ("
        "SELECT number, parent, is_there AND NOT is_removed FROM classes "
        "WHERE number = (SELECT home FROM samples WHERE number = ?1) "
        "UNION SELECT classes.number, classes.parent, is_there AND NOT is_removed FROM classes, up "
        "WHERE classes.number = up.parent) SELECT photo FROM samples, up "
        "WHERE samples.number = ?1 AND id = ?2 AND up.parent IS NULL AND is_current"
    )
    number = sample_number(sample_id)
    return await _photo(request, query, (number, sample_id), size)


@router.get(
    "/v1/classes/{class_id}/photo",
    dependencies=[scoped("read")],
    responses={**refusals(404), **PHOTO},
)
async def photo_of_class(request: Request, class_id: Id, size: PhotoSize = 512) -> Response:
    """A photo that stands for a class: its newest."""
    query = (
        "WITH RECURSIVE tree(number) AS (SELECT number FROM classes WHERE id = ? AND parent IS NULL AND "
        "is_there AND NOT is_removed UNION SELECT classes.number FROM classes, tree WHERE classes.parent = "
        "tree.number) SELECT photo FROM samples WHERE home IN (SELECT number FROM tree) AND photo IS NOT "
        "NULL ORDER BY number DESC LIMIT 1"
    )
    return await _photo(request, query, (class_id,), size)


@router.get(
    "/v1/review/{item_id}/photo",
    dependencies=[scoped("read")],
    responses={**refusals(404), **PHOTO},
)
async def photo_of_review(request: Request, item_id: Id, size: PhotoSize = 512) -> Response:
    """The photo of an answer to look at."""
    return await _photo(request, "SELECT photo FROM review WHERE id = ?", (item_id,), size)


async def _photo(request: Request, query: str, names: tuple[Any, ...], size: int) -> Response:
    service = service_of(request)

    def read() -> bytes | None:
        rows = service.engine.rows(query, names)
        content = service.engine.photos.read(rows[0][0]) if rows and rows[0][0] else None
        return small_jpeg(content, size) if content is not None and size < 512 else content

    content = await service.read(read)
    if content is None:
        raise Problem(404, "There is no photo of it.")
    return Response(content, media_type="image/jpeg")


# -- sessions


@router.post(
    "/v1/session",
    status_code=204,
    responses={**refusals(415), 204: {"description": "A cookie."}},
    openapi_extra=takes_json({"token": {"type": "string"}}, {"code": {"type": "string"}}),
)
async def session(request: Request) -> Response:
    """Exchange a token for a cookie, since pages cannot send headers with pictures and streams."""
    found = await json_of(request)
    only_fields(found, "token", "code")
    if len(found) != 1 or not all(isinstance(value, str) for value in found.values()):
        raise Problem(422, "The body has a text `token`, or a text `code`.")
    tokens, sessions = request.app.state.tokens, request.app.state.sessions
    token = None
    if len(found) == 1 and isinstance(text := found.get("token"), str) and tokens is not None:
        token = tokens.of(text)
    elif tokens is None:
        return Response(status_code=204)
    if token is None:
        raise Problem(401, "This is not a token of this service, or not any more.")
    response = Response(status_code=204)
    response.set_cookie(
        COOKIE,
        sessions.made(token),
        max_age=SESSION_SECONDS,
        path=request.scope.get("root_path") or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return response
