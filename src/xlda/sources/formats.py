"""One file, or one pair of arrays, of embeddings and labels: how each format is read in bounded memory.

Files are read, not mapped: pages of a mapped file count as memory of the process until they are evicted.
"""

from __future__ import annotations

import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from xlda._internal.arrays import Array
from xlda._internal.extras import needs
from xlda._internal.safetensors_file import BadSafetensorsError, TensorPlace, read_header


class Shard(ABC):
    """Embeddings and labels in rows, of which `first` is the first."""

    name: str
    first: int = 0

    @abstractmethod
    def n_samples(self) -> int:
        """Number of samples, without reading them."""

    @abstractmethod
    def batches(self, start: int, size: int) -> Iterator[tuple[Array, Any]]:
        """Embeddings (n, d) and labels (n,) from row `start` on, at most `size` rows at a time.

        Labels are None where there are none to read.
        """


class Stretch(Shard):
    """Rows `first` to `stop` of another shard, by whose numbers they go."""

    def __init__(self, shard: Shard, first: int, stop: int) -> None:
        self.name, self.first = shard.name, first
        self._shard, self._stop = shard, stop

    def n_samples(self) -> int:
        """Length of the stretch."""
        return self._stop - self.first

    def batches(self, start: int, size: int) -> Iterator[tuple[Array, Any]]:
        """Those of the shard, as far as they are of the stretch."""
        left = self._stop - start
        for embeddings, labels in self._shard.batches(start, size):
            yield embeddings[:left], None if labels is None else labels[:left]
            left -= len(embeddings)
            if left <= 0:
                return


class ArrayShard(Shard):
    """Two arrays, mapped ones included; or embeddings alone."""

    def __init__(self, embeddings: Any, labels: Any) -> None:
        self.name = ""
        self._embeddings, self._labels = np.asanyarray(embeddings), labels

    def n_samples(self) -> int:
        """Length of the arrays."""
        return len(self._embeddings)

    def batches(self, start: int, size: int) -> Iterator[tuple[Array, Any]]:
        """Slices."""
        if self._labels is not None:
            _check_lengths(len(self._embeddings), len(self._labels))
        for row in range(start, len(self._embeddings), size):
            some = slice(row, row + size)
            yield self._embeddings[some], None if self._labels is None else self._labels[some]


@dataclass
class RowReader:
    """An array in a binary stream, in C order, read row after row."""

    stream: IO[bytes]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def skip(self, n: int) -> None:
        """Leave out the next `n` rows."""
        self.stream.seek(n * self._row_bytes(), 1)

    def read(self, n: int) -> Array:
        """The next `n` rows."""
        data = self.stream.read(n * self._row_bytes())
        if len(data) < n * self._row_bytes():
            raise EOFError(f"the file is truncated: {self.shape} of {self.dtype} was expected.")
        return np.frombuffer(data, self.dtype).reshape(n, *self.shape[1:])

    def _row_bytes(self) -> int:
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize


class RowReaderShard(Shard):
    """Two arrays in files, each in C order; or embeddings alone."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path

    @abstractmethod
    def _open(self) -> Any:
        """Context manager that gives the rows of the embeddings and those of the labels, if any."""

    def n_samples(self) -> int:
        """Length according to the header."""
        with self._open() as (embeddings, _):
            return int(embeddings.shape[0])

    def batches(self, start: int, size: int) -> Iterator[tuple[Array, Any]]:
        """RowReader as they are read."""
        with self._open() as (embeddings, labels):
            n_samples = embeddings.shape[0]
            embeddings.skip(min(start, n_samples))
            if labels is not None:
                _check_lengths(n_samples, labels.shape[0])
                labels.skip(min(start, n_samples))
            for row in range(start, n_samples, size):
                n = min(size, n_samples - row)
                yield embeddings.read(n), None if labels is None else labels.read(n)


class NpyShard(RowReaderShard):
    """A `.npy` file of embeddings and one of labels, if any."""

    def __init__(self, embeddings: Path, labels: Path | None) -> None:
        super().__init__(embeddings)
        self._labels = labels

    @contextmanager
    def _open(self) -> Iterator[tuple[RowReader, RowReader | None]]:
        with ExitStack() as stack:
            embeddings = _npy_rows(stack.enter_context(self._path.open("rb")))
            if self._labels is None:
                yield embeddings, None
            else:
                yield embeddings, _npy_rows(stack.enter_context(self._labels.open("rb")))


class NpzShard(RowReaderShard):
    """A `.npz` file, compressed or not."""

    def __init__(self, path: Path, embeddings: str, labels: str | None) -> None:
        super().__init__(path)
        self._names = _names(embeddings, labels)

    @contextmanager
    def _open(self) -> Iterator[tuple[RowReader, RowReader | None]]:
        with ExitStack() as stack:
            try:
                archive = stack.enter_context(zipfile.ZipFile(self._path))
            except zipfile.BadZipFile as error:
                raise ValueError(f"not a complete .npz file: {error}.") from error
            found = [name.removesuffix(".npy") for name in archive.namelist()]
            _check_names(self._names, found, "array")
            rows = [_npy_rows(stack.enter_context(archive.open(f"{name}.npy"))) for name in self._names]
            yield rows[0], rows[1] if len(rows) > 1 else None


class SafetensorsShard(RowReaderShard):
    """A safetensors file with a tensor of embeddings and one of integer labels."""

    def __init__(self, path: Path, embeddings: str, labels: str | None) -> None:
        super().__init__(path)
        self._names = _names(embeddings, labels)

    @contextmanager
    def _open(self) -> Iterator[tuple[RowReader, RowReader | None]]:
        with ExitStack() as stack:
            streams = [stack.enter_context(self._path.open("rb")) for _ in self._names]
            try:
                tensors = read_header(streams[0]).tensors
            except BadSafetensorsError as error:
                raise ValueError(f"not a complete safetensors file: {error}.") from error
            _check_names(self._names, list(tensors), "tensor")
            rows = [_tensor_rows(*pair, tensors[pair[1]]) for pair in zip(streams, self._names, strict=True)]
            yield rows[0], rows[1] if len(rows) > 1 else None


class ParquetShard(Shard):
    """A Parquet file: embeddings in a column of lists, all of one length; labels of strings or integers."""

    def __init__(self, path: Path, embeddings: str, labels: str | None) -> None:
        self.name = str(path)
        self._names = _names(embeddings, labels)

    def n_samples(self) -> int:
        """Number of rows according to the footer."""
        return int(_parquet().read_metadata(self.name).num_rows)

    def batches(self, start: int, size: int) -> Iterator[tuple[Array, Any]]:
        """RowReader as they are decoded."""
        with _parquet().ParquetFile(self.name, pre_buffer=False, buffer_size=2**20) as file:
            _check_names(self._names, file.schema_arrow.names, "column")
            first, skipped = 0, 0
            while first < file.num_row_groups and skipped + file.metadata.row_group(first).num_rows <= start:
                skipped += file.metadata.row_group(first).num_rows
                first += 1
            surplus = start - skipped
            groups = range(first, file.num_row_groups)
            for batch in file.iter_batches(
                size, row_groups=groups, columns=list(self._names), use_threads=False
            ):
                left = batch.slice(min(surplus, len(batch)))
                surplus -= len(batch) - len(left)
                if len(left):
                    embeddings, *labels = (left.column(name) for name in self._names)
                    yield (
                        column_of_embeddings(embeddings, self._names[0]),
                        labels[0].to_numpy(zero_copy_only=False) if labels else None,
                    )


def _parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise needs("Reading Parquet", "pyarrow", "parquet") from None
    return pyarrow.parquet


def column_of_embeddings(column: Any, name: str) -> Array:
    """A column of lists as an array (n, d), without copying where that can be."""
    if not hasattr(column, "value_lengths"):
        raise ValueError(f"column {name!r} is {column.type}; expected lists of floats.")
    if column.null_count:
        raise ValueError(f"column {name!r} has {column.null_count} missing embeddings.")
    lengths = np.unique(column.value_lengths().to_numpy(zero_copy_only=False))
    if len(lengths) != 1:
        raise ValueError(
            f"column {name!r} has lists of {lengths[0]} to {lengths[-1]} values; expected one length."
        )
    values: Array = column.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(column), -1)


def _npy_rows(stream: IO[bytes]) -> RowReader:
    version = npy.read_magic(stream)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read_header(stream)
    if dtype.hasobject:
        raise ValueError("an array of Python objects; expected numbers or strings of fixed width.")
    if fortran and len(shape) > 1:
        raise ValueError("an array in Fortran order; save np.ascontiguousarray of it.")
    return RowReader(stream, dtype, shape)


def _tensor_rows(stream: IO[bytes], name: str, place: TensorPlace) -> RowReader:
    if place.dtype is None or place.dtype.kind == "b":
        raise ValueError(f"tensor {name!r} is {place.kind}; expected F16, F32 or F64, and integer labels.")
    stream.seek(place.start)
    return RowReader(stream, place.dtype, place.shape)


def _names(embeddings: str, labels: str | None) -> tuple[str, ...]:
    return (embeddings,) if labels is None else (embeddings, labels)


def _check_names(wanted: tuple[str, ...], found: list[str], what: str) -> None:
    for name in wanted:
        if name not in found:
            raise ValueError(f"no {what} {name!r}; it has {', '.join(map(repr, found)) or 'none'}.")


def _check_lengths(n_embeddings: int, n_labels: int) -> None:
    if n_embeddings != n_labels:
        raise ValueError(f"{n_embeddings} embeddings beside {n_labels} labels.")
