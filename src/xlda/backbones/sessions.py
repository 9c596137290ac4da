"""Sessions of the built-in networks, whose graphs onnxruntime optimises once: the result is kept.

It is laid out for the processor, so the name of the file says which features that has, beside the versions of
the graph and of onnxruntime: whatever differs makes another file. Embeddings are the same, bit by bit.
"""

from __future__ import annotations

import hashlib
import platform
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import onnxruntime

from xlda.backbones.cache import cache_folder, cached
from xlda.backbones.network import open_session

CPU_INFO = Path("/proc/cpuinfo")


def kept_session(graph: str, network: Callable[[], bytes], name: str, threads: int | None) -> Any:
    """A session of the ONNX file that `network` gives; `graph` is a name for just that content.

    A kept file that is damaged, or that onnxruntime cannot run, is made anew.
    """
    features = processor_features()
    if features is None:
        return open_session(network(), name, threads)
    kept = f"{graph}-onnxruntime-{onnxruntime.__version__}-{features}.onnx"
    content = cached(kept, lambda: _optimised(network(), name))
    try:
        return open_session(content, name, threads)
    except ValueError:
        with suppress(OSError):
            (cache_folder() / kept).unlink()
        return open_session(network(), name, threads)


def processor_features() -> str | None:
    """A short text for the kind of processor, where the system says what it can do; else None."""
    try:
        lines = CPU_INFO.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return None
    said = [line for line in lines if line.partition(":")[0].strip() in ("flags", "Features")]
    if not said:
        return None
    return hashlib.sha256(f"{platform.machine()} {said[0]}".encode()).hexdigest()[:12]


def _optimised(network: bytes, name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimised.onnx"
        open_session(network, name, None, keep=path)
        return path.read_bytes()
