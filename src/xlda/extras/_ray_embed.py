"""Embedding on many machines: an actor opens photos and has the network, so that no pixels travel."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from xlda.extras._ray_cluster import for_dataset, is_dataset, n_workers, ray_data, with_bars
from xlda.extras._ray_problems import EXPECTED, packed, unpacked
from xlda.extras._ray_tables import n_groups, parquet_file, tables_at
from xlda.photos.embedding import OnError, check_on_error
from xlda.photos.finding import Photo, find_photos
from xlda.photos.parquet import DType, Summary
from xlda.photos.parts import CURE, PartContents, PartSummary, embed_part, photos_of_a_part

CONTENTS = ("bytes", "image")  # columns that photos may be in: of files, and of pixels or of both
ROWS = 1024  # of a dataset, whose length nobody knows, in a part


_log = logging.getLogger("xlda")


class EmbedOrder(NamedTuple):
    """What every actor is told."""

    out: str
    backbone: str
    options: dict[str, Any]  # of `xlda.backbones.load`
    cpus: int
    on_error: OnError
    dtype: DType
    overwrite: bool


class PhotoPart(NamedTuple):
    """Photos of one file of embeddings: some files, or a group of rows of a Parquet file."""

    name: str
    photos: Sequence[Photo] = ()
    table: str = ""
    group: int = 0


def embedded(
    source: Any, wanted: EmbedOrder, workers: int | None, progress: Callable[[int], object]
) -> Summary:
    """What `xlda.extras.ray.embed` says."""
    check_on_error(wanted.on_error)
    workers = workers or n_workers(wanted.cpus)
    out = Path(wanted.out)
    out.mkdir(exist_ok=True)
    pool = {"concurrency": workers, "num_cpus": wanted.cpus, "fn_constructor_args": (wanted,)}
    if is_dataset(source):
        pool["concurrency"] = for_dataset(workers)
        made = source.map_batches(EmbedsRows, batch_size=ROWS, batch_format="pyarrow", **pool)
        return _summed(made, progress, lambda names: _refuse_others(out, names, wanted.overwrite))
    parts = _parts(source)
    _refuse_others(out, {part.name for part in parts}, wanted.overwrite)
    items = [{"part": _to_json(part)} for part in parts]
    given = ray_data().from_items(items, override_num_blocks=len(items))
    return _summed(given.map(EmbedsParts, **pool), progress, lambda names: None)


def _summed(made: Any, progress: Callable[[int], object], check: Callable[[set[str]], None]) -> Summary:
    """What all parts say, as they are done; the first that went wrong is an error."""
    summary, names = Summary(0, 0, []), set()
    for row in with_bars(made, False).iter_rows():
        if row["error"]:
            raise unpacked(row["error"])
        skipped = [(Photo(Path(path), label), why) for path, label, why in json.loads(row["skipped"])]
        n_new = 0 if row["was_there"] else row["n_embedded"]
        summary = Summary(
            summary.n_embedded + n_new,
            summary.n_resumed + row["n_embedded"] - n_new,
            summary.skipped + skipped,
        )
        names.add(row["file"])
        _log.debug("embedded %s from %.3f to %.3f", row["file"], row["began"], row["ended"])
        progress(row["n_embedded"] + len(skipped))
    if not names:
        raise ValueError("No photos to embed.")
    check(names)
    return summary


def _refuse_others(out: Path, names: set[str], overwrite: bool) -> None:
    """Refuse parts of something else, which would be learned too; or remove them."""
    others = sorted(file for file in out.glob("*.parquet") if file.name not in names)
    if others and not overwrite:
        raise ValueError(f"{out} has {len(others)} files of something else, as {others[0].name}. {CURE}")
    for file in others:
        file.unlink()


# -- parts


def n_photos(source: Any) -> int:
    """How many photos there are, where that is known before they are read; else 0."""
    if is_dataset(source):
        return 0
    return sum(len(part.photos) or _rows_of(part) for part in _parts(source))


def _rows_of(part: PhotoPart) -> int:
    with parquet_file(part.table) as file:
        return int(file.metadata.row_group(part.group).num_rows)


def _parts(source: Any) -> list[PhotoPart]:
    """What is embedded into a file each; names depend on what there is, not on who does it."""
    places = list(source) if isinstance(source, list | tuple) else [source]
    tables = [file for place in places if not isinstance(place, Photo) for file in tables_at(place)]
    if tables:
        found = [
            PhotoPart("", table=table, group=group) for table in tables for group in range(n_groups(table))
        ]
    else:
        photos = [photo for place in places for photo in _photos(place)]
        size = photos_of_a_part(len(photos))
        found = [PhotoPart("", photos[at : at + size]) for at in range(0, len(photos), size)]
    if not found:
        raise ValueError("No photos to embed.")
    width = len(str(len(found)))
    return [
        part._replace(name=f"part-{number:0{width}}-of-{len(found)}.parquet")
        for number, part in enumerate(found, 1)
    ]


def _photos(place: Any) -> Sequence[Photo]:
    return [place] if isinstance(place, Photo) else find_photos(place, missing_ok=True)


def _to_json(part: PhotoPart) -> str:
    photos = [(os.path.abspath(photo.path), photo.label) for photo in part.photos]  # noqa: PTH100
    return json.dumps([part.name, photos, part.table, part.group])


# -- what actors do


class EmbedsParts:
    """An actor that has the network and makes one file a part."""

    def __init__(self, wanted: EmbedOrder) -> None:
        from PIL import Image

        from xlda import backbones

        self._wanted, self._problem = wanted, None
        try:
            self._backbone = backbones.load(wanted.backbone, threads=wanted.cpus, **wanted.options)
            self._backbone.embed_one(
                Image.new("RGB", (64, 64))
            )  # now, so that the first part takes no longer
        except EXPECTED as problem:  # told as those of a part are
            self._problem = problem

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Make the part that is described in `row`."""
        name, photos, table, group = json.loads(row["part"])

        def part() -> PartContents:
            if not table:
                return PartContents.of_files([Photo(Path(path), label) for path, label in photos])
            with parquet_file(table) as file:
                rows = file.read_row_group(group)
            return contents_of(rows, Path(table), f"{table}, group {group}")

        return self._made(part, lambda part: name)

    def _made(
        self, opened: Callable[[], PartContents], named: Callable[[PartContents], str]
    ) -> dict[str, Any]:
        wanted, began, name, error = self._wanted, time.time(), "", b""
        done = PartSummary(Path(), 0, False, [])
        try:
            if self._problem is not None:
                raise self._problem
            part = opened()
            name = named(part)
            done = embed_part(
                part,
                self._backbone,
                Path(wanted.out) / name,
                backbone=self._backbone.identity,
                on_error=wanted.on_error,
                decoders=wanted.cpus,
                dtype=wanted.dtype,
                overwrite=wanted.overwrite,
            )
        except EXPECTED as problem:  # told once, by whoever asked for all this
            error = packed(problem)
        skipped = [[str(photo.path), photo.label, why] for photo, why in done.skipped]
        return {
            "file": name,
            "n_embedded": done.n_embedded,
            "was_there": done.was_there,
            "skipped": json.dumps(skipped),
            "error": error,
            "began": began,
            "ended": time.time(),
        }


class EmbedsRows(EmbedsParts):
    """The same for rows of a dataset: a part is named for what is in it."""

    def __call__(self, table: Any) -> dict[str, list[Any]]:
        """Make one part of all rows of a table."""
        made = self._made(lambda: contents_of(table, None, "row"), _name_of_rows)
        return {name: [value] for name, value in made.items()}


def _name_of_rows(part: PartContents) -> str:
    said = json.dumps([[str(photo.path), photo.label] for photo in part.photos])
    return f"part-{hashlib.sha256(said.encode()).hexdigest()[:24]}.parquet"


def contents_of(table: Any, file: Path | None, name: str) -> PartContents:
    """Photos in an Arrow table: their bytes or pixels, or else the files that their paths name.

    The column "image" may have pixels, or both bytes and a path, as data sets on the Hub have it.
    """
    columns = {
        column: table.column(column).to_pylist()
        for column in ("path", "label")
        if column in table.column_names
    }
    content, paths = _content(table)
    paths = columns.get("path", paths)
    labels = [
        None if label is None else str(label) for label in columns.get("label", [None] * table.num_rows)
    ]
    if content is None and paths is None:
        raise ValueError(
            f"Photos are in a column {' or '.join(CONTENTS)}, or named by one called path; "
            f"there are {table.column_names}."
        )
    names = [path or f"{name} {row}" for row, path in enumerate(paths or [None] * table.num_rows)]
    photos = [Photo(Path(one), label) for one, label in zip(names, labels, strict=True)]
    if content is None:
        return PartContents.of_files(photos)
    of_photo = {id(photo): one for photo, one in zip(photos, content, strict=True)}
    return PartContents(photos, lambda photo: of_photo[id(photo)], [] if file is None else [file])


def _content(table: Any) -> tuple[list[Any] | None, list[str | None] | None]:
    """What is opened of each row, and paths that stand beside it."""
    column = next((name for name in CONTENTS if name in table.column_names), None)
    if column is None:
        return None, None
    found = table.column(column)
    if hasattr(found.type, "fields") or str(found.type).startswith("struct"):
        rows = found.to_pylist()
        return [row["bytes"] for row in rows], [row.get("path") for row in rows]
    if str(found.type) in ("binary", "large_binary"):
        return found.to_pylist(), None
    return list(_pixels(found)), None


def _pixels(column: Any) -> Iterator[Any]:
    """Pixels of each row of a column of tensors."""
    for chunk in column.chunks:
        yield from chunk.to_numpy(zero_copy_only=False)
