"""Drawn products, for files and for a fake camera: frames of one look alike, and no two are the same."""

from __future__ import annotations

import io
from functools import cache

import numpy as np
from PIL import Image, ImageDraw

WIDTH, HEIGHT = 640, 480
FRAMES, RATE = 12, 10  # frames before it begins again, and frames a second


def _tea(pen):
    pen.rectangle((60, 20, 240, 280), fill=(30, 120, 60))
    pen.ellipse((90, 60, 210, 180), fill=(250, 230, 120), outline=(120, 60, 0), width=8)
    for y in range(200, 270, 18):
        pen.line((80, y, 220, y), fill="white", width=6)


def _ball(pen):
    pen.ellipse((20, 20, 280, 280), fill=(215, 60, 40))
    pen.pieslice((20, 20, 280, 280), 0, 60, fill="white")
    pen.pieslice((20, 20, 280, 280), 120, 180, fill=(40, 70, 200))
    pen.pieslice((20, 20, 280, 280), 240, 300, fill=(245, 200, 30))


def _brush(pen):
    pen.rounded_rectangle((20, 135, 280, 165), 12, fill=(120, 80, 180))
    for x in range(30, 140, 12):
        pen.rectangle((x, 75, x + 7, 135), fill=(60, 60, 70))


def _key(pen):
    pen.ellipse((20, 90, 140, 210), outline=(150, 120, 20), width=28)
    pen.rectangle((130, 138, 285, 162), fill=(150, 120, 20))
    for x in (215, 255):
        pen.rectangle((x, 160, x + 20, 205), fill=(150, 120, 20))


DRAWN = {"tea": _tea, "ball": _ball, "brush": _brush, "key": _key}
TABLES = {"tea": (205, 200, 190), "ball": (150, 175, 160), "brush": (225, 225, 232), "key": (120, 140, 175)}


def frame(name, number):
    """What a camera sees of a product: moved, turned, nearer or farther, lit otherwise, with some noise."""
    rng = np.random.default_rng([number, *name.encode()])
    thing = Image.new("RGBA", (300, 300), (0, 0, 0, 0))
    DRAWN[name](ImageDraw.Draw(thing))
    side = int(300 * rng.uniform(0.95, 1.2))
    thing = thing.rotate(float(rng.normal(0, 6)), Image.Resampling.BICUBIC).resize((side, side))
    image = Image.new("RGB", (WIDTH, HEIGHT), TABLES[name])
    pen = ImageDraw.Draw(image)
    for x in range(-HEIGHT, WIDTH, 40):  # the grain of a table
        pen.line((x, HEIGHT, x + HEIGHT // 2, 0), fill=tuple(value - 12 for value in TABLES[name]), width=3)
    left, top = rng.normal((170, 90), (18, 14))
    image.paste(thing, (int(left), int(top)), thing)
    pixels = np.asarray(image) * rng.uniform(0.92, 1.08) + rng.normal(0, 4, (HEIGHT, WIDTH, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def photo(name, number):
    """A frame as a JPEG file."""
    file = io.BytesIO()
    frame(name, number).save(file, "JPEG", quality=90)
    return file.getvalue()


@cache
def film(name, is_still=False, rate=RATE, times=1):
    """Frames of a product as a YUV4MPEG2 file, `times` as large; all products take as many bytes."""
    width, height = WIDTH * times, HEIGHT * times
    parts = [f"YUV4MPEG2 W{width} H{height} F{rate}:1 Ip A1:1 C420jpeg\n".encode()]
    for number in range(FRAMES):
        image = frame(name, 100 if is_still else 100 + number).resize((width, height))
        y, cb, cr = image.convert("YCbCr").split()
        halves = [band.resize((width // 2, height // 2), Image.Resampling.BOX) for band in (cb, cr)]
        parts += [b"FRAME\n", y.tobytes(), *(band.tobytes() for band in halves)]
    return b"".join(parts)
