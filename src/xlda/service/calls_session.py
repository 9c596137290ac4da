"""Calls that let people in."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from xlda.service.gate import COOKIE, SESSION_SECONDS
from xlda.service.pairing import SECONDS
from xlda.service.problems import Problem
from xlda.service.qr import qr_svg
from xlda.service.requests_in import json_of, only_fields, scoped, service_of
from xlda.service.shapes import PairingShape, refusals, responses, takes_json
from xlda.service.tokens import Token

router = APIRouter()

SCOPES = ["read", "teach", "admin"]  # that a browser can have


@router.post(
    "/v1/session",
    status_code=204,
    responses={**refusals(415), 204: {"description": "A cookie."}},
    openapi_extra=takes_json({"token": {"type": "string"}}, {"code": {"type": "string"}}),
)
async def session(request: Request) -> Response:
    """Exchange a token or a pairing code for a cookie, since pictures and streams carry no headers."""
    found = await json_of(request)
    only_fields(found, "token", "code")
    if len(found) != 1 or not all(isinstance(value, str) for value in found.values()):
        raise Problem(422, "The body has a text `token`, or a text `code`.")
    response = Response(status_code=204)
    if request.app.state.tokens is None:
        return response
    token = await _token(request, found)
    response.set_cookie(
        COOKIE,
        request.app.state.sessions.made(token),
        max_age=SESSION_SECONDS,
        path=request.scope.get("root_path") or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return response


async def _token(request: Request, found: dict[str, Any]) -> Token:
    state = request.app.state
    if "token" in found:
        token: Token | None = state.tokens.of(found["token"])
        if token is None:
            raise Problem(401, "This is not a token of this service, or not any more.")
        return token
    scope = state.pairing.taken(found["code"])
    if scope is None:
        raise Problem(401, "This code was used, is too old, or is none. Ask for a new one.")
    paired: Token = await service_of(request).read(lambda: state.tokens.paired(scope))
    return paired


@router.post(
    "/v1/pairing",
    dependencies=[scoped("admin")],
    responses=responses(PairingShape, 409, 415),
    openapi_extra=takes_json({}, {"scope": {"type": "string", "enum": SCOPES}}),
)
async def pairing(request: Request) -> Response:
    """A code that lets another browser in, once, within ten minutes. Body: `{scope}`, or `{}` for teach."""
    service, found = service_of(request), await json_of(request)
    only_fields(found, "scope")
    scope = found.get("scope", "teach")
    if scope not in SCOPES:
        raise Problem(422, f"`scope` is one of {', '.join(SCOPES)}.")
    if request.app.state.tokens is None:
        raise Problem(
            409, "This service asks nobody who he is, so there is no code. Start it with --token-file."
        )
    code = request.app.state.pairing.new(scope)
    addresses = [f"{url}#code={code}" for url in await service.read(lambda: service.lan_addresses)]
    qr = qr_svg(addresses[0]) if addresses else None
    return JSONResponse({"code": code, "expires_in": SECONDS, "addresses": addresses, "qr": qr})
