"""Calls about classes, and about undoing."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, Response

from xlda.service import plans
from xlda.service.advice import detail_of
from xlda.service.labels_in import clean_label
from xlda.service.problems import Problem
from xlda.service.requests_in import (
    MOST_SEQ,
    Id,
    Seq,
    answered,
    asker_of,
    json_of,
    only_fields,
    scoped,
    service_of,
    text_of,
)
from xlda.service.shapes import (
    ID,
    LABEL,
    SEQS,
    ClassChangedShape,
    ClassDetailShape,
    ClassesShape,
    UndoneShape,
    responses,
    takes_json,
)

router = APIRouter()

IfMatch = Annotated[str | None, Header(max_length=1000)]


@router.get("/v1/classes", dependencies=[scoped("read")], responses=responses(ClassesShape))
async def list_classes(
    request: Request,
    q: Annotated[str, Query(max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    after: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """Classes by their labels; `q` matches beginnings of words first, case and accents aside."""
    service = service_of(request)
    found, following = await service.read(lambda: service.engine.book.page(q, after, limit))
    return JSONResponse({"classes": [entry.to_json() for entry in found], "next": following})


@router.post(
    "/v1/classes",
    status_code=201,
    dependencies=[scoped("teach")],
    responses=responses(ClassChangedShape, 409, 415, 507, status=201),
    openapi_extra=takes_json({"label": LABEL}),
)
async def create_class(request: Request) -> Response:
    """Make a class known ahead of its samples. Body: `{label}`."""
    service, found = service_of(request), await json_of(request)
    only_fields(found, "label")
    plan = plans.create_class(clean_label(text_of(found, "label"), service.engine.book))
    asker = asker_of(request, await request.body())
    return answered(await service.changed(asker, "create", plan, 201))


@router.get(
    "/v1/classes/{class_id}", dependencies=[scoped("read")], responses=responses(ClassDetailShape, 404)
)
async def one_class(
    request: Request,
    class_id: Id,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    after: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """A class with its samples, the newest first, what to expect of it, and one sentence of advice."""
    service = service_of(request)
    found, tag = await service.read(lambda: detail_of(service.engine, class_id, limit, after))
    return JSONResponse(found, headers={"ETag": tag})


@router.patch(
    "/v1/classes/{class_id}",
    dependencies=[scoped("teach")],
    responses=responses(ClassChangedShape, 404, 409, 412, 415, 507),
    openapi_extra=takes_json({"label": LABEL}),
)
async def rename_class(request: Request, class_id: Id, if_match: IfMatch = None) -> Response:
    """Give a class another label. Body: `{label}`."""
    service, found = service_of(request), await json_of(request)
    only_fields(found, "label")
    label = clean_label(text_of(found, "label"), service.engine.book)
    asker = asker_of(request, await request.body())
    return answered(await service.changed(asker, "rename", plans.rename_class(class_id, label, if_match)))


@router.delete(
    "/v1/classes/{class_id}",
    dependencies=[scoped("admin")],
    responses=responses(ClassChangedShape, 404, 409, 412, 507),
)
async def remove_class(
    request: Request, class_id: Id, if_match: IfMatch = None, final: bool = False
) -> Response:
    """Let a class go: each of its samples is forgotten, exactly."""
    plan = plans.remove_class(class_id, if_match, final)
    return answered(await service_of(request).changed(asker_of(request), "remove", plan, alone=True))


@router.post(
    "/v1/classes/{class_id}:merge",
    dependencies=[scoped("teach")],
    responses=responses(ClassChangedShape, 404, 409, 412, 415, 507),
    openapi_extra=takes_json({"other": ID}),
)
async def merge_classes(request: Request, class_id: Id, if_match: IfMatch = None) -> Response:
    """Make another class a part of this one, which survives. Body: `{other}`, its id."""
    service, found = service_of(request), await json_of(request)
    only_fields(found, "other")
    plan = plans.merge_classes(class_id, text_of(found, "other", "id"), if_match)
    asker = asker_of(request, await request.body())
    return answered(await service.changed(asker, "merge", plan, alone=True))


@router.post(
    "/v1/events/{seq}:undo", dependencies=[scoped("teach")], responses=responses(UndoneShape, 404, 409, 507)
)
async def undo_event(request: Request, seq: Seq) -> Response:
    """Undo an event; undoing what undid something does it again."""
    service = service_of(request)
    return answered(await service.changed(asker_of(request), "undo", plans.undo([seq]), alone=True))


@router.post(
    "/v1/events:undo",
    dependencies=[scoped("teach")],
    responses=responses(UndoneShape, 404, 409, 415, 507),
    openapi_extra=takes_json({"seqs": SEQS}, {"group": LABEL}),
)
async def undo_events(request: Request) -> Response:
    """Undo several events as one: `{seqs}`, or `{group}` for all that was taught together."""
    service, found = service_of(request), await json_of(request)
    only_fields(found, "seqs", "group")
    if len(found) != 1:
        raise Problem(422, "The body has `seqs` or `group`.")
    plan = plans.undo_group(text_of(found, "group")) if "group" in found else plans.undo(_seqs(found["seqs"]))
    asker = asker_of(request, await request.body())
    return answered(await service.changed(asker, "undo", plan, alone=True))


def _seqs(values: Any) -> list[int]:
    is_fine = isinstance(values, list) and 0 < len(values) <= 10_000
    if not is_fine or not all(type(value) is int and 0 < value <= MOST_SEQ for value in values):
        raise Problem(422, "`seqs` is a list of sequence numbers, with at least one.")
    return list(values)
