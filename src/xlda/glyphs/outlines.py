"""Which characters a font really has, read from its outlines without drawing them."""

from __future__ import annotations

import struct
import unicodedata
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fontTools.pens.boundsPen import ControlBoundsPen
from fontTools.ttLib import TTFont, TTLibError

from xlda._internal.arrays import Rows

MOST_ALIKE = 8  # characters with one outline; more are boxes that stand for what is missing
SAME_BUT_FOR = {"<wide>", "<narrow>", "<font>"}  # decompositions: the character in another width or font
FEW_BYTES = 8  # an outline of CFF shorter than this may have no ink
# Flags of a glyph made of others: words, offsets, any scale, more to come.
WORDS, OFFSETS, CHANGED = 0x01, 0x02, 0x08 | 0x20 | 0x40 | 0x80

Outline = Callable[[int], bytes]  # of a glyph's number; equal when the pictures are, empty without ink


class Characters(NamedTuple):
    """Code points (n,), ascending, and a number for the outline of each (n,), equal for equal outlines.

    >>> Characters(np.array([0x41, 0x391]), np.array([7, 7])).code_points.tolist()
    [65, 913]
    """

    code_points: Rows
    outlines: Rows


NONE = Characters(np.empty(0, np.int64), np.empty(0, np.int64))


@cache
def is_character(code_point: int) -> bool:
    """Whether Unicode says that this can be seen by itself, and is no variant of another character.

    >>> [is_character(ord(c)) for c in ("A", " ", "\\u0301", "\\ue000", "\\uff21", "\\u212b")]
    [True, False, False, False, False, False]
    """
    character = chr(code_point)
    if unicodedata.category(character)[0] in "CZM":  # control, format, private, unassigned; spaces; marks
        return False
    parts = unicodedata.decomposition(character).split()
    return len(parts) != 1 and not (len(parts) == 2 and parts[0] in SAME_BUT_FOR)


@cache
def characters(path: Path) -> Characters:
    """The characters of a font that have ink. Of a collection, those of the first font.

    Left out are boxes for what is missing. A file that is no font with outlines has no characters.

    >>> from xlda.glyphs.fonts import font_files
    >>> characters(font_files()[0]).code_points[:3].tolist()
    [33, 34, 35]
    """
    try:
        with path.open("rb") as file, TTFont(file, lazy=True, fontNumber=0) as font:
            return _characters(font)
    except (TTLibError, LookupError, struct.error, OSError):
        return NONE


def _characters(font: Any) -> Characters:
    n_glyphs = font["maxp"].numGlyphs
    font.setGlyphOrder(range(n_glyphs))  # numbers for names: reading the names takes longer than all the rest
    glyphs = font.getBestCmap() or {}
    if len(glyphs) > 2 * n_glyphs:  # Last Resort and its like: a box for every block of Unicode
        return NONE
    outline = _of_glyf(font) if "glyf" in font else _of_cff(font)
    missing = {b"", outline(0)}
    seen = {c: outline(g) for c, g in sorted(glyphs.items()) if g and is_character(c)}
    pairs = [(code_point, hash(ink)) for code_point, ink in seen.items() if ink not in missing]
    code_points, outlines = np.array(pairs, np.int64).reshape(-1, 2).T
    _, group, sizes = np.unique(outlines, return_inverse=True, return_counts=True)
    kept = sizes[group] <= MOST_ALIKE
    return Characters(code_points[kept], outlines[kept])


def _of_glyf(font: Any) -> Outline:
    table, places = font.reader["glyf"], font["loca"].locations

    def outline(glyph: int) -> bytes:
        data: bytes = table[places[glyph] : places[glyph + 1]]
        n_contours = int.from_bytes(data[:2], "big", signed=True)
        if n_contours == 0 or not any(data[2:10]):  # a bounding box of nothing
            return b""
        if n_contours < 0:
            part = _only_part(data)
            return data if part is None else outline(part)
        start = 10 + 2 * n_contours
        hints = 2 + int.from_bytes(data[start : start + 2], "big")
        return (data[:start] + data[start + hints :]).rstrip(b"\0")  # hints and padding are no ink

    return outline


def _only_part(data: bytes) -> int | None:
    """The glyph that this one repeats as it is: Greek Alpha, say, is often made of Latin A."""
    flags, part = struct.unpack(">HH", data[10:14])
    moved = any(data[14 : 18 if flags & WORDS else 16])
    return None if moved or flags & CHANGED or not flags & OFFSETS else int(part)


def _of_cff(font: Any) -> Outline:
    strings = font["CFF "].cff.topDictIndex[0].CharStrings.charStringsIndex
    parts = getattr(strings, "fdSelect", None)  # the same bytes call other subroutines in another part

    @cache  # fontTools gives up the bytes of what it has drawn
    def outline(glyph: int) -> bytes:
        string = strings[glyph]
        data: bytes = string.bytecode
        if len(data) < FEW_BYTES:
            pen = ControlBoundsPen(None)
            string.draw(pen)
            if pen.bounds is None:
                return b""
        return data if parts is None else bytes([parts[glyph]]) + data

    return outline
