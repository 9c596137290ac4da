"""A hub that is a running service elsewhere. Needs the extra `client`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xlda.client import NoServiceError
from xlda.client.sending import httpx, settings
from xlda.errors import OtherVersionError, RefusedContributionError
from xlda.fleet.message import Message, Version, Versions, version_of

PATH = "/v1/contributions"
KIND = "application/x-safetensors"
PATIENCE = 600.0  # seconds: a whole contribution may be hundreds of megabytes


class RemoteHub:
    """Talks to the hub at an address, with a token of the scope `sync`. `n_bytes` went both ways."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._url, self.n_bytes = url.rstrip("/"), 0
        self._settings = settings(self._url, token, PATIENCE, True)

    def put(self, message: Message) -> Version:
        """Send what a box has taught; gives the version of that box that is there then."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "message"
            message.write(path)
            self.n_bytes += path.stat().st_size
            headers = {"Content-Type": KIND, "Content-Length": str(path.stat().st_size)}
            with path.open("rb") as file:
                answer = self._sent("POST", PATH, content=file, headers=headers)
        return version_of(answer.json()["version"])

    def version(self, box: str) -> Version | None:
        """The version of a box that is there; None where there is none."""
        found = self._sent("GET", f"{PATH}/{box}").json()["version"]
        return None if found is None else version_of(found)

    def answer(self, asker: str | None, since: Versions) -> Message | None:
        """What others have taught since these versions; None where that is nothing."""
        params = {"since": json.dumps({box: list(version) for box, version in since.items()})}
        if asker is not None:
            params["box"] = asker
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "message"
            address = f"{self._url}{PATH}"
            with (
                _told(self._url),
                httpx.Client(**self._settings) as http,
                http.stream("GET", address, params=params) as answer,
            ):
                if answer.status_code == 204:
                    return None
                if answer.status_code != 200:
                    answer.read()
                    raise _refusal(answer)
                with path.open("wb") as file:
                    for piece in answer.iter_bytes():
                        file.write(piece)
            self.n_bytes += path.stat().st_size
            return Message.read(path)

    def forget(self, box: str) -> None:
        """Take a box out; needs a token of the scope `admin`."""
        self._sent("DELETE", f"{PATH}/{box}")

    def _sent(self, method: str, path: str, **more: Any) -> Any:
        with _told(self._url), httpx.Client(**self._settings) as http:
            answer = http.request(method, f"{self._url}{path}", **more)
        if not answer.is_success:
            raise _refusal(answer)
        return answer


def ask_to_sync(url: str, token: str | None, asked: dict[str, Any]) -> dict[str, Any]:
    """Have the running service of a box sync with a hub; gives what it tells of that."""
    box = RemoteHub(url, token)
    with _told(url, "service of this box"):
        told: dict[str, Any] = box._sent("POST", "/v1/sync", json=asked).json()
    return told


@contextmanager
def _told(url: str, who: str = "hub") -> Iterator[None]:
    """Say who does not answer."""
    try:
        yield
    except (httpx.TransportError, NoServiceError) as error:
        why = error.__cause__ if isinstance(error, NoServiceError) else error
        raise NoServiceError(f"No {who} answers at {url}: {why}. Start it with `xlda serve`.") from why


def _refusal(answer: Any) -> Exception:
    try:
        found = answer.json()
    except ValueError:
        found = {}
    detail = str(found.get("detail", f"The hub answered with {answer.status_code}."))
    if answer.status_code == 401:
        return RefusedContributionError(
            f"{answer.url.host} needs a token. Give that of a hub with `--hub-token-from FILE`, and that of "
            "the service of this box with `--token-from FILE`."
        )
    if answer.status_code == 409 and "version" in found:
        version = found["version"]
        return OtherVersionError(detail, None if version is None else version_of(version))
    return RefusedContributionError(detail)
