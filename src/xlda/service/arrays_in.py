"""Embeddings as programs send them: .npy and .npz files, of which nothing is run and no size is trusted."""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from functools import lru_cache
from typing import Any

import numpy as np

from xlda._internal.arrays import Array
from xlda.inputs import prepared
from xlda.service.problems import Problem

MOST_ROWS = 100_000
MAGIC, LONG = b"\x93NUMPY", 70_000  # how a .npy file begins; bytes that no header has more of
FLOATS = (np.float16, np.float32, np.float64)
GROWTH = 8  # times as large as it came may a compressed file be
ALWAYS = 4_000_000  # bytes that it may have in any case
LARGEST_LIST = 4096  # bytes of the list of what is in a .npz file: three arrays need far less


def read_npy(content: bytes, what: str = "The body") -> Array:
    """The array in a .npy file."""
    try:
        start = len(MAGIC) + 4 + int.from_bytes(content[8:10], "little") if content[6:8] == b"\1\0" else LONG
        shape, is_fortran, dtype, start = _header(content[:start])
    except Exception as error:  # which can be anything, of what was made to look like one
        raise Problem(422, f"{what} is not a .npy file that can be read.") from error
    if dtype.hasobject or dtype.kind not in "fUiu":
        raise Problem(422, f"{what} holds {dtype}; expected floats, or text for labels and groups.")
    count = math.prod(shape)
    if count * dtype.itemsize != len(content) - start:
        raise Problem(422, f"{what} is cut short, or is longer than it says.")
    if not count:
        return np.empty(shape, dtype)
    flat: Array = np.frombuffer(content, dtype, count, start)
    return flat.reshape(shape[::-1]).T if is_fortran else flat.reshape(shape)


@lru_cache(maxsize=256)  # reading one takes longer than the rest, and most are the same
def _header(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order, type, and where the numbers begin."""
    file = io.BytesIO(head)
    version = np.lib.format.read_magic(file)
    is_first = version == (1, 0)
    read = np.lib.format.read_array_header_1_0 if is_first else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(file)
    return shape, is_fortran, dtype, file.tell()


def read_npz(content: bytes, most_bytes: int) -> dict[str, Array]:
    """The arrays `embedding`, `label` and perhaps `group` of a .npz file."""
    _check_list(content)
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise Problem(422, "The body is not a .npz file that can be read.") from error
    entries = {entry.filename: entry for entry in archive.infolist()}
    if set(entries) - {"embedding.npy", "label.npy", "group.npy"} or len(entries) != len(archive.infolist()):
        raise Problem(422, "The .npz file holds other arrays than `embedding`, `label` and `group`.")
    if not {"embedding.npy", "label.npy"} <= set(entries):
        raise Problem(422, "The .npz file needs the arrays `embedding` and `label`.")
    allowed = min(max(GROWTH * len(content), ALWAYS), most_bytes)
    if sum(entry.file_size for entry in entries.values()) > allowed:
        raise Problem(413, "The .npz file holds more than is allowed once it is unpacked. Send it in parts.")
    arrays = {}
    for name, entry in entries.items():
        try:
            data = archive.read(entry)
        except (
            zipfile.BadZipFile,
            zlib.error,
            ValueError,
            OSError,
            EOFError,
            NotImplementedError,
            RuntimeError,
        ) as e:
            raise Problem(422, "The .npz file is broken or cut short.") from e
        arrays[name.removesuffix(".npy")] = read_npy(data, f"The array {name.removesuffix('.npy')}")
    return arrays


def _check_list(content: bytes) -> None:
    """Refuse a list of very many entries, each of which would take room; it is at the end of a zip file."""
    end = content[-22:]
    is_plain = end[:4] == b"PK\x05\x06" and end[-2:] == b"\0\0" and content[-42:-38] != b"PK\x06\x07"
    if not is_plain or int.from_bytes(end[12:16], "little") > LARGEST_LIST:
        raise Problem(422, "The body is not a .npz file that can be read, as numpy.savez writes it.")


def embeddings_of(
    array: Array, width: int | None, power: float | None, half: bool = False, lifted: bool = False
) -> Array:
    """Embeddings (n, d) of float32, which can be learned and asked for."""
    if array.dtype not in FLOATS or array.ndim != 2:
        raise Problem(
            422, f"Embeddings are floats of shape (n, d); got {array.dtype} of shape {array.shape}."
        )
    if not len(array) or not array.shape[1]:
        raise Problem(422, "There are no rows of embeddings.")
    if len(array) > MOST_ROWS:
        raise Problem(
            413, f"There are {len(array):,} rows of embeddings, of which {MOST_ROWS:,} are allowed."
        )
    if width is not None and array.shape[1] != width:
        raise Problem(
            422, f"The embeddings have {array.shape[1]} numbers each; this model has learned ones of {width}."
        )
    with np.errstate(over="ignore"):
        embeddings = np.ascontiguousarray(array, np.float32)
    try:
        prepared(embeddings, power, half, lifted)
    except ValueError as error:
        raise Problem(422, _first_sentence(error)) from error
    return embeddings


def texts_of(array: Array, n: int, what: str) -> list[str]:
    """A text for each row: labels or groups; whole numbers are taken as decimal text."""
    if array.ndim != 1 or len(array) != n:
        raise Problem(422, f"There are {n} embeddings, and `{what}` has the shape {array.shape}.")
    if array.dtype.kind not in "Uiu":
        raise Problem(422, f"`{what}` holds {array.dtype}; expected text.")
    try:
        return [str(value) for value in array.tolist()]
    except (ValueError, SystemError) as error:  # code points that there are none of
        raise Problem(422, f"`{what}` holds text that cannot be read.") from error


def _first_sentence(error: Any) -> str:
    return " ".join(str(error).split()).partition(". ")[0].rstrip(".") + "."
