"""A service goes to the hub of its fleet: brings what it was taught, and takes what others were."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from xlda.fleet.exchange import AnyHub, next_epoch
from xlda.fleet.hub import HUB_HAS, FleetHub
from xlda.service.engine import Engine
from xlda.service.fleet_member import FleetMember

_one_at_a_time = threading.Lock()


def hub_at(where: str, token: str | None = None) -> AnyHub:
    """A hub at an address, or in a folder."""
    if urlsplit(where).scheme in ("http", "https"):
        from xlda.fleet.remote import RemoteHub

        return RemoteHub(where, token)
    folder = Path(where)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{where} is no folder. Make one for the hub, or give the address of a service."
        )
    if not any((folder / name).exists() for name in HUB_HAS) and any(folder.iterdir()):
        raise FileExistsError(f"{where} has other files in it, and is no hub. Make an empty folder for one.")
    return FleetHub(where)


def synced(
    engine: Engine, hub: AnyHub, box: str | None = None, min_count: int | None = None, is_again: bool = False
) -> dict[str, Any]:
    """Bring what was taught here to the hub, and take in what others have taught; tells how it went."""
    with _one_at_a_time:
        member = FleetMember(engine)
        member.join(hub, box, min_count)
        if is_again and member.version is not None:
            member.begin_epoch(next_epoch(member.version))
        member.publish()
        member.tell(hub, is_again)
        seq = member.take(hub)
        if member.has_become:  # samples of classes that were removed, or are there again, count or do not
            member.publish()
            member.tell(hub, is_again)
        member.tidy()
    return {"box": member.name, "boxes": len(member.versions) + 1, "seq": seq}
