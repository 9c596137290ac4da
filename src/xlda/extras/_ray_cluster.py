"""Ray itself: whether it is there, how to reach it, and what a worker may use of its machine."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from xlda._internal.extras import needs

HERE = "local"  # an address: this machine, for as long as this process runs
PATIENCE = 10.0  # seconds for a connection to the head of a cluster


def ray_module() -> Any:
    """Ray, or an ImportError that says how to install it."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # which it would warn of
    try:
        import ray
    except ImportError:
        raise needs("Work on many machines", "ray[data]", "ray") from None
    return ray


def ray_data() -> Any:
    """Ray Data, which takes memory that a driver who learns from files need not spend."""
    ray_module()
    try:
        import ray.data
    except ImportError:
        raise needs("Work on many machines", "ray[data]", "ray") from None
    return ray.data


def connect(address: str) -> None:
    """Use the cluster at an address: "local" is this machine, "auto" the cluster that it is a part of.

    Any other is as `ray.init` has it. Where Ray is in use already, nothing changes.
    """
    ray = ray_module()
    if not ray.is_initialized():
        _refuse_silent(address)
        ray.init(
            address=address,
            include_dashboard=False if address == HERE else None,
            logging_level=logging.WARNING,
            log_to_driver=False,
        )


def _refuse_silent(address: str) -> None:
    """An error where nothing listens at a host and port, for which Ray would wait for minutes."""
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", address)  # as Ray does
    try:
        place = urlsplit(address if "://" in address else f"//{address}")
        host, port = place.hostname, place.port
    except ValueError:
        return  # no address at all, as Ray will say
    if host is None or port is None:
        return
    try:
        socket.create_connection((host, port), timeout=PATIENCE).close()
    except OSError as error:
        raise ConnectionError(
            f"No Ray cluster can be reached at {address}: {error.strerror or error}. Give the address that "
            "`ray start --head` printed, auto on a machine of the cluster, or local for this machine alone."
        ) from None


def n_workers(cpus: int) -> int:
    """Workers with so many CPUs each that the cluster has room for."""
    ray = ray_module()
    if not ray.is_initialized():
        connect(HERE)
    return max(int(ray.cluster_resources().get("CPU", 1)) // cpus, 1)


def for_dataset(workers: int) -> int | tuple[int, int]:
    """The size of a pool whose rows come from other tasks, which need room too: Ray may make it smaller."""
    return workers if workers == 1 else (1, workers - 1)


def is_dataset(source: Any) -> bool:
    """Whether this is a dataset of Ray."""
    data = sys.modules.get("ray.data")  # or nobody can have one
    return data is not None and isinstance(source, data.Dataset)


def with_bars(dataset: Any, wanted: bool) -> Any:
    """The dataset, with or without bars of Ray's own."""
    dataset.context.enable_progress_bars = wanted
    return dataset


@contextmanager
def limited_to(cpus: int) -> Iterator[None]:
    """Have the BLAS use so many threads, and so all that asks how many there are."""
    import scipy.linalg.cython_blas  # noqa: F401  (its BLAS is limited too, once it is there)
    from threadpoolctl import threadpool_limits

    with threadpool_limits(cpus, user_api="blas"):
        yield
