"""Calls that tell of the model: what it is, what happened, what a person should look at."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import closing
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

import xlda
from xlda.service import plans, recent, review
from xlda.service.advice import confusable, expected
from xlda.service.changes import sample_number
from xlda.service.labels_in import clean_label
from xlda.service.log import events_after, newest_events
from xlda.service.problems import Problem
from xlda.service.requests_in import (
    Id,
    answered,
    asker_of,
    ids_of,
    is_known,
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
    ChangedShape,
    FeedbackShape,
    RecentShape,
    refusals,
    responses,
    takes_json,
)
from xlda.service.small_photos import small_jpeg
from xlda.service.undoing import can_be_undone
from xlda.service.writer import LEAST_FREE

router = APIRouter()

ACTS = ("label", "dismiss", "not", "ignore", "keep")
AT_ONCE = 500  # events that are read at a time
PING = 15.0  # seconds without an event, after which a listener is told that all is well
PHOTO: dict[int | str, Any] = {
    200: {
        "content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}},
        "description": "A JPEG file.",
    },
    204: {"description": "There is none, and `missing=empty` was asked."},
    304: {"description": "It is the one that `If-None-Match` names."},
}


@router.get("/v1/model", dependencies=[scoped("read")], responses=responses(AnyShape))
async def model(request: Request) -> Response:
    """What the model is, how good it is, and what is kept of what."""
    service, scopes = service_of(request), request.scope["xlda.token"].all_scopes
    about = {"scopes": scopes, "can_pair": request.app.state.tokens is not None}
    return JSONResponse({**await service.read(lambda: described(service)), **about})


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
        "photos_kept": engine.keeps_photos,
        "first_start": engine.is_first_start,
        "lan_addresses": service.lan_addresses,
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
            "kept": engine.keeps_photos,
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


@router.get("/v1/events/recent", dependencies=[scoped("read")], responses=responses(RecentShape))
async def recent_events(request: Request, limit: Annotated[int, Query(ge=1, le=500)] = 50) -> Response:
    """The newest events, the last first, and whether each was undone."""
    service = service_of(request)

    def look() -> list[dict[str, Any]]:
        with closing(service.engine.reading()) as db:
            return [
                {**event.to_json(), "undone": is_undone, "can_be_undone": can_be_undone(event)}
                for event, is_undone in newest_events(db, limit)
            ]

    return JSONResponse({"events": await service.read(look)})


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
    groups = await service.read(lambda: service.review_list.groups(service.engine))
    return JSONResponse({"groups": groups})


@router.post(
    "/v1/review:apply",
    dependencies=[scoped("teach")],
    responses=responses(FeedbackShape, 404, 409, 415, 507),
    openapi_extra=takes_json(
        {"ids": IDS, "label": LABEL},
        {"ids": IDS, "dismiss": YES},
        {"ids": IDS, "not": ID},
        {"ids": IDS, "ignore": YES},
        {"ids": IDS, "keep": YES},
    ),
)
async def apply_review(request: Request) -> Response:
    """Settle several at once: `{ids, label}`, `{ids, dismiss: true}`, `{ids, not: class_id}` and others.

    With `{ids, ignore: true}`, what looks like these is not put aside any more; with `{ids, keep: true}`,
    samples that contradict others are right as they are.
    """
    service, found = service_of(request), await json_of(request)
    asker = asker_of(request, await request.body())
    before = await service.answered_before(asker)
    if before is not None:
        return answered(before)
    only_fields(found, "ids", *ACTS)
    ids = ids_of(found, "ids", review.MOST)
    if len(found) != 2:
        raise Problem(422, f"The body has `ids`, and one of {', '.join(f'`{name}`' for name in ACTS)}.")
    what = next(name for name in ACTS if name in found)
    if what in ("dismiss", "ignore", "keep") and found[what] is not True:
        raise Problem(422, f"`{what}` is true, or is not there.")
    label = clean_label(text_of(found, "label"), service.engine.book) if what == "label" else None
    act = plans.ReviewAct(what, label, text_of(found, "not", "id") if what == "not" else None)
    sample_ids = [one for one in ids if "-" in one]
    items = await service.read(lambda: service.engine.review.items(ids))
    if len(items) + len(sample_ids) < len(ids):
        n_gone = len(ids) - len(items) - len(sample_ids)
        raise Problem(404, f"{n_gone} of these are not kept for review any more.")
    if what in ("not", "ignore") and sample_ids:
        raise Problem(422, f"`{what}` is for answers. Give a sample another `label`, or `keep` it as it is.")
    if what == "keep" and items:
        raise Problem(
            422, "`keep` is for samples that were taught. Give an answer a `label`, or `dismiss` it."
        )
    plan = plans.apply_review(items, sample_ids, act, service.identity)
    return answered(await service.changed(asker, "review", plan))


# -- settings


@router.post(
    "/v1/settings",
    dependencies=[scoped("teach")],
    responses=responses(ChangedShape, 409, 415, 507),
    openapi_extra=takes_json({"keep_photos": {"type": "boolean"}}),
)
async def settings(request: Request) -> Response:
    """Say whether small photos of what is taught are kept. Body: `{keep_photos}`."""
    service, found = service_of(request), await json_of(request)
    only_fields(found, "keep_photos")
    if not isinstance(found.get("keep_photos"), bool):
        raise Problem(422, "The body needs `keep_photos`, which is true or false.")
    asker = asker_of(request, await request.body())
    if not service.engine.keeping.photos:
        raise Problem(409, "This service was started with --no-photos, and keeps none whatever is said here.")
    return answered(await service.changed(asker, "settings", plans.set_settings(found)))


# -- photos


PhotoSize = Annotated[int, Query(ge=16, le=512)]
FOR_A_DAY = "private, max-age=86400, immutable"  # of one sample or answer: it never changes
ASKED_EACH_TIME = "private, no-cache"  # the newest of a class
Missing = Annotated[Literal["empty"] | None, Query()]  # 204 instead of 404, which a browser calls an error


@router.get(
    "/v1/samples/{sample_id}/photo",
    dependencies=[scoped("read")],
    responses={**refusals(404), **PHOTO},
)
async def photo_of_sample(
    request: Request, sample_id: Id, size: PhotoSize = 512, missing: Missing = None
) -> Response:
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
    return await _photo(request, query, (number, sample_id), size, missing, FOR_A_DAY)


@router.get(
    "/v1/classes/{class_id}/photo",
    dependencies=[scoped("read")],
    responses={**refusals(404), **PHOTO},
)
async def photo_of_class(
    request: Request, class_id: Id, size: PhotoSize = 512, missing: Missing = None
) -> Response:
    """A photo that stands for a class: its newest."""
    query = (
        "WITH RECURSIVE tree(number) AS (SELECT number FROM classes WHERE id = ? AND parent IS NULL AND "
        "is_there AND NOT is_removed UNION SELECT classes.number FROM classes, tree WHERE classes.parent = "
        "tree.number) SELECT photo FROM samples WHERE home IN (SELECT number FROM tree) AND photo IS NOT "
        "NULL ORDER BY number DESC LIMIT 1"
    )
    return await _photo(request, query, (class_id,), size, missing, ASKED_EACH_TIME)


@router.get(
    "/v1/review/{item_id}/photo",
    dependencies=[scoped("read")],
    responses={**refusals(404), **PHOTO},
)
async def photo_of_review(
    request: Request, item_id: Id, size: PhotoSize = 512, missing: Missing = None
) -> Response:
    """The photo of an answer to look at."""
    if "-" in item_id:  # a sample that contradicts others
        return await photo_of_sample(request, item_id, size, missing)
    query = "SELECT photo FROM review WHERE id = ?"
    return await _photo(request, query, (item_id,), size, missing, FOR_A_DAY)


async def _photo(
    request: Request, query: str, names: tuple[Any, ...], size: int, missing: str | None, kept: str
) -> Response:
    """A photo, which the browser may keep; `kept` says for how long. No answer where it has the same one."""
    service = service_of(request)

    def read() -> tuple[str, bytes | None]:
        rows = service.engine.rows(query, names)
        name = (rows[0][0] if rows else None) or ""
        tag = f'"{name[:32]}-{size}"'
        content = service.engine.photos.read(name) if name else None
        if content is None or is_known(request, tag) or size == 512:
            return tag, content
        return tag, small_jpeg(content, size)

    tag, content = await service.read(read)
    if content is None and missing is not None:
        return Response(status_code=204)
    if content is None:
        raise Problem(404, "There is no photo of it.")
    headers = {"ETag": tag, "Cache-Control": kept}
    if is_known(request, tag):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="image/jpeg", headers=headers)
