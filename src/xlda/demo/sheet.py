"""A contact sheet: what was recognised, and what was taken for something else."""

from __future__ import annotations

from base64 import b64encode
from functools import partial
from html import escape
from io import BytesIO

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from xlda._internal.arrays import Array, Rows
from xlda.demo.characters import SIZE, DrawnCharacters
from xlda.glyphs import GlyphSet, Sample

MOST_RIGHT, MOST_WRONG = 14, 12
PRINTED = 64  # pixels a side of a character as it is printed; the page shows it at half of that


def contact_sheet(data: DrawnCharacters, predicted: Array, seed: int) -> str:
    """HTML of test images drawn at random among the right and among the wrong predictions."""
    is_right = predicted == data.test.labels
    rng = np.random.default_rng(seed)
    right = _some(np.flatnonzero(is_right), MOST_RIGHT, rng)
    wrong = _some(np.flatnonzero(~is_right), MOST_WRONG, rng)
    example = {sample.label: sample for sample in reversed(data.train.samples)}  # the first of each class
    shown = [_right(data.glyphs, data.test.samples[row]) for row in right]
    html = f"<h3>{len(shown)} of {is_right.sum():,} that are right</h3>{_grid('right', shown)}"
    if not len(wrong):
        return f"{html}<p>No prediction was wrong.</p>"
    pairs = [(data.test.samples[row], example[str(predicted[row])]) for row in wrong]
    shown = [_wrong(data.glyphs, image, taken_for) for image, taken_for in pairs]
    return (
        f"{html}<h3>{len(shown)} of {(~is_right).sum():,} that are wrong</h3>"
        "<p>On the left is the test image, on the right an image that the predicted class learned from.</p>"
        f"{_grid('wrong', shown)}"
    )


def data_uri(content: bytes, kind: str) -> str:
    """A file as an address that holds all of it.

    >>> data_uri(b"abc", "image/png")
    'data:image/png;base64,YWJj'
    """
    return f"data:{kind};base64,{b64encode(content).decode()}"


def _some(rows: Rows, most: int, rng: np.random.Generator) -> Rows:
    return np.sort(rng.permutation(rows)[:most])


def _grid(kind: str, cards: list[str]) -> str:
    return f'<div class="sheet {kind}">{"".join(cards)}</div>'


def _right(glyphs: GlyphSet, sample: Sample) -> str:
    return f'<div class="card">{_image(glyphs, sample, "")}</div>'


def _wrong(glyphs: GlyphSet, sample: Sample, taken_for: Sample) -> str:
    left, right = _image(glyphs, sample, "is"), _image(glyphs, taken_for, "taken for")
    return f'<div class="card pair">{left}{right}</div>'


def _image(glyphs: GlyphSet, sample: Sample, lead: str) -> str:
    """An image over the character as it is printed, its label, and what Unicode calls it."""
    embed = partial(_png, alt=sample.label)
    lead = f"<i>{lead}</i>" if lead else ""
    printed = embed(_printed(glyphs, sample), side=PRINTED // 2)
    name = escape(glyphs.name(sample.code_point).lower())
    return (
        f"<figure>{embed(glyphs.render(sample, SIZE).convert('L'), side=SIZE)}<figcaption>{lead}"
        f"<span>{printed}<b>{sample.label}</b></span><small>{name}</small></figcaption></figure>"
    )


def _png(image: Image.Image, side: int, alt: str) -> str:
    written = BytesIO()
    image.save(written, "png", optimize=True)
    uri = data_uri(written.getvalue(), "image/png")
    return f'<img src="{uri}" width="{side}" height="{side}" alt="{alt}">'


def _printed(glyphs: GlyphSet, sample: Sample) -> Image.Image:
    """The character in its font, upright and clean, as large as it fits."""
    path, character = glyphs.fonts[sample.font], chr(sample.code_point)
    layout = ImageFont.Layout.BASIC
    box = ImageFont.truetype(path, PRINTED, layout_engine=layout).getbbox(character)
    em = min(0.75, 0.9 * PRINTED / max(box[2] - box[0], box[3] - box[1])) * PRINTED
    font = ImageFont.truetype(path, em, layout_engine=layout)
    left, top, right, bottom = font.getbbox(character)
    image = Image.new("L", (PRINTED, PRINTED), 255)
    corner = (PRINTED - left - right) / 2, (PRINTED - top - bottom) / 2
    ImageDraw.Draw(image).text(corner, character, fill=0, font=font)
    return image
