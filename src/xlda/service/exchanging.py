"""One model in the place of another, with its log: whatever ends it in the middle, the next start goes on."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from xlda._internal.files import flush_to_disk, write_whole
from xlda.service.faults import reached
from xlda.service.places import ServicePlaces


def _note(places: ServicePlaces) -> Path:
    return places.model.with_name(f"{places.model.name}.exchange")


def exchange(old: ServicePlaces, new: ServicePlaces) -> str:
    """Put the new model in the place of the old one; gives what that is called now."""
    number = 1
    while _former(old, number).model.exists() or _former(old, number).folder.exists():
        number += 1
    write_whole(_note(old), json.dumps({"number": number}).encode())
    reached("exchange-begun")
    finish_exchange(old)
    return _former(old, number).model.name


def _former(places: ServicePlaces, number: int) -> ServicePlaces:
    return ServicePlaces(places.model.with_name(f"{places.model.name}.before-{number}"))


def finish_exchange(places: ServicePlaces) -> None:
    """Go on with an exchange that was begun, if there is one: each step is done once, whoever does it."""
    note = _note(places)
    if not note.exists():
        return
    number: Any = json.loads(note.read_bytes())["number"]
    former = _former(places, number)
    new = ServicePlaces(places.model.with_name(f"{places.model.name}.reembedded"))
    for here, there, then in (
        (places.folder, former.folder, new.folder),
        (places.model, former.model, new.model),
    ):
        if not there.exists() and here.exists():
            here.rename(there)
            reached("exchange-old-moved")
        if then.exists():
            then.rename(here)
            reached("exchange-new-moved")
    flush_to_disk(places.model.parent)
    note.unlink()
    flush_to_disk(places.model.parent)
    remove(new)


def remove(places: ServicePlaces) -> None:
    """Remove what an attempt that was ended has left."""
    shutil.rmtree(places.folder, ignore_errors=True)
    for name in (places.model, Path(f"{places.model}.lock")):
        if os.path.lexists(name):
            name.unlink()
