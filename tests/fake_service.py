"""A service for tests of clients: it keeps the contract in little, and fails when it is told to."""

from __future__ import annotations

import hashlib
import io
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import pytest

PHOTOS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF")


class Request(NamedTuple):
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes

    @property
    def key(self):
        return self.headers.get("idempotency-key")

    @property
    def json(self):
        return json.loads(self.body)


class Refusal(Exception):  # noqa: N818 (what a service says)
    def __init__(self, status, detail, **headers):
        self.status, self.detail, self.headers = status, detail, headers


class FakeService:
    """`fail` has what goes wrong, one thing a request: a Refusal, "cut", or "cut after" the work is done."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.fail: list[Any] = []
        self.token: str | None = None
        self.seq = 0
        self.labels: dict[str, str] = {}  # by class id
        self.samples: dict[str, tuple[str, str]] = {}  # class id and hash of the photo, by sample id
        self.answers: dict[str, tuple[str, Any]] = {}  # by key
        self.streams: list[list[bytes]] = []  # of events, one for each connection
        self.export = b"PK\3\4zip" * 50_000
        self.cut_export = 0  # how often it breaks off in the middle
        self.page = 2
        self.busy = self.most_busy = 0
        self.lock = threading.RLock()
        self.held_after: int | None = None  # samples, after which it holds back all answers
        self.hold = threading.Event()
        self.hold.set()

    # -- what it does

    def answer(self, request: Request) -> tuple[int, Any, dict[str, str]]:
        if self.token is not None and request.headers.get("authorization") != f"Bearer {self.token}":
            raise Refusal(401, "This service wants a token.")
        if request.method == "GET" or request.path == "/v1/predict":
            return (*self.work(request), {})
        seen = hashlib.sha256(repr((request.method, request.path, request.query, request.body)).encode())
        if request.key in self.answers:
            before, answer = self.answers[request.key]
            if before != seen.hexdigest():
                raise Refusal(422, "The same key came with another request.")
            return (*answer, {"Idempotency-Replayed": "true"})
        answer = self.work(request)
        if request.key is not None:
            self.answers[request.key] = seen.hexdigest(), answer
        return (*answer, {})

    def work(self, request: Request) -> tuple[int, Any]:
        method, path = request.method, request.path
        if path == "/v1/predict":
            return 200, self.predict(request)
        if (method, path) == ("POST", "/v1/samples"):
            return 201, self.teach(request)
        if (method, path) == ("POST", "/v1/samples:batch"):
            return 200, self.teach_batch(request)
        if (method, path) == ("GET", "/v1/classes"):
            return 200, self.classes(request)
        if (method, path) == ("GET", "/v1/model"):
            backbone = {"name": "tiny"}
            return 200, {"classes": len(self.labels), "samples": len(self.samples), "seq": self.seq} | {
                "backbone": backbone,
                "disk": {"used": 1},
            }
        if method == "GET" and path.startswith("/v1/classes/"):
            its_id = unquote(path.split("/")[3])
            if its_id not in self.labels:
                raise Refusal(404, "There is no such class.")
            return 200, {"id": its_id, "label": self.labels[its_id], "count": 1, "samples": [{"id": "s1"}]}
        if method == "GET":
            return 200, {"of": path}
        return 200, {"seq": self.next(), "id": "c9", "taught": True}

    def next(self) -> int:
        self.seq += 1
        return self.seq

    def class_of(self, label: str) -> tuple[str, bool]:
        known = {name: its_id for its_id, name in self.labels.items()}
        if label in known:
            return known[label], False
        its_id = f"c{len(self.labels) + 1}"
        self.labels[its_id] = label
        return its_id, True

    def checked(self, request: Request) -> str:
        if not request.body.startswith(PHOTOS):
            raise Refusal(415, "This is no JPEG, PNG or WebP picture.")
        return hashlib.sha256(request.body).hexdigest()

    def predict(self, request: Request) -> Any:
        if request.headers["content-type"] == "application/x-npy":
            rows = np.load(io.BytesIO(request.body), allow_pickle=False)
            one = {"label": None, "class_id": None, "probability": None, "p_known": None, "top": []}
            return {"predictions": [one] * len(rows), "seq": self.seq}
        photo = self.checked(request)
        known = [its_id for its_id, sample in self.samples.values() if sample == photo]
        best = known or list(self.labels)
        k = int(request.query.get("k", ["5"])[0])
        top = [{"label": self.labels[i], "class_id": i, "probability": 0.75, "new": 1} for i in best[:k]]
        label = top[0]["label"] if top and (known or "unknown" not in request.query) else None
        return {
            "id": f"p{len(self.requests)}",
            "label": label,
            "class_id": best[0] if label else None,
            "probability": 0.75 if top else None,
            "p_known": 0.5 if top else None,
            "top": top,
            "seq": self.seq,
            "a_field_of_tomorrow": 1,
        }

    def teach(self, request: Request) -> Any:
        photo = self.checked(request)
        its_id, is_new = self.class_of(request.query["label"][0])
        sample = f"s{len(self.samples) + 1}"
        warnings = ["It is dark."] if b"dark" in request.body else []
        self.samples[sample] = its_id, photo
        made = {"id": sample, "label": self.labels[its_id], "class_id": its_id, "new_class": is_new}
        return {**made, "warnings": warnings, "seq": self.next()}

    def teach_batch(self, request: Request) -> Any:
        with np.load(io.BytesIO(request.body), allow_pickle=False) as file:
            labels = file["label"].tolist()
            assert len(file["embedding"]) == len(labels)
        made = [(label, *self.class_of(label)) for label in labels]
        self.samples |= {f"s{len(self.samples) + n}": (its_id, "") for n, (_, its_id, _) in enumerate(made)}
        new = [label for label, _, is_new in made if is_new]
        return {"learned": len(labels), "new_classes": new, "seq": self.next()}

    def classes(self, request: Request) -> Any:
        each = [{"id": i, "label": label, "count": 1} for i, label in self.labels.items()]
        start = int(request.query.get("after", ["0"])[0])
        end = start + self.page
        return {"classes": each[start:end], "next": str(end) if end < len(each) else None}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16
    disable_nagle_algorithm = True
    service: FakeService

    def log_message(self, *_):
        pass

    def handle_one(self):
        service, parts = self.service, urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, parts.path, parse_qs(parts.query), headers, body)
        with service.lock:
            service.requests.append(request)
            fail = service.fail.pop(0) if service.fail else None
            service.busy += 1
            service.most_busy = max(service.busy, service.most_busy)
            if service.held_after is not None and len(service.samples) >= service.held_after:
                service.hold.clear()
        service.hold.wait(10)
        try:
            self.reply(request, fail)
        finally:
            with service.lock:
                service.busy -= 1

    def reply(self, request, fail):
        if fail == "cut":
            self.close_connection = True
            return
        try:
            if isinstance(fail, Refusal):
                raise fail
            if request.path == "/v1/events":
                self.stream()
                return
            if request.path == "/v1/export":
                self.send_export()
                return
            with self.service.lock:
                status, answer, headers = self.service.answer(request)
            if fail == "cut after":
                self.close_connection = True
                return
            content, kind = json.dumps(answer).encode(), "application/json"
        except Refusal as refusal:
            status, headers, kind = refusal.status, refusal.headers, "application/problem+json"
            problem = {"type": "about:blank", "title": "Refused", "status": status, "detail": refusal.detail}
            content = json.dumps(problem).encode()
        self.send_response(status)
        all_headers = {"Content-Type": kind, "Content-Length": str(len(content)), "ETag": '"7"', **headers}
        for name, value in all_headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def stream(self):
        with self.service.lock:
            pieces = self.service.streams.pop(0) if self.service.streams else None
        self.send_response(204 if pieces is None else 200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        if pieces is None:
            self.send_header("Content-Length", "0")
        self.end_headers()
        for piece in pieces or ():
            self.wfile.write(piece)
            self.wfile.flush()
        self.close_connection = True

    def send_export(self):
        content = self.service.export
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.service.cut_export:
            self.service.cut_export -= 1
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
        else:
            self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_DELETE = handle_one  # noqa: N815


@pytest.fixture
def service():
    """A service that runs; `url` is where."""
    made = FakeService()
    handler = type("ThisHandler", (Handler,), {"service": made})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # a client that goes away
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield made
    made.hold.set()
    server.shutdown()
    server.server_close()
    thread.join()
