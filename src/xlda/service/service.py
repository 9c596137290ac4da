"""What a running service has beside its engine: photos under way, answers of late, listeners, executors."""

from __future__ import annotations

import asyncio
import hashlib
import io
import logging
import math
import shutil
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import PIL.Image

from xlda._internal.arrays import Array
from xlda._internal.files import write_whole
from xlda.fleet.hub import FleetHub
from xlda.identity import BackboneIdentity
from xlda.labels import Label
from xlda.photos.decoding import BadImage, OtherFormat, TooManyPixels
from xlda.service.backup import restore
from xlda.service.engine import Engine
from xlda.service.hub import Hub
from xlda.service.judging import predictions
from xlda.service.log import Event
from xlda.service.photo_workers import EmbeddedPhoto, PhotoWorkers, QueueFullError
from xlda.service.problems import Problem
from xlda.service.recent import Recent
from xlda.service.reviewing import ReviewList
from xlda.service.small_photos import small_jpeg
from xlda.service.tokens import Token
from xlda.service.writer import ChangePlan, Reply, Wanted, answered_before

if TYPE_CHECKING:
    from xlda.backbones import Backbone

T = TypeVar("T")

NOT_EMPTY = "This service has learned something already. Start one with a new model for that."
AT_ONCE_ASIDE, ASIDE_SECONDS = 20.0, 2.0  # answers put aside: so many at once, then one every so often
PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds without a photo in which they are; after so many, without

logger = logging.getLogger("xlda.service")


@dataclass(frozen=True)
class Limits:
    """What one request may ask for."""

    body: int = 20_000_000  # bytes
    unpacked: int = 100_000_000  # bytes
    rate: float = 5_000.0  # requests a second of one client
    stalled: float = 20.0  # seconds in which some of a body must come


@dataclass(frozen=True)
class Asker:
    """Who asks, and what makes his request the same as another."""

    token: Token
    key: str | None = None
    fingerprint: bytes = b""


class Service:
    """All of it; made in the event loop that it will serve."""

    def __init__(self, engine: Engine, backbone: Backbone | None, why_no_photos: str, limits: Limits) -> None:
        self.engine, self.backbone, self.limits = engine, backbone, limits
        self._why_no_photos = why_no_photos
        self.workers = None if backbone is None else PhotoWorkers(backbone)
        self.recent, self.hub, self.review_list = Recent(), Hub(), ReviewList()
        self.find_addresses: Callable[[], list[str]] = list  # at which others can reach it
        self._judging = ThreadPoolExecutor(2, "xlda-judge")
        self._reading = ThreadPoolExecutor(2, "xlda-read")
        self._aside: set[asyncio.Task[None]] = set()
        self._to_put_aside, self._put_aside_at = AT_ONCE_ASIDE, time.monotonic()
        self._aside_turn = asyncio.Lock()
        self._embedded_at = -math.inf  # when a photo came last
        self.is_ready = self._is_exchanging = False
        self.fleet_hub: FleetHub | None = None  # once a box has come

    def start(self) -> None:
        """Begin to take requests."""
        loop = asyncio.get_running_loop()
        self._begin(loop)
        if self.workers is not None:
            self._run_aside(self._warm_up(self.workers))

    async def _warm_up(self, workers: PhotoWorkers) -> None:
        """Have the network embed something, so that the first photo that comes is as quick as any."""
        buffer = io.BytesIO()
        PIL.Image.new("RGB", (64, 64)).save(buffer, "JPEG")
        await asyncio.gather(*(workers.embed(buffer.getvalue()) for _ in range(3)), return_exceptions=True)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        def tell(events: list[Event]) -> None:
            if any(event.operation in ("settings", "undo") for event in events):
                self.engine.read_settings()
            if len(self.hub):  # who comes now reads these from the log
                loop.call_soon_threadsafe(self.hub.tell, events)

        self.engine.writer.on_events = tell
        self.engine.start()
        self.is_ready = True

    def end_streams(self) -> None:
        """Let those who listen to events go."""
        self.is_ready = False
        self.hub.close()

    async def close(self) -> None:
        """End; all that was begun is finished first."""
        self.end_streams()
        await asyncio.gather(*self._aside, return_exceptions=True)
        for pool in (self._judging, self._reading):
            pool.shutdown()
        if self.workers is not None:
            self.workers.close()
        self.engine.close()

    async def take_over(self, file: Path) -> int:
        """Go on with what a backup has, in place of an empty model; gives its last event."""
        if self._is_exchanging:
            raise Problem(409, "Another import is under way.")
        loop, engine = asyncio.get_running_loop(), self.engine
        self._is_exchanging, self.is_ready = True, False
        try:
            return await self.read(lambda: self._exchange(engine, file))
        finally:
            if self.engine is not engine:
                self._begin(loop)
            self._is_exchanging, self.is_ready = False, not self.hub.is_closed

    def _exchange(self, engine: Engine, file: Path) -> int:
        places, keeping = engine.places, engine.keeping
        trial = places.folder.with_name(f".{places.folder.name}.import")
        shutil.rmtree(trial, ignore_errors=True)
        trial.mkdir()
        try:
            restore(file, trial / places.model.name)
            found = Engine.open(trial / places.model.name, keeping)  # all of it is read, or refused
            found.abandon()
            self._check_backbone(found.identity)
            shutil.rmtree(trial)
            engine.abandon()
            if engine.machine.seq:  # something was learned while the file came
                raise Problem(409, NOT_EMPTY)
            address = places.address.read_bytes() if places.address.exists() else None
            aside = places.folder.with_name(f".{places.folder.name}.tls")
            if places.tls.exists():
                places.tls.rename(aside)
            shutil.rmtree(places.folder)
            places.model.unlink(missing_ok=True)
            seq = restore(file, places.model)
            if aside.exists():
                aside.rename(places.tls)
            if address is not None:
                write_whole(places.address, address)
        finally:
            shutil.rmtree(trial, ignore_errors=True)
            if engine.is_closed:
                self.engine = Engine.open(places.model, keeping)
        return seq

    @property
    def lan_addresses(self) -> list[str]:
        """Where others can reach it, as links; of this moment."""
        return self.find_addresses()

    @property
    def identity(self) -> BackboneIdentity | None:
        """What makes embeddings of photos here, if anything does."""
        return None if self.backbone is None else self.backbone.identity

    def _check_backbone(self, found: BackboneIdentity | None) -> None:
        own = self.identity
        if found is None or own is None or found.identity in (None, own.identity):
            return
        raise Problem(
            422, f"The file is of a model of {found.name}, and this service was started with {own.name}."
        )

    # -- work that takes a while, in threads

    async def judged(
        self, embeddings: Array, k: int, unknown: float | None, among: list[Label] | None
    ) -> tuple[int, list[dict[str, Any]]]:
        """What was known, and an answer for each sample."""
        loop = asyncio.get_running_loop()
        work = lambda: predictions(self.engine, embeddings, k, unknown, among)  # noqa: E731
        return await loop.run_in_executor(self._judging, work)

    async def read(self, work: Callable[[], T]) -> T:
        """Have something read that is on disk, or takes a while to put together."""
        return await asyncio.get_running_loop().run_in_executor(self._reading, work)

    async def embedded(self, content: bytes, want_warnings: bool = False) -> EmbeddedPhoto:
        """The embedding of a photo."""
        workers, self._embedded_at = self._photo_workers(), time.monotonic()
        try:
            return await workers.embed(content, want_warnings=want_warnings)
        except QueueFullError as error:
            raise Problem(503, f"{error}".rstrip(".") + ".", retry_after=1) from None
        except OtherFormat as error:
            raise Problem(415, str(error)) from None
        except TooManyPixels as error:
            raise Problem(413, str(error)) from None
        except BadImage as error:
            raise Problem(422, str(error)) from None

    async def embedded_and_small(self, content: bytes) -> tuple[EmbeddedPhoto, bytes | None]:
        """A photo's embedding with what is wrong with it, and a small one to be kept, made side by side."""
        if not self.engine.keeps_photos:
            return await self.embedded(content, want_warnings=True), None
        self._photo_workers()  # or there is no need for the other
        making = asyncio.ensure_future(self.read(lambda: small_jpeg(content)))
        try:
            photo = await self.embedded(content, want_warnings=True)
        except BaseException:
            making.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody will ask
            raise
        return photo, await making

    def _photo_workers(self) -> PhotoWorkers:
        machine = self.engine.machine
        if self.workers is None or self.backbone is None:
            raise Problem(422, self._why_no_photos)
        if machine.width is not None and machine.width != self.backbone.n_features:
            raise Problem(
                422,
                f"This model has learned embeddings of {machine.width} numbers, and its backbone "
                f"{self.backbone.name} gives {self.backbone.n_features}, so it cannot take photos.",
            )
        return self.workers

    # -- changes

    async def changed(
        self,
        asker: Asker,
        operation: str,
        plan: ChangePlan,
        status: int = 200,
        group: str | None = None,
        alone: bool = False,
    ) -> Reply:
        """Have a change made; returns when it is on disk and in the model."""
        if self._is_exchanging:
            raise Problem(503, "A backup is being imported. Try again in a moment.", retry_after=1)
        wanted = Wanted(operation, plan, asker.token.name, status, group, asker.key, asker.fingerprint, alone)
        return await self.engine.writer.change(wanted)

    async def answered_before(self, asker: Asker) -> Reply | None:
        """What the same request was answered with, for those whose work should not be done twice."""
        key = asker.key
        if key is None:
            return None

        def look() -> Reply | Problem | None:
            with closing(self.engine.reading()) as db:
                return answered_before(db, key, asker.fingerprint)

        found = await self.read(look)
        if isinstance(found, Problem):
            raise found
        return found

    # -- photos

    async def keep_photo(self, name: str, small: bytes | None) -> str | None:
        """Have a small photo on disk; gives what to say where it is not kept."""
        store = self.engine.photos
        if not self.engine.keeps_photos or small is None:
            return None
        if store.is_full:
            return "the photo is not kept, since the limit for photos is reached"
        await self.read(lambda: store.put(name, small))
        return None

    def look_at(self, content: bytes, embedding: Array, judged: dict[str, Any]) -> None:
        """Put an answer aside for a person to look at, where it is unsure; nobody waits for that."""
        is_sure = judged["sure"] or not judged["top"]  # nothing to say, or nothing was ever learned
        if is_sure or not self.engine.keeping.review or not self._may_put_aside():
            return
        self._run_aside(self._put_aside(content, embedding, judged))

    def _may_put_aside(self) -> bool:
        """Whether a person would come to look at one more, and it takes nothing from those who ask."""
        now = time.monotonic()
        self._to_put_aside = min(
            AT_ONCE_ASIDE, self._to_put_aside + (now - self._put_aside_at) / ASIDE_SECONDS
        )
        self._put_aside_at = now
        if self._to_put_aside < 1.0:
            return False
        self._to_put_aside -= 1.0
        return True

    def _run_aside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    async def _put_aside(self, content: bytes, embedding: Array, judged: dict[str, Any]) -> None:
        until = time.monotonic() + LONGEST_PAUSE
        async with self._aside_turn:
            while not self.hub.is_closed and time.monotonic() < min(until, self._embedded_at + PAUSE):
                await asyncio.sleep(PAUSE)  # those who ask come first
            await self._put_aside_now(content, embedding, judged)

    async def _put_aside_now(self, content: bytes, embedding: Array, judged: dict[str, Any]) -> None:
        try:
            review = self.engine.review
            if await self.read(lambda: review.is_ignored(embedding)):
                return
            name = None
            if self.engine.keeps_photos and not self.engine.photos.is_full:
                name = photo_name(content)
                small = await self.read(lambda: small_jpeg(content))
                await self.read(lambda: self.engine.photos.put(name or "", small))
            review.add(embedding, name, judged)
        except Exception:
            logger.exception("an answer could not be put aside for review")


def photo_name(content: bytes) -> str:
    """What a photo is called in the store."""
    return hashlib.sha256(content).hexdigest()
