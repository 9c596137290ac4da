from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import unicodedata

import numpy as np
import pytest

pytest.importorskip("PIL")
pytest.importorskip("fontTools")

from fontTools.fontBuilder import FontBuilder
from fontTools.pens.t2CharStringPen import T2CharStringPen
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTCollection, TTFont
from PIL import Image, ImageFont

from xlda.glyphs import Sample, embed_glyphs, find_glyphs, fonts, pictures
from xlda.glyphs.classes import fonts_of_classes
from xlda.glyphs.outlines import MOST_ALIKE, Characters, is_character

BOXED = [0x500 + i for i in range(MOST_ALIKE + 1)]  # letters that all have one outline
SHAPES = {".notdef": (100, 700), "A": (50, 400), "B": (0, 300), "C": (100, 700), "box": (10, 20)}
SHAPES |= {"empty": None, "unused": (1, 2)}


@pytest.fixture(scope="module")
def glyphs():
    pytest.importorskip("matplotlib")
    return find_glyphs()


@pytest.fixture(scope="module")
def some(glyphs):
    return find_glyphs(n_classes=500)


def outline(pen, corners):
    if corners:
        low, high = corners
        pen.moveTo((low, low))
        for point in ((low, high), (high, high), (high, low)):
            pen.lineTo(point)
        pen.closePath()
    return pen


def font_file(path, cmap, is_ttf=True, alias=None):
    """A font of squares: A and B have ink of their own, C is the box of what is missing, "empty" is blank."""
    names = [*SHAPES, "alias", "blank"]
    build = FontBuilder(1000, isTTF=is_ttf)
    build.setupGlyphOrder(names)
    build.setupCharacterMap(cmap)
    if is_ttf:
        shapes = {name: outline(TTGlyphPen(None), corners).glyph() for name, corners in SHAPES.items()}
        for name, parts in {"alias": [alias or "A"], "blank": ["empty", "empty"]}.items():
            pen = TTGlyphPen(dict.fromkeys(names))
            for part in parts:
                pen.addComponent(part, (1, 0, 0, 1, 0, 0))
            shapes[name] = pen.glyph()
        build.setupGlyf(shapes)
    else:
        corners = SHAPES | {"alias": SHAPES["A"], "blank": None}
        shapes = {n: outline(T2CharStringPen(500, None), c).getCharString() for n, c in corners.items()}
        build.setupCFF(path.stem, {}, shapes, {})
    build.setupHorizontalMetrics(dict.fromkeys(names, (500, 0)))
    build.setupHorizontalHeader(ascent=800, descent=-200)
    build.setupNameTable({"familyName": path.stem, "styleName": "Regular"})
    build.setupPost()
    build.save(path)
    return path


ALL = {
    0x41: "A",
    0x42: "B",
    0x43: "C",
    0x44: "empty",
    0x45: "blank",
    0x391: "alias",
    0x2003: "A",
    0xE000: "B",
}


@pytest.mark.parametrize("is_ttf", [True, False])
def test_only_characters_with_ink_of_their_own_are_classes(tmp_path, is_ttf):
    path = font_file(tmp_path / "squares.ttf", ALL | dict.fromkeys(BOXED, "box"), is_ttf)
    assert find_glyphs(path, min_fonts=1).labels == ["U+0041", "U+0042"]


@pytest.mark.parametrize(
    ("character", "counts"),
    [
        *[(c, True) for c in "A1,\u0416\u4e00\uac00\u00c5\u00bd\u00b2\u2f00\U0001f600"],
        *[(c, False) for c in " \t\u3000\u0301\u200d\ue000\u0378\ud800"],  # nothing to see by itself
        *[(c, False) for c in "\u212b\uf900\uff21\uff71\U0001d400"],  # another character in other clothes
    ],
)
def test_what_unicode_calls_a_character(character, counts):
    assert is_character(ord(character)) is counts


def test_as_many_as_may_look_alike_are_one_class(tmp_path):
    path = font_file(tmp_path / "squares.ttf", {0x41: "A"} | dict.fromkeys(BOXED[1:], "box"))
    assert find_glyphs(path, min_fonts=1).code_points == [0x41, BOXED[1]]


def test_a_font_that_has_a_box_for_everything_has_no_characters(tmp_path):
    names = ["A", "B", "box", "unused"] * 5
    enough, too_many = (dict(zip(range(0x4E00, 0x4E00 + n), names, strict=False)) for n in (18, 19))
    assert len(find_glyphs(font_file(tmp_path / "nine.ttf", enough), min_fonts=1)) == 4
    with pytest.raises(ValueError, match="No character is in 1 or more of the 0 fonts"):
        find_glyphs(font_file(tmp_path / "last.ttf", too_many), min_fonts=1)


def test_hints_are_no_ink(tmp_path):
    path = font_file(tmp_path / "squares.ttf", {0x41: "A", 0x391: "alias"}, alias="B")
    with TTFont(path) as font:
        from fontTools.ttLib.tables.ttProgram import Program

        font["glyf"]["alias"] = outline(TTGlyphPen(None), SHAPES["A"]).glyph()
        font["glyf"]["alias"].program = Program()
        font["glyf"]["alias"].program.fromBytecode(b"\x4f\x4f\x4f")
        font.save(tmp_path / "hinted.ttf")
    assert find_glyphs(path, min_fonts=1).code_points == [0x41, 0x391]
    assert find_glyphs(tmp_path / "hinted.ttf", min_fonts=1).code_points == [0x41]


def test_of_a_collection_the_first_font_counts(tmp_path):
    collection = TTCollection()
    collection.fonts = [TTFont(font_file(tmp_path / f"{c}.otx", {c: "A"})) for c in (0x41, 0x42)]
    collection.save(tmp_path / "both.ttc")
    assert find_glyphs(tmp_path, min_fonts=1).code_points == [0x41]


def test_a_file_counts_once_and_what_is_no_font_is_left_out(tmp_path):
    path = font_file(tmp_path / "squares.TTF", ALL)
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "link.TTF").symlink_to(path)
    (tmp_path / "broken.otf").write_bytes(b"no font")
    assert find_glyphs([tmp_path, path], min_fonts=1).fonts == (path.resolve(),)


def held(*outlines):
    return [
        Characters(np.array(sorted(font)), np.array([font[c] for c in sorted(font)])) for font in outlines
    ]


def test_alike_in_half_of_the_fonts_is_alike():
    alike, apart = {1: 7, 2: 7}, {1: 7, 2: 8}
    assert list(fonts_of_classes(held(alike, apart), 1)) == [1]
    assert list(fonts_of_classes(held(alike, apart, apart), 1)) == [1, 2]
    alone = [{1: 7}, {2: 9}] * 2  # fonts with one of them do not count
    assert list(fonts_of_classes(held(alike, *alone), 1)) == [1]


def test_the_character_that_more_fonts_have_is_kept():
    assert fonts_of_classes(held({1: 7, 2: 7}, {2: 7}, {3: 7}), 1) == {2: (0, 1), 3: (2,)}


def test_what_was_dropped_drops_no_other():
    # 1 and 2 look alike, and 2 and 3; but 3 is not like 1, which stays.
    assert list(fonts_of_classes(held({1: 7, 2: 7}, {2: 8, 3: 8}, {1: 5}), 1)) == [1, 3]


def test_matplotlib_has_thousands_of_classes(glyphs):
    assert len(glyphs) == len(set(glyphs.labels)) > 3000
    assert not {unicodedata.category(chr(c))[0] for c in glyphs.code_points} & set("CZM")
    assert min(map(len, glyphs.fonts_of.values())) >= 3
    assert {0x41, 0x416, 0x3A9, 0x2200} <= set(glyphs.code_points)  # A, Zhe, Omega, for all
    # Alpha, Cyrillic A, wide A, Angstrom, bold A, an empty Braille pattern: seen before, or nothing to see.
    assert not {0x391, 0x410, 0xFF21, 0x212B, 0x1D400, 0x2800} & set(glyphs.code_points)


def test_every_glyph_has_ink_and_is_not_the_box_of_what_is_missing(glyphs, rng):
    """Compared with what FreeType draws, for a character that no font has."""
    for code_point in rng.choice(glyphs.code_points, 200).tolist():
        for font in glyphs.fonts_of[code_point]:
            face = ImageFont.truetype(glyphs.fonts[font], 32)
            ink, missing = (bytes(face.getmask(chr(c))) for c in (code_point, 0x10FFFF))
            assert any(ink), (code_point, font)
            assert ink != missing, (code_point, font)


def test_more_classes_contain_the_fewer(glyphs):
    few, more, other = (set(find_glyphs(n_classes=n, seed=s).labels) for n, s in ((50, 1), (200, 1), (50, 2)))
    assert (len(few), len(more)) == (50, 200)
    assert few < more < set(find_glyphs(n_classes=len(glyphs)).labels) == set(glyphs.labels)
    assert few != other


def test_an_image_depends_on_its_sample_alone(glyphs):
    samples = find_glyphs(n_classes=10).samples("train", 2, seed=4)
    program = (
        "import sys, hashlib; from xlda.glyphs import *; glyphs = find_glyphs()\n"
        f"for sample in {[tuple(s) for s in samples[::-1]]}:\n"
        "    print(hashlib.sha256(glyphs.render(Sample(*sample)).tobytes()).hexdigest())"
    )
    elsewhere = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    here = [hashlib.sha256(glyphs.render(sample).tobytes()).hexdigest() for sample in samples]
    assert elsewhere.stdout.split() == here[::-1]
    assert len(set(here)) == len(here) > 10


def test_seed_font_and_code_point_all_change_the_paper(glyphs):
    first, second = glyphs.fonts_of[0x41][:2]
    arguments = (0x41, first, 0), (0x42, first, 0), (0x41, second, 0), (0x41, first, 1)
    corners = [np.asarray(glyphs.draw(c, f, seed=s))[:5, :5].tobytes() for c, f, s in arguments]
    assert len(set(corners)) == 4
    assert glyphs.draw(0x41, first).tobytes() == glyphs.draw(0x41, first).tobytes()


def test_a_mask_has_all_that_freetype_draws_and_a_rim(glyphs, rng):
    for code_point in rng.choice(glyphs.code_points, 50).tolist():
        path = glyphs.fonts[glyphs.fonts_of[code_point][0]]
        mask = np.asarray(pictures._mask(path, code_point, 72)[0])
        drawn = bytes(ImageFont.truetype(path, 72, layout_engine=0).getmask(chr(code_point)))
        assert mask.sum(dtype=int) == mask[1:-1, 1:-1].sum(dtype=int) == sum(drawn)


def test_a_class_depends_on_no_other_class(glyphs):
    few = find_glyphs(n_classes=20)
    assert set(few.samples("train", 4)) < set(glyphs.samples("train", 4))


def test_new_renderings_are_in_fonts_that_training_has_seen(some):
    train, test = some.samples("train", 4), some.samples("test", 3)
    assert (len(train), len(test)) == (4 * len(some), 3 * len(some))
    assert {s[:3] for s in test} <= {s[:3] for s in train}
    assert not {s.seed for s in test} & {s.seed for s in train}
    assert not {s.seed for s in train} & {s.seed for s in some.samples("train", 4, seed=1)}


def test_as_many_fonts_as_there_are_samples(some):
    used = {}
    for sample in some.samples("train", 4):
        used.setdefault(sample.code_point, set()).add(sample.font)
    assert all(len(used[c]) == min(4, len(fonts)) for c, fonts in some.fonts_of.items())
    assert all(used[c] <= set(fonts) for c, fonts in some.fonts_of.items())


def test_a_font_is_kept_for_testing(some):
    train = {s[:3] for s in some.samples("train", 30, holdout="font")}
    test = {s[:3] for s in some.samples("test", 2, holdout="font")}
    assert not train & test
    assert len(test) == len(some)
    assert len(train | test) == sum(map(len, some.fonts_of.values()))
    assert test != {s[:3] for s in some.samples("test", 2, holdout="font", seed=1)}


@pytest.fixture
def clean(monkeypatch):
    monkeypatch.setattr(pictures, "NOISE", (0.0, 0.0))
    monkeypatch.setattr(pictures, "BLUR", (0.0, 0.0))


def ink_of(image):
    grey = np.asarray(image).astype(int)
    return grey[0, 0] - grey


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("size", [32, 96])
def test_all_of_the_ink_is_in_the_picture(glyphs, rng, monkeypatch, size):
    monkeypatch.setattr(pictures, "SHIFT", 0.5)  # so that most would leave it
    long = [c for c in (0x2014, 0x22D9, 0x2588, 0x1E08, 0xFB03, 0x29F8) if c in glyphs.fonts_of]
    for code_point in [*long * 10, *rng.choice(glyphs.code_points, 300).tolist()]:
        ink = ink_of(
            glyphs.draw(code_point, glyphs.fonts_of[code_point][0], seed=int(rng.integers(99)), size=size)
        )
        edges = np.concatenate([ink[0], ink[-1], ink[:, 0], ink[:, -1]])
        assert not edges.any(), hex(code_point)
        assert ink.max() > 50, hex(code_point)


@pytest.mark.usefixtures("clean")
def test_a_comma_is_no_apostrophe(glyphs):
    for seed in range(20):
        comma, apostrophe = (
            ink_of(glyphs.draw(c, glyphs.fonts_of[0x2C][0], seed=seed)) for c in (0x2C, 0x2019)
        )
        assert np.argwhere(comma)[:, 0].mean() > 48 > np.argwhere(apostrophe)[:, 0].mean()


@pytest.mark.usefixtures("clean")
def test_a_picture_is_turned_and_moved_and_scaled(glyphs):
    line = next(c for c in (0x2500, 0x2014) if c in glyphs.fonts_of)
    angles, places, lengths = [], [], []
    for seed in range(200):
        y, x = np.nonzero(ink_of(glyphs.draw(line, glyphs.fonts_of[line][0], seed=seed)) > 20)
        angles.append(np.degrees(np.arctan(np.polyfit(x, y, 1)[0])))
        places.append(y.mean())
        lengths.append(np.ptp(x))
    for values, spread in ((angles, pictures.ROTATION), (places, 96 * pictures.SHIFT)):
        assert 1.6 * spread < np.ptp(values) < 2.2 * spread
    low, high = pictures.SCALE
    assert np.ptp(lengths) / np.mean(lengths) > (high - low) / 2


def test_noise_and_contrast(glyphs):
    corners = np.array([np.asarray(glyphs.draw(65, 0, seed=s))[:8, :8] for s in range(200)], float)
    spread = corners.std(axis=(1, 2))
    assert spread.min() < 0.1 * pictures.NOISE[1] < 0.8 * pictures.NOISE[1] < spread.max()
    assert np.ptp(corners.mean(axis=(1, 2))) > 0.7 * np.ptp(pictures.PAPER)
    blocks = np.array([np.asarray(glyphs.draw(0x2588, 0, seed=s))[44:52, 44:52] for s in range(200)], float)
    assert np.ptp(blocks.mean(axis=(1, 2))) > 0.7 * np.ptp(pictures.INK)


@pytest.mark.usefixtures("clean")
def test_blur_widens_the_edges(glyphs, monkeypatch):
    sharp = ink_of(glyphs.draw(0x41, 0)) > 0
    monkeypatch.setattr(pictures, "BLUR", (3.0, 3.0))
    assert (ink_of(glyphs.draw(0x41, 0)) > 0).sum() > 1.3 * sharp.sum()


def test_files_are_the_images(glyphs, tmp_path):
    samples = find_glyphs(n_classes=3).samples("train", 2)
    files = glyphs.write_folder(tmp_path / "train", samples, size=48)
    assert sorted(files) == sorted((tmp_path / "train").glob("*/*.png"))
    assert len(files) == 6
    for sample, file in zip(samples, files, strict=True):
        with Image.open(file) as image:
            assert image.tobytes() == glyphs.render(sample, size=48).tobytes()
        assert file.parent.name == sample.label


def test_a_sheet_has_the_images_row_by_row(glyphs):
    samples = glyphs.samples("test", 1)[:7]
    sheet = glyphs.contact_sheet(samples, columns=3, size=40)
    assert sheet.size == (128, 128)
    assert sheet.crop((44, 44, 84, 84)).tobytes() == glyphs.render(samples[4], 40).tobytes()
    assert set(sheet.crop((44, 88, 128, 128)).tobytes()) == {255}


def test_names(glyphs):
    assert glyphs.name(0x416) == "CYRILLIC CAPITAL LETTER ZHE"
    assert glyphs.labels[glyphs.code_points.index(0x1F600)] == "U+1F600"


def test_mistakes_are_explained_in_a_sentence(glyphs, tmp_path):
    with pytest.raises(ValueError, match=f"No font was found in {tmp_path}"):
        find_glyphs(tmp_path)
    with pytest.raises(ValueError, match="nowhere is neither a file nor a folder"):
        find_glyphs(["nowhere"])
    with pytest.raises(ValueError, match="No font was found in an empty list"):
        find_glyphs([])
    with pytest.raises(ValueError, match=f"have {len(glyphs):,} classes, and {len(glyphs) + 1:,} were asked"):
        find_glyphs(n_classes=len(glyphs) + 1)
    with pytest.raises(ValueError, match="split is 'valid'; it can be 'train' or 'test'"):
        glyphs.samples("valid", 1)
    with pytest.raises(ValueError, match="holdout is 'class'; it can be 'rendering' or 'font'"):
        glyphs.samples("test", 1, holdout="class")
    with pytest.raises(ValueError, match=r"U\+4E00 is not among the classes with font 0"):
        glyphs.render(Sample("U+4E00", 0x4E00, 0, 0))
    lonely = find_glyphs(font_file(tmp_path / "squares.ttf", ALL), min_fonts=1)
    with pytest.raises(ValueError, match=r'U\+0041 has one font; holdout="font" needs min_fonts=2'):
        lonely.samples("test", 1, holdout="font")


@pytest.mark.usefixtures("glyphs")
def test_matplotlib_is_not_imported():
    program = "import sys; from xlda.glyphs import find_glyphs; find_glyphs(); print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"matplotlib", "sklearn", "scipy"} & set(result.stdout.split())


@pytest.mark.parametrize("missing", ["PIL", "fontTools"])
def test_what_is_missing_is_named_with_the_cure(missing):
    program = f"import sys; sys.modules['{missing}'] = None; import xlda.glyphs"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert re.search(r"xlda.glyphs needs pillow and fontTools: pip install .*\[glyphs\]'\n$", result.stderr)


def test_without_matplotlib_there_are_no_default_fonts(monkeypatch):
    monkeypatch.setattr(fonts, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"needs matplotlib: pip install .*\[glyphs\]"):
        find_glyphs()


class Mean:
    """A backbone whose embedding is the mean grey."""

    n_features = 3

    def prepare(self, image):
        return np.asarray(image)

    def embed(self, pixels):
        return pixels.mean(axis=(1, 2))


@pytest.mark.parametrize("n", [0, 1, 32, 33, 70])
def test_embeddings_come_in_the_order_of_the_samples(n):
    found = find_glyphs(n_classes=35)
    samples, done = found.samples("train", 2)[:n], []
    embeddings = embed_glyphs(found, samples, Mean(), size=24, progress=done.append)
    assert embeddings.dtype == np.float32
    want = [np.asarray(found.render(sample, 24)).mean(axis=(0, 1)) for sample in samples]
    np.testing.assert_allclose(embeddings, np.reshape(want, (n, 3)), rtol=1e-6)
    assert sum(done) == n
