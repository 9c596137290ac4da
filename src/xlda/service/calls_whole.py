"""Calls that take all of it out, or put it in."""

from __future__ import annotations

import secrets
import shutil
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from xlda.errors import XLDAError
from xlda.service.backup import backup, image_folder
from xlda.service.problems import Problem
from xlda.service.requests_in import media_type, scoped, service_of
from xlda.service.service import NOT_EMPTY
from xlda.service.shapes import ChangedShape, refusals, responses
from xlda.service.writer import LEAST_FREE

router = APIRouter()


@router.get(
    "/v1/export",
    dependencies=[scoped("admin")],
    responses={
        **refusals(),
        200: {"content": {"application/zip": {}}, "description": "A zip file."},
    },
)
async def export(
    request: Request, form: Annotated[Literal["backup", "imagefolder"], Query(alias="as")] = "backup"
) -> Response:
    """The model, its log and its photos as one file; or with `as=imagefolder`, photos by label."""
    engine = service_of(request).engine
    pieces = image_folder(engine) if form == "imagefolder" else backup(engine)
    name = f"{engine.places.model.stem}-{'photos' if form == 'imagefolder' else 'backup'}.zip"
    safe = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "_" for letter in name
    )
    headers = {"Content-Disposition": f'attachment; filename="{safe}"'}
    return StreamingResponse(
        (piece for piece in pieces if piece), media_type="application/zip", headers=headers
    )


@router.post(
    "/v1/import",
    dependencies=[scoped("admin")],
    responses=responses(ChangedShape, 409, 415, 507),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def import_(request: Request) -> Response:
    """Take over what `GET /v1/export` gave, where this service has learned nothing yet."""
    service = service_of(request)
    if media_type(request) not in ("application/zip", "application/octet-stream"):
        raise Problem(415, "This call takes application/zip, as GET /v1/export gives it.")
    _check_empty(service.engine.machine.seq, len(service.engine.book))
    folder = service.engine.places.folder
    request.scope["xlda.body"].is_kept = False
    request.scope["xlda.body"].most_bytes = shutil.disk_usage(folder).free - LEAST_FREE
    file = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}.zip")
    try:
        with file.open("wb") as copy:
            async for piece in request.stream():
                copy.write(piece)
        seq = await service.take_over(file)
    except XLDAError as error:
        raise Problem(422, str(error).replace(str(file), "The file")) from error
    finally:
        file.unlink(missing_ok=True)
    return JSONResponse({"seq": seq})


def _check_empty(seq: int, n_classes: int) -> None:
    if seq or n_classes:
        raise Problem(409, NOT_EMPTY)
