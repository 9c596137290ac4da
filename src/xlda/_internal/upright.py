"""The one way in which a picture becomes upright and RGB, for whoever has one. Needs pillow.

It stands here, before all else, since backbones prepare pictures and photos are opened, and neither of the
two packages knows the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

_ORIENTATION = 0x0112  # the tag of EXIF
_EXIF_IN_INFO = ("JPEG", "PNG", "WEBP")  # formats whose EXIF data pillow keeps there, as they are


def check_usable(image: Image) -> None:
    """Refuse, by a ValueError that goes on a sentence, what has no pixels or no known range."""
    if not all(image.size):
        raise ValueError(f"has {image.width} x {image.height} pixels: nothing is in it.")
    if image.mode in ("I", "F"):
        raise ValueError(f"is of mode {image.mode}, whose range is not known. Make it RGB first.")


def upright_rgb(image: Image) -> Image:
    """A usable picture in RGB, turned as its EXIF data say; whatever is transparent is on white.

    16 bits of grey are scaled to 8. An image that is upright and RGB already is given back as it is.
    """
    rgb = _rgb(image)
    turned = _turned(rgb, _orientation(image))  # after it was decoded: some EXIF data come after the pixels
    if turned is not image:
        turned.info = {}  # whoever looked at the orientation there would turn it again
    return turned


def _rgb(image: Image) -> Image:
    import PIL.Image
    import PIL.ImageChops

    image.load()
    if image.mode.startswith("I"):  # 16 bits of grey; pillow would cut off all above 255
        grey = np.asarray(image).astype(np.uint32)
        return PIL.Image.fromarray(((grey * 255 + 32767) // 65535).astype(np.uint8)).convert("RGB")
    if image.mode == "CMYK" and image.format == "JPEG" and "adobe" not in image.info:
        image = PIL.ImageChops.invert(image)  # pillow takes all JPEG files for Adobe's, which are inverted
    if image.has_transparency_data:
        over = image.convert("LA") if image.mode == "La" else image
        white = PIL.Image.new("RGBA", image.size, "white")
        image = PIL.Image.alpha_composite(white, over.convert("RGBA"))
    return image if image.mode == "RGB" else image.convert("RGB")


def _turned(image: Image, orientation: int) -> Image:
    from PIL.Image import Transpose

    turns = {
        2: Transpose.FLIP_LEFT_RIGHT, 3: Transpose.ROTATE_180, 4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE, 6: Transpose.ROTATE_270, 7: Transpose.TRANSVERSE, 8: Transpose.ROTATE_90,
    }  # fmt: skip
    turn = turns.get(orientation)
    return image if turn is None else image.transpose(turn)


def _orientation(image: Image) -> int:
    exif = image.info.get("exif")
    if isinstance(exif, bytes):
        return _orientation_in(exif)
    # Pillow warns of faults in EXIF data, and takes the word of other texts in the file for them.
    return 1 if image.format in _EXIF_IN_INFO else image.getexif().get(_ORIENTATION, 1)


def _orientation_in(exif: bytes) -> int:
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
