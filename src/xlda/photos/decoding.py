"""The pixels of a photo, upright and in RGB. Needs the extra `images`."""

from __future__ import annotations

import io
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from xlda._internal.extras import needs

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS = 50_000_000

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_KEPT = {b"IHDR", b"PLTE", b"tRNS", b"eXIf", b"IDAT", b"IEND"}
_ORIENTATION = 0x0112  # the tag of EXIF


class BadImage(ValueError):  # noqa: N818 (it is the image that is bad)
    """A file that cannot be used as an image; the message has its name and what is wrong."""


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


def _check_pillow() -> None:
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        raise needs("Opening photos", "pillow", "images") from None


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
