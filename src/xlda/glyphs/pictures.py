"""One character as a picture: turned, moved, scaled, blurred, noisy."""

from __future__ import annotations

from functools import lru_cache
from math import cos, radians, sin
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

EM = 0.75  # of the picture's side; the unit of a font, about the side of a Chinese character
MIDDLE = 0.38  # of the em: how high above the line the middle of the picture is
MARGIN = 0.02  # of the side that stays free of ink
ROTATION = 10.0  # degrees, either way
SHIFT = 0.06  # of the side, either way
SCALE = 0.8, 1.1
PAPER, INK = (200, 256), (0, 90)  # levels of grey
BLUR = 0.0, 1.3  # pixels of a picture with a side of 96
NOISE = 0.0, 14.0  # standard deviation, levels of grey


def picture(path: Path, code_point: int, rng: np.random.Generator, size: int = 96) -> Image.Image:
    """A grey picture, `size` pixels square. All of the ink is in it, however wide the character.

    A character keeps its size and its height above the line, or a comma would be an apostrophe.

    >>> from xlda.glyphs.fonts import font_files
    >>> image = picture(font_files()[0], 0x41, np.random.default_rng(0))
    >>> image.mode, image.size
    ('L', (96, 96))
    """
    ink = _placed(*_mask(path, code_point, round(EM * size)), rng, size)
    ink = ink.filter(ImageFilter.GaussianBlur(rng.uniform(*BLUR) * size / 96))
    paper, colour = rng.integers(*PAPER), rng.integers(*INK)
    grey = np.asarray(ink, np.float32) * ((float(colour) - float(paper)) / 255) + np.float32(paper)
    grey += rng.standard_normal((size, size), np.float32) * np.float32(rng.uniform(*NOISE))
    return Image.fromarray(np.clip(np.rint(grey), 0, 255).astype(np.uint8))


@lru_cache(maxsize=512)
def _font(path: Path, em: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(path, em, layout_engine=ImageFont.Layout.BASIC)


def _mask(path: Path, code_point: int, em: int) -> tuple[Image.Image, float]:
    """The ink and nothing but a pixel around it; and how far its middle is below that of the em."""
    font, character = _font(path, em), chr(code_point)
    left, top, right, bottom = font.getbbox(character, anchor="ls")
    mask = Image.new("L", (int(right - left) + 2, int(bottom - top) + 2))
    ImageDraw.Draw(mask).text((1 - left, 1 - top), character, fill=255, font=font, anchor="ls")
    return mask, (top + bottom) / 2 + MIDDLE * em


def _placed(mask: Image.Image, below: float, rng: np.random.Generator, size: int) -> Image.Image:
    """The mask, turned, scaled and moved at random, as far as the frame allows."""
    angle = radians(rng.uniform(-ROTATION, ROTATION))
    scale = rng.uniform(*SCALE)
    across, down = rng.uniform(-SHIFT, SHIFT, 2) * size
    c, s = cos(angle), sin(angle)
    half = np.array([mask.width * c + mask.height * abs(s), mask.height * c + mask.width * abs(s)]) / 2
    room = size / 2 - MARGIN * size
    scale = min(scale, room / half.max())
    x, y = np.clip([across, down + scale * below], scale * half - room, room - scale * half) + size / 2
    c, s = c / scale, s / scale
    # Where a pixel of the picture comes from in the mask.
    back = (c, s, mask.width / 2 - c * x - s * y, -s, c, mask.height / 2 + s * x - c * y)
    return mask.transform((size, size), Image.Transform.AFFINE, back, Image.Resampling.BILINEAR)
