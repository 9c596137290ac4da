"""Several views of a photo, photos scaled down before, and the way of version 1, which old models keep."""

from __future__ import annotations

import hashlib
import io

import numpy as np
import pytest

from xlda import XLDA, Recognizer
from xlda.errors import BadSampleError, OtherBackboneError
from xlda.photos import open_photo
from xlda.photos.embedding import prepared

pytest.importorskip("onnxruntime")
Image = pytest.importorskip("PIL.Image")
backbones = pytest.importorskip("xlda.backbones")
Preprocessing, load = backbones.Preprocessing, backbones.load

PIXELS_OF_VERSION_1 = {
    (): "06246fb4e012961a",
    (("size", 96), ("resize", None), ("interpolation", "bicubic")): "974147271a02fbbb",
    (("size", 400),): "012efa8959e7fb03",
}
PIXELS_OF_VERSION_2 = {
    (): "e1db1bbe7f8471f8",
    (("size", 96), ("resize", None), ("interpolation", "bicubic")): "d20a8b981f965699",
    (("size", 400),): "c1ee22d2574f9995",
}


def pattern(width=421, height=300):
    """A picture of fine lines, by whole numbers alone."""
    y, x = np.mgrid[:height, :width]
    channels = ((x * 7 + y * 3) % 256, (x * y // 5) % 256, (x + y * y // 9) % 256)
    return Image.fromarray(np.stack(channels, -1).astype(np.uint8))


def scene(rng, width, height):
    """Smooth, with something in the middle."""
    small = rng.integers(0, 256, (9, 12, 3), dtype=np.uint8)
    image = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
    thing = Image.new("RGB", (width // 5, height // 5), tuple(rng.integers(0, 256, 3).tolist()))
    image.paste(thing, (2 * width // 5, 2 * height // 5))
    return image


def as_jpeg(image, **options):
    file = io.BytesIO()
    image.save(file, "JPEG", quality=95, **options)
    return file.getvalue()


def cosine(one, other):
    one, other = one.ravel().astype(float), other.ravel().astype(float)
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


class TestVersions:
    @pytest.mark.parametrize("settings", PIXELS_OF_VERSION_1)
    def test_the_pixels_are_those_that_models_were_made_with(self, settings):
        for version, golden in ((1, PIXELS_OF_VERSION_1), (2, PIXELS_OF_VERSION_2)):
            found = Preprocessing(**dict(settings), version=version).prepare(pattern())
            assert hashlib.sha256(found.tobytes()).hexdigest()[:16] == golden[settings]

    def test_the_identities_are_those_that_models_have(self):
        assert load(version=1, interpolation="bicubic").identity.identity == (
            "1b54dab7fd9d8b67c29a4a13367138cca80bf445c72a9c5af9af310d3d499228"
        )
        assert load().identity.identity == "b02b98488d1d45fc2b4485c70c1a63b7ef9000a17e51bd851d12e58363ed1885"
        assert not load(views=1).identity.is_same(load(version=1, interpolation="bicubic").identity)

    def test_version_1_has_one_view_and_scales_nothing_before(self, rng):
        old = Preprocessing(size=32, version=1)
        assert old.shares == (1.0,)
        assert old.least_side is None
        assert not {"views", "version"} & set(old.to_json())
        image = scene(rng, 1200, 900)
        box = (100, 0, 1100, 900)
        assert Preprocessing(size=32, resize=None, version=1).prepare(image.crop(box)).shape == (32, 32, 3)
        expected = np.asarray(image.crop(box).resize((32, 32), Image.Resampling.BILINEAR))
        found = Preprocessing(size=32, resize=None, version=1).prepare(image.crop(box))
        np.testing.assert_array_equal(found, expected)

    def test_versions_that_are_not_known_are_refused(self):
        for version in (0, 3, "2", None, True):
            with pytest.raises(ValueError, match="version of a preprocessing is 1 to 2"):
                Preprocessing(version=version)
        with pytest.raises(ValueError, match="has one view of a photo"):
            Preprocessing(version=1, views=2)

    def test_a_model_of_old_keeps_the_old_way(self, tmp_path, rng):
        path = tmp_path / "old.xlda"
        photos = [scene(rng, 400, 300) for _ in range(4)]
        old = load(version=1, interpolation="bicubic")
        rows = old.embed(np.stack([old.prepare(photo) for photo in photos]))
        clf = XLDA().fit(rows, ["a", "a", "b", "b"])
        clf.backbone_ = old.identity
        clf.save(path)
        with Recognizer.open(path) as shop:
            assert shop.backbone.preprocessing.version == 1
            np.testing.assert_array_equal(shop.embed(photos[0]), old.embed(old.prepare(photos[0])[None]))
            shop.learn(photos[0], "c")
        assert Recognizer.open(path).identity == old.identity
        with pytest.raises(OtherBackboneError, match=r"preprocessing version 1\); got embeddings of"):
            Recognizer.open(path, backbone=load())
        with pytest.raises(OtherBackboneError, match="has one view of a photo"):
            Recognizer.open(path, views=2).predict(photos[0])


class TestViews:
    def test_a_view_is_the_middle_of_the_crop_enlarged(self, rng):
        image = scene(rng, 240, 240)
        found = Preprocessing(size=112, views=(1, 0.7, 0.25), interpolation="bicubic").prepare(image)
        assert found.shape == (3, 112, 112, 3)
        assert found.dtype == np.uint8
        side = 240 * 112 / 128  # of the crop: the short side becomes 128 pixels, 112 of which are kept
        for view, share in zip(found, (1, 0.7, 0.25), strict=True):
            half = share * side / 2
            box = (120 - half, 120 - half, 120 + half, 120 + half)
            expected = np.asarray(image.resize((112, 112), Image.Resampling.BICUBIC, box))
            assert abs(view.astype(int) - expected).max() <= 1
        one = Preprocessing(size=112, views=1, interpolation="bicubic").prepare(image)
        np.testing.assert_array_equal(found[0], one)

    def test_an_embedding_is_the_average_over_the_views(self, rng):
        images = [scene(rng, 200, 150) for _ in range(5)]  # not large enough to be scaled down before
        both = load(size=96, views=(1, 0.6))
        found = both.embed(np.stack([both.prepare(image) for image in images]))
        apart = []
        for share in (1, 0.6):
            one = load(size=96, views=[share])
            apart.append(one.embed(np.stack([one.prepare(image) for image in images])))
        np.testing.assert_allclose(found, (apart[0] + apart[1]) / 2, rtol=1e-4, atol=1e-5)
        assert abs(apart[0] - apart[1]).max() > 0.1

    @pytest.mark.parametrize("n_views", [1, 2, 3])
    @pytest.mark.parametrize("threads", [1, 2])
    def test_one_photo_or_many_in_whichever_thread(self, rng, n_views, threads):
        backbone = load(size=64, views=n_views, threads=threads)
        images = [scene(rng, 200, 150) for _ in range(5)]
        batch = np.stack([backbone.prepare(image) for image in images])
        expected = np.concatenate([load(size=64, views=n_views, threads=1).embed(one[None]) for one in batch])
        close = {"rtol": 1e-4, "atol": 1e-5}
        np.testing.assert_allclose(backbone.embed(batch), expected, **close)
        np.testing.assert_allclose(backbone.embed_here(batch), expected, **close)
        np.testing.assert_allclose([backbone.embed_one(image) for image in images], expected, **close)

    def test_by_number_or_by_share(self):
        assert [Preprocessing(views=n).views for n in (1, 2, 3)] == [(1.0,), (1.0, 0.7), (1.0, 0.7, 0.5)]
        assert Preprocessing().views == (1.0, 0.7)
        assert Preprocessing(views=[0.5]).shape == (224, 224, 3)
        assert Preprocessing.from_json(Preprocessing(views=3).to_json()).views == (1.0, 0.7, 0.5)
        assert Preprocessing().changed(version=1).views == (1.0,)

    @pytest.mark.parametrize(
        "views", [0, 4, -1, True, 2.0, "3", (), [0], [1.1], [float("nan")], [-0.5], ["1"], [0.5] * 17, None]
    )
    def test_what_are_no_views_is_refused(self, views):
        with pytest.raises(ValueError, match="views are 1, 2 or 3, or a list of at most 16 shares"):
            Preprocessing(views=views)

    def test_other_views_are_another_identity(self, tmp_path, rng):
        path = tmp_path / "shop.xlda"
        with Recognizer.open(path, views=3) as shop:
            shop.learn([scene(rng, 200, 200) for _ in range(2)], ["a", "b"])
            assert shop.backbone.preprocessing.views == (1.0, 0.7, 0.5)
        assert Recognizer.open(path).backbone.preprocessing.views == (1.0, 0.7, 0.5)  # as it was made
        with pytest.raises(OtherBackboneError, match=r"views \[1.0, 0.7, 0.5\]\); got .* \(views \[1.0\]\)"):
            Recognizer.open(path, views=1).predict(scene(rng, 200, 200))
        with pytest.raises(ValueError, match="views are for a backbone that is yet to be loaded"):
            Recognizer.open(path, backbone=load(), views=2)


class TestScaledDown:
    @pytest.mark.parametrize(
        ("size", "times"), [((731, 900), 1), ((732, 900), 2), ((4000, 3000), 8), ((5856, 5856), 16)]
    )
    def test_by_a_power_of_two_as_far_as_no_view_is_enlarged(self, size, times):
        settings = Preprocessing()
        assert settings.least_side == 366  # 256 / 0.7
        image = Image.effect_noise(size, 60).convert("RGB")
        expected = Preprocessing(version=2).prepare(image.reduce(times))
        np.testing.assert_array_equal(settings.prepare(image), expected)
        assert times == 1 or min(size) // times >= settings.least_side > min(size) // (2 * times)

    def test_a_jpeg_is_decoded_no_larger_than_need_be(self, rng):
        data = as_jpeg(scene(rng, 1700, 1300))
        assert open_photo(data).size == (1700, 1300)
        assert open_photo(data, least_side=366).size == (850, 650)
        assert open_photo(data, least_side=650).size == (850, 650)
        assert open_photo(data, least_side=651).size == (1700, 1300)
        assert open_photo(data, least_side=10).size == (213, 163)

    def test_it_sees_what_the_whole_photo_shows(self, rng):
        backbone = load()
        image = scene(rng, 2400, 1800)
        data = as_jpeg(image)
        small = prepared(data, backbone)
        whole = backbone.prepare(open_photo(data))
        assert open_photo(data, least_side=backbone.least_side).size == (600, 450)
        assert abs(small.astype(int) - whole).mean() < 1
        embeddings = backbone.embed(np.stack([small, whole]))
        assert cosine(*embeddings) > 0.999

    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_it_is_upright(self, rng, orientation):
        image = scene(rng, 904, 1504)
        exif = Image.Exif()
        exif[0x0112] = orientation
        data = as_jpeg(image, exif=exif)
        settings = Preprocessing(size=64, views=1)
        found = settings.prepare(open_photo(data, least_side=settings.least_side))
        expected = settings.prepare(open_photo(data))
        assert abs(found.astype(int) - expected).mean() < 2

    def test_grey_and_cmyk(self, rng):
        for mode in ("L", "CMYK"):
            image = scene(rng, 1600, 1600).convert(mode)
            data = as_jpeg(image)
            found, expected = open_photo(data, least_side=200), open_photo(data)
            assert (found.size, expected.size) == ((200, 200), (1600, 1600))
            assert abs(np.asarray(found).astype(int) - np.asarray(expected.reduce(8))).mean() < 1.5

    def test_what_is_cut_short_is_still_told(self, rng):
        data = as_jpeg(scene(rng, 1600, 1200))
        with pytest.raises(BadSampleError, match=r"cut\.jpg is broken or cut short"):
            open_photo(data[: len(data) // 2], name="cut.jpg", least_side=200)
