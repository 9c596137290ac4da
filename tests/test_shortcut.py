"""Calls that pass by the framework, against the same calls made by it."""

from __future__ import annotations

import asyncio

import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")

from fastapi import APIRouter, Depends, FastAPI, Request  # noqa: E402
from fastapi.exceptions import HTTPException  # noqa: E402
from fastapi.responses import JSONResponse  # noqa: E402

from xlda.service.problems import Problem  # noqa: E402
from xlda.service.shortcut import Shortcut  # noqa: E402

router = APIRouter()


async def check(request: Request) -> None:
    if request.headers.get("x-token") != "right":
        raise Problem(401, "A token is needed.")


@router.post("/often", dependencies=[Depends(check)])
async def often(request: Request, k: int = 5) -> JSONResponse:
    body = (await request.body()).decode()
    if body == "problem":
        raise Problem(422, "That is refused.", retry_after=3, more="of it")
    if body == "http":
        raise HTTPException(418, "a teapot")
    if body == "unexpected":
        raise ZeroDivisionError
    return JSONResponse({"body": body, "k": k, "app": request.app.state.name}, 201, {"x-more": "1"})


@router.post("/seldom")
async def seldom(request: Request) -> JSONResponse:
    return JSONResponse({"seldom": True})


def made_app():
    app = FastAPI()
    app.state.name = "the app"
    app.include_router(router)

    @app.exception_handler(Problem)
    async def problem(request, error):
        return JSONResponse(error.to_json(), error.status, dict(error.headers))

    @app.exception_handler(Exception)
    async def unexpected(request, error):
        return JSONResponse({"said": type(error).__name__}, 500)

    return app


class Counted(FastAPI):
    n_calls = 0

    async def __call__(self, scope, receive, send):
        self.n_calls += scope["type"] == "http"
        await super().__call__(scope, receive, send)


RIGHT = {"x-token": "right"}
SHORT = {
    "an answer": ("POST", "/often", b"kiwi", RIGHT),
    "no body": ("POST", "/often", b"", RIGHT),
    "a check that fails": ("POST", "/often", b"kiwi", {}),
    "a problem": ("POST", "/often", b"problem", RIGHT),
    "an error of the framework": ("POST", "/often", b"http", RIGHT),
    "something unexpected": ("POST", "/often", b"unexpected", RIGHT),
}
LONG = {
    "a query": ("POST", "/often?k=7", b"kiwi", RIGHT),
    "a query that is wrong": ("POST", "/often?k=many", b"kiwi", RIGHT),
    "another method": ("GET", "/often", b"", RIGHT),
    "another path": ("POST", "/often/", b"", RIGHT),
    "another call": ("POST", "/seldom", b"", {}),
}


async def answer_of(app, method, path, body, headers, root_path=""):
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, root_path=root_path)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        answer = await client.request(method, path, content=body, headers=headers)
    return answer.status_code, answer.headers.multi_items(), answer.content


@pytest.mark.parametrize("request_", [*SHORT.values(), *LONG.values()], ids=[*SHORT, *LONG])
def test_answers_are_those_of_the_app(request_):
    app = made_app()
    app.__class__ = Counted
    short = Shortcut(app, router.routes, [often])
    found = asyncio.run(answer_of(short, *request_))
    assert app.n_calls == (request_ in LONG.values())
    assert found == asyncio.run(answer_of(made_app(), *request_))


def test_below_a_base_path_the_app_answers():
    app = made_app()
    app.__class__ = Counted
    request_ = ("POST", "/shop/often", b"kiwi", RIGHT)
    found = asyncio.run(answer_of(Shortcut(app, router.routes, [often]), *request_, root_path="/shop"))
    assert (found[0], app.n_calls) == (201, 1)
