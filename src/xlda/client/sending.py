"""What both clients have in common: where to, as whom, and when to try again."""

from __future__ import annotations

import random
import re
import ssl
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from xlda._internal.extras import needs
from xlda.client.calls import Call
from xlda.client.failures import NoServiceError
from xlda.client.reading import failure

try:
    import anyio as anyio  # which httpx brings
    import httpx as httpx
except ImportError as error:
    raise needs("xlda.client", "httpx", "client") from error

RETRIED = (429, 502, 503, 504)  # codes after which the same may well be taken
FIRST_WAIT, LONGEST_WAIT = 0.25, 10.0  # seconds, where the service names none; each is twice the one before
MOST_ASKED = 60.0  # seconds that a service may ask for; where it asks for more, its refusal is the answer
QUIET = 60.0  # seconds after which a stream without a sign of life is opened again

Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)


class Connection(Generic[Http]):
    """A service's address, and the httpx client that talks to it."""

    _http: Http

    def __init__(self, url: str, retries: int) -> None:
        self._url, self._retries = _checked(url), retries

    @property
    def url(self) -> str:
        """The address of the service."""
        return self._url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"

    def _attempts(self) -> Attempts:
        return Attempts(self._url, self._retries)

    def _request(self, call: Call[Any], body: Any, **more: Any) -> httpx.Request:
        headers = dict(call.headers)
        if isinstance(call.body, Path):
            headers["Content-Length"] = str(call.body.stat().st_size)
        address = f"{self._url}{call.path}"
        return self._http.build_request(
            call.method, address, params=call.params or None, headers=headers, content=body, **more
        )


class Attempts:
    """How often one thing was tried, and how long to wait before it is tried again."""

    def __init__(self, url: str, most: int) -> None:
        self._url, self._most, self._n = url, most, 0

    def start_again(self) -> None:
        """It went well: what comes next is another thing."""
        self._n = 0

    def wait_after(self, response: httpx.Response) -> float | None:
        """Seconds to wait; None where this is the answer."""
        if response.status_code not in RETRIED or self._n >= self._most:
            return None
        asked = _asked(response)
        if asked is not None and asked > MOST_ASKED:
            return None
        self._n += 1
        return self.wait() if asked is None else asked + random.uniform(0, FIRST_WAIT)

    def wait_after_error(self, error: httpx.TransportError, call: Call[Any]) -> float:
        """Seconds to wait; NoServiceError where it was tried often enough."""
        self._n += 1
        if self._n > self._most or not _may_pass(error):
            raise NoServiceError(_sentence(error, self._url, call)) from error
        return self.wait()

    def wait(self) -> float:
        """Longer each time, and never the same for two clients."""
        longest = min(FIRST_WAIT * 2 ** max(self._n - 1, 0), LONGEST_WAIT)
        return random.uniform(longest / 2, longest)


def settings(url: str, token: str | None, timeout: float, verify: ssl.SSLContext | bool) -> dict[str, Any]:
    """What an httpx client is made with."""
    if verify is True and url.startswith("http:"):
        verify = ssl.SSLContext(
            ssl.PROTOCOL_TLS_CLIENT
        )  # never used: to read all certificates takes its time
    if token is not None and not re.fullmatch(r"[!-~]+", token):
        raise ValueError("A token has visible ASCII characters alone; this one has others, or none.")
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    patience = httpx.Timeout(timeout, connect=min(timeout, 5.0))
    return {"headers": headers, "timeout": patience, "verify": verify}


def quiet_timeout(timeout: float) -> httpx.Timeout:
    """That of a stream on which nothing may happen for long."""
    return httpx.Timeout(timeout, connect=min(timeout, 5.0), read=max(timeout, QUIET))


def refused(response: httpx.Response, call: Call[Any]) -> None:
    """Raise the error that an answer tells of, if it does; it must have been read."""
    if not response.is_success:
        raise failure(response, call.about)


def _checked(url: str) -> str:
    """An address without what does not belong there, and without a slash at its end."""
    try:
        found = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        found = httpx.URL("")
    if found.userinfo:
        raise ValueError("The address of a service has no name and password in it: give a token.")
    if found.scheme not in ("http", "https") or not found.host or found.query or found.fragment:
        raise ValueError(f"The address of a service is as http://127.0.0.1:8765; got {url!r}.")
    return str(found).rstrip("/")


def _asked(response: httpx.Response) -> float | None:
    """What `Retry-After` says, in seconds; a date is seen from that of the answer, since clocks differ."""
    text = response.headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        when = parsedate_to_datetime(text)
        now = parsedate_to_datetime(response.headers["Date"]) if "Date" in response.headers else None
        return max((when - (now or datetime.now(UTC))).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None


def _may_pass(error: httpx.TransportError) -> bool:
    lasting = isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError)
    return not lasting and "CERTIFICATE" not in str(error)


def _sentence(error: httpx.TransportError, url: str, call: Call[Any]) -> str:
    if "CERTIFICATE" in str(error):
        return f"{url} has a certificate that is not trusted: {error}. SSL_CERT_FILE names one to trust."
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return f"No xlda service answers at {url}. Start one with `xlda serve`."
    doubt = " Whether it was done is not known." if "Idempotency-Key" in call.headers else ""
    if isinstance(error, httpx.TimeoutException):
        return f"The service at {url} did not answer {call.path} in time.{doubt}"
    return f"The service at {url} broke off its answer to {call.path}.{doubt}"
