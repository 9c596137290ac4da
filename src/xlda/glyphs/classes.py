"""The characters that make classes: those in enough fonts, and of any that look the same only one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from xlda._internal.arrays import Rows
from xlda.glyphs.outlines import Characters

FontsOf = dict[int, tuple[int, ...]]  # a code point's fonts, by their position


def fonts_of_classes(fonts: Sequence[Characters], min_fonts: int) -> FontsOf:
    """The classes, in order of code points, each with its fonts.

    Two characters with the same outline in at least half of the fonts that have both are one class: Greek
    Alpha is Latin A, whatever the text says. It is the one that more fonts have, or else the lower.

    >>> import numpy as np
    >>> font = Characters(np.array([0x41, 0x42, 0x391]), np.array([7, 8, 7]))
    >>> fonts_of_classes([font, font], min_fonts=2)
    {65: (0, 1), 66: (0, 1)}
    """
    classes = _in_enough(fonts, min_fonts)
    rank = {c: n for n, c in enumerate(sorted(classes, key=lambda c: (-len(classes[c]), c)))}
    pairs = [sorted(pair, key=rank.__getitem__) for pair in _alike(fonts, classes)]
    for better, other in sorted(pairs, key=lambda pair: rank[pair[1]]):
        if better in classes:
            classes.pop(other, None)
    return classes


def _in_enough(fonts: Sequence[Characters], min_fonts: int) -> FontsOf:
    code_points = np.concatenate([font.code_points for font in fonts] or [np.empty(0, np.int64)])
    positions = np.repeat(np.arange(len(fonts)), [len(font.code_points) for font in fonts])
    each = _grouped(positions, code_points)
    return {code_point: tuple(held) for code_point, held in each.items() if len(held) >= min_fonts}


def _alike(fonts: Sequence[Characters], classes: FontsOf) -> list[tuple[int, int]]:
    """Pairs with the same outline in at least half of the fonts that have both."""
    same: Counter[tuple[int, int]] = Counter()
    for font in fonts:
        _, outline, sizes = np.unique(font.outlines, return_inverse=True, return_counts=True)
        shared = sizes[outline] > 1
        for group in _grouped(font.code_points[shared], outline[shared]).values():
            same.update(combinations([c for c in group if c in classes], 2))
    return [(a, b) for (a, b), n in same.items() if 2 * n >= len({*classes[a]} & {*classes[b]})]


def _grouped(values: Rows, keys: Rows) -> dict[int, list[int]]:
    """The values of every key, both in order."""
    order = np.argsort(keys, kind="stable")
    each, starts = np.unique(keys[order], return_index=True)
    groups = np.split(values[order], starts[1:])
    return {key: group.tolist() for key, group in zip(each.tolist(), groups, strict=bool(len(each)))}
