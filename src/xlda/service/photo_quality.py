"""Whether a photo is so small, blurred or dark that a person should take another one."""

from __future__ import annotations

import numpy as np
from PIL.Image import Image, Resampling

from xlda._internal.arrays import Array

TOO_SMALL, BLURRED, DARK = "too small", "blurred", "dark"
CODES = {TOO_SMALL: "too_small", BLURRED: "blurred", DARK: "dark"}  # for programs

# Chosen on photos taken in shops: half a percent of them are called blurred, none dark, and nearly all are
# where they are blurred with a radius of 6 pixels of 512, or an eighth as bright. Scaled down to 128 pixels
# they are recognised about as often as before, and less often below that.
LEAST_SIDE = 128  # pixels of the short side
LEAST_SHARPNESS = 0.02
LEAST_BRIGHTNESS = 48.0  # of 255, on average
LOOKED_AT = 256  # pixels of the long side: blur is measured relative to the photo as a whole


def warnings_of(image: Image, size: tuple[int, int]) -> list[str]:
    """What a person should know about a photo in RGB, which had this `size` before it was scaled down.

    >>> import PIL.Image
    >>> warnings_of(PIL.Image.new("RGB", (300, 300), "black"), (300, 300))
    ['blurred', 'dark']
    """
    grey = _small_grey(image)
    found = {
        TOO_SMALL: min(size) < LEAST_SIDE,
        BLURRED: _sharpness(grey) < LEAST_SHARPNESS,
        DARK: float(grey.mean()) < LEAST_BRIGHTNESS,
    }
    return [warning for warning, is_so in found.items() if is_so]


def _small_grey(image: Image) -> Array:
    grey = image.convert("L")
    share = LOOKED_AT / max(image.size)
    if share < 1:
        width, height = (max(1, round(share * side)) for side in image.size)
        grey = grey.resize((width, height), Resampling.BILINEAR, reducing_gap=1.0)
    return np.asarray(grey, np.float32)


def _sharpness(grey: Array) -> float:
    """Variance of the Laplacian beside that of the picture, so that neither light nor contrast matters."""
    if min(grey.shape) < 3:
        return 0.0
    middle = grey[1:-1, 1:-1]
    laplacian = 4 * middle - grey[:-2, 1:-1] - grey[2:, 1:-1] - grey[1:-1, :-2] - grey[1:-1, 2:]
    return float(laplacian.var() / (grey.var() + 1.0))  # 1: what rounding alone makes of an even picture
