"""Calls of a fleet: what boxes bring to a hub and take from it, and a box that is told to go there."""

from __future__ import annotations

import json
import secrets
import shutil
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import FileResponse, JSONResponse, Response
from starlette.background import BackgroundTask

from xlda.errors import OtherVersionError, XLDAError
from xlda.fleet.checks import BOX
from xlda.fleet.hub import FleetHub
from xlda.fleet.message import Message, Versions, version_of
from xlda.service.fleet_sync import hub_at, synced
from xlda.service.problems import Problem
from xlda.service.requests_in import json_of, media_type, only_fields, scoped, service_of, text_of
from xlda.service.service import Service
from xlda.service.shapes import LABEL, AnyShape, refusals, responses, takes_json
from xlda.service.writer import LEAST_FREE

router = APIRouter()

KIND = "application/x-safetensors"
BoxName = Annotated[str, Path(pattern=f"^{BOX.pattern}$")]
BINARY = {"schema": {"type": "string", "format": "binary"}}


def hub_of(service: Service) -> FleetHub:
    """The hub of this service, which is a folder of its own, made when the first box comes."""
    folder = service.engine.places.folder / "hub"
    if service.fleet_hub is None or service.fleet_hub.folder != folder:
        service.fleet_hub = FleetHub(folder)
    return service.fleet_hub


@router.post(
    "/v1/contributions",
    dependencies=[scoped("sync")],
    responses=responses(AnyShape, 409, 415, 507),
    openapi_extra={"requestBody": {"required": True, "content": {KIND: BINARY}}},
)
async def contribute(request: Request) -> Response:
    """Take in what a box has taught; 409 names the version to start from."""
    service = service_of(request)
    if media_type(request) not in (KIND, "application/octet-stream"):
        raise Problem(415, f"This call takes {KIND}, as `xlda sync` sends it.")
    hub, owner = hub_of(service), request.scope["xlda.token"].name
    free = shutil.disk_usage(service.engine.places.folder).free - LEAST_FREE
    if free <= 0:
        raise Problem(507, "The disk is nearly full, so nothing is taken in. Free some space.")
    hub.folder.mkdir(exist_ok=True)
    request.scope["xlda.body"].is_kept = False
    request.scope["xlda.body"].most_bytes = free
    file = hub.folder / f".coming-{secrets.token_hex(8)}"
    try:
        with file.open("wb") as copy:
            async for piece in request.stream():
                copy.write(piece)
        version = await service.read(lambda: hub.put(Message.read(file), owner))
    except OtherVersionError as error:
        raise Problem(409, str(error), version=error.version and list(error.version)) from None
    except XLDAError as error:
        raise Problem(422, str(error).replace(str(file), "The contribution")) from None
    finally:
        file.unlink(missing_ok=True)
    return JSONResponse({"version": list(version)})


@router.get(
    "/v1/contributions",
    dependencies=[scoped("sync")],
    responses={
        **refusals(),
        200: {"content": {KIND: BINARY}, "description": "What others have taught."},
        204: {"description": "Nothing that is new."},
    },
)
async def contributions(
    request: Request,
    since: Annotated[str, Query(max_length=60_000)] = "{}",
    box: Annotated[str | None, Query(max_length=64)] = None,
) -> Response:
    """What boxes other than `box` have taught since versions in JSON, `{box: [epoch, sequence, mark]}`."""
    service = service_of(request)
    hub, versions = hub_of(service), _versions(since)
    file = hub.folder / f".going-{secrets.token_hex(8)}"

    def write() -> bool:
        answer = hub.answer(box, versions)
        if answer is not None:
            answer.write(file)
        return answer is not None

    if not await service.read(write):
        return Response(status_code=204)
    return FileResponse(file, media_type=KIND, background=BackgroundTask(file.unlink))


@router.get("/v1/contributions/{box}", dependencies=[scoped("sync")], responses=responses(AnyShape))
async def contribution(request: Request, box: BoxName) -> Response:
    """The version of a box that this hub has, or null."""
    service = service_of(request)
    version = await service.read(lambda: hub_of(service).version(box))
    return JSONResponse({"version": None if version is None else list(version)})


@router.delete("/v1/contributions/{box}", dependencies=[scoped("admin")], responses=responses(AnyShape, 404))
async def forget_box(request: Request, box: BoxName) -> Response:
    """Take a box out of the fleet, exactly: with the next sync nobody has what it taught any more."""
    service = service_of(request)
    try:
        await service.read(lambda: hub_of(service).forget(box))
    except ValueError as error:
        raise Problem(404, str(error)) from None
    return JSONResponse({"forgotten": box})


@router.post(
    "/v1/sync",
    dependencies=[scoped("admin")],
    responses=responses(AnyShape, 409),
    openapi_extra=takes_json({"hub": LABEL}, {"hub": LABEL, "box": LABEL}),
)
async def sync(request: Request) -> Response:
    """Bring what was taught here to a hub, and take in what others have taught: `{hub, box, token, ...}`."""
    found: dict[str, Any] = await json_of(request)
    only_fields(found, "hub", "box", "token", "min_count", "rejoin")
    service, where = service_of(request), text_of(found, "hub")
    min_count, token = found.get("min_count"), found.get("token")
    if min_count is not None and (type(min_count) is not int or min_count < 1):
        raise Problem(422, "`min_count` is a whole number from 1.")
    box = text_of(found, "box") if found.get("box") is not None else None
    is_again = found.get("rejoin") is True
    try:
        hub = hub_at(where, token if isinstance(token, str) else None)
        told = await service.read(lambda: synced(service.engine, hub, box, min_count, is_again))
    except (XLDAError, ValueError, OSError) as error:
        raise Problem(409, str(error)) from error
    return JSONResponse(told)


def _versions(text: str) -> Versions:
    try:
        found = json.loads(text)
        return {str(box): version_of(entry) for box, entry in found.items()}
    except (ValueError, AttributeError, RecursionError):
        raise Problem(422, "`since` is JSON: {box: [epoch, sequence, mark]}.") from None
