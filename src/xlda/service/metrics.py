"""What Prometheus reads: counts and times of requests, and how the service is."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import cache

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from xlda.service.service import Service

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Counters of one service."""

    media_type = CONTENT_TYPE_LATEST

    def __init__(self, service: Service) -> None:
        self._service = service
        self._registry = CollectorRegistry()
        names = ("method", "call")
        self._requests = Counter(
            "xlda_requests", "Requests that were answered.", (*names, "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "xlda_request_seconds", "How long they took.", names, registry=self._registry, buckets=SECONDS
        )
        self._counter_of, self._times_of = cache(self._requests.labels), cache(self._seconds.labels)
        ProcessCollector(registry=self._registry)
        self._registry.register(self)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """How the service is just now."""
        from xlda.service.calls_model import use

        service, engine = self._service, self._service.engine
        workers, disk = service.workers, use(service)
        values = {
            "classes": ("Classes that are known.", len(engine.book)),
            "samples": ("Samples that were learned.", engine.book.n_samples()),
            "seq": ("The last event.", engine.machine.seq),
            "checkpoint_seq": ("The last event that is in the model file.", max(engine.saved_seq, 0)),
            "photos_waiting": (
                "Photos that wait for the network.",
                0 if workers is None else workers.waiting,
            ),
            "changes_waiting": ("Changes that wait for the disk.", engine.writer.n_waiting),
            "listeners": ("Who listens to events.", len(service.hub)),
            "failed": ("Whether nothing can be learned any more.", int(engine.writer.failure is not None)),
            "disk_free_bytes": ("Disk that is free.", disk["free_bytes"]),
            "disk_least_free_bytes": ("Below that, nothing is learned.", disk["least_free_bytes"]),
            "photo_bytes": ("Photos that are kept.", disk["photos"]["bytes"]),
            "photo_limit_bytes": ("How many of them may be.", disk["photos"]["limit_bytes"]),
            "review_items": ("Answers to look at.", disk["review"]["items"]),
            "review_limit_items": ("How many of them may be.", disk["review"]["limit_items"]),
            "prediction_items": ("Answers that are remembered.", disk["predictions"]["items"]),
            "prediction_limit_items": ("How many of them may be.", disk["predictions"]["limit_items"]),
            "log_bytes": ("The log.", disk["log"]["bytes"]),
        }
        for name, (told, value) in values.items():
            yield GaugeMetricFamily(f"xlda_{name}", told, value=value)

    def counted(self, app: ASGIApp) -> ASGIApp:
        """The application, with its requests counted by the call that they were for, never by their path."""

        async def count(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            start, status = time.perf_counter(), 0

            async def sent(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            try:
                await app(scope, receive, sent)
            finally:
                call = getattr(scope.get("route"), "path", "other")
                method = scope["method"] if call != "other" else "other"
                self._counter_of(method, call, status or 499).inc()
                self._times_of(method, call).observe(time.perf_counter() - start)

        return count
