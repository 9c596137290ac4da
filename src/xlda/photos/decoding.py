"""The pixels of a photo, upright and in RGB. Needs the extra `images`."""

from __future__ import annotations

import io
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.extras import needs
from xlda._internal.upright import check_usable, upright_rgb
from xlda.errors import BadSampleError

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS = 50_000_000

_PNG = b"\x89PNG\r\n\x1a\n"
_HEIF_BRANDS = {
    b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs",
    b"mif1", b"mif2", b"msf1", b"avif", b"avis",
}  # fmt: skip
_PNG_KEPT = {b"IHDR", b"PLTE", b"tRNS", b"eXIf", b"IDAT", b"IEND"}

PhotoContent: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | Image | Array"


class BadImage(BadSampleError):  # noqa: N818 (it is the image that is bad)
    """Something that cannot be used as an image; the message has its name and what is wrong."""


class OtherFormat(BadImage):
    """Something that is no JPEG, PNG or WebP file, by its first bytes."""


class TooManyPixels(BadImage):
    """An image with more pixels than are allowed, which is known before anything is decoded."""


def open_photo(
    photo: PhotoContent,
    max_pixels: int = MAX_PIXELS,
    *,
    name: str | None = None,
    least_side: int | None = None,
) -> Image:
    """The photo in RGB, turned upright as its EXIF data says; whatever is transparent is on white.

    It is a path; the bytes of a JPEG, PNG or WebP file; a PIL image; or pixels of uint8, shaped (h, w),
    (h, w, 3) or (h, w, 4). What is broken, cut short, empty or something else is a `BadImage`, in whose
    message it has its `name`, by default the path; so is what has more than `max_pixels`, which is known
    before anything is decoded. With `least_side`, a JPEG file may be decoded at a half, a quarter or an
    eighth of its size, which is faster, as long as its short side keeps so many pixels. Threads may call
    this side by side, but for one PIL image: it changes no setting of pillow or `warnings`, and pillow has
    nothing to warn of.

    >>> open_photo(np.zeros((480, 640), np.uint8)).size
    (640, 480)
    """
    return open_with_size(photo, max_pixels, name=name, least_side=least_side)[0]


def open_with_size(
    photo: PhotoContent,
    max_pixels: int = MAX_PIXELS,
    *,
    name: str | None = None,
    least_side: int | None = None,
) -> tuple[Image, tuple[int, int]]:
    """The photo as `open_photo` gives it, and the width and height that it has as a whole, upright.

    >>> open_with_size(np.zeros((480, 640), np.uint8))[1]
    (640, 480)
    """
    _check_pillow()
    if name is None:
        name = os.fspath(photo) if isinstance(photo, str | os.PathLike) else "The photo"
    content = Path(photo).read_bytes() if isinstance(photo, str | os.PathLike) else photo
    try:
        image = _image(content, max_pixels)
        width, height = image.size
        if least_side is not None and isinstance(image, _jpeg_reader()):  # a file that was opened here
            image.draft(None, (least_side, least_side))
        upright = upright_rgb(image)
    except BadImage as error:
        raise type(error)(f"{name} {error}") from None
    except Exception as error:  # a broken file can raise anything
        raise BadImage(f"{name} is broken or cut short: {str(error).rstrip('.')}.") from error
    is_turned = upright.size != image.size  # it cannot be told, and hardly matters, where it became a square
    return upright, (height, width) if is_turned else (width, height)


def _check_pillow() -> None:
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        raise needs("Opening photos", "pillow", "images") from None


def _image(content: Any, max_pixels: int) -> Image:
    """The image as it is stored, unless it is too large or cannot be one."""
    import PIL.Image

    if isinstance(content, bytes | bytearray | memoryview):
        return _opened(bytes(content), max_pixels)
    if isinstance(content, np.ndarray):
        content = _drawn(content)
    if not isinstance(content, PIL.Image.Image):
        raise BadImage(
            f"is of type {type(content).__name__}; expected a path, the bytes of a file, a PIL image, "
            "or an array of pixels."
        )
    try:
        check_usable(content)
    except ValueError as error:
        raise BadImage(str(error)) from None
    _check_size(content.size, max_pixels)
    return content


def _drawn(pixels: Array) -> Image:
    import PIL.Image

    if pixels.dtype != np.uint8 or not (pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] in (3, 4))):
        raise BadImage(
            f"is an array of {pixels.dtype} and shape {pixels.shape}; expected uint8 and (height, width), "
            "or (height, width, 3 or 4)."
        )
    if not pixels.size:
        raise BadImage(f"has {pixels.shape[1]} x {pixels.shape[0]} pixels: nothing is in it.")
    return PIL.Image.fromarray(np.ascontiguousarray(pixels))


def _opened(data: bytes, max_pixels: int) -> Image:
    """The image as it is stored, unless it is too large; its pixels are decoded when they are asked for.

    Readers are called by name: `PIL.Image.open` tries them all, and warns of big images.
    """
    if not data:
        raise BadImage("is empty; expected a JPEG, PNG or WebP image.")
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
        _check_still(getattr(image, "n_frames", 1))
    else:
        raise OtherFormat(f"is not a JPEG, PNG or WebP image{_cure_of_heic(data)}.")
    _check_size(image.size, max_pixels)
    return image.convert("I;16") if image.mode == "I" else image  # as older versions of pillow have such PNG


def _cure_of_heic(data: bytes) -> str:
    """What to say to somebody whose telephone saves photos as HEIC or AVIF."""
    if data[4:8] != b"ftyp":
        return ""
    stop = min(int.from_bytes(data[:4], "big"), 256)  # of the box with the brands, the chief one first
    if not any(data[at : at + 4] in _HEIF_BRANDS for at in (8, *range(16, stop, 4))):
        return ""
    return (
        ", but HEIC or AVIF. Send it as JPEG: on an iPhone, choose Settings > Camera > Formats > "
        "Most Compatible"
    )


def _check_still(n_pictures: int) -> None:
    if n_pictures > 1:
        raise BadImage(f"is animated: {n_pictures} pictures; expected one. Save the one that is meant.")


def _check_size(size: tuple[int, int], max_pixels: int) -> None:
    if size[0] * size[1] > max_pixels:
        raise TooManyPixels(
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
        elif data[start + 4 : start + 8] == b"acTL":
            _check_still(int.from_bytes(data[start + 8 : start + 12], "big"))
        start = stop
    return b"".join(kept)
