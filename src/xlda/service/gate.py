"""Who may come in: hosts, origins, tokens, limits. Plain ASGI, before anything is read or run."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import re
import socket
import time
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from xlda.service.problems import KIND, Problem
from xlda.service.tokens import PAIRED_DAYS, Token, TokenFile

CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
COOKIE = "xlda_session"
HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\s:@/?#\\\[\]]+))(?::[0-9]{0,5})?")
ORIGIN = re.compile(r"https?://([^/]+)")
SESSION_SECONDS = PAIRED_DAYS * 86400
MOST_IN_FLIGHT = 256  # requests of one client at a time
UNLIMITED = ("/v1/import", "/v1/contributions")  # bodies that go to the disk, and are limited by that
MOST_HELD = 400_000_000  # bytes of all bodies that are in memory
HEADERS = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"content-security-policy",
        b"default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'",
    ),
]
EVERYTHING = Token("everyone", ("admin", "sync"))


class Hosts:
    """Names that this service may be called by."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        name = socket.gethostname().lower()
        given = {_bare(host) or host.strip().lower().strip("[]") for host in allowed}
        self._names = {"localhost", name, f"{name}.local", *given}

    def allows(self, host: str, scope: Scope) -> bool:
        """Whether a request may name this host: an allowed one, loopback, or an address of this machine."""
        bare = _bare(host)
        if bare is None:
            return False
        if bare in self._names:
            return True
        address = _address(bare)
        if address is None:
            return False
        server = scope.get("server") or ("", None)
        return address.is_loopback or bare == str(server[0]).lower() or _is_own(address)


@lru_cache(maxsize=256)  # most requests name the same one
def _bare(host: str) -> str | None:
    """A host without its port and brackets, in small letters; None where it is no host."""
    found = HOST.fullmatch(host.strip().lower())
    return None if found is None else found[1] or found[2]


@lru_cache(maxsize=256)
def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a host is, where it is one."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_own(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether an address is one of this machine now: the system lets nobody bind another."""
    if address.is_unspecified or address.is_multicast or address.is_reserved:
        return False
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


class Sessions:
    """Cookies that stand for a token: signed, so that nothing need be remembered."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def made(self, token: Token) -> str:
        """The cookie's value for a token."""
        text = f"{token.name}|{int(time.time()) + SESSION_SECONDS}"
        return f"{text}|{self._signature(text)}"

    def name_of(self, value: str) -> str | None:
        """The name of the token that a cookie stands for, if it is one of ours and not too old."""
        text, _, signature = value.rpartition("|")
        name, _, until = text.rpartition("|")
        if not hmac.compare_digest(signature.encode(), self._signature(text).encode()):
            return None
        return name if until.isdecimal() and int(until) > time.time() else None

    def _signature(self, text: str) -> str:
        return hmac.new(self._secret, text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


class Gate:
    """Lets a request in with `scope["xlda.token"]`, or refuses it."""

    def __init__(
        self,
        app: ASGIApp,
        hosts: Hosts,
        tokens: TokenFile | None,
        sessions: Sessions,
        most_bytes: int,
        rate: float,
        stalled: float,
    ) -> None:
        self._app, self._hosts, self._tokens, self._sessions = app, hosts, tokens, sessions
        self._most_bytes, self._rate, self._stalled = most_bytes, rate, stalled
        self._clients: dict[str, _Client] = {}
        self._held = Held()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        body = Body(receive, self._most_bytes, self._stalled, self._held)
        answered = Answered(send)
        try:
            headers = _headers(scope)
            client = self._admit(scope, headers, body)
            try:
                await self._app(scope, body.receive, answered.send)
            finally:
                client.n_in_flight -= 1
        except Problem as problem:
            if not answered.is_begun:
                await refuse(problem, answered.send, body)
        except asyncio.CancelledError:  # the service ends, and this has not come to an end in time
            if answered.is_begun:
                raise
            ending = Problem(503, "The service is ending. Try again in a moment.", retry_after=5)
            await refuse(ending, answered.send, body)
        finally:
            body.let_go()

    def _admit(self, scope: Scope, headers: dict[bytes, list[bytes]], body: Body) -> _Client:
        """Refuse what may not come in; gives whom it counts for."""
        hosts = headers.get(b"host", [])
        if len(hosts) != 1 or not self._hosts.allows(hosts[0].decode("latin-1"), scope):
            raise Problem(
                403,
                "This service does not go by that host name. Allow it with --allow-host when it is started.",
            )
        self._check_origin(scope, headers)
        scope["xlda.token"] = self._token(scope, headers)
        client = self._client(scope)
        limit = scope.setdefault("xlda.body", body)
        length = _content_length(headers)
        if length is not None and length > limit.most_bytes and not scope["path"].endswith(UNLIMITED):
            raise _too_large(limit.most_bytes)
        client.n_in_flight += 1
        return client

    def _check_origin(self, scope: Scope, headers: dict[bytes, list[bytes]]) -> None:
        """Refuse changes that another site has a browser send."""
        if scope["method"] not in CHANGING:
            return
        fetch_site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
        if fetch_site is not None:
            if fetch_site != [b"same-origin"]:
                raise Problem(403, "Changes come from this service's own pages only, not from other sites.")
        elif origin is not None:
            found = ORIGIN.fullmatch(origin[0].decode("latin-1")) if len(origin) == 1 else None
            if found is None or not self._hosts.allows(found[1], scope):
                raise Problem(403, "Changes from that origin are refused. Allow its host with --allow-host.")

    def _token(self, scope: Scope, headers: dict[bytes, list[bytes]]) -> Token | None:
        """Who asks: None where nobody known does."""
        if self._tokens is None:
            return EVERYTHING
        for value in headers.get(b"authorization", []):
            kind, _, text = value.decode("latin-1").partition(" ")
            if kind.lower() == "bearer":
                return self._tokens.of(text.strip())
        has_site = b"sec-fetch-site" in headers or b"origin" in headers
        if scope["method"] in CHANGING and not has_site:
            return None
        for line in headers.get(b"cookie", []):
            for part in line.decode("latin-1").split(";"):
                name, _, text = part.strip().partition("=")
                if name == COOKIE and (found := self._sessions.name_of(text)) is not None:
                    return self._tokens.named(found)
        return None

    def _client(self, scope: Scope) -> _Client:
        """Whom a request counts for; refused where there are too many of his."""
        token, peer = scope["xlda.token"], scope.get("client") or ("", 0)
        name = f"{peer[0]} {token.name if token is not None else ''}"
        if len(self._clients) > 1000:
            self._clients = {key: one for key, one in self._clients.items() if one.n_in_flight}
        client = self._clients.get(name)
        if client is None:
            client = self._clients[name] = _Client(self._rate)
        if client.n_in_flight >= MOST_IN_FLIGHT or not client.may_come(self._rate):
            raise Problem(
                429, "Too many requests from this client. Wait a little between them.", retry_after=1
            )
        return client


class _Client:
    """How much one client has asked of late: a bucket of requests, filled at the rate."""

    def __init__(self, rate: float) -> None:
        self.n_in_flight = 0
        self._left, self._at = rate, time.monotonic()

    def may_come(self, rate: float) -> bool:
        now = time.monotonic()
        self._left = min(rate, self._left + (now - self._at) * rate)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class Held:
    """Bytes of bodies that are in memory."""

    n_bytes = 0


class Body:
    """A request's body: counted as it comes, and dropped where it stalls."""

    def __init__(self, receive: Receive, most_bytes: int, stalled: float, held: Held) -> None:
        self._receive, self.most_bytes, self._stalled, self._held = receive, most_bytes, stalled, held
        self.is_kept = True  # in memory, and not on disk
        self._n_bytes = self._n_held = 0
        self._is_whole = False

    async def receive(self) -> Message:
        """The next piece."""
        if self._is_whole:
            return await self._receive()
        try:
            async with asyncio.timeout(self._stalled):
                message = await self._receive()
        except TimeoutError:
            raise Problem(408, "The body of the request stopped coming. Send it again.") from None
        if message["type"] == "http.request":
            n_bytes = len(message.get("body", b""))
            self._n_bytes += n_bytes
            self._is_whole = not message.get("more_body", False)
            if self._n_bytes > self.most_bytes:
                raise _too_large(self.most_bytes)
            if self.is_kept:
                self._held.n_bytes += n_bytes
                self._n_held += n_bytes
                if self._held.n_bytes > MOST_HELD:
                    raise Problem(
                        503, "Too much is being sent at once. Try again in a moment.", retry_after=1
                    )
        return message

    def let_go(self) -> None:
        """Nobody needs it any more."""
        self._held.n_bytes -= self._n_held
        self._n_held = 0

    async def drain(self, seconds: float, most_bytes: int) -> None:
        """Read on for a while and keep nothing, so that who is still sending gets to read the answer."""
        until, n_bytes = time.monotonic() + seconds, 0
        while not self._is_whole and n_bytes < most_bytes:
            try:
                message = await asyncio.wait_for(self._receive(), until - time.monotonic())
            except TimeoutError:
                return
            if message["type"] != "http.request":
                return
            n_bytes += len(message.get("body", b""))
            self._is_whole = not message.get("more_body", False)


class Answered:
    """What is sent, with the headers that every answer has."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_begun = False

    async def send(self, message: Message) -> None:
        """The next piece."""
        if message["type"] == "http.response.start":
            self.is_begun = True
            own = {name for name, _ in message.get("headers", [])}
            message["headers"] = [*message.get("headers", []), *(h for h in HEADERS if h[0] not in own)]
        await self._send(message)


async def refuse(problem: Problem, send: Send, body: Body) -> None:
    """Answer with a problem; what is still being sent is read on for a moment, or a browser shows nothing."""
    content = json.dumps(problem.to_json()).encode()
    headers = [
        (b"content-type", KIND.encode()),
        (b"content-length", str(len(content)).encode()),
        *((name.lower().encode(), value.encode()) for name, value in problem.headers.items()),
    ]
    if problem.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if problem.status in (408, 413, 503):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": content, "more_body": True})
    if problem.status == 413:
        await body.drain(5.0, 200_000_000)
    await send({"type": "http.response.body", "body": b""})


def require(scope: Any, needed: str) -> Token:
    """Who asks, if he may: 401 where nobody known does, 403 where he may not."""
    token: Token | None = scope["xlda.token"]
    if token is None:
        if any(name == b"authorization" for name, _ in scope["headers"]):
            raise Problem(401, "This token is not known here, or not any more. `xlda token add` makes one.")
        raise Problem(401, "This service needs a token: send the header `Authorization: Bearer TOKEN`.")
    if not token.may(needed):
        raise Problem(403, f"The token {token.name} may not do that: it needs the scope {needed}.")
    return token


def _too_large(most_bytes: int) -> Problem:
    return Problem(
        413, f"The body is larger than {most_bytes / 1e6:g} MB, which is the limit. Send a smaller one."
    )


def _headers(scope: Scope) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.lower(), []).append(value)
    return found


def _content_length(headers: dict[bytes, list[bytes]]) -> int | None:
    lengths = headers.get(b"content-length")
    if lengths is None or not lengths[0].isdigit():
        return None
    return int(lengths[0])
