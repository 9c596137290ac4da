"""Embeddings of photos in a Parquet file that survives interruptions. Needs the extra `parquet`.

While `embed_to_parquet` is at work, what is done lies in parts in a folder `<out>.parts`, each written whole
or not at all. At the end they are joined into `<out>` and removed. A run that was stopped, even by `kill -9`,
goes on after its last part.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.extras import needs
from xlda._internal.files import flush_to_disk, replaced
from xlda._internal.interrupts import interrupt_afterwards
from xlda.identity import BackboneIdentity
from xlda.photos.decoding import MAX_PIXELS, BadImage
from xlda.photos.embedding import EmbeddedBatch, Embedder, OnError, embed_photos
from xlda.photos.finding import Photo

DType = Literal["float32", "float16"]

PART_PHOTOS = 1024  # a part is written after so many photos
PART_SECONDS = 30.0  # or after so long: what a `kill -9` costs at most


class Summary(NamedTuple):
    """What `embed_to_parquet` did: embeddings made now, those from before, and photos without, each with why.

    >>> Summary(n_embedded=3, n_resumed=0, skipped=[]).n_embedded
    3
    """

    n_embedded: int
    n_resumed: int
    skipped: list[tuple[Photo, str]]


class EmbeddingWriter:
    """A Parquet file of embeddings, as `XLDA.fit_source` reads it; use it in a `with` block.

    Its columns are `embedding`, `label` (None where unknown) and `path`; `backbone`, and `more` texts by
    name, are kept in its metadata. The file appears when the block ends, whole, or not at all. `dtype` is
    "float32", or "float16" for half the size and about three digits.

    >>> with EmbeddingWriter("shop.parquet", 2, backbone=BackboneIdentity("tiny")) as writer:
    ...     writer.write(np.array([[0.5, 1.0]]), [Photo(Path("1.jpg"), "apple")])
    >>> embedding_info("shop.parquet").name
    'tiny'
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        n_features: int,
        *,
        backbone: BackboneIdentity,
        dtype: DType = "float32",
        more: dict[str, str] | None = None,
    ) -> None:
        pa = _arrow()
        values = {"float32": pa.float32(), "float16": pa.float16()}[dtype]
        self._path, self._dtype = Path(path), dtype
        self._replaced = replaced(self._path)
        self._schema = pa.schema(
            [("embedding", pa.list_(values, n_features)), ("label", pa.string()), ("path", pa.string())],
            {"xlda.backbone": json.dumps(backbone.to_json(), sort_keys=True), **(more or {})},
        )

    def __enter__(self) -> Self:
        unfinished = self._replaced.__enter__()
        self._file = _arrow().parquet.ParquetWriter(unfinished, self._schema, use_dictionary=["label"])
        return self

    def write(self, embeddings: Array, photos: Sequence[Photo]) -> None:
        """Add rows: embeddings (n, n_features) and the n photos that they are of."""
        pa, (values, labels, paths) = _arrow(), self._schema.types
        for photo in photos:
            _check_text(photo)
        flat = np.ascontiguousarray(embeddings, self._dtype).reshape(-1)
        columns = [
            pa.FixedSizeListArray.from_arrays(pa.array(flat, values.value_type), values.list_size),
            pa.array([photo.label for photo in photos], labels),
            pa.array([str(photo.path) for photo in photos], paths),
        ]
        self.write_table(pa.Table.from_arrays(columns, schema=self._schema))

    def write_table(self, table: Any) -> None:
        """Add the rows of an Arrow table that has the same columns."""
        self._file.write_table(table)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._file.close()
        except BaseException as failed:
            self._replaced.__exit__(type(failed), failed, failed.__traceback__)
            raise
        self._replaced.__exit__(kind, error, trace)


def _check_text(photo: Photo) -> None:
    """Refuse names that Parquet cannot hold."""
    try:
        f"{photo.path} {photo.label}".encode()
    except UnicodeEncodeError:
        raise ValueError(f"{str(photo.path)!r} has a name that is not UTF-8. Rename it.") from None


def embedding_info(path: str | os.PathLike[str]) -> BackboneIdentity:
    """The backbone that made the embeddings in a Parquet file; a ValueError where the file does not say."""
    return _backbone(Path(path), _metadata(Path(path)))


def common_backbone(files: Iterable[str | os.PathLike[str]]) -> BackboneIdentity | None:
    """The backbone of files of embeddings, which must be the same for all that say; None where none does."""
    known: BackboneIdentity | None = None
    for file in files:
        try:
            found = embedding_info(file) if Path(file).suffix.lower() == ".parquet" else None
        except ValueError:
            found = None  # not written by `xlda embed`
        if known is not None:
            known.check_same(found, "The first of these files")
        known = known or found
    return known


def embed_to_parquet(
    photos: Sequence[Photo],
    embedder: Embedder,
    out: str | os.PathLike[str],
    *,
    backbone: BackboneIdentity,
    on_error: OnError = "stop",
    batch_size: int = 32,
    decoders: int | None = None,
    max_pixels: int = MAX_PIXELS,
    dtype: DType = "float32",
    overwrite: bool = False,
    progress: Callable[[int], object] | None = None,
) -> Summary:
    """Embed `photos` into the Parquet file `out`, or go on where an earlier call stopped.

    `backbone` says what `embedder` is. What was done before is kept only if it is of the same photos, labels
    and `backbone`, and no photo is newer; anything else is an error, or with `overwrite` made anew. Where
    `out` has all of it there is nothing to do. `progress` is called with the number of photos done since its
    last call. Memory does not grow with the photos, except for those skipped; on disk it takes twice the
    result while the parts are joined.
    """
    out, report = Path(out), progress or (lambda n_photos: None)
    if not photos:
        raise ValueError("No photos to embed.")
    kind = EmbeddingKind.of(photos, backbone, embedder.n_features, dtype)
    if out.exists() and not overwrite:
        kind.check(out, "Choose another name, or replace it with overwrite=True.")
        changed = newer_than(photos, out)
        if changed is not None:
            raise ValueError(f"{changed} is newer than {out}. Embed anew with overwrite=True.")
        summary = Summary(0, rows_in([out]), skipped_in([out], on_error))
        shutil.rmtree(_folder(out), ignore_errors=True)  # a run may have been killed before it did this
        report(len(photos))
        return summary
    with _locked(_folder(out)) as folder:
        parts = _Parts(folder, kind, photos, overwrite)
        n_resumed = rows_in(parts.files)
        skipped_in(parts.files, on_error)
        report(parts.n_photos)
        batches = embed_photos(
            itertools.islice(photos, parts.n_photos, None),
            embedder,
            on_error=on_error,
            batch_size=batch_size,
            decoders=decoders,
            max_pixels=max_pixels,
        )
        with closing(batches), closing(parts):  # Ctrl-C and bad photos do not cost what is done
            for batch in batches:
                parts.add(batch)
                report(len(batch.photos) + len(batch.skipped))
        summary = Summary(rows_in(parts.files) - n_resumed, n_resumed, skipped_in(parts.files, on_error))
        parts.join(out)
    return summary


class EmbeddingKind(NamedTuple):
    """What embeddings are of and from; those of another kind are not mixed with them."""

    backbone: BackboneIdentity
    n_features: int
    dtype: DType
    marks: dict[str, str]

    @classmethod
    def of(cls, photos: Sequence[Photo], backbone: BackboneIdentity, n_features: int, dtype: DType) -> Self:
        """Embeddings of these photos by this backbone."""
        digest = hashlib.sha256()
        for photo in photos:
            digest.update(json.dumps([str(photo.path), photo.label]).encode())
        marks = {"xlda.photos": digest.hexdigest(), "xlda.values": f"{n_features} {dtype}"}
        return cls(backbone, n_features, dtype, marks)

    def writer(self, path: Path, skipped: list[tuple[Photo, str]]) -> EmbeddingWriter:
        """What writes a file of this kind, that says what was skipped."""
        noted = json.dumps([[str(photo.path), photo.label, reason] for photo, reason in skipped])
        more = {**self.marks, "xlda.skipped": noted}
        return EmbeddingWriter(path, self.n_features, backbone=self.backbone, dtype=self.dtype, more=more)

    def check(self, path: Path, cure: str) -> None:
        """Raise a ValueError unless `path` holds this kind."""
        try:
            metadata = _metadata(path)
            found = _backbone(path, metadata)
        except ValueError as error:
            raise ValueError(f"{error} {cure}") from error
        is_other = {
            "another backbone": not self.backbone.is_same(found) and self.backbone != found,
            "other photos or labels": metadata.get("xlda.photos") != self.marks["xlda.photos"],
            "another dtype or length": metadata.get("xlda.values") != self.marks["xlda.values"],
        }
        other = [what for what, is_so in is_other.items() if is_so]
        if other:
            raise ValueError(f"{path} is of {' and '.join(other)}. {cure}")


class _Parts:
    """The parts in a folder, one after the other from the first photo on, and the one in the making."""

    def __init__(self, folder: Path, kind: EmbeddingKind, photos: Sequence[Photo], overwrite: bool) -> None:
        self._folder, self._kind = folder, kind
        self._pending: list[EmbeddedBatch[Photo]] = []
        self._since = time.monotonic()
        self.files: list[Path] = []
        self.n_photos = 0
        for file in sorted(folder.glob("*.parquet")):
            start, stop = map(int, file.stem.split("-"))
            try:
                kind.check(file, f"Remove {folder}, or start anew with overwrite=True.")
            except ValueError:
                if not overwrite:
                    raise
                file.unlink()
                continue
            if start == self.n_photos and newer_than(photos[start:stop], file) is None:
                self.files.append(file)
                self.n_photos = stop

    def add(self, batch: EmbeddedBatch[Photo]) -> None:
        self._pending.append(batch)
        n_photos = sum(len(batch.photos) + len(batch.skipped) for batch in self._pending)
        if n_photos >= PART_PHOTOS or time.monotonic() - self._since > PART_SECONDS:
            self.close()

    def close(self) -> None:
        """Write what is pending."""
        skipped = [one for batch in self._pending for one in batch.skipped]
        photos = [photo for batch in self._pending for photo in batch.photos]
        stop = self.n_photos + len(photos) + len(skipped)
        if stop == self.n_photos:
            return
        file = self._folder / f"{self.n_photos:012}-{stop:012}.parquet"
        with interrupt_afterwards():
            with self._kind.writer(file, skipped) as writer:
                writer.write(np.concatenate([batch.embeddings for batch in self._pending]), photos)
            self.files.append(file)
            self.n_photos, self._pending, self._since = stop, [], time.monotonic()

    def join(self, out: Path) -> None:
        """Make one file of the parts, and remove them."""
        whole = self._folder / "whole"
        with self._kind.writer(whole, skipped_in(self.files, "skip")) as writer:
            for file in self.files:
                writer.write_table(_arrow().parquet.read_table(file))
        whole.replace(out)
        flush_to_disk(out.parent)
        shutil.rmtree(self._folder)


def newer_than(photos: Sequence[Photo], file: Path) -> Path | None:
    """A photo that was changed after the file was written, if there is one."""
    written = file.stat().st_mtime_ns
    for photo in photos:
        with suppress(OSError):  # one that is not there was skipped
            if photo.path.stat().st_mtime_ns > written:
                return photo.path
    return None


def _folder(out: Path) -> Path:
    return out.with_name(f"{out.name}.parts")


@contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    """The folder, made if need be, for this process alone; where files cannot be locked, for any."""
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"No folder {folder.parent} to write in.")
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        stack.callback(_remove_if_empty, folder)
        with suppress(ImportError, OSError):  # Windows, and some network drives
            import fcntl

            descriptor = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RuntimeError(f"Another run is at work in {folder}; wait for it to end.") from None
        yield folder


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def skipped_in(files: list[Path], on_error: OnError) -> list[tuple[Photo, str]]:
    """Photos noted as skipped in these files."""
    noted = [one for file in files for one in json.loads(_metadata(file)["xlda.skipped"])]
    if noted and on_error == "stop":
        raise BadImage(
            f"{noted[0][2]} It was skipped before, as one of {len(noted)}; "
            'go on with on_error="skip", or mend it and start anew with overwrite=True.'
        )
    return [(Photo(Path(path), label), reason) for path, label, reason in noted]


def rows_in(files: list[Path]) -> int:
    """Embeddings in these files."""
    return sum(int(_arrow().parquet.read_metadata(file).num_rows) for file in files)


def _metadata(path: Path) -> dict[str, str]:
    pa = _arrow()
    try:
        metadata = pa.parquet.read_schema(path).metadata or {}
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is not a complete Parquet file: {str(error).rstrip('.')}.") from error
    return {key.decode(): value.decode() for key, value in metadata.items() if key.startswith(b"xlda.")}


def _backbone(path: Path, metadata: dict[str, str]) -> BackboneIdentity:
    """What the metadata of a file say of its backbone, whichever version of xlda wrote them."""
    try:
        found = BackboneIdentity.from_json(json.loads(metadata.get("xlda.backbone", "null")))
    except ValueError as error:
        raise ValueError(f"{path} has metadata xlda.backbone that cannot be read: {error}") from error
    if found is None:
        raise ValueError(f"{path} does not say which backbone made it; `xlda embed` has not written it.")
    return found


def _arrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise needs("Storing embeddings, or reading them from Parquet,", "pyarrow", "parquet") from None
    return pyarrow
