"""Photos on disk: which there are, what they show, and their pixels, upright and in RGB.

Needs pillow to open them: `pip install 'xlda[images]'`.
"""

from __future__ import annotations

import csv
import glob
import io
import itertools
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
LISTS = {".txt": ",", ".csv": ",", ".tsv": "\t"}  # and what separates their columns
MAX_PIXELS = 50_000_000

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_KEPT = {b"IHDR", b"PLTE", b"tRNS", b"eXIf", b"IDAT", b"IEND"}
_ORIENTATION = 0x0112  # the tag of EXIF


class Photo(NamedTuple):
    """A file, and what it shows, if that is known.

    >>> Photo(Path("shop/apple/1.jpg"), "apple").label
    'apple'
    """

    path: Path
    label: str | None


class BadImage(ValueError):  # noqa: N818 (it is the image that is bad)
    """A file that cannot be used as an image; the message has its name and what is wrong."""


def find_photos(where: str | os.PathLike[str], *, missing_ok: bool = False) -> list[Photo]:
    """JPEG, PNG and WebP photos with their labels, from one of these:

    - a folder: every photo in it, however deep. Its label is its own folder, seen from the one given:
      `apple`, or `fruit/apple`. Photos right in the folder have None.
    - a pattern such as `shop/**/*.jpg`. Labels as for the folder before the first wildcard, here `shop`.
    - a list: a `.txt`, `.csv` or `.tsv` file with `path, label` in each line, in that order. Paths are seen
      from the folder of the list. A first line `path, label`, quotes and more columns may be there; a line
      without a label gives None.
    - one photo; its label is None.

    Folders and patterns give a sorted list without hidden files; a list keeps its order. A file in a list
    that is not there is an error, unless `missing_ok` leaves that to whoever opens it.
    """
    path = Path(where)
    if path.is_dir():
        photos = [Photo(file, _label(file, path)) for file in _walk(path)]
    elif path.exists():
        photos = _from_file(path, missing_ok)
    elif glob.has_magic(str(where)):
        photos = _from_pattern(str(where))
    else:
        raise FileNotFoundError(f"No such file or folder: {path}")
    if not photos:
        raise FileNotFoundError(f"No photos in {path}: looked for {', '.join(SUFFIXES)} files.")
    return photos


def open_photo(path: str | os.PathLike[str], max_pixels: int = MAX_PIXELS) -> Image:
    """The photo in RGB, turned upright as its EXIF data says; whatever is transparent is on white.

    A file that is broken, cut short, empty or no JPEG, PNG or WebP is a `BadImage`; so is one that has more
    than `max_pixels`, which is known before anything is decoded. Threads may call this side by side: it
    changes no setting of pillow or `warnings`, and pillow has nothing to warn of.
    """
    _check_pillow()
    data = Path(path).read_bytes()
    if not data:
        raise BadImage(f"{path} is empty; expected a JPEG, PNG or WebP image.")
    try:
        image = _opened(data, max_pixels)
        return _upright(_rgb(image), image.info.get("exif", b""))
    except BadImage as error:
        raise BadImage(f"{path} {error}") from None
    except Exception as error:  # a broken file can raise anything
        raise BadImage(f"{path} is broken or cut short: {str(error).rstrip('.')}.") from error


def _walk(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Photos in and below `folder`, sorted; a link to a folder that it is in leads nowhere."""
    here = folder.resolve()
    if here in above:
        return
    with os.scandir(folder) as found:
        entries = sorted((entry.name, entry.is_dir()) for entry in found if not entry.name.startswith("."))
    for name, is_folder in entries:
        if is_folder:
            yield from _walk(folder / name, (*above, here))
        elif _is_photo(name):
            yield folder / name


def _from_pattern(pattern: str) -> list[Photo]:
    root = Path(*itertools.takewhile(lambda part: not glob.has_magic(part), Path(pattern).parts[:-1]))
    files = sorted(Path(file) for file in glob.glob(pattern, recursive=True) if _is_photo(file))  # noqa: PTH207
    return [Photo(file, _label(file, root)) for file in files if file.is_file()]


def _from_file(path: Path, missing_ok: bool) -> list[Photo]:
    if _is_photo(path.name):
        return [Photo(path, None)]
    if path.suffix.lower() in LISTS:
        return _from_list(path, missing_ok)
    raise ValueError(
        f"{path} is no photo ({', '.join(SUFFIXES)}) and no list of photos ({', '.join(LISTS)})."
    )


def _from_list(path: Path, missing_ok: bool) -> list[Photo]:
    lines: dict[str, int] = {}
    photos = []
    for line, row in _rows(path):
        if line == 1 and [cell.lower() for cell in row[:2]] in (["path"], ["path", "label"]):
            continue
        file = path.parent / row[0]
        first = lines.setdefault(os.path.normpath(file), line)
        if first != line:
            raise ValueError(f"{path}, line {line}: {row[0]} is in line {first} already.")
        if not _is_photo(row[0]):
            raise ValueError(
                f"{path}, line {line}: {row[0]!r} is no {', '.join(SUFFIXES)} file; expected `path, label`."
            )
        if not missing_ok and not file.is_file():
            raise FileNotFoundError(f"{path}, line {line}: no file {file}")
        photos.append(Photo(file, (row[1] if len(row) > 1 else "") or None))
    return photos


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Number and stripped cells of each line that is not blank."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=LISTS[path.suffix.lower()], skipinitialspace=True, strict=True)
        try:
            for row in reader:
                if any(cell.strip() for cell in row):
                    yield reader.line_num, [cell.strip() for cell in row]
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(
                f"{path}, after line {reader.line_num}: {error}; expected `path, label`."
            ) from error


def _is_photo(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def _label(file: Path, root: Path) -> str | None:
    parent = file.parent.relative_to(root).as_posix()
    return None if parent == "." else parent


def _check_pillow() -> None:
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        raise ImportError("Opening photos needs pillow: pip install 'xlda[images]'") from None


def _opened(data: bytes, max_pixels: int) -> Image:
    """The image as it is stored, unless it is too large; its pixels are decoded when they are asked for.

    Readers are called by name: `PIL.Image.open` tries them all, and warns of big images.
    """
    image: Image
    if data.startswith(b"\xff\xd8\xff"):
        image = _jpeg_reader()(io.BytesIO(data))
    elif data.startswith(_PNG):
        from PIL.PngImagePlugin import PngImageFile

        image = PngImageFile(io.BytesIO(_plain_png(data)))
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        from PIL.WebPImagePlugin import WebPImageFile

        _check_size(_webp_size(data), max_pixels)  # the reader makes room for all pixels at once
        image = WebPImageFile(io.BytesIO(data))
    else:
        raise BadImage("is not a JPEG, PNG or WebP image.")
    _check_size(image.size, max_pixels)
    return image


def _check_size(size: tuple[int, int], max_pixels: int) -> None:
    if size[0] * size[1] > max_pixels:
        raise BadImage(
            f"has {size[0]} x {size[1]} pixels, more than {max_pixels}; "
            "scale it down, or allow it with max_pixels."
        )


@cache
def _jpeg_reader() -> Any:
    from PIL.Image import Exif
    from PIL.JpegImagePlugin import JpegImageFile

    class Reader(JpegImageFile):
        def getexif(self) -> Exif:  # pillow would look for the resolution, and warn of corrupt EXIF data
            return Exif()

    return Reader


def _webp_size(data: bytes) -> tuple[int, int]:
    """Width and height from the first chunk: lossy, lossless or extended."""
    if data[12:16] == b"VP8 ":
        width, height = (int.from_bytes(data[at : at + 2], "little") & 0x3FFF for at in (26, 28))
        return width, height
    if data[12:16] == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
    return width, height


def _plain_png(data: bytes) -> bytes:
    """The PNG without animation, texts and colour profiles: pillow would warn of faults in them."""
    kept, start = [_PNG], len(_PNG)
    while start < len(data):
        stop = start + 12 + int.from_bytes(data[start : start + 4], "big")
        if data[start + 4 : start + 8] in _PNG_KEPT or stop > len(data):
            kept.append(data[start:stop])
        start = stop
    return b"".join(kept)


def _rgb(image: Image) -> Image:
    import PIL.Image
    import PIL.ImageChops

    if image.mode.startswith("I"):  # 16 bits of grey; pillow would cut off all above 255
        grey = np.asarray(image).astype(np.uint32)
        return PIL.Image.fromarray(((grey * 255 + 32767) // 65535).astype(np.uint8)).convert("RGB")
    if image.mode == "CMYK" and "adobe" not in image.info:  # pillow takes all for Adobe's, which are inverted
        image = PIL.ImageChops.invert(image)
    if "A" in image.mode or "transparency" in image.info:
        white = PIL.Image.new("RGBA", image.size, "white")
        image = PIL.Image.alpha_composite(white, image.convert("RGBA"))
    return image.convert("RGB")


def _upright(image: Image, exif: bytes) -> Image:
    from PIL.Image import Transpose

    turns = {
        2: Transpose.FLIP_LEFT_RIGHT, 3: Transpose.ROTATE_180, 4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE, 6: Transpose.ROTATE_270, 7: Transpose.TRANSVERSE, 8: Transpose.ROTATE_90,
    }  # fmt: skip
    turn = turns.get(_orientation(exif))
    image = image if turn is None else image.transpose(turn)
    image.info = {}  # whoever looked at the orientation there would turn it again
    return image


def _orientation(exif: bytes) -> int:
    """The orientation in the first directory of EXIF data; 1, upright, where none can be read."""
    tiff = exif.removeprefix(b"Exif\0\0")
    order: Literal["little", "big"] = "little" if tiff.startswith(b"II") else "big"

    def number(at: int, n_bytes: int) -> int:
        return int.from_bytes(tiff[at : at + n_bytes], order)

    first = number(4, 4) + 2
    for entry in range(first, min(first + 12 * number(first - 2, 2), len(tiff) - 11), 12):
        if number(entry, 2) == _ORIENTATION:
            return number(entry + 8, 4 if number(entry + 2, 2) == 4 else 2)
    return 1
