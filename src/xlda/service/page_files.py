"""The page's own files: they hold no data, so whoever may reach the service may have them."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import Response

from xlda.service.problems import Problem
from xlda.service.requests_in import is_known, service_of

FOLDER = Path(__file__).with_name("page")
KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
NAME = re.compile(r"(?:[A-Za-z0-9_-]+/)*[A-Za-z0-9_-]+(\.[a-z]+)")  # no dots but the last: nothing above
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self' blob:; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def add_page(app: FastAPI) -> None:
    """Serve the page at `/`, and its files under `page/`."""

    @app.get("/", include_in_schema=False)
    async def front(request: Request) -> Response:
        return await _file(request, "index.html")

    @app.get("/page/{name:path}", include_in_schema=False)
    async def page_file(request: Request, name: str) -> Response:
        return await _file(request, name)


async def _file(request: Request, name: str) -> Response:
    """A file of the page; a browser asks each time whether it is still the same."""
    match = NAME.fullmatch(name)
    kind = None if match is None else KINDS.get(match[1])
    content = None if kind is None else await service_of(request).read(lambda: _content(FOLDER / name))
    if content is None:
        raise Problem(404, "The page has no such file.")
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Content-Security-Policy": POLICY}
    if is_known(request, tag):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=kind)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:  # it is not there, is a folder, or has a name that none can have
        return None
