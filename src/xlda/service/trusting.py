"""What a service with an authority of its own does beside serving."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn

from xlda.service.addresses import lan_addresses, url_of
from xlda.service.certificates import Certificates
from xlda.service.gate import Hosts
from xlda.service.trust import Trust, plain_app

BETWEEN_LOOKS = 60.0  # seconds, after which a certificate may not be for all addresses of now

logger = logging.getLogger("xlda.service")


class Trusting:
    """Keeps the certificate right, and serves a plain page on how to trust it at a port of its own."""

    def __init__(
        self, certificates: Certificates, hosts: Hosts, host: str, listen: Callable[[], socket.socket]
    ) -> None:
        self._certificates, self._hosts, self._host, self._listen = certificates, hosts, host, listen
        self._tasks: list[asyncio.Task[None]] = []
        self._plain: uvicorn.Server | None = None

    @property
    def files(self) -> tuple[Path, Path]:
        """The certificate and its key."""
        return self._certificates.leaf, self._certificates.leaf_key

    async def begin(self, state: Any, config: uvicorn.Config) -> list[str]:
        """Serve the page; gives what is to be said."""
        listening = self._listen()
        port, fingerprint = listening.getsockname()[1], self._certificates.fingerprint
        trust = Trust(
            self._certificates.authority_pem,
            fingerprint,
            lambda: state.service.lan_addresses,
            lambda: [url_of("http", one, port) for one in lan_addresses(self._host)],
        )
        state.trust = trust
        plain = uvicorn.Config(
            plain_app(trust, self._hosts), log_config=None, access_log=False, server_header=False,
            ws="none", lifespan="off", timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._plain = uvicorn.Server(plain)
        self._tasks = [
            asyncio.create_task(self._plain._serve([listening])),  # which leaves signals to the other server
            asyncio.create_task(self._look_after(config)),
        ]
        place = url_of("http", [*lan_addresses(self._host), "localhost"][0], port)
        return [
            f"How phones and computers come to trust it: {place}trust",
            f"The fingerprint of its authority: {fingerprint}",
        ]

    async def _look_after(self, config: uvicorn.Config) -> None:
        while True:
            await asyncio.sleep(BETWEEN_LOOKS)
            try:
                if await asyncio.to_thread(self._certificates.renew_if_due) and config.ssl is not None:
                    self._certificates.load_into(config.ssl)
                    logger.info("the certificate was made anew, for the names and addresses of now")
            except Exception:
                logger.exception("the certificate could not be made anew")

    async def end(self) -> None:
        """Serve no more."""
        if self._plain is not None:
            self._plain.should_exit = True
        for task in self._tasks[1:]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
