"""Parquet files as what workers share: groups of rows, each read where it is needed.

`ray.data.read_parquet` would do, but fails now and then where aiohttp is not installed: its threads import it
side by side.
"""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Any

from xlda._internal.extras import needs
from xlda.extras._ray_cluster import ray_data
from xlda.sources import SourceError
from xlda.sources.source import Position


def tables_at(place: str | os.PathLike[str]) -> list[str]:
    """Parquet files at a place: one, those of a folder, or those of a pattern; none where it has others."""
    name = os.path.abspath(place)  # noqa: PTH100  (a pattern is no path)
    if Path(name).is_dir():
        return sorted(str(file) for file in Path(name).glob("*.parquet"))
    if not name.endswith(".parquet"):
        return []
    return sorted(glob.glob(name)) or [name]  # noqa: PTH207


def n_groups(table: str) -> int:
    """Groups of rows in a file."""
    with parquet_file(table) as file:
        return int(file.num_row_groups)


def files_at(source: Any) -> list[str]:
    """Parquet files at some places; none at all is an error."""
    places = source if isinstance(source, list | tuple) else [source]
    tables = [table for place in places for table in tables_at(place)]
    if not tables:
        raise FileNotFoundError(f"No Parquet files in {source!r}.")
    return tables


def check_columns(tables: list[str], n_features: int) -> None:
    """Refuse files without embeddings, or with such of another width, as far as their schemas tell."""
    for table in tables:
        with parquet_file(table) as file:
            schema = file.schema_arrow
        width = n_features
        if "embedding" in schema.names:
            width = getattr(schema.field("embedding").type, "list_size", n_features)
            problem = f"embeddings of {width} features; the model has {n_features}. Use the same backbone."
        else:
            names = ", ".join(map(repr, schema.names))
            problem = f"no column 'embedding'; it has {names or 'none'}."
        if width != n_features or "embedding" not in schema.names:
            raise SourceError(Position(table, 0), problem, resumable=False)


def rows_of(tables: list[str]) -> Any:
    """A dataset of all rows of Parquet files."""
    groups = [{"file": table, "group": group} for table in tables for group in range(n_groups(table))]
    given = ray_data().from_items(groups, override_num_blocks=len(groups))
    return given.map_batches(_read, batch_size=1, batch_format="numpy")


def _read(one: dict[str, Any]) -> Any:
    with parquet_file(str(one["file"][0])) as file:
        return file.read_row_group(int(one["group"][0]))


def parquet_file(table: str) -> Any:
    """The file, opened."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise needs("Reading Parquet", "pyarrow", "parquet") from None
    return pyarrow.parquet.ParquetFile(table)
