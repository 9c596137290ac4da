"""What is refused, and how that is said: one plain sentence with the cure (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

KIND = "application/problem+json"


class Problem(Exception):  # noqa: N818 (what it is called in HTTP)
    """A request that is refused, with the status that says how."""

    def __init__(self, status: int, detail: str, *, retry_after: int | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.status, self.detail, self.more = status, detail, more
        self.headers = {} if retry_after is None else {"Retry-After": str(retry_after)}

    def to_json(self) -> dict[str, Any]:
        """As it is sent."""
        title = HTTPStatus(self.status).phrase
        return {
            "type": "about:blank",
            "title": title,
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }
