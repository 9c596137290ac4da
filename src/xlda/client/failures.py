"""What can go wrong between a client and a service, as types."""

from __future__ import annotations

from xlda.errors import BadSampleError, UnknownClassError, XLDAError


class NoServiceError(XLDAError, ConnectionError):
    """Nobody answers, or not in time, or not to the end."""


class ServiceError(XLDAError):
    """What a service refuses: its sentence is the message, `status` HTTP's number, `title` a short name."""

    def __init__(self, status: int, title: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.title, self.detail = status, title, detail

    def __reduce__(self) -> tuple[type[ServiceError], tuple[int, str, str]]:
        return type(self), (self.status, self.title, self.detail)


class RefusedSampleError(ServiceError, BadSampleError):
    """A photo or embeddings that the service does not take; nothing was learned from them."""


class NoSuchClassError(ServiceError, UnknownClassError):
    """A class that the service does not have."""
