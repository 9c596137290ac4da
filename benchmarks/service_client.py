"""A client that costs as little as a client can, so that a benchmark measures the service."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)\r\n")
NPY, NPZ, JPEG = "application/x-npy", "application/x-npz", "image/jpeg"


class Line:
    """One connection that is kept, with no more of HTTP than this service needs."""

    def __init__(self, port: int) -> None:
        self._host = f"127.0.0.1:{port}".encode()
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=600)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, method: str, path: str, body: bytes | None = None, kind: str = "") -> Any:
        """The answer as JSON; anything but success is an error."""
        head = b"%b %b HTTP/1.1\r\nHost: %b\r\n" % (method.encode(), path.encode(), self._host)
        head += b"Content-Type: %b\r\n" % kind.encode() if kind else b""
        head += b"Content-Length: %d\r\n" % len(body or b"") if method != "GET" else b""
        self._socket.sendall(head + b"\r\n" + (body or b""))
        status, content = self._answer()
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {content[:300]!r}")
        return json.loads(content)

    def _answer(self) -> tuple[int, bytes]:
        data = self._more()
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._more()
        length = LENGTH.search(data, 0, end + 2)
        if length is None:
            raise RuntimeError(f"An answer without a length: {data[:300]!r}")
        parts, missing = [data[end + 4 :]], int(length[1]) - (len(data) - end - 4)
        while missing > 0:
            parts.append(self._more())
            missing -= len(parts[-1])
        return int(data[9:12]), b"".join(parts)

    def _more(self) -> bytes:
        data = self._socket.recv(1 << 20)
        if not data:
            raise RuntimeError("The service has closed the connection.")
        return data


def npy(embeddings: np.ndarray) -> bytes:
    """Embeddings as they are asked for."""
    file = io.BytesIO()
    np.save(file, embeddings)
    return file.getvalue()


def npz(embeddings: np.ndarray, labels: list[str]) -> bytes:
    """Samples as they are learned."""
    file = io.BytesIO()
    np.savez(file, embedding=embeddings, label=np.array(labels))
    return file.getvalue()


class Served:
    """A service in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], port: int, seconds: float) -> None:
        self.process, self.port, self.seconds_to_ready = process, port, seconds

    def line(self) -> Line:
        """A new connection."""
        return Line(self.port)

    def resident(self) -> int:
        """Bytes of memory that it has now, without files that the system could drop."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = {name: int(value) for name, value in re.findall(r"(Rss\w+):\s+(\d+) kB", text)}
        return 1024 * (found["RssAnon"] + found["RssFile"] + found["RssShmem"])


@contextmanager
def served(model: Path, *options: str) -> Iterator[Served]:
    """A service of this model, by its command line, until the end of the block."""
    begin = time.perf_counter()
    command = [str(Path(sys.executable).with_name("xlda")), "serve", str(model), "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ})
    try:
        assert process.stdout is not None
        port = None
        while port is None:
            said = process.stdout.readline()
            if not said:
                raise RuntimeError("The service has ended.")
            found = re.search(r"http://[^ ]*:(\d+)/", said)
            port = None if found is None else int(found[1])
        Line(port).call("GET", "/readyz")
        yield Served(process, port, time.perf_counter() - begin)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
