"""Where a service keeps what: the model file, and a folder beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from xlda._internal.files import flush_to_disk, write_whole

UNFINISHED = (".backup-*.sqlite*", "hub/.coming-*", "hub/.going-*")  # backups; what boxes bring and get


class ServicePlaces(NamedTuple):
    """The files of a service."""

    model: Path

    @classmethod
    def of(cls, model: str | os.PathLike[str]) -> ServicePlaces:
        """Those of the service of a model file; links are followed."""
        return cls(Path(os.path.realpath(model)))

    @property
    def folder(self) -> Path:
        """All but the model."""
        return self.model.with_name(f"{self.model.name}.service")

    @property
    def database(self) -> Path:
        """The log."""
        return self.folder / "log.sqlite"

    @property
    def unpacked(self) -> Path:
        """The model of a backup, while it is being restored."""
        return self.folder / "model.xlda"

    @property
    def photos(self) -> Path:
        """Small photos by hash."""
        return self.folder / "photos"

    @property
    def address(self) -> Path:
        """Where the service can be reached while it runs."""
        return self.folder / "address.json"

    @property
    def tls(self) -> Path:
        """Certificates of its own, and their keys: in no backup."""
        return self.folder / "tls"

    def sweep(self) -> None:
        """Delete what a service that was killed had half written. Only for whoever holds the model's lock."""
        for left in UNFINISHED:
            for path in self.folder.glob(left):
                path.unlink()

    def make_folder(self) -> None:
        """Have the folder, on disk."""
        if not self.folder.exists():
            self.folder.mkdir()
            flush_to_disk(self.folder.parent)

    def note_address(self, url: str) -> None:
        """Say where the service is, for commands that find the model locked by it."""
        write_whole(self.address, json.dumps({"url": url, "pid": os.getpid()}).encode())
