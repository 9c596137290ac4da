"""Talking to a service that `xlda serve` runs. Needs the extra `client`.

    from xlda.client import Client

    with Client("http://127.0.0.1:8765") as shop:
        shop.teach("kiwi.jpg", "kiwi")
        print(shop.predict("photo.jpg").label)

Every change has a key and is sent again where the connection fails: it is made once.
"""

from __future__ import annotations

from xlda.client.answers import (
    Change,
    ClassDetails,
    ClassInfo,
    Feedback,
    Guess,
    ModelInfo,
    Prediction,
    ServiceEvent,
    Taught,
    TaughtBatch,
)
from xlda.client.asynchronous import AsyncClient
from xlda.client.failures import NoServiceError, NoSuchClassError, RefusedSampleError, ServiceError
from xlda.client.synchronous import Client

__all__ = [
    "AsyncClient",
    "Change",
    "ClassDetails",
    "ClassInfo",
    "Client",
    "Feedback",
    "Guess",
    "ModelInfo",
    "NoServiceError",
    "NoSuchClassError",
    "Prediction",
    "RefusedSampleError",
    "ServiceError",
    "ServiceEvent",
    "Taught",
    "TaughtBatch",
]
