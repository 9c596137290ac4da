"""Calls that are made most often pass by the framework, which takes longer than to learn a sample."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send


class Shortcut:
    """Makes some calls directly where they come without a query; the app has all others.

    A call is the endpoint of a route of the app, whose path has no parameters. Its checks run first, as in
    the app, and the app's handlers say what becomes of an error. Only the way is another one.
    """

    def __init__(self, app: FastAPI, routes: Iterable[BaseRoute], calls: Collection[Any]) -> None:
        self._app = app
        chosen = [route for route in routes if isinstance(route, APIRoute) and route.endpoint in calls]
        self._routes = {(method, route.path): route for route in chosen for method in route.methods or ()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        route = None
        if scope["type"] == "http" and not scope["query_string"] and not scope["root_path"]:
            route = self._routes.get((scope["method"], scope["path"]))
        if route is None:
            await self._app(scope, receive, send)
            return
        scope["app"], scope["route"] = self._app, route
        request = Request(scope, receive)
        try:
            for check in route.dependencies:
                await check.dependency(request)  # type: ignore[misc]
            response = await route.endpoint(request)
        except Exception as error:
            response = await self._handler_of(error)(request, error)
        await response(scope, receive, send)

    def _handler_of(self, error: Exception) -> Any:
        """What makes an answer of an error; there is one for every Exception."""
        handlers: dict[Any, Any] = self._app.exception_handlers
        return next(handlers[kind] for kind in type(error).__mro__ if kind in handlers)
