"""From fonts to a set of characters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xlda.glyphs.classes import FontsOf, fonts_of_classes
from xlda.glyphs.fonts import font_files
from xlda.glyphs.glyph_set import GlyphSet
from xlda.glyphs.outlines import characters


def find_glyphs(
    fonts: str | Path | Sequence[str | Path] = "default",
    *,
    min_fonts: int = 3,
    n_classes: int | None = None,
    seed: int = 0,
) -> GlyphSet:
    """The characters that at least `min_fonts` fonts have, or `n_classes` of them, drawn at random.

    `fonts` is "default" for the DejaVu and STIX fonts that matplotlib carries, "system" for all that the
    operating system has, or files and folders. More classes with the same seed contain the fewer.

    >>> glyphs = find_glyphs(n_classes=1000)
    >>> len(glyphs), set(glyphs.code_points) < set(find_glyphs().code_points)
    (1000, True)
    """
    read = [(path, characters(path)) for path in font_files(fonts)]
    read = [(path, found) for path, found in read if len(found.code_points)]
    classes = fonts_of_classes([found for _, found in read], min_fonts)
    if not classes:
        raise ValueError(f"No character is in {min_fonts} or more of the {len(read)} fonts; lower min_fonts.")
    if n_classes is not None:
        classes = _some(classes, n_classes, seed)
    return GlyphSet(tuple(path for path, _ in read), classes)


def _some(classes: FontsOf, n_classes: int, seed: int) -> FontsOf:
    if n_classes > len(classes):
        raise ValueError(
            f"These fonts have {len(classes):,} classes, and {n_classes:,} were asked for; "
            'ask for fewer, lower min_fonts, or try fonts="system".'
        )
    chosen = np.random.default_rng(seed).permutation(list(classes))[:n_classes]
    return {code_point: classes[code_point] for code_point in sorted(chosen.tolist())}
