"""A service for tests: a process that is started by its command line, and what tests send to it."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import xlda

COMMAND = "import sys; from xlda.cli import main; sys.exit(main())"
WITH_LIMITS = """
import sys
from pathlib import Path
from xlda.service.server import Settings, serve
from xlda.service.service import Limits
settings = Settings(Path(sys.argv[1]), port=0, backbone=sys.argv[2], limits=Limits({limits}))
serve(settings, lambda line: print(line, flush=True))
"""
COLOURS = {"red": (200, 40, 40), "green": (40, 180, 60), "blue": (50, 60, 200), "kiwi": (120, 140, 30)}
JPEG, PNG, WEBP = "image/jpeg", "image/png", "image/webp"
NPY, NPZ = "application/x-npy", "application/x-npz"
SOON = 30.0  # seconds that anything may take


class Running:
    """A service that runs, and requests to it."""

    def __init__(self, process, url, lines, model):
        import httpx

        self.process, self.url, self.lines, self.model = process, url, lines, model
        self.http = httpx.Client(base_url=url, timeout=SOON, trust_env=False)
        self.port = int(re.search(r":(\d+)/", url)[1])

    # -- requests

    def call(self, method, path, expect=200, /, **more):
        """An answer with the status that is expected; as JSON, where it is JSON."""
        answer = self.http.request(method, path, **more)
        assert answer.status_code == expect, f"{method} {path}: {answer.status_code} {answer.text[:300]}"
        self.headers = answer.headers
        if expect >= 400:
            assert_problem(answer)
        return answer.json() if "json" in answer.headers.get("content-type", "") else answer.content

    def get(self, path, expect=200, /, **more):
        return self.call("GET", path, expect, **more)

    def post(self, path, expect=200, /, **more):
        return self.call("POST", path, expect, **more)

    def teach(self, label, content, expect=201, /, headers=None, **query):
        return self.post(
            "/v1/samples",
            expect,
            params={"label": label, **query},
            content=content,
            headers={"content-type": JPEG, **(headers or {})},
        )

    def learn(self, embeddings, labels, expect=200, /, headers=None, **arrays):
        content = npz(embedding=np.asarray(embeddings, np.float32), label=np.asarray(labels), **arrays)
        return self.post(
            "/v1/samples:batch", expect, content=content, headers={"content-type": NPZ, **(headers or {})}
        )

    def predict(self, content, expect=200, /, kind=JPEG, **query):
        return self.post("/v1/predict", expect, params=query, content=content, headers={"content-type": kind})

    def judge(self, embeddings, /, **query):
        """Predictions of embeddings."""
        return self.predict(npy(np.asarray(embeddings, np.float32)), kind=NPY, **query)

    def undo(self, *seqs, expect=200):
        if len(seqs) == 1:
            return self.post(f"/v1/events/{seqs[0]}:undo", expect)
        return self.post("/v1/events:undo", expect, json={"seqs": list(seqs)})

    def classes(self):
        """Ids and counts, by label."""
        found = self.get("/v1/classes?limit=1000")["classes"]
        return {one["label"]: (one["id"], one["count"]) for one in found}

    def counts(self):
        return {label: count for label, (_, count) in self.classes().items()}

    def id_of(self, label):
        return self.classes()[label][0]

    @property
    def seq(self):
        return self.get("/v1/model")["seq"]

    def state(self):
        """What a request that is refused does not change."""
        return self.seq, self.classes()

    def raw(self, content, *, seconds=10.0, half_close=False):
        """All that comes back for some bytes, until the service closes, or says nothing for some seconds."""
        with socket.create_connection(("127.0.0.1", self.port), seconds) as connection:
            try:
                connection.sendall(content)
                if half_close:
                    connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it was refused before all was sent
            return _received(connection, has_body=not content.startswith(b"HEAD "))

    # -- the process

    def resident(self):
        """Bytes of memory that the process has."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def end(self, seconds=10.0):
        """End it as a system does; gives its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def close(self):
        self.http.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def _received(connection, has_body):
    found = b""
    while True:
        try:
            some = connection.recv(65536)
        except TimeoutError:
            return found
        except OSError:
            return found
        if not some:
            return found
        found += some
        if _is_whole(found, has_body):
            return found


def _is_whole(found, has_body):
    """Whether an answer has come to its end: that to HEAD has a length, but not the bytes."""
    head, end, body = found.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return bool(end and (not has_body or (length and len(body) >= int(length[1]))))


def environment():
    return {
        **_plain_environment(),
        "PYTHONPATH": os.pathsep.join(
            [str(Path(xlda.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        ),
    }


def _plain_environment():
    outside = {
        name: value for name, value in os.environ.items() if not name.startswith(("XLDA_", "PYTHONPATH"))
    }
    return {**outside, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


@contextmanager
def running(model, *options, backbone="none", limits=None, program=None):
    """A service of a model file, by its command line; or by what that calls, with other `limits`.

    `program` is an `xlda` that is installed elsewhere, which then sees nothing of this checkout.
    """
    if limits is None:
        given = ["serve", str(model), "--port", "0", "--backbone", str(backbone), *map(str, options)]
        command = [*([program] if program else [sys.executable, "-c", COMMAND]), *given]
    else:
        command = [sys.executable, "-c", WITH_LIMITS.format(limits=limits), str(model), str(backbone)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=_plain_environment() if program else environment(),
        cwd=Path(model).parent,
    )
    lines: list[str] = []
    found = threading.Event()
    url: list[str] = []

    def read():
        for line in process.stdout:
            lines.append(line)
            if match := re.search(r"is served at (https?://\S+)", line):
                url.append(match[1])
                found.set()
        found.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    service = None
    try:
        assert found.wait(SOON), "It did not start."
        assert url, "".join(lines)
        service = Running(process, url[0], lines, Path(model))
        yield service
    finally:
        if service is not None:
            service.http.close()
        if process.poll() is None:
            process.kill()
            process.wait()
        reader.join(SOON)
        process.stdout.close()


# -- what is sent


def photo(name, seed, size=(64, 48), form="JPEG", **more):
    """A photo: a coloured square, with noise."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    pixels = np.array(COLOURS.get(name, (128, 128, 128))) + rng.normal(0, 20, size=(size[1], size[0], 3))
    image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    file = io.BytesIO()
    image.save(file, form, **more)
    return file.getvalue()


def npy(array, **more):
    file = io.BytesIO()
    np.save(file, array, **more)
    return file.getvalue()


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def blobs(n, n_classes=3, width=6, seed=0):
    """Embeddings (n, width) and labels `a`, `b`, ...: overlapping a little."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(n_classes, width)) * 2
    numbers = np.arange(n) % n_classes
    embeddings = centres[numbers] + rng.normal(size=(n, width))
    return embeddings.astype(np.float32), np.array([chr(ord("a") + number) for number in numbers])


def assert_problem(answer):
    """RFC 9457: the type, and a sentence."""
    assert answer.headers["content-type"].startswith("application/problem+json"), answer.text[:300]
    assert answer.headers["cache-control"] == "no-store"
    if answer.request.method == "HEAD":
        return
    found = answer.json()
    assert found["status"] == answer.status_code
    assert found["type"]
    assert found["title"]
    assert re.fullmatch(r"\S.*[.!?)]", found["detail"], re.DOTALL), found["detail"]


def status_of(received):
    """The status and the JSON, if any, of the first answer in some bytes."""
    match = re.match(rb"HTTP/1\.[01] (\d{3})", received)
    if match is None:
        return None, None
    head, _, body = received.partition(b"\r\n\r\n")
    try:
        return int(match[1]), json.loads(body) if b"json" in head else None
    except ValueError:
        return int(match[1]), None
