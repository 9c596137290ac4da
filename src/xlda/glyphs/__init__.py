"""Characters of the fonts on the machine as a set of images. Needs the extra `glyphs`."""

from __future__ import annotations

from xlda._internal.extras import needs

try:
    import fontTools.ttLib  # noqa: F401
    import PIL.Image  # noqa: F401
except ImportError:
    raise needs("xlda.glyphs", "pillow and fontTools", "glyphs") from None

from xlda.glyphs.embedding import embed_glyphs
from xlda.glyphs.finding import find_glyphs
from xlda.glyphs.glyph_set import GlyphSet, Sample

__all__ = ["GlyphSet", "Sample", "embed_glyphs", "find_glyphs"]
