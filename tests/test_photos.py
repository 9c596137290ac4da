from __future__ import annotations

import builtins
import io
import os
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from xlda.errors import BadSampleError
from xlda.photos import BadImage, Photo, find_photos, open_photo, repeated_photos, repeats
from xlda.photos.decoding import OtherFormat, TooManyPixels, open_with_size

Image = pytest.importorskip("PIL.Image")
ImageOps = pytest.importorskip("PIL.ImageOps")


def photo(path, size=(6, 4), colour=(200, 30, 90)):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return path


def pixel(path, at=(0, 0), **options):
    return open_photo(path, **options).getpixel(at)


def near(colour, expected, within=3):
    return all(abs(a - b) <= within for a, b in zip(colour, expected, strict=True))


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


class TestFindPhotos:
    def test_a_folder_per_class_sorted_without_hidden_files(self, tmp_path):
        for name in (
            "pear/2.PNG",
            "pear/10.jpg",
            "apple/red/1.JPEG",
            "apple/3.webp",
            ".git/x.jpg",
            "pear/.y.jpg",
        ):
            photo(tmp_path / "shop" / name)
        (tmp_path / "shop" / "pear" / "notes.txt").write_text("no photo")
        shop = Path("shop")
        assert find_photos("shop") == [
            Photo(shop / "apple/3.webp", "apple"),
            Photo(shop / "apple/red/1.JPEG", "apple/red"),
            Photo(shop / "pear/10.jpg", "pear"),
            Photo(shop / "pear/2.PNG", "pear"),
        ]

    def test_loose_photos_and_one_photo_have_no_label(self):
        photo("loose/b.jpg"), photo("loose/a.jpg")
        assert find_photos("loose") == [Photo(Path("loose/a.jpg"), None), Photo(Path("loose/b.jpg"), None)]
        assert find_photos(Path("loose/b.jpg")) == [Photo(Path("loose/b.jpg"), None)]

    @pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
    def test_links_to_folders_are_followed_but_not_in_circles(self):
        photo("elsewhere/1.jpg"), photo("shop/pear/1.jpg")
        Path("shop/apple").symlink_to(Path("elsewhere").resolve())
        Path("shop/pear/again").symlink_to(Path("shop").resolve())
        assert [photo.label for photo in find_photos("shop")] == ["apple", "pear"]

    def test_a_pattern_labels_by_what_comes_after_its_fixed_part(self):
        for name in ("shop/pear/1.jpg", "shop/apple/2.jpg", "shop/apple/3.png", "shop/4.jpg"):
            photo(name)
        assert [(p.path.as_posix(), p.label) for p in find_photos("shop/**/*.jpg")] == [
            ("shop/4.jpg", None), ("shop/apple/2.jpg", "apple"), ("shop/pear/1.jpg", "pear"),
        ]  # fmt: skip
        assert [p.label for p in find_photos("shop/apple/*")] == [None, None]
        assert [p.label for p in find_photos("*/apple/*.png")] == ["shop/apple"]

    def test_names_that_look_like_a_pattern_are_names_first(self):
        photo("shop[1]/pear/1.jpg"), photo("a[1].jpg")
        assert find_photos("a[1].jpg") == [Photo(Path("a[1].jpg"), None)]
        assert find_photos("shop[1]") == [Photo(Path("shop[1]/pear/1.jpg"), "pear")]

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("list.csv", 'path,label\n"b, c/1.jpg","red, ripe"\n\na.jpg, pear\n'),
            ("list.txt", '"b, c/1.jpg", "red, ripe", 4\r\na.jpg, pear, 7\r\n'),
            ("list.TSV", "\ufeffPath\tLabel\nb, c/1.jpg\tred, ripe\na.jpg\tpear\n"),
        ],
    )
    def test_a_list_keeps_its_order_and_is_seen_from_its_own_folder(self, name, text):
        photo("data/b, c/1.jpg"), photo("data/a.jpg")
        Path("data", name).write_bytes(text.encode())
        assert find_photos(f"data/{name}") == [
            Photo(Path("data/b, c/1.jpg"), "red, ripe"),
            Photo(Path("data/a.jpg"), "pear"),
        ]

    def test_a_list_may_lack_labels(self):
        photo("a.jpg"), photo("b.jpg")
        Path("list.txt").write_text("path\na.jpg\nb.jpg,\n")
        assert [p.label for p in find_photos("list.txt")] == [None, None]

    @pytest.mark.parametrize(
        ("text", "error", "message"),
        [
            ("a.jpg, x\n\nb/../a.jpg, y\n", ValueError, "line 3: b/../a.jpg is in line 1 already"),
            ("a.jpg, x\ngone.jpg, y\n", FileNotFoundError, "line 2: no file gone.jpg"),
            ("a.jpg x\n", ValueError, "line 1: 'a.jpg x' is no .*expected `path, label`"),
            ('a.jpg, x\n"b.jpg, y\n', ValueError, "list.csv, after line 2: .*expected `path, label`"),
            (
                "path, label\n",
                FileNotFoundError,
                "No photos in list.csv: looked for .jpg, .jpeg, .png, .webp",
            ),
        ],
    )
    def test_a_faulty_list_is_told_by_name_and_line(self, text, error, message):
        photo("a.jpg")
        Path("list.csv").write_text(text)
        with pytest.raises(error, match=message):
            find_photos("list.csv")

    def test_a_list_that_is_not_text_is_told(self):
        Path("list.csv").write_bytes(b"a\xff\xfe.jpg, x\n")
        with pytest.raises(ValueError, match=r"list\.csv, after line 0: .*utf-8"):
            find_photos("list.csv")

    def test_nothing_found_says_what_was_looked_for(self):
        Path("empty").mkdir()
        Path("model.onnx").write_text("")
        with pytest.raises(FileNotFoundError, match=r"No photos in empty: looked for \.jpg"):
            find_photos("empty")
        with pytest.raises(FileNotFoundError, match=r"No photos in empty/\*: looked for"):
            find_photos("empty/*")
        with pytest.raises(FileNotFoundError, match="No such file or folder: nowhere"):
            find_photos("nowhere")
        with pytest.raises(ValueError, match=r"model\.onnx is no photo .* and no list"):
            find_photos("model.onnx")


class TestRepeatedPhotos:
    def test_the_same_file_by_other_names(self):
        photo("a/1.jpg"), photo("a/2.jpg", colour=(1, 2, 3))
        found = repeated_photos(
            ["a/1.jpg", "a/2.jpg", Path("a/../a/1.jpg"), Path("a/1.jpg").resolve(), "a/2.jpg"]
        )
        assert found == {2: 0, 3: 0, 4: 1}

    @pytest.mark.skipif(os.name == "nt", reason="needs links")
    def test_links(self):
        photo("1.jpg")
        Path("soft.jpg").symlink_to("1.jpg")
        Path("hard.jpg").hardlink_to("1.jpg")
        assert repeated_photos(["soft.jpg", "1.jpg", "hard.jpg"]) == {1: 0, 2: 0}

    def test_the_same_bytes(self):
        for name, content in {"a": b"pear", "b": b"kiwi", "c": b"pear", "d": b"pears", "e": b"kiwi"}.items():
            Path(f"{name}.jpg").write_bytes(content)
        assert repeated_photos([f"{name}.jpg" for name in "abcde"]) == {2: 0, 4: 1}
        assert repeated_photos([]) == {}

    def test_only_files_of_equal_size_are_read(self, monkeypatch):
        read = []
        really = repeats._digest
        monkeypatch.setattr(repeats, "_digest", lambda file: read.append(Path(file).name) or really(file))
        for name, content in {"a": b"pear", "b": b"kiwi", "c": b"plums"}.items():
            Path(f"{name}.jpg").write_bytes(content)
        assert repeated_photos(["a.jpg", "b.jpg", "c.jpg", "c.jpg"]) == {3: 2}
        assert read == ["a.jpg", "b.jpg"]

    def test_what_is_not_there_is_left_to_others(self):
        Path("a.jpg").write_bytes(b"pear")
        assert repeated_photos(["gone.jpg", "lost.jpg", "a.jpg", "gone.jpg"]) == {3: 0}


class TestModes:
    def test_plain_ones(self):
        assert near(pixel(photo("a.jpg")), (200, 30, 90))
        assert pixel(photo("a.png")) == (200, 30, 90)
        assert near(pixel(photo("a.webp")), (200, 30, 90), 6)
        Image.new("L", (2, 2), 77).save("grey.png")
        Image.new("1", (2, 2), 1).save("bit.png")
        assert (pixel("grey.png"), pixel("bit.png")) == ((77,) * 3, (255,) * 3)

    def test_transparent_parts_are_white(self):
        Image.new("RGBA", (2, 2), (100, 0, 0, 51)).save("rgba.png")
        Image.new("LA", (2, 2), (0, 51)).save("la.png")
        Image.new("RGBA", (2, 2), (100, 0, 0, 0)).save("rgba.webp", lossless=True, exact=True)
        assert near(pixel("rgba.png"), (224, 204, 204), 1)  # a fifth of red on four of white
        assert near(pixel("la.png"), (204, 204, 204), 1)
        assert pixel("rgba.webp") == (255, 255, 255)

    @pytest.mark.parametrize("transparency", [1, bytes([255, 0])])
    def test_palettes(self, transparency):
        image = Image.new("P", (2, 1))
        image.putpalette([9, 8, 7, 100, 0, 0])
        image.putpixel((1, 0), 1)
        image.save("plain.png")
        image.save("holes.png", transparency=transparency)
        assert (pixel("plain.png"), pixel("plain.png", (1, 0))) == ((9, 8, 7), (100, 0, 0))
        assert (pixel("holes.png"), pixel("holes.png", (1, 0))) == ((9, 8, 7), (255, 255, 255))

    def test_a_transparent_colour(self):
        image = Image.new("RGB", (2, 1), (1, 2, 3))
        image.putpixel((1, 0), (4, 5, 6))
        image.save("key.png", transparency=(4, 5, 6))
        assert (pixel("key.png"), pixel("key.png", (1, 0))) == ((1, 2, 3), (255, 255, 255))

    def test_16_bits_of_grey_are_scaled_not_cut_off(self):
        values = np.array([[0, 255, 256, 32768, 65534, 65535]], np.uint16)
        Image.fromarray(values).save("deep.png")
        assert np.asarray(open_photo("deep.png"))[0, :, 1].tolist() == [0, 1, 1, 128, 255, 255]

    def test_cmyk_with_and_without_the_mark_of_adobe(self):
        Image.new("CMYK", (16, 16), (0, 200, 200, 20)).save("adobe.jpg", quality=100)
        data = Path("adobe.jpg").read_bytes()
        at = data.index(b"\xff\xee")
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        assert data[at + 4 : at + 9] == b"Adobe"
        Path("plain.jpg").write_bytes(data[:at] + data[at + 2 + length :])
        assert near(pixel("adobe.jpg"), (235, 51, 51))  # red ink: little cyan, little black
        assert near(pixel("plain.jpg"), (0, 20, 20), 20)  # the same numbers, as ink that is not inverted


class TestOrientation:
    @pytest.mark.parametrize("turn", range(1, 9))
    @pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp"])
    @pytest.mark.parametrize("endian", ["<", ">"])
    def test_photos_are_upright_as_pillow_has_it(self, turn, name, endian, rng):
        Image.fromarray(rng.integers(0, 256, (16, 24, 3), dtype=np.uint8)).save("a.bmp")
        exif = Image.Exif()
        exif.endian = endian
        exif[0x0100], exif[0x0112], exif[0x011A] = 24, turn, 72.0
        Image.open("a.bmp").save(name, exif=exif)
        with Image.open(name) as image:
            assert image.getexif()[0x0112] == turn
            expected = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
        opened = open_photo(name)
        np.testing.assert_array_equal(np.asarray(opened), expected)
        assert opened.getexif().get(0x0112, 1) == 1  # nobody turns it again

    @pytest.mark.parametrize(
        "exif",
        [
            b"",
            b"Exif\0\0",
            b"II*\0",
            b"Exif\0\0II*\0\xff\xff\xff\xff",
            b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\x01\x12",
        ],
    )
    def test_corrupt_exif_is_upright_without_a_warning(self, exif):
        Image.new("RGB", (6, 4)).save("a.jpg", exif=exif)
        assert open_photo("a.jpg").size == (6, 4)


class TestBadImages:
    @pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp"])
    @pytest.mark.parametrize("share", [0.02, 0.3, 0.7])
    def test_cut_short(self, name, share, rng):
        Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(name)
        data = Path(name).read_bytes()
        Path(name).write_bytes(data[: int(len(data) * share)])
        with pytest.raises(BadImage, match=rf"^{name} is broken or cut short: .*[^.]\.$"):
            open_photo(name)

    def test_empty_and_other_files(self):
        Path("a.jpg").write_bytes(b"")
        Path("b.jpg").write_text("<html>not found</html>")
        Image.new("RGB", (2, 2)).save("c.gif")
        Path("c.gif").rename("c.jpg")
        with pytest.raises(BadImage, match=r"^a\.jpg is empty"):
            open_photo("a.jpg")
        for name in ("b.jpg", "c.jpg"):
            with pytest.raises(BadImage, match=rf"^{name} is not a JPEG, PNG or WebP image\.$"):
                open_photo(name)

    def test_a_missing_file_is_the_systems_own_error(self):
        with pytest.raises(FileNotFoundError, match=r"gone\.jpg"):
            open_photo("gone.jpg")

    @pytest.mark.parametrize(
        "options", [{}, {"lossless": True}, {"save_all": True, "exif": b"Exif\0\0II*\0"}]
    )
    def test_too_large_by_one_pixel(self, options):
        for name in ("a.jpg", "a.png", "a.webp"):
            Image.new("RGB", (30, 20)).save(name, **(options if name == "a.webp" else {}))
            assert open_photo(name, max_pixels=600).size == (30, 20)
            with pytest.raises(BadImage, match=rf"^{name} has 30 x 20 pixels, more than 599; scale it down"):
                open_photo(name, max_pixels=599)

    def test_bits_for_scaling_are_no_part_of_the_size(self):
        Image.new("RGB", (30, 20)).save("a.webp")
        data = bytearray(Path("a.webp").read_bytes())
        assert data[12:16] == b"VP8 "
        data[27] |= 0x40
        Path("a.webp").write_bytes(data)
        assert open_photo("a.webp", max_pixels=600).size == (30, 20)

    def test_a_bomb_is_known_by_its_header(self):
        header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0))
        Path("a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + header + png_chunk(b"IDAT", zlib.compress(b"")))
        webp = io.BytesIO()
        Image.new("RGB", (8, 8)).save(webp, "webp")
        lossy = bytearray(webp.getvalue())
        lossy[26:30] = struct.pack("<HH", 16000, 16000)
        Path("a.webp").write_bytes(lossy)
        for name in ("a.png", "a.webp"):
            with pytest.raises(BadImage, match=r"has \d+ x \d+ pixels, more than 50000000"):
                open_photo(name)

    def test_faults_beside_the_pixels_do_no_harm(self):
        Image.new("RGB", (3, 2), (5, 6, 7)).save("a.png")
        data = Path("a.png").read_bytes()
        animation = png_chunk(b"acTL", struct.pack(">II", 0, 0))  # pillow would warn
        Path("a.png").write_bytes(data[:33] + animation + png_chunk(b"zTXt", b"x") + data[33:])
        assert pixel("a.png") == (5, 6, 7)

    @pytest.mark.parametrize("kind", ["png", "webp"])
    def test_an_animated_picture_is_told(self, kind):
        frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "green", "blue")]
        frames[0].save(f"a.{kind}", save_all=True, append_images=frames[1:])
        with pytest.raises(BadImage, match=rf"a\.{kind} is animated: 3 pictures; expected one"):
            open_photo(f"a.{kind}")
        frames[0].save(f"a.{kind}", save_all=True)
        assert open_photo(f"a.{kind}").size == (8, 8)

    def test_a_photo_larger_than_pillow_likes_opens_without_a_warning(self, monkeypatch):
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 20)
        assert open_photo(photo("a.jpg")).size == (6, 4)
        assert open_photo(photo("a.png")).size == (6, 4)


def boxed(*brands, more=b""):
    """How a HEIC, AVIF or MP4 file begins: its chief brand, a version, and brands that it is like."""
    chief, *others = brands
    box = b"ftyp" + chief + bytes(4) + b"".join(others)
    return struct.pack(">I", 4 + len(box)) + box + more


class TestKindsOfBadImages:
    """A program tells by the type what is wrong: another format, too large, or broken."""

    @pytest.mark.parametrize(
        "data",
        [
            b"<html>",
            b"GIF89a" + bytes(20),
            b"RIFF0000WAVE",
            b"ftyp",
            bytes(8) + b"heic",
            boxed(b"isom", b"mp42"),
        ],
    )
    def test_other_formats(self, data):
        with pytest.raises(OtherFormat, match=r"^The photo is not a JPEG, PNG or WebP image\.$"):
            open_photo(data)

    @pytest.mark.parametrize(
        "data",
        [
            boxed(b"heic", b"mif1"),
            boxed(b"mif1"),
            boxed(b"avif"),
            boxed(b"abcd", b"miaf", b"heix", more=bytes(99)),
            boxed(b"heic")[:12],  # cut short
        ],
    )
    def test_heic_and_avif_are_told_how_to_send_jpeg(self, data):
        with pytest.raises(
            OtherFormat, match=r"^A is not a JPEG, .* Settings > Camera > Formats > Most Compatible\.$"
        ):
            open_photo(data, name="A")

    def test_only_the_brands_count(self):
        with pytest.raises(OtherFormat, match=r"WebP image\.$"):
            open_photo(boxed(b"isom", b"mp42", more=b"heic"))
        with pytest.raises(OtherFormat, match=r"WebP image\.$"):
            open_photo(b"\xff\xff\xff\xffftypisom" + bytes(4 * 61) + b"heic")  # a box without an end

    @pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp"])
    def test_too_many_pixels(self, name):
        with pytest.raises(TooManyPixels, match=rf"^{name} has 6 x 4 pixels"):
            open_photo(photo(name), max_pixels=23)

    def test_all_others_are_neither(self):
        frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "green")]
        frames[0].save("moving.webp", save_all=True, append_images=frames[1:])
        Path("cut.jpg").write_bytes(photo("a.jpg").read_bytes()[:200])
        Path("empty.jpg").write_bytes(b"")
        for name in ("moving.webp", "cut.jpg", "empty.jpg"):
            with pytest.raises(BadImage) as error:
                open_photo(name)
            assert type(error.value) is BadImage


class TestWholeSize:
    @pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp"])
    @pytest.mark.parametrize(("turn", "size"), [(1, (640, 400)), (3, (640, 400)), (6, (400, 640))])
    def test_it_is_that_of_the_file_upright(self, name, turn, size):
        exif = Image.Exif()
        exif[0x0112] = turn
        Image.new("RGB", (640, 400)).save(name, exif=exif)
        image, whole = open_with_size(name, least_side=100)
        assert whole == size
        assert image.size == (tuple(side // 4 for side in size) if name == "a.jpg" else size)

    def test_an_image_that_is_given_is_not_scaled(self):
        photo("a.jpg", (640, 400))
        given = Image.open("a.jpg")
        image, whole = open_with_size(given, least_side=100)
        assert image.size == given.size == whole == (640, 400)


class TestWhateverAPhotoComesAs:
    def test_paths_bytes_images_and_arrays_show_the_same(self, rng):
        pixels = rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save("a.png")
        data = Path("a.png").read_bytes()
        for photo in (
            "a.png",
            Path("a.png"),
            data,
            bytearray(data),
            memoryview(data),
            Image.open("a.png"),
            pixels,
        ):
            opened = open_photo(photo)
            assert opened.mode == "RGB"
            np.testing.assert_array_equal(np.asarray(opened), pixels)

    def test_arrays_of_grey_and_with_transparency(self):
        grey = np.full((2, 3), 77, np.uint8)
        assert open_photo(grey).getpixel((2, 1)) == (77, 77, 77)
        clear = np.zeros((2, 3, 4), np.uint8)
        assert open_photo(clear).getpixel((0, 0)) == (255, 255, 255)
        assert open_photo(np.arange(24, dtype=np.uint8).reshape(2, 4, 3)[:, ::-2]).getpixel((0, 0)) == (
            9,
            10,
            11,
        )

    @pytest.mark.parametrize("turn", range(1, 9))
    def test_pil_images_are_turned_as_their_files_are(self, turn, rng):
        exif = Image.Exif()
        exif[0x0112] = turn
        Image.fromarray(rng.integers(0, 256, (16, 24, 3), dtype=np.uint8)).save("a.png", exif=exif)
        np.testing.assert_array_equal(
            np.asarray(open_photo(Image.open("a.png"))), np.asarray(open_photo("a.png"))
        )
        image = Image.fromarray(rng.integers(0, 256, (16, 24, 3), dtype=np.uint8))
        image.getexif()[0x0112] = turn  # as a camera's program may do in memory
        np.testing.assert_array_equal(
            np.asarray(open_photo(image)), np.asarray(ImageOps.exif_transpose(image))
        )

    def test_an_image_that_is_given_stays_as_it_is(self):
        exif = Image.Exif()
        exif[0x0112] = 6
        Image.new("RGBA", (6, 4)).save("a.png", exif=exif)
        image = Image.open("a.png")
        assert open_photo(image).size == (4, 6)
        assert (image.size, image.mode) == ((6, 4), "RGBA")
        assert "exif" in image.info

    @pytest.mark.parametrize("inked", [(0, 200, 200, 20), (10, 0, 0, 0)])
    def test_cmyk_images_are_ink(self, inked):
        cyan, magenta, yellow, black = (1 - value / 255 for value in inked)
        expected = [255 * colour * black for colour in (cyan, magenta, yellow)]
        assert near(open_photo(Image.new("CMYK", (2, 2), inked)).getpixel((0, 0)), expected, 2)

    def test_cmyk_files_without_the_mark_of_adobe_as_images(self):
        Image.new("CMYK", (16, 16), (0, 200, 200, 20)).save("adobe.jpg", quality=100)
        data = Path("adobe.jpg").read_bytes()
        at = data.index(b"\xff\xee")
        plain = data[:at] + data[at + 2 + int.from_bytes(data[at + 2 : at + 4], "big") :]
        assert open_photo(Image.open(io.BytesIO(plain))).tobytes() == open_photo(plain).tobytes()

    @pytest.mark.parametrize(
        ("photo", "said"),
        [
            (b"", "is empty; expected a JPEG, PNG or WebP"),
            (b"<html>", "is not a JPEG, PNG or WebP image"),
            (3, "is of type int; expected a path, the bytes"),
            (None, "is of type NoneType; expected a path"),
            (
                np.zeros((4, 4, 3)),
                r"is an array of float64 and shape \(4, 4, 3\); expected uint8 and \(height, width\)",
            ),
            (np.zeros((4, 4, 2), np.uint8), r"is an array of uint8 and shape \(4, 4, 2\)"),
            (np.zeros((2, 4, 4, 3), np.uint8), r"is an array of uint8 and shape \(2, 4, 4, 3\)"),
            (np.zeros((0, 4), np.uint8), "has 4 x 0 pixels: nothing is in it"),
            (np.zeros((60, 50), np.uint8), "has 50 x 60 pixels, more than 1000"),
        ],
    )
    def test_what_is_no_photo_is_told_by_name(self, photo, said):
        with pytest.raises(BadImage, match=f"^Number 7 {said}"):
            open_photo(photo, 1000, name="Number 7")
        with pytest.raises(BadSampleError, match=f"^The photo {said}"):
            open_photo(photo, 1000)

    def test_images_that_cannot_be_used_are_told(self, rng):
        Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save("a.png")
        cut = Image.open(io.BytesIO(Path("a.png").read_bytes()[:2000]))
        with pytest.raises(BadImage, match=r"^The photo is broken or cut short: "):
            open_photo(cut)
        with pytest.raises(BadImage, match=r"^The photo is of mode F, whose range is not known"):
            open_photo(Image.new("F", (2, 2)))
        with pytest.raises(BadImage, match=r"^The photo has 0 x 3 pixels"):
            open_photo(Image.new("RGB", (0, 3)))


def test_threads_see_the_same_pixels(rng):
    for name in range(8):
        Image.fromarray(rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(f"{name}.png")
    names = [f"{name}.png" for name in range(8)] * 8
    expected = [np.asarray(Image.open(name)).tobytes() for name in names]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda name: open_photo(name).tobytes(), names)) == expected


def test_without_pillow_it_says_what_to_install(monkeypatch):
    photo("a.jpg")
    really_import = builtins.__import__

    def no_pillow(name, *rest):
        if name.split(".")[0] == "PIL":
            raise ImportError(name)
        return really_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_pillow)
    with pytest.raises(ImportError, match=r"needs pillow: pip install .*\[images\]"):
        open_photo("a.jpg")
