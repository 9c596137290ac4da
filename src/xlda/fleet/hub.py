"""A hub as a folder, also a shared one: for each box all that it has taught, and the last changes.

boxes/bern/0000000001.0000000007.whole            all of it, as of version 7 of epoch 1
boxes/bern/0000000001.0000000007.0000000008.delta what came since; some older ones are kept for others
boxes/bern/owner                                  who may write it
forgotten.json                                    boxes that were taken out
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from xlda._internal.files import write_whole
from xlda.errors import DamagedFileError, OtherVersionError, RefusedContributionError
from xlda.fleet.checks import (
    BOX,
    START,
    check_box_name,
    check_message,
    check_start_name,
    check_sums,
    kind_of_labels,
    needs_look,
)
from xlda.fleet.joined import Joined, together
from xlda.fleet.message import Message, Version, Versions, forgotten_of
from xlda.fleet.space import Space

MOST_DELTAS = 256  # files of a box, before all of it is written anew
MOST_HELD = 1_000_000_000  # bytes of contributions that are kept in memory
BOXES, FORGOTTEN = HUB_HAS = ("boxes", "forgotten.json")  # what is in the folder
_WHOLE = re.compile(r"(\d{10})\.(\d{10})\.whole")
_DELTA = re.compile(r"(\d{10})\.(\d{10})\.(\d{10})\.delta")


class DeltaFile(NamedTuple):
    """What came between two versions of an epoch."""

    epoch: int
    since: int
    seq: int
    path: Path


class FleetHub:
    """Keeps the newest contribution of each box, and gives each box what the others have taught.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     FleetHub(folder).versions()
    {}
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._lock = threading.RLock()
        self._held: dict[str, Joined] = {}  # the last used at the end

    # -- what boxes ask

    def put(self, message: Message, owner: str = "") -> Version:
        """Take in what a box has taught; gives the version of that box that is here now.

        What was here before changes nothing; what starts from elsewhere is an `OtherVersionError` with the
        version to start from. `owner` is who sends it: a box has one, and keeps it.
        """
        if len(message.after) != 1:
            raise RefusedContributionError("A contribution is of one box.")
        [(box, after)] = message.after.items()
        check_start_name(box, after) if box.startswith(START) else check_box_name(box)
        with self._lock:
            if after.epoch <= self.forgotten().get(box, -1):
                raise RefusedContributionError(
                    f"The box {box} was forgotten here. With `--rejoin` it begins anew."
                )
            self._check_owner(box, owner)
            check_message(message, box)
            space = self.space()
            if space is not None:
                space.check_same(message.space, "This fleet")
            self._check_kind(message, box)
            return self._taken(message, box, owner)

    def _taken(self, message: Message, box: str, owner: str) -> Version:
        is_start = box.startswith(START) and self._whole(box) is not None
        state = self._state(box) or Joined(message.space)
        if is_start:
            return state.versions[box]
        try:
            is_new = state.apply(message)
            if is_new and needs_look(message):
                check_sums(state.taught)
        except OtherVersionError:
            raise
        except BaseException:
            self._held.pop(box, None)  # which may have some of it
            raise
        mine = state.versions[box]
        if is_new:
            self._write(message, state, box, owner)
        elif mine.place == message.after[box].place and mine.mark != message.after[box].mark:
            raise OtherVersionError("This box was set back. Begin a new epoch, and send all of it.", mine)
        return mine

    def version(self, box: str) -> Version | None:
        """The version of a box that is here; None where there is none."""
        with self._lock:
            return self._version(box) if box in self._boxes() else None

    def answer(self, asker: str | None, since: Versions) -> Message | None:
        """What boxes other than the asker have taught since these versions; None where that is nothing.

        Where it cannot be told by changes alone, or nothing is known yet, it is all of it.
        """
        with self._lock:
            others = [box for box in self._boxes() if box != asker]
            if not others and not since:
                return None
            deltas = self._since(others, since) if since else None
            if deltas is None:
                return self._all_of(others)
            return together(map(Message.read, deltas)) if deltas else None

    def forget(self, box: str) -> None:
        """Take a box out, exactly: nobody will have what it has taught after the next sync."""
        with self._lock:
            boxes = self._boxes()
            whole = self._whole(box) if box in boxes else None
            if whole is None:
                known = ", ".join(boxes) or "none at all"
                raise ValueError(f"This hub has no box {box!r}; it has {known}.")
            forgotten = {**self.forgotten(), box: whole[0]}  # by its name alone: the file may be damaged
            write_whole(self.folder / FORGOTTEN, json.dumps(forgotten).encode())
            shutil.rmtree(self._folder(box))
            self._held.pop(box, None)

    # -- what there is

    def versions(self) -> Versions:
        """The version of each box."""
        with self._lock:
            states = {box: self._version(box) for box in self._boxes()}
            return {box: version for box, version in states.items() if version is not None}

    def space(self) -> Space | None:
        """What embeddings of this fleet are; None where nobody has taught anything."""
        for box in self._boxes():
            whole = self._whole(box)
            if whole is not None:
                return self._held[box].space if box in self._held else Message.read(whole[2]).space
        return None

    def forgotten(self) -> dict[str, int]:
        """Boxes that were taken out, and until which epoch."""
        file = self.folder / FORGOTTEN
        if not file.exists():
            return {}
        try:
            return forgotten_of(json.loads(file.read_text("utf-8")))
        except ValueError:
            raise DamagedFileError(
                f"{file} is damaged: it does not say which boxes were forgotten. Restore it from a copy, or "
                "delete it and forget those boxes again."
            ) from None

    def total(self, space: Space, without: str | None = None) -> Joined:
        """All contributions but one, added up in the order of the boxes' names."""
        total = Joined(space)
        for box in self._boxes():
            state = None if box == without else self._state(box)
            if state is not None:
                total.add(state)
        total.forgotten = self.forgotten()
        return total

    # -- files

    def _boxes(self) -> list[str]:
        folder = self.folder / BOXES
        if not folder.is_dir():
            return []
        forgotten = self.forgotten()
        found = sorted(path.name for path in folder.iterdir() if BOX.fullmatch(path.name))
        return [box for box in found if self._is_there(box, forgotten)]

    def _is_there(self, box: str, forgotten: dict[str, int]) -> bool:
        whole = self._whole(box)
        return whole is not None and whole[0] > forgotten.get(box, -1)

    def _folder(self, box: str) -> Path:
        return self.folder / BOXES / box

    def _whole(self, box: str) -> tuple[int, int, Path] | None:
        """Epoch, sequence and file of the newest whole contribution of a box."""
        found = [(match, path) for path in self._files(box) if (match := _WHOLE.fullmatch(path.name))]
        return max(((int(match[1]), int(match[2]), path) for match, path in found), default=None)

    def _deltas(self, box: str) -> list[DeltaFile]:
        found = [(match, path) for path in self._files(box) if (match := _DELTA.fullmatch(path.name))]
        return sorted(DeltaFile(int(match[1]), int(match[2]), int(match[3]), path) for match, path in found)

    def _files(self, box: str) -> Iterator[Path]:
        folder = self._folder(box)
        return folder.iterdir() if folder.is_dir() else iter(())

    def _after(self, box: str, epoch: int, seq: int) -> list[DeltaFile]:
        """Changes of a box that follow each other from a version on."""
        chain = []
        for delta in self._deltas(box):
            if delta.epoch == epoch and delta.since == seq:
                chain.append(delta)
                seq = delta.seq
        return chain

    def _version(self, box: str) -> Version | None:
        if box in self._held and not self._is_behind(box):
            return self._held[box].versions[box]
        whole = self._whole(box)
        if whole is None:
            return None
        chain = self._after(box, *whole[:2])
        return Message.read(chain[-1].path if chain else whole[2]).after[box]

    def _is_behind(self, box: str) -> bool:
        """Whether another process has written since a contribution was read."""
        whole = self._whole(box)
        if whole is None:
            return True
        chain = self._after(box, *whole[:2])
        newest = (whole[0], chain[-1].seq if chain else whole[1])
        return self._held[box].versions[box].place != newest

    def _state(self, box: str) -> Joined | None:
        """What a box has taught."""
        whole = self._whole(box)
        if whole is None:
            return None
        if box in self._held and not self._is_behind(box):
            state = self._held.pop(box)
        else:
            message = Message.read(whole[2])
            state = Joined(message.space)
            state.apply(message)
            for delta in self._after(box, *whole[:2]):
                state.apply(Message.read(delta.path))
        self._hold(box, state)
        return state

    def _hold(self, box: str, state: Joined) -> None:
        self._held[box] = state
        sizes = {name: sum(one.taught.moments.nbytes.values()) for name, one in self._held.items()}
        while len(self._held) > 1 and sum(sizes.values()) > MOST_HELD:
            name = next(iter(self._held))
            del self._held[name], sizes[name]

    def _since(self, others: list[str], since: Versions) -> list[Path] | None:
        """Files with all changes since these versions; None where there are not all of them."""
        if set(since) - set(others):
            return None
        found: list[Path] = []
        for box in others:
            last = self._version(box)
            have = since.get(box)
            if have == last:
                continue
            if last is None or (have is not None and have.epoch != last.epoch):
                return None
            chain = self._after(box, last.epoch, 0 if have is None else have.seq)
            if not chain or chain[-1].seq != last.seq:
                return None
            if (Message.read(chain[0].path).before or {}).get(box) != have:
                return None
            found += [delta.path for delta in chain]
        return found

    def _all_of(self, others: list[str]) -> Message | None:
        space = self.space()
        if space is None:
            return None
        asker = set(self._boxes()) - set(others)
        return self.total(space, without=asker.pop() if asker else None).whole()

    def _check_kind(self, message: Message, box: str) -> None:
        """Refuse numbers where the labels of others are texts, and the other way round."""
        kind = kind_of_labels(message)
        if kind is None:
            return
        for other in sorted(self._boxes(), key=lambda one: one not in self._held):  # rather those in memory
            state = None if other == box else self._state(other)
            known = None if state is None else kind_of_labels(state.whole())
            if known is not None and known is not kind:
                names = {str: "texts", int: "whole numbers"}
                raise RefusedContributionError(
                    f"The labels of this fleet are {names[known]}; got {names[kind]}."
                )
            if known is not None:
                return

    def _check_owner(self, box: str, owner: str) -> None:
        file = self._folder(box) / "owner"
        if box.startswith(START) or not file.exists():
            return
        known = file.read_text("utf-8")
        if known != owner:
            raise RefusedContributionError(f"The box {box} belongs to another token than {owner or 'none'}.")

    def _write(self, message: Message, state: Joined, box: str, owner: str) -> None:
        folder, after = self._folder(box), message.after[box]
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "owner").exists():
            write_whole(folder / "owner", owner.encode())
        if message.before is not None:
            since = message.before[box].seq if box in message.before else 0
            message.write(folder / f"{after.epoch:010}.{since:010}.{after.seq:010}.delta")
        if message.before is None or self._whole(box) is None:
            self._write_whole(state, box)
            return
        self._hold(box, self._held.pop(box, state))
        self._tidy(state, box)

    def _write_whole(self, state: Joined, box: str) -> None:
        version = state.versions[box]
        state.whole().write(self._folder(box) / f"{version.epoch:010}.{version.seq:010}.whole")
        for path in list(self._files(box)):
            match = _WHOLE.fullmatch(path.name)
            if match and (int(match[1]), int(match[2])) < version.place:
                path.unlink()
        self._hold(box, state)
        self._tidy(state, box)

    def _tidy(self, state: Joined, box: str) -> None:
        """Write all anew where changes are more than that; drop changes that are not worth keeping."""
        whole = self._whole(box)
        if whole is None:
            return
        size = whole[2].stat().st_size
        chain = self._after(box, *whole[:2])
        if len(chain) > MOST_DELTAS or sum(delta.path.stat().st_size for delta in chain) > size:
            self._write_whole(state, box)
            return
        old = [delta for delta in self._deltas(box) if (delta.epoch, delta.seq) <= whole[:2]]
        kept = 0
        for number, delta in enumerate(reversed(old)):
            kept += delta.path.stat().st_size
            if delta.epoch < whole[0] or kept > size or number >= MOST_DELTAS:
                delta.path.unlink()
