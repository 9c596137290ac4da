"""Embeddings and labels from arrays and files, batch after batch: in bounded memory, order kept."""

from __future__ import annotations

import glob
import itertools
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from xlda._internal.arrays import Array
from xlda.sources.formats import (
    ArrayShard,
    NpyShard,
    NpzShard,
    ParquetShard,
    SafetensorsShard,
    Shard,
    Stretch,
)

FORMATS: dict[str, Callable[[Path, str, str | None], Shard]] = {
    ".parquet": ParquetShard,
    ".npz": NpzShard,
    ".safetensors": SafetensorsShard,
}
READ_ERRORS = (OSError, ValueError, EOFError, zipfile.BadZipFile)


class Position(NamedTuple):
    """The next sample to learn: a file and a row in it. For arrays, the file is ""."""

    file: str
    row: int


class Batch(NamedTuple):
    """Some consecutive samples of one file."""

    embeddings: Array
    labels: Any
    start: Position
    end: Position


class SourceError(ValueError):
    """A file that cannot be read, or holds what cannot be learned. `position` is where to go on.

    Where it is not `resumable`, nothing before it was kept, and nobody is told to go on.
    """

    def __init__(self, position: Position, problem: object, resumable: bool = True) -> None:
        cure = f"\nAll before it is learned. Once it is mended, go on with resume={tuple(position)!r}."
        super().__init__(
            f"{position.file or 'the arrays'}, row {position.row}: {problem}{cure if resumable else ''}"
        )
        self.position, self.problem, self._resumable = position, str(problem), resumable

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.position, self.problem, self._resumable)  # to another process as it is


class Source:
    """Samples in shards, one shard after the other."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards = shards

    def n_samples(self, resume: tuple[str, int] | None = None) -> int:
        """Samples from `resume` on. A file that cannot be opened counts as empty: reading it will say why."""
        return sum(max(_length(shard) - (row - shard.first), 0) for shard, row in self._from(resume))

    @property
    def files(self) -> list[str]:
        """Names of the shards: paths, or "" for arrays."""
        return [shard.name for shard in self._shards]

    def split(self, n: int) -> list[Source]:
        """Up to `n` sources that have these samples between them, in order, each about as many.

        >>> source = open_source(([[1.0], [2.0], [3.0]], ["a", "b", "c"]))
        >>> [part.n_samples() for part in source.split(2)]
        [1, 2]
        """
        lengths = [shard.n_samples() for shard in self._shards]
        ends = list(itertools.accumulate(lengths))
        edges = [sum(lengths) * part // n for part in range(n + 1)]
        parts = []
        for start, stop in itertools.pairwise(edges):
            shards: list[Shard] = []
            for shard, length, end in zip(self._shards, lengths, ends, strict=True):
                begin = end - length
                first, last = max(start, begin) - begin, min(stop, end) - begin
                if first < last:
                    shards.append(Stretch(shard, shard.first + first, shard.first + last))
            if shards:
                parts.append(Source(shards))
        return parts

    def batches(self, size: int, resume: tuple[str, int] | None = None) -> Iterator[Batch]:
        """All samples in order, at most `size` at a time; a batch never spans two files."""
        for shard, row in self._from(resume):
            start = Position(shard.name, row)
            try:
                for embeddings, labels in shard.batches(row, size):
                    end = Position(shard.name, start.row + len(embeddings))
                    yield Batch(embeddings, labels, start, end)
                    start = end
            except READ_ERRORS as error:
                raise SourceError(start, error) from error

    def _from(self, resume: tuple[str, int] | None) -> Iterator[tuple[Shard, int]]:
        """Shards still to be read, each with the row to begin at."""
        names = self.files
        file, row = (names[0], self._shards[0].first) if resume is None else resume
        if file not in names or row < 0:
            raise ValueError(f"resume={resume!r} names no place in this source of {len(names)} files.")
        first = names.index(file)
        for number, shard in enumerate(self._shards[first:]):
            yield shard, shard.first if number else row


def open_source(where: Any, *, embeddings: str = "embedding", labels: str | None = "label") -> Source:
    """Samples from wherever they are, to be given to `XLDA.fit_source`.

    - two arrays `(X, y)`, or the paths of two `.npy` files;
    - a Parquet, `.npz` or `.safetensors` file with a column, array or tensor named as `embeddings` says, and
      one as `labels` says; a folder of such files or a pattern with `*`, in sorted order; or a list of paths.

    With `labels=None` there are none, as `XLDA.from_linear` wants it: one array, one `.npy` file, or files.

    Parquet needs the extra `parquet`.

    >>> source = open_source(([[1.0], [2.0], [3.0]], ["a", "b", "c"]))
    >>> [batch.labels for batch in source.batches(2)]
    [['a', 'b'], ['c']]
    """
    if isinstance(where, Source):
        return where
    if labels is None and not _is_path(where):
        return Source([ArrayShard(where, None)])
    if isinstance(where, tuple) and len(where) == 2:
        return Source([_pair(*where)])
    return Source([_file(path, embeddings, labels) for path in _paths(where)])


def _pair(embeddings: Any, labels: Any) -> Shard:
    if _is_path(embeddings) and _is_path(labels):
        return NpyShard(Path(embeddings), Path(labels))
    return ArrayShard(embeddings, labels)


def _is_path(where: Any) -> bool:
    """Whether this is a path, or a list of them."""
    one = where[0] if isinstance(where, list) and where else where
    return isinstance(one, str | os.PathLike)


def _file(path: Path, embeddings: str, labels: str | None) -> Shard:
    if labels is None and path.suffix.lower() == ".npy":
        return NpyShard(path, None)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(
            f"{path} is not one of {', '.join(FORMATS)}; a pair of .npy files is given as a tuple."
        )
    return FORMATS[path.suffix.lower()](path, embeddings, labels)


def _paths(where: Any) -> list[Path]:
    if isinstance(where, list):
        paths = [Path(path) for path in where]
    elif isinstance(where, str) and glob.has_magic(where) and not Path(where).exists():
        paths = sorted(Path(path) for path in glob.glob(where, recursive=True))  # noqa: PTH207
    elif Path(where).is_dir():
        paths = sorted(path for path in Path(where).iterdir() if path.suffix.lower() in FORMATS)
    else:
        paths = [Path(where)]
    if not paths:
        raise FileNotFoundError(f"No {', '.join(FORMATS)} file in {where!r}.")
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        raise FileNotFoundError(f"No such file: {missing[0]}")
    return paths


def _length(shard: Shard) -> int:
    try:
        return shard.n_samples()
    except READ_ERRORS:
        return 0
