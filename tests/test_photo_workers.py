from __future__ import annotations

import asyncio
import gc
import io
import threading

import numpy as np
import pytest

from xlda.photos import BadImage

Image = pytest.importorskip("PIL.Image")
ImageFilter = pytest.importorskip("PIL.ImageFilter")

from xlda.photos.decoding import OtherFormat, open_photo  # noqa: E402
from xlda.service import photo_workers  # noqa: E402
from xlda.service.photo_quality import warnings_of  # noqa: E402
from xlda.service.photo_workers import (  # noqa: E402
    PhotoWorkers,
    QueueFullError,
    WorkersClosedError,
)
from xlda.service.small_photos import small_jpeg  # noqa: E402


def file_of(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def grey(value):
    """A photo whose embedding begins with this value."""
    return file_of(Image.new("RGB", (8, 8), (value, 0, 0)))


class Stub:
    """A network whose embedding is the mean colour. It tells what it did, and works only while it may."""

    n_features, least_side = 3, 366

    def __init__(self):
        self.done = []  # "one" or "here", with how many photos
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.began = threading.Semaphore(0)

    def prepare(self, image):
        return np.asarray(image.resize((4, 4)))

    def embed_one(self, image):
        return self._embedded("one", self.prepare(image)[None])[0]

    def embed_here(self, pixels):
        return self._embedded("here", pixels)

    def _embedded(self, how, pixels):
        self.done.append((how, len(pixels)))
        self.began.release()
        assert self.may_go_on.wait(10)
        embeddings = pixels.mean(axis=(1, 2)).astype(np.float32)
        if (embeddings[:, 0] == 13).any():
            raise ValueError("NaN or infinite numbers")
        return embeddings


@pytest.fixture
def stub():
    return Stub()


@pytest.fixture
def opened(stub):
    """Makes workers, which are closed at the end."""
    made = []

    def workers(**options):
        made.append(PhotoWorkers(stub, **options))
        return made[-1]

    yield workers
    stub.may_go_on.set()
    for one in made:
        one.close()


async def until(is_so):
    for _ in range(1000):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came so far")


async def held_up(workers, stub):
    """All workers busy with one photo each until the network may go on."""
    stub.may_go_on.clear()
    stub.done.clear()
    tasks = []
    for n_begun in range(1, len(workers._threads) + 1):
        tasks.append(asyncio.create_task(workers.embed(grey(1))))
        await until(lambda n=n_begun: len(stub.done) == n)
    stub.done.clear()
    return tasks


async def queued(workers, *values):
    tasks = [asyncio.create_task(workers.embed(grey(value))) for value in values]
    n_before = workers.waiting
    await until(lambda: workers.waiting == n_before + len(values))
    return tasks


class TestAnswers:
    def test_each_gets_its_own(self, opened):
        async def run():
            workers = opened(threads=3)
            return await asyncio.gather(*(workers.embed(grey(value)) for value in range(20, 80)))

        for value, photo in enumerate(asyncio.run(run()), 20):
            assert photo.embedding.tolist() == [value, 0, 0]
            assert photo.embedding.dtype == np.float32

    @pytest.mark.parametrize("n_photos", [1, 5])
    @pytest.mark.parametrize("want_warnings", [True, False])
    def test_size_and_warnings(self, opened, n_photos, want_warnings):
        """Alone and among others."""
        exif = Image.Exif()
        exif[0x0112] = 6
        upload = file_of(Image.new("RGB", (1600, 1000), (9, 9, 9)), "JPEG", exif=exif)

        async def run():
            workers = opened(threads=1)
            photos = await asyncio.gather(*(workers.embed(upload, want_warnings) for _ in range(n_photos)))
            return [(photo.size, await photo.warned()) for photo in photos]

        for size, warnings in asyncio.run(run()):
            assert size == (1000, 1600)
            assert warnings == (["blurred", "dark"] if want_warnings else [])
        assert open_photo(small_jpeg(upload)).size == (320, 512)

    def test_the_embedding_comes_before_what_is_wrong(self, opened, monkeypatch):
        """Who waits for that and is cancelled, or gets an error, leaves the worker as it was."""
        may_look, looked = threading.Event(), []

        def look(image, size):
            assert may_look.wait(10)
            looked.append(size)
            if len(looked) == 2:
                raise ArithmeticError("a fault in looking")
            return ["dark"]

        monkeypatch.setattr(photo_workers, "warnings_of", look)

        async def run():
            workers = opened(threads=1)
            photo = await workers.embed(grey(9))
            waiting = asyncio.ensure_future(photo.warned())
            await asyncio.sleep(0.01)
            waiting.cancel()
            assert not looked
            may_look.set()
            with pytest.raises(ArithmeticError):
                await (await workers.embed(grey(9))).warned()
            return await photo.warned(), await (await workers.embed(grey(9))).warned()

        assert asyncio.run(asyncio.wait_for(run(), 20)) == (["dark"], ["dark"])

    def test_a_real_network_gives_what_it_gives_for_files(self, rng):
        backbones = pytest.importorskip("xlda.backbones")
        backbone = backbones.load("efficientnet-lite0")
        coarse = [Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)) for _ in range(9)]
        uploads = [file_of(image.resize((1600, 1200)), "JPEG") for image in coarse]

        async def run():
            workers = PhotoWorkers(backbone)
            alone = [await workers.embed(uploads[0])]
            others = await asyncio.gather(*map(workers.embed, uploads[1:]))
            workers.close()
            return np.stack([photo.embedding for photo in alone + others])

        images = [open_photo(upload, least_side=backbone.least_side) for upload in uploads]
        expected = np.stack([backbone.embed(backbone.prepare(image)[None])[0] for image in images])
        np.testing.assert_allclose(asyncio.run(run()), expected, atol=1e-4)


class TestSharing:
    def test_a_photo_alone_gets_all_cores(self, opened, stub):
        async def run():
            workers = opened(threads=2)
            await workers.embed(grey(1))
            await until(lambda: not workers.busy)
            await workers.embed(grey(2))

        asyncio.run(run())
        assert stub.done == [("one", 1), ("one", 1)]

    def test_one_that_comes_while_another_is_under_way_does_not(self, opened, stub):
        async def run():
            workers = opened(threads=2)
            stub.may_go_on.clear()
            first = asyncio.create_task(workers.embed(grey(1)))
            await until(lambda: stub.done)
            second = asyncio.create_task(workers.embed(grey(2)))
            await until(lambda: len(stub.done) == 2)  # it is begun at once, by the other worker
            assert (workers.waiting, workers.busy) == (0, 2)
            stub.may_go_on.set()
            await asyncio.gather(first, second)

        asyncio.run(run())
        assert stub.done == [("one", 1), ("here", 1)]

    @pytest.mark.parametrize(
        ("n_waiting", "shares"), [(1, [1]), (3, [2, 1]), (8, [4, 2, 1, 1]), (20, [4, 4, 4, 4, 2, 1, 1])]
    )
    def test_workers_share_fairly_what_waits(self, opened, stub, n_waiting, shares):
        async def run():
            workers = opened(threads=2)
            tasks = await held_up(workers, stub)
            tasks += await queued(workers, *range(n_waiting))
            assert (workers.waiting, workers.busy) == (n_waiting, 2)
            taken = []
            while workers.waiting:  # as if a worker came, and came again
                some, is_alone = workers._taken()
                assert not is_alone
                taken.append([open_photo(asked.content).getpixel((0, 0))[0] for asked in some])
            for task in tasks:
                task.cancel()
            return taken

        taken = asyncio.run(run())
        assert [len(some) for some in taken] == shares
        assert [value for some in taken for value in some] == list(
            range(n_waiting)
        )  # who came first is first

    def test_workers_that_are_idle_share_what_comes_together(self, opened, stub):
        async def run():
            workers = opened(threads=2)
            stub.may_go_on.clear()
            with workers._news:  # nobody begins before all are there
                tasks = [asyncio.create_task(workers.embed(grey(value))) for value in range(2)]
                for _ in range(3):
                    await asyncio.sleep(0)
                assert workers.waiting == 2
            await until(lambda: len(stub.done) == 2)
            stub.may_go_on.set()
            await asyncio.gather(*tasks)

        asyncio.run(run())
        assert stub.done == [("here", 1), ("here", 1)]


class TestQueue:
    def test_a_full_one_refuses_at_once(self, opened, stub):
        async def run():
            workers = opened(threads=1, most_waiting=3)
            tasks = await held_up(workers, stub)
            tasks += await queued(workers, 20, 21, 22)
            with pytest.raises(QueueFullError, match="3 photos are waiting already; try again soon"):
                await asyncio.wait_for(workers.embed(grey(23)), 5)
            stub.may_go_on.set()
            await asyncio.gather(*tasks)
            await workers.embed(grey(24))  # there is room again

        asyncio.run(run())

    def test_so_does_one_with_too_many_bytes_but_any_photo_may_wait_alone(self, opened, stub):
        photo = grey(20)

        async def run():
            workers = opened(threads=1, most_waiting_bytes=len(photo) + 1)
            tasks = await held_up(workers, stub)
            for _ in range(2):  # what has left is not counted
                waiting = asyncio.create_task(workers.embed(photo + bytes(99)))
                await until(lambda: workers.waiting == 1)
                with pytest.raises(QueueFullError):
                    await workers.embed(b"xx")
                waiting.cancel()
                await until(lambda: workers.waiting == 0)
            tasks.append(asyncio.create_task(workers.embed(photo)))
            await until(lambda: workers.waiting == 1)
            stub.may_go_on.set()
            await asyncio.gather(*tasks)
            assert workers._n_bytes == 0

        asyncio.run(run())

    def test_who_is_gone_is_skipped(self, opened, stub):
        async def run():
            workers = opened(threads=1, most_waiting=2)
            tasks = await held_up(workers, stub)
            gone, stays = await queued(workers, 20, 21)
            gone.cancel()
            await until(lambda: workers.waiting == 1)
            tasks += await queued(workers, 22)  # there is room for another
            stub.may_go_on.set()
            found = await asyncio.gather(stays, *tasks)
            assert gone.cancelled()
            return [photo.embedding[0] for photo in found]

        assert asyncio.run(run()) == [21, 1, 22]
        assert stub.done == [("here", 2)]

    def test_who_goes_at_the_moment_of_beginning_is_skipped_too(self, opened, stub):
        async def run():
            workers = opened(threads=1)
            tasks = await held_up(workers, stub)
            tasks += await queued(workers, 20, 21)
            workers._leave = lambda asked: None  # it is not taken from the queue in time
            tasks[1].cancel()
            await until(workers._waiting[0].answer.cancelled)
            stub.may_go_on.set()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(found[1], asyncio.CancelledError)
            return found[2].embedding[0]

        assert asyncio.run(run()) == 21
        assert stub.done == [("here", 1)]

    def test_who_goes_after_the_beginning_does_no_harm(self, opened, stub):
        async def run():
            workers = opened(threads=1)
            (gone,) = await held_up(workers, stub)
            gone.cancel()
            (stays,) = await queued(workers, 21)
            stub.may_go_on.set()
            await stays
            await until(lambda: not workers.busy)
            assert (await workers.embed(grey(22))).embedding[0] == 22

        asyncio.run(run())

    def test_photos_that_are_done_are_not_kept_in_memory(self, opened, stub, monkeypatch):
        class Upload(bytes):
            pass

        uploads = [Upload(grey(value)) for value in range(20, 23)]
        left = []
        monkeypatch.setattr(
            photo_workers, "open_with_size", lambda data, least_side: (open_photo(data), (8, 8))
        )

        async def run():
            workers = opened(threads=1)
            await asyncio.gather(*map(workers.embed, uploads))
            await until(lambda: not workers.busy)
            uploads.clear()
            gc.collect()
            left.extend(one for one in gc.get_objects() if type(one) is photo_workers._Asked)

        asyncio.run(run())
        assert left == []


class TestFaults:
    @pytest.mark.parametrize(
        ("bad", "error"),
        [(b"<html>", OtherFormat), (grey(5)[:50], BadImage), (grey(13), ValueError)],
        ids=["another format", "cut short", "no finite embedding"],
    )
    def test_a_bad_photo_fails_alone(self, opened, stub, bad, error):
        async def run():
            workers = opened(threads=1)
            with pytest.raises(error):
                await workers.embed(bad)
            tasks = await held_up(workers, stub)
            tasks += await queued(workers, 20, 21)
            tasks.append(asyncio.create_task(workers.embed(bad)))
            await until(lambda: workers.waiting == 3)
            tasks += await queued(workers, 22)
            stub.may_go_on.set()
            return await asyncio.gather(*tasks, return_exceptions=True)

        _, *found = asyncio.run(run())
        assert isinstance(found.pop(2), error)
        assert [photo.embedding[0] for photo in found] == [20, 21, 22]

    def test_nothing_is_busy_afterwards(self, opened):
        async def run():
            workers = opened(threads=2)
            found = await asyncio.gather(
                *(workers.embed(photo) for photo in (grey(1), b"", grey(13))), return_exceptions=True
            )
            await until(lambda: (workers.busy, workers.waiting) == (0, 0))
            return [type(one).__name__ for one in found]

        assert asyncio.run(run()) == ["EmbeddedPhoto", "BadImage", "ValueError"]


class TestClose:
    def test_what_is_under_way_is_finished_and_the_rest_refused(self, opened, stub):
        async def run():
            workers = opened(threads=2)
            under_way = await held_up(workers, stub)
            waiting = await queued(workers, 20, 21)
            closing = asyncio.create_task(asyncio.to_thread(workers.close))
            refused = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(error) for error in refused] == [WorkersClosedError] * 2
            with pytest.raises(WorkersClosedError, match="takes no more photos"):
                await workers.embed(grey(22))
            assert not closing.done()
            stub.may_go_on.set()
            await closing
            assert [photo.embedding[0] for photo in await asyncio.gather(*under_way)] == [1, 1]
            assert not any(thread.is_alive() for thread in workers._threads)
            assert (workers.waiting, workers.busy) == (0, 0)

        asyncio.run(run())

    def test_twice_is_as_good(self, opened):
        workers = opened(threads=2)
        workers.close()
        workers.close()

    def test_a_loop_that_is_gone_does_no_harm(self, opened, stub):
        workers = opened(threads=1)

        async def leave():
            await held_up(workers, stub)

        asyncio.run(leave())
        stub.may_go_on.set()
        workers.close()


class TestSmallPhotos:
    @pytest.mark.parametrize(
        ("size", "side", "expected"),
        [
            ((1600, 1200), 512, (512, 384)), ((300, 900), 512, (171, 512)), ((300, 200), 512, (300, 200)),
            ((512, 384), 256, (256, 192)), ((3000, 2), 512, (512, 1)),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
    def test_the_long_side_is_no_longer_than_that(self, size, side, expected, kind):
        small = small_jpeg(file_of(Image.new("RGB", size, (200, 30, 90)), kind), side)
        with Image.open(io.BytesIO(small)) as image:
            assert (image.format, image.mode, image.size) == ("JPEG", "RGB", expected)
            assert np.abs(np.subtract(image.getpixel((0, 0)), (200, 30, 90))).max() <= 6

    @pytest.mark.parametrize("size", [(640, 480), (1600, 1200)])
    @pytest.mark.parametrize(("turn", "degrees"), [(1, 0), (8, 90)])
    def test_nothing_but_the_pixels_is_kept(self, size, turn, degrees, rng):
        from PIL import ImageCms

        exif = Image.Exif()
        exif[0x0112], exif[0x010F] = turn, "a camera"
        profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
        pixels = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize(size)
        upload = file_of(
            pixels, "JPEG", exif=exif, icc_profile=profile, comment=b"of mine", dpi=(300, 300), xmp=b"<x/>"
        )
        small = small_jpeg(upload)
        with Image.open(io.BytesIO(small)) as image:
            assert set(image.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
            assert image.size == ((384, 512) if degrees else (512, 384))  # the turn is told no more
            expected = pixels.rotate(degrees, expand=True).resize(image.size)
            assert np.abs(np.asarray(image, float) - np.asarray(expected, float)).mean() < 3
        for secret in (b"camera", b"of mine", b"<x/>", b"ICC_PROFILE"):
            assert secret in upload
            assert secret not in small

    def test_a_bad_one_is_told(self):
        with pytest.raises(OtherFormat):
            small_jpeg(b"<html>")


def scene(rng, size=(800, 600)):
    """Things with edges, as in a photo."""
    pixels = np.full((*size[::-1], 3), 140, np.uint8)
    for _ in range(60):
        x, y = rng.integers(0, size[0]), rng.integers(0, size[1])
        pixels[y : y + rng.integers(20, 200), x : x + rng.integers(20, 200)] = rng.integers(0, 256, 3)
    return Image.fromarray(pixels)


class TestWarnings:
    def test_a_good_photo_has_none(self, rng):
        for size in ((800, 600), (400, 400), (128, 160)):
            assert warnings_of(scene(rng).resize(size), size) == []

    def test_a_large_photo_need_not_be_sharp_to_the_pixel(self, rng):
        image = scene(rng).resize((2400, 1800)).filter(ImageFilter.GaussianBlur(4))
        assert warnings_of(image, image.size) == []

    @pytest.mark.parametrize("size", [(512, 384), (800, 600), (384, 512)])
    def test_blurred(self, rng, size):
        image = scene(rng).resize(size).filter(ImageFilter.GaussianBlur(6 * max(size) / 512))
        assert warnings_of(image, size) == ["blurred"]
        faint = image.point(lambda value: 96 + value // 3)
        assert warnings_of(faint, size) == ["blurred"]

    def test_dark_is_not_blurred(self, rng):
        dark = scene(rng).point(lambda value: value // 8)
        assert warnings_of(dark, dark.size) == ["dark"]

    def test_too_small_is_about_the_upload(self, rng):
        image = scene(rng, (400, 300))
        assert warnings_of(image, (127, 4000)) == ["too small"]
        assert warnings_of(image, (4000, 127)) == ["too small"]
        assert warnings_of(image, (128, 128)) == []

    @pytest.mark.parametrize("size", [(1, 1), (2, 900), (900, 1)])
    def test_a_sliver_does_no_harm(self, size):
        assert warnings_of(Image.new("RGB", size, "white"), size) == ["too small", "blurred"]

    def test_real_photos_seldom_have_any(self):
        from conftest import DATA

        files = sorted((DATA / "grocery").rglob("*.jpg"))[::20]
        if not files:
            pytest.skip("needs the folder grocery; set XLDA_DATA to the folder that has it")
        images = [open_photo(file) for file in files]
        found = [warnings_of(image, image.size) for image in images]
        assert sum(map(bool, found)) <= 0.02 * len(files)
        blurred = [image.filter(ImageFilter.GaussianBlur(6 * max(image.size) / 512)) for image in images]
        dark = [image.point(lambda value: value // 8) for image in images]
        for spoiled, warning in ((blurred, "blurred"), (dark, "dark")):
            n_told = sum(warning in warnings_of(image, image.size) for image in spoiled)
            assert n_told >= 0.99 * len(files)
