"""What is common to all calls: who asks, bodies, and answers."""

from __future__ import annotations

import json
import re
from collections import Counter
from hashlib import blake2b
from typing import Annotated, Any

from fastapi import Depends, Path, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BeforeValidator
from starlette.requests import ClientDisconnect

from xlda.service.gate import require
from xlda.service.labels_in import clean_text
from xlda.service.problems import KIND, Problem
from xlda.service.service import Asker, Service
from xlda.service.tokens import Token
from xlda.service.writer import Reply

MOST_SEQ = 2**63 - 1
KEY = re.compile("[\x21-\x7e]{1,255}")
IMAGES = ("image/jpeg", "image/png", "image/webp")
NPY, NPZ = "application/x-npy", "application/x-npz"

ID = r"^[0-9A-Za-z_-]{1,64}$"
REPEATED = {"among"}  # parameters that may be given again


def _digits(text: Any) -> Any:
    """A whole number as it is written, and not `1.0` or `1_0`."""
    if isinstance(text, str) and not (text.isascii() and text.isdecimal()):
        raise ValueError("Input should be a whole number")
    return text


Seq = Annotated[int, BeforeValidator(_digits), Path(ge=1, le=MOST_SEQ)]
Id = Annotated[str, Path(min_length=1, max_length=64, pattern=ID)]


def service_of(request: Request) -> Service:
    """The running service."""
    found: Service = request.app.state.service
    return found


def scoped(scope: str) -> Any:
    """A dependency: who asks has this scope, and says nothing twice."""

    async def check(request: Request) -> Token:
        token = require(request.scope, scope)
        if not request.scope["query_string"]:
            return token
        counts = Counter(name for name, _ in request.query_params.multi_items() if name not in REPEATED)
        if counts and (most := counts.most_common(1)[0])[1] > 1:
            raise Problem(422, f"The parameter {most[0][:80]!r} is given more than once.")
        return token

    return Depends(check)


def is_known(request: Request, tag: str) -> bool:
    """Whether the asker has what this tag stands for already."""
    known = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
    return not known.isdisjoint({tag, "*"})


async def body_of(request: Request) -> bytes:
    """The whole body, within the limit; for calls that ask for it once."""
    pieces, is_whole = [], False
    while not is_whole:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        pieces.append(message.get("body", b""))
        is_whole = not message.get("more_body", False)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def json_of(request: Request) -> dict[str, Any]:
    """The body as a JSON object."""
    kind = media_type(request)
    if kind not in ("application/json", ""):
        raise Problem(415, f"This call takes application/json; got {kind[:80]}.")
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise Problem(422, "The body is not JSON.") from None
    if not isinstance(found, dict):
        raise Problem(422, "The body is a JSON object.")
    return found


def only_fields(found: dict[str, Any], *names: str) -> None:
    """Refuse what nobody would look at."""
    others = sorted(set(found) - set(names))
    if others:
        raise Problem(422, f"The body has a field {others[0][:80]!r}; expected {', '.join(names)}.")


def text_of(found: dict[str, Any], name: str, what: str | None = None) -> str:
    """A text of the body."""
    value = found.get(name)
    if not isinstance(value, str):
        raise Problem(422, f"The body needs a text `{name}`.")
    return clean_text(value, what or name)


def ids_of(found: dict[str, Any], name: str, most: int = 10_000) -> list[str]:
    """A list of ids of the body, none twice."""
    values = found.get(name)
    if not isinstance(values, list) or not values or not all(isinstance(value, str) for value in values):
        raise Problem(422, f"The body needs a list `{name}` of ids, with at least one.")
    if len(values) > most:
        raise Problem(422, f"`{name}` has {len(values):,} entries, of which {most:,} are allowed.")
    if not all(re.fullmatch(ID, value) for value in values):
        raise Problem(422, f"`{name}` has something that is no id.")
    return list(dict.fromkeys(values))


def media_type(request: Request) -> str:
    """The type of the body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def asker_of(request: Request, content: bytes = b"") -> Asker:
    """Who asks for a change, and what makes the request the same as another."""
    token = request.scope["xlda.token"]
    keys = request.headers.getlist("idempotency-key")
    if not keys:
        return Asker(token)
    if len(keys) > 1 or not KEY.fullmatch(keys[0]):
        raise Problem(422, "An Idempotency-Key is 1 to 255 visible ASCII characters.")
    mixed = blake2b(digest_size=16)
    query = sorted(request.query_params.multi_items())
    for part in (request.method, request.url.path, json.dumps(query), token.name):
        mixed.update(part.encode("utf-8", "surrogatepass") + b"\0")
    mixed.update(content)
    return Asker(token, keys[0], mixed.digest())


def answered(answer: Reply, **headers: str) -> Response:
    """An answer to a change."""
    if answer.is_replayed:
        headers["Idempotency-Replayed"] = "true"
    return JSONResponse(answer.body, answer.status, headers)


def problem_response(problem: Problem) -> Response:
    """A problem as it is sent."""
    headers = dict(problem.headers)
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(problem.to_json(), problem.status, headers, media_type=KIND)
