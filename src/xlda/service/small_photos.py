"""A photo as the small JPEG file that is kept of it: upright, without EXIF data and colour profile."""

from __future__ import annotations

import io

from PIL.Image import Resampling

from xlda.photos.decoding import open_photo

SIDE = 512  # pixels of the long side, at most
QUALITY = 85


def small_jpeg(content: bytes, side: int = SIDE) -> bytes:
    """The small form of an uploaded photo, or a smaller one of that; BadImage where there is none.

    >>> import PIL.Image
    >>> upload = io.BytesIO()
    >>> PIL.Image.new("RGB", (1600, 1200)).save(upload, "PNG")
    >>> kept = small_jpeg(upload.getvalue())
    >>> open_photo(kept).size, open_photo(small_jpeg(kept, 256)).size
    ((512, 384), (256, 192))
    """
    image = open_photo(content, least_side=side)
    share = min(1.0, side / max(image.size))
    width, height = (max(1, round(share * length)) for length in image.size)
    small = image.resize((width, height), Resampling.BILINEAR)
    small.info = {}  # pillow would write some of what the upload says of itself
    file = io.BytesIO()
    small.save(file, "JPEG", quality=QUALITY)
    return file.getvalue()
