"""What a result was measured on: goes into every file of results."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

PACKAGES = ("xlda", "numpy", "scipy", "scikit-learn", "torch", "pyarrow", "faiss-cpu", "ray")


def describe() -> dict[str, Any]:
    """Date, processor, cores, BLAS and versions."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "blas": sorted(
            {
                f"{pool['internal_api']} {pool['version']}, {pool['num_threads']} threads"
                for pool in threadpool_info()
                if pool["user_api"] == "blas"
            }
        ),
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
    }


def in_words(machine: dict[str, Any]) -> str:
    """One line for a table's foot."""
    packages = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    return (
        f"{machine['date']}, {machine['processor']}, {machine['cores']} cores, {'; '.join(machine['blas'])}, "
        f"Python {machine['python']}, {packages}"
    )


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
