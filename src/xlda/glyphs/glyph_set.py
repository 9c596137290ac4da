"""Characters as classes; their fonts and renderings as samples."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Literal, NamedTuple
from zlib import crc32

import numpy as np
from PIL import Image

from xlda.glyphs.classes import FontsOf
from xlda.glyphs.pictures import picture

SPLITS, HOLDOUTS = ("train", "test"), ("rendering", "font")
GAP = 4  # pixels between the images of a sheet


class Sample(NamedTuple):
    """What an image is drawn from: a code point, the position of its font in `GlyphSet.fonts`, and a seed.

    >>> Sample("U+0041", 0x41, font=0, seed=5).label
    'U+0041'
    """

    label: str
    code_point: int
    font: int
    seed: int


@dataclass(frozen=True)
class GlyphSet:
    """A class for every code point, and for each the positions of the fonts that have it.

    `find_glyphs` makes one. `len` is the number of classes.

    >>> from xlda.glyphs import find_glyphs
    >>> glyphs = find_glyphs(min_fonts=10)
    >>> glyphs.labels[0], glyphs.name(glyphs.code_points[0])
    ('U+0021', 'EXCLAMATION MARK')
    """

    fonts: tuple[Path, ...]
    fonts_of: FontsOf = field(repr=False)

    def __len__(self) -> int:
        return len(self.fonts_of)

    @property
    def code_points(self) -> list[int]:
        """The classes, in ascending order."""
        return list(self.fonts_of)

    @property
    def labels(self) -> list[str]:
        """The classes as Unicode writes them, `U+0041` say, in the same order."""
        return [_label(code_point) for code_point in self.fonts_of]

    def name(self, code_point: int) -> str:
        """What Unicode calls it.

        >>> from xlda.glyphs import find_glyphs
        >>> find_glyphs().name(0x41)
        'LATIN CAPITAL LETTER A'
        """
        return unicodedata.name(chr(code_point), _label(code_point))

    def samples(
        self,
        split: Literal["train", "test"],
        per_class: int,
        *,
        holdout: Literal["rendering", "font"] = "rendering",
        seed: int = 0,
    ) -> list[Sample]:
        """`per_class` samples of every class, class after class; no image of "train" is in "test".

        A class has its fonts in an order of its own, and takes one after the other. With
        `holdout="rendering"` both splits do, so a test image is a new rendering in a font that training has
        seen, if it had as many samples. With "font" the first is for testing only, and training takes
        the others.

        >>> from xlda.glyphs import find_glyphs
        >>> glyphs = find_glyphs(n_classes=100)
        >>> train = glyphs.samples("train", 5, holdout="font")
        >>> test = glyphs.samples("test", 2, holdout="font")
        >>> len(train), len(test), {s[1:3] for s in train} & {s[1:3] for s in test}
        (500, 200, set())
        """
        _check_choice("split", split, SPLITS)
        _check_choice("holdout", holdout, HOLDOUTS)
        seeds = [_seed_of_image(seed, split, index) for index in range(per_class)]
        samples = []
        for code_point in self.fonts_of:
            fonts = self._fonts_for(code_point, split, holdout, seed)
            label = _label(code_point)
            samples += [Sample(label, code_point, fonts[i % len(fonts)], s) for i, s in enumerate(seeds)]
        return samples

    def draw(self, code_point: int, font: int, *, seed: int = 0, size: int = 96) -> Image.Image:
        """A grey image, `size` pixels square. It depends on nothing but the arguments and the font's file.

        >>> from xlda.glyphs import find_glyphs
        >>> find_glyphs().draw(0x41, font=0, seed=3, size=64).size
        (64, 64)
        """
        if font not in self.fonts_of.get(code_point, ()):
            raise ValueError(f"{_label(code_point)} is not among the classes with font {font}; see fonts_of.")
        path = self.fonts[font]
        rng = np.random.default_rng([seed, code_point, crc32(path.name.encode())])
        return picture(path, code_point, rng, size)

    def render(self, sample: Sample, size: int = 96) -> Image.Image:
        """The image of a sample in RGB, as backbones want it.

        >>> from xlda.glyphs import find_glyphs
        >>> glyphs = find_glyphs(n_classes=10)
        >>> glyphs.render(glyphs.samples("test", 1)[0]).mode
        'RGB'
        """
        return self.draw(sample.code_point, sample.font, seed=sample.seed, size=size).convert("RGB")

    def write_folder(self, folder: str | Path, samples: Iterable[Sample], size: int = 96) -> list[Path]:
        """Write PNG files, in a folder for each class, named for the font and the seed.

        >>> from xlda.glyphs import find_glyphs
        >>> glyphs = find_glyphs(n_classes=10)
        >>> files = glyphs.write_folder("glyphs/train", glyphs.samples("train", 2))
        >>> len(files), files[0].parent.name == glyphs.labels[0]
        (20, True)
        """
        written = []
        for sample in samples:
            name = f"{self.fonts[sample.font].stem}-{sample.seed:016x}.png"
            written.append(Path(folder, sample.label, name))
            written[-1].parent.mkdir(parents=True, exist_ok=True)
            self.render(sample, size).save(written[-1])
        return written

    def contact_sheet(self, samples: Sequence[Sample], columns: int = 12, size: int = 96) -> Image.Image:
        """Samples side by side in one RGB image, row after row.

        >>> from xlda.glyphs import find_glyphs
        >>> glyphs = find_glyphs(n_classes=10)
        >>> glyphs.contact_sheet(glyphs.samples("train", 3), columns=6).size
        (596, 496)
        """
        rows, step = -(-len(samples) // columns), size + GAP
        sheet = Image.new("RGB", (columns * step - GAP, max(rows * step - GAP, 1)), "white")
        for index, sample in enumerate(samples):
            row, column = divmod(index, columns)
            sheet.paste(self.render(sample, size), (column * step, row * step))
        return sheet

    def _fonts_for(self, code_point: int, split: str, holdout: str, seed: int) -> list[int]:
        fonts: list[int] = (
            np.random.default_rng([seed, code_point]).permutation(self.fonts_of[code_point]).tolist()
        )
        if holdout == "rendering":
            return fonts
        if len(fonts) < 2:
            raise ValueError(f'{_label(code_point)} has one font; holdout="font" needs min_fonts=2 or more.')
        return fonts[:1] if split == "test" else fonts[1:]


def _label(code_point: int) -> str:
    return f"U+{code_point:04X}"


def _seed_of_image(seed: int, split: str, index: int) -> int:
    return int.from_bytes(blake2b(f"{seed} {split} {index}".encode(), digest_size=8).digest())


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; it can be {' or '.join(map(repr, choices))}.")
