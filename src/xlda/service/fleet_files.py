"""Files of a box of a fleet: each is written once, under a new name, and counts while the log names it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path

from xlda.errors import DamagedFileError
from xlda.fleet.joined import Joined
from xlda.fleet.message import Message
from xlda.fleet.space import Space
from xlda.fleet.sums import Sums
from xlda.service.faults import reached
from xlda.service.problems import Problem

LOST = (
    "What this box has for its fleet, in {folder}, is not whole: {what} Restore the box from a file that "
    "`xlda backup` has made. It answers and is taught meanwhile; nothing was changed."
)


def write_part(folder: Path, name: str, message: Message) -> str:
    """Write all of a part, or what has changed of it, to a new file; gives its name."""
    file = f"{name}-{secrets.token_hex(8)}.safetensors"
    message.write(folder / file)
    return file


def read_part(folder: Path, files: Sequence[str], space: Space) -> Joined:
    """A part, from the file that has all of it and those with what has changed since."""
    try:
        first, *more = files
        message, found = Message.read(folder / first), Joined(space)
        found.taught, found.registers = message.added or Sums(space), message.registers
        found.versions, found.forgotten = message.after, message.forgotten
        for file in more:
            found.apply(Message.read(folder / file))
        return found
    except FileNotFoundError as error:
        what = f"{Path(error.filename).name} is missing."
        raise Problem(409, LOST.format(folder=folder, what=what)) from error
    except DamagedFileError as error:
        raise Problem(409, LOST.format(folder=folder, what=error)) from error


def delete_others(folder: Path, files: Iterable[str]) -> None:
    """Delete all files but these."""
    kept = set(files)
    for path in sorted(folder.iterdir()):
        if path.name not in kept:
            reached("fleet-before-delete")
            path.unlink()
            reached("fleet-after-delete")
