"""The service as an ASGI application."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

import xlda
from xlda.service import calls_classes, calls_fleet, calls_model, calls_samples, calls_session, calls_whole
from xlda.service.docs_page import docs_page
from xlda.service.gate import Gate, Hosts, Sessions
from xlda.service.metrics import Metrics
from xlda.service.page_files import add_page
from xlda.service.pairing import Pairing
from xlda.service.problems import Problem
from xlda.service.requests_in import problem_response, scoped, service_of
from xlda.service.service import Service
from xlda.service.shortcut import Shortcut
from xlda.service.tokens import TokenFile
from xlda.service.trust import add_trust

OFTEN = (calls_samples.teach_batch, calls_samples.predict)

logger = logging.getLogger("xlda.service")


def made_app(
    make_service: Callable[[], Service], hosts: Hosts, tokens: TokenFile | None, secret: bytes
) -> tuple[ASGIApp, FastAPI]:
    """The application behind its gate, and the one within. The service is made where its event loop runs."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        service: Service = app.state.service
        service.start()
        yield
        await service.close()

    app = FastAPI(
        title="xlda",
        version=xlda.__version__,
        description="Recognises what it was taught, and learns while it serves.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=life,
        generate_unique_id_function=lambda route: route.name,
    )
    service = make_service()
    app.state.service, app.state.tokens = service, tokens
    app.state.sessions, app.state.pairing = Sessions(secret), Pairing()
    app.state.metrics = Metrics(service)
    for calls in (calls_samples, calls_classes, calls_model, calls_session, calls_whole, calls_fleet):
        app.include_router(calls.router)
    add_page(app)
    add_trust(app)
    _add_plain(app)
    _add_handlers(app)
    limits = service.limits
    quick = Shortcut(app, calls_samples.router.routes, OFTEN)
    gate = Gate(quick, hosts, tokens, app.state.sessions, limits.body, limits.rate, limits.stalled)
    return app.state.metrics.counted(gate), app


def _add_plain(app: FastAPI) -> None:
    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(docs_page(app.openapi()))

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> Response:
        return JSONResponse({"status": "ok"})

    @app.get("/readyz", include_in_schema=False)
    async def readyz(request: Request) -> Response:
        service = service_of(request)
        workers, writer = service.workers, service.engine.writer
        found: dict[str, Any] = {
            "ready": service.is_ready and writer.failure is None,
            "photos_waiting": 0 if workers is None else workers.waiting,
            "photos_under_way": 0 if workers is None else workers.busy,
            "changes_waiting": writer.n_waiting,
            "seq": service.engine.machine.seq,
        }
        if writer.failure is not None:
            found["failure"] = writer.failure
        return JSONResponse(found, 200 if found["ready"] else 503)

    @app.get("/metrics", include_in_schema=False, dependencies=[scoped("read")])
    async def metrics(request: Request) -> Response:
        found = request.app.state.metrics
        service = service_of(request)
        return PlainTextResponse(await service.read(found.text), media_type=found.media_type)


def _add_handlers(app: FastAPI) -> None:
    @app.exception_handler(Problem)
    async def problem(request: Request, error: Problem) -> Response:
        return problem_response(error)

    @app.exception_handler(RequestValidationError)
    async def not_valid(request: Request, error: RequestValidationError) -> Response:
        return problem_response(Problem(422, _said(error.errors())))

    @app.exception_handler(HTTPException)
    async def not_found(request: Request, error: HTTPException) -> Response:
        details = {
            404: "There is nothing here. /docs lists all calls.",
            405: "This path has other methods. /docs lists all calls.",
        }
        found = Problem(error.status_code, details.get(error.status_code, str(error.detail)))
        found.headers |= dict(error.headers or {})
        return problem_response(found)

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return problem_response(Problem(400, "The request was not sent to its end."))  # nobody reads it

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        logger.error("a request failed", exc_info=error)
        return problem_response(Problem(500, "Something went wrong in the service. Its log says what."))


def _said(errors: Any) -> str:
    """What is wrong with a parameter, in a sentence."""
    first = errors[0]
    place = ".".join(str(part) for part in first.get("loc", ())[1:]) or "the request"
    return f"{place[:80]}: {str(first.get('msg', 'not valid')).rstrip('.')}."
