"""Who looks at moments while they learn."""

from __future__ import annotations

from typing import Protocol

from xlda._internal.arrays import Rows


class Viewer(Protocol):
    """Somebody who wants to know class means as they are now when they have become others."""

    def keep(self, rows: Rows) -> None:
        """The means of these rows are about to change."""
