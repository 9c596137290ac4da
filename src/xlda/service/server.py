"""Starting and ending a service: options, threads, signals, and what is said about it."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from threadpoolctl import threadpool_limits  # comes with scikit-learn

from xlda.errors import OtherBackboneError
from xlda.photos.model_backbone import ModelBackbone
from xlda.service.addresses import AT_ANY, is_loopback, lan_addresses, url_of
from xlda.service.connections import CarefulConnection
from xlda.service.database import one
from xlda.service.engine import Engine, Keeping
from xlda.service.exchanging import finish_exchange
from xlda.service.gate import Hosts
from xlda.service.memory import give_back_what_is_large
from xlda.service.places import ServicePlaces
from xlda.service.service import Limits, Service
from xlda.service.tokens import TokenFile

if TYPE_CHECKING:
    from xlda.service.trusting import Trusting

NO_BACKBONE = "none"
SWITCH = 0.001  # seconds after which a thread lets another one run: answers wait for no long computation
TO_FINISH = 4  # seconds for requests under way once the end has come

logger = logging.getLogger("xlda.service")


@dataclass(frozen=True)
class Settings:
    """How a service is run."""

    model: Path
    host: str = "127.0.0.1"
    port: int = 8765
    tls: tuple[Path, Path] | None = None  # certificate and key
    tls_auto: bool = False  # those of an authority of its own
    token_file: Path | None = None
    allow_hosts: Sequence[str] = ()
    trusted_proxies: Sequence[str] = ()
    base_path: str = ""  # where a proxy has it
    backbone: str | None = None  # `NO_BACKBONE`: embeddings alone
    keeping: Keeping = field(default_factory=Keeping)
    limits: Limits = field(default_factory=Limits)
    log_json: bool = False


def serve(settings: Settings, say: Callable[[str], object] = print, vfs: str | None = None) -> None:
    """Serve until a signal ends it."""
    _check(settings)
    _log_to_stderr(settings.log_json)
    sys.setswitchinterval(SWITCH)
    give_back_what_is_large()
    finish_exchange(ServicePlaces.of(settings.model))
    is_new = not settings.model.exists()
    listening = _listening(settings)
    with _nothing_collected(), ThreadPoolExecutor(1) as pool:
        opening = pool.submit(_opened, settings, vfs)
        import xlda.service.app  # noqa: F401 (which takes as long as to read a model)

        engine, backbone, why_not = opening.result()
    try:
        server = _made(settings, engine, backbone, why_not, say, is_new)
    except BaseException:
        engine.abandon()
        raise
    leave_cores()
    gc.collect()
    gc.freeze()  # what is there now stays: looking through it again and again would hold up all threads
    for number in (signal.SIGTERM, signal.SIGINT):  # the server has its own; these are for what it passes on
        signal.signal(number, lambda *_: None)
    server.run([listening])
    engine.places.address.unlink(missing_ok=True)


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Have no garbage collected while much is made that stays: it would be looked through again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def leave_cores() -> None:
    """Have the BLAS use one thread from now on, so that a renewal leaves the other cores to those who ask.

    With several, it also lets one at a time share out a product, and whoever comes second waits for the first
    to end. Photos have threads of their own already.
    """
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # for one that is loaded later, as SciPy's is
    threadpool_limits(1, user_api="blas")


def _listening(settings: Settings) -> socket.socket:
    """A socket at the address, which is refused before anything is opened."""
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        raise OSError(
            f"The address {settings.host}:{settings.port} cannot be had: {error.strerror or error}. Choose "
            "another --host or --port."
        ) from error
    return listening


def _check(settings: Settings) -> None:
    if settings.token_file is None and not is_loopback(settings.host):
        raise ValueError(
            f"--host {settings.host} can be reached by others, so tokens are needed: make one with "
            "`xlda token add NAME --scope teach`, and give its file with --token-file."
        )


def _opened(settings: Settings, vfs: str | None) -> tuple[Engine, Any, str]:
    """The engine and the backbone, loaded side by side; or why there is no backbone."""
    chosen = settings.backbone
    folders = [settings.model.parent.absolute(), ServicePlaces.of(settings.model).model.parent]
    own = ModelBackbone(None if chosen == NO_BACKBONE else chosen, settings.model.name, folders)
    with ThreadPoolExecutor(1) as pool:
        if chosen != NO_BACKBONE:
            pool.submit(_warm)
        engine = Engine.open(settings.model, settings.keeping, vfs)
    if chosen == NO_BACKBONE:
        return engine, None, "This service was started with --backbone none, and takes embeddings alone."
    try:
        return engine, own.get(engine.identity, engine.machine.width), ""
    except OtherBackboneError as error:
        known = engine.identity
        if chosen is not None or (known is not None and known.identity is not None):
            engine.abandon()
            hint = " Give --reembed to make a new model of the photos that are kept." if chosen else ""
            raise OtherBackboneError(f"{error}{hint}") from error
        return engine, None, str(error).replace("with backbone=", "with --backbone")
    except BaseException:
        engine.abandon()
        raise


def _warm() -> None:
    import onnxruntime  # noqa: F401 (which takes a while to import)


def _made(
    settings: Settings,
    engine: Engine,
    backbone: Any,
    why_not: str,
    say: Callable[[str], object],
    is_new: bool,
) -> HttpServer:
    tokens = None if settings.token_file is None else TokenFile(settings.token_file)
    hosts = Hosts((*settings.allow_hosts, settings.host))
    from xlda.service.app import made_app

    app, within = made_app(
        lambda: Service(engine, backbone, why_not, settings.limits), hosts, tokens, _secret(engine)
    )
    certificate, key = settings.tls or (None, None)
    trusting = None
    if settings.tls_auto:
        trusting = _trusting(settings, engine, hosts)
        certificate, key = trusting.files
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        root_path=settings.base_path,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        timeout_graceful_shutdown=TO_FINISH,
        timeout_keep_alive=30,
        http=CarefulConnection,
        ws="none",
        lifespan="on",
    )
    return HttpServer(config, within.state, settings, say, is_new, trusting)


def _trusting(settings: Settings, engine: Engine, hosts: Hosts) -> Trusting:
    """An authority of its own, for which an extra is needed."""
    from xlda.service.certificates import Certificates
    from xlda.service.trusting import Trusting

    certificates = Certificates(engine.places.tls, settings.host, settings.allow_hosts)
    return Trusting(certificates, hosts, settings.host, lambda: _listening_beside(settings))


def _listening_beside(settings: Settings) -> socket.socket:
    """A socket at the next port, or at any."""
    try:
        return _listening(replace(settings, port=settings.port + 1 if 0 < settings.port < 65535 else 0))
    except OSError:
        return _listening(replace(settings, port=0))


def _secret(engine: Engine) -> bytes:
    """What cookies are signed with: made once."""
    found = one(engine.db, "SELECT value FROM facts WHERE name = 'secret'")
    if found is None:
        with engine.db as db:
            db.execute("INSERT INTO facts(name, value) VALUES ('secret', ?)", (secrets.token_hex(32),))
        return _secret(engine)
    return bytes.fromhex(found[0])


class HttpServer(uvicorn.Server):
    """A server that says where it is, and lets streams end when it is told to."""

    def __init__(
        self,
        config: uvicorn.Config,
        state: Any,
        settings: Settings,
        say: Callable[[str], object],
        is_new: bool,
        trusting: Trusting | None,
    ) -> None:
        super().__init__(config)
        self._service: Service = state.service
        self._state, self._settings, self._say, self._is_new = state, settings, say, is_new
        self._loop: asyncio.AbstractEventLoop | None = None
        self._trusting = trusting  # where it has an authority of its own

    async def startup(self, sockets: Any = None) -> None:
        """Listen, and say so."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if not self.started:
            return
        assert sockets
        port = sockets[0].getsockname()[1]
        scheme = "https" if self._settings.tls or self._trusting else "http"
        host, path = self._settings.host, self._settings.base_path
        url = url_of(scheme, "localhost" if host in AT_ANY else host, port)
        self._service.find_addresses = lambda: [
            url_of(scheme, one, port, path) for one in lan_addresses(host)
        ]
        self._service.engine.places.note_address(url)
        for line in started_lines(self._settings, self._service, url, self._is_new):
            self._say(line)
        if self._trusting is not None:
            for line in await self._trusting.begin(self._state, self.config):
                self._say(line)
        if self._state.tokens is not None:
            place = [*self._service.lan_addresses, url][0]
            code = self._state.pairing.new("admin")
            self._say(f"A browser is let in, once and within ten minutes, by {place}#code={code}")

    async def shutdown(self, sockets: Any = None) -> None:
        """End."""
        if self._trusting is not None:
            await self._trusting.end()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal has come: streams end, what is under way is finished."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._service.end_streams)
        super().handle_exit(sig, frame)


def started_lines(settings: Settings, service: Service, url: str, is_new: bool) -> list[str]:
    """What is said once a service can be reached."""
    engine, keeping = service.engine, service.engine.keeping
    n_classes = len(engine.book)
    what = f"{n_classes:,} classes" if n_classes else "a new model" if is_new else "an empty model"
    lines = []
    if is_new and keeping.photos:
        folder, most = _shown(engine.places.photos), keeping.photo_bytes / 1e9
        lines.append(f"Small photos are kept in {folder}, up to {most:g} GB.")
    elif is_new:
        lines.append("No photos are kept (--no-photos): another backbone will mean starting anew.")
    return [*lines, f"{settings.model} ({what}) is served at {url}"]


def _shown(path: Path) -> Path:
    """A path as one would write it here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


# -- what is logged


def _log_to_stderr(as_json: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonLines() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    logging.captureWarnings(True)  # what the library warns of is for whoever reads the log
    for name in ("xlda", "uvicorn.error", "py.warnings"):
        log = logging.getLogger(name)
        log.handlers[:] = [handler]
        log.setLevel(logging.WARNING if name == "uvicorn.error" else logging.INFO)
        log.propagate = False


class JsonLines(logging.Formatter):
    """Each line a JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        found = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            found["error"] = self.formatException(record.exc_info)
        return json.dumps(found)
