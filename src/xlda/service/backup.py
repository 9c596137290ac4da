"""The model, its log and its photos as one file, taken at one event while the service goes on."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import secrets
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, BinaryIO

import xlda
from xlda._internal.files import flush_to_disk
from xlda.errors import DamagedFileError, NewerFileError
from xlda.service import log as logs
from xlda.service.database import ROOTS, reader
from xlda.service.engine import Engine
from xlda.service.faults import reached
from xlda.service.places import ServicePlaces
from xlda.service.starting import finish_restore

VERSION = 1
MANIFEST, MODEL, LOG = "manifest.json", "model.xlda", "log.sqlite"
PHOTO = re.compile(r"photos/[0-9a-f]{2}/[0-9a-f]{64}\.jpg")
FLEET = re.compile(r"fleet/[a-z]+-[0-9a-f]{16}\.[a-z]+")
PIECE = 1 << 20  # bytes


def backup(engine: Engine) -> Iterator[bytes]:
    """A zip file, piece by piece. Its log is that of one event, of which the model may have less."""
    engine.checkpoint()  # so that commands that read the model find what was learned
    copy = engine.places.folder / f".backup-{secrets.token_hex(8)}.sqlite"
    try:
        with ExitStack() as opened:
            with engine.files_stay:  # and what is open can be read, also once it was deleted
                files = _opened(opened, [engine.places.model])  # first: so it is never ahead of the log
                with closing(engine.reading()) as db:
                    db.execute("VACUUM INTO ?", (os.fspath(copy),))
                files |= _opened(opened, _fleet_files(engine.places.folder))
            with closing(reader(copy)) as db:
                seq = logs.last_position(db).seq
            manifest = {"format": "xlda backup", "version": VERSION, "xlda": xlda.__version__, "seq": seq}
            yield from _zipped(engine, manifest, files, copy)
    finally:
        for end in ("", "-wal", "-shm"):
            copy.with_name(copy.name + end).unlink(missing_ok=True)


def _opened(opened: ExitStack, paths: list[Path]) -> dict[Path, BinaryIO]:
    """Those that there are: a model that has learned nothing has no file."""
    return {path: opened.enter_context(path.open("rb")) for path in paths if path.exists()}


def _fleet_files(folder: Path) -> list[Path]:
    """Files of a box of a fleet, without those that are still being written."""
    found = sorted((folder / "fleet").glob("*"))
    return [path for path in found if FLEET.fullmatch(f"fleet/{path.name}")]


def _zipped(
    engine: Engine, manifest: dict[str, Any], files: dict[Path, BinaryIO], log: Path
) -> Iterator[bytes]:
    pieces = Pieces()
    with zipfile.ZipFile(pieces, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        archive.writestr(MANIFEST, json.dumps(manifest))
        for path, file in files.items():
            name = MODEL if path == engine.places.model else f"fleet/{path.name}"
            yield from _added(archive, pieces, name, file)
        with log.open("rb") as file:
            yield from _added(archive, pieces, LOG, file)
        for name in engine.photos.names():
            content = engine.photos.read(name)
            if content is not None:
                archive.writestr(f"photos/{name[:2]}/{name}.jpg", content)
                yield pieces.taken()
    yield pieces.taken()


def _added(archive: zipfile.ZipFile, pieces: Pieces, name: str, file: BinaryIO) -> Iterator[bytes]:
    with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as entry:
        while piece := file.read(PIECE):
            entry.write(piece)
            yield pieces.taken()


class Pieces(io.RawIOBase):
    """A file that is only written to, and taken away piece by piece."""

    def __init__(self) -> None:
        super().__init__()
        self._written: list[bytes] = []

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, content: Any) -> int:
        """The next piece."""
        self._written.append(bytes(content))
        return len(content)

    def taken(self) -> bytes:
        """All that was written since."""
        found = b"".join(self._written)
        self._written.clear()
        return found


def restore(file: Path, model: str | os.PathLike[str]) -> int:
    """Put what `backup` gave into the place of a model where there is none; gives its last event.

    What is there is never overwritten, and a file that is not whole changes nothing.
    """
    places = ServicePlaces.of(model)
    for there in (places.model, places.folder):
        if there.exists():
            raise FileExistsError(f"{there} is there already. Choose another name, or move it away.")
    unfinished = places.folder.with_name(f".{places.folder.name}.{secrets.token_hex(4)}")
    try:
        unfinished.mkdir()
        seq = _unpack(file, unfinished)
        for folder in (*(path for path in unfinished.rglob("*") if path.is_dir()), unfinished):
            flush_to_disk(folder)
        reached("restore-before-rename")
        unfinished.rename(places.folder)
        flush_to_disk(places.folder.parent)
        reached("restore-between-renames")
        finish_restore(places)  # if this is as far as it came, the next start does it
        return seq
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _unpack(file: Path, folder: Path) -> int:
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            manifest = json.loads(archive.read(MANIFEST))
            if manifest.get("format") != "xlda backup" or LOG not in names:
                raise ValueError("it is not a backup of a service")
            if manifest["version"] > VERSION:
                raise NewerFileError(
                    f"{file} was written by a newer xlda. Install a newer one to restore it."
                )
            for name in names:
                if name == MANIFEST:
                    continue
                if name not in (MODEL, LOG) and not PHOTO.fullmatch(name) and not FLEET.fullmatch(name):
                    raise ValueError(f"it holds {name[:80]!r}, which a backup has not")
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(name) as source, target.open("wb") as copy:
                    shutil.copyfileobj(source, copy, PIECE)
                flush_to_disk(target)
            return int(manifest["seq"])
    except NewerFileError:
        raise
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, EOFError) as error:
        raise DamagedFileError(f"{file} cannot be restored: {error}. Use another copy.") from error


def image_folder(engine: Engine) -> Iterator[bytes]:
    """All photos of samples as a zip file: `label/hash.jpg`, and `metadata.csv` with a line for each."""
    query = (
        f'{ROOTS} SELECT roots.label, samples.photo, samples.id, samples."group" FROM samples JOIN tree ON '
        "samples.home = tree.number JOIN classes AS roots ON roots.number = tree.root "
        "WHERE samples.photo IS NOT NULL ORDER BY samples.number"
    )
    pieces, lines = Pieces(), io.StringIO()
    table = csv.writer(lines)
    table.writerow(["file_name", "label", "sample_id", "group"])
    written: set[str] = set()
    with zipfile.ZipFile(pieces, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for label, photo, sample_id, group in engine.rows(query):
            content = engine.photos.read(photo)
            if content is None:
                continue
            name = f"{folder_name(str(label))}/{photo}.jpg"
            table.writerow([name, label, sample_id, group or ""])
            if name not in written:
                written.add(name)
                archive.writestr(name, content)
                yield pieces.taken()
        archive.writestr("metadata.csv", lines.getvalue())
    yield pieces.taken()


def folder_name(label: str) -> str:
    """A label as the name of a folder on any system.

    >>> folder_name("../a/b:c"), folder_name("Kiwi")
    ('.._a_b_c', 'Kiwi')
    """
    name = re.sub(r'[\\/:*?"<>|\x00-\x1f]', "_", label).strip(" ")
    return name if name.strip(".") else "_" + name
