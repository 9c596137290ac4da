from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from xlda import XLDA
from xlda.identity import BackboneIdentity
from xlda.photos import (
    BadImage,
    EmbeddingWriter,
    Photo,
    embed_photos,
    embed_to_parquet,
    embedding_info,
    photo_source,
)
from xlda.photos import parquet as embedding_files
from xlda.sources import SourceError, open_source

Image = pytest.importorskip("PIL.Image")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TINY = BackboneIdentity("tiny", identity="0a")
OTHER = BackboneIdentity("other", identity="0b")


class Tiny:
    """A backbone whose embedding is the mean colour; it counts what it embeds, and can break."""

    n_features = 3

    def __init__(self, break_at=None, error=KeyboardInterrupt, seconds=0.0):
        self.n_embedded, self.n_prepared = 0, 0
        self._break_at, self._error, self._seconds = break_at, error, seconds

    def prepare(self, image):
        self.n_prepared += 1
        return np.asarray(image.resize((4, 4)))

    def embed(self, pixels):
        assert pixels.dtype == np.uint8
        assert pixels.shape[1:] == (4, 4, 3)
        time.sleep(self._seconds)
        if self._break_at is not None and self.n_embedded + len(pixels) > self._break_at:
            raise self._error
        self.n_embedded += len(pixels)
        return pixels.mean(axis=(1, 2)).astype(np.float32)


class TinyInThreads(Tiny):
    """The same, to be used by several threads."""

    def __init__(self, **options):
        super().__init__(**options)
        self._turn = threading.Lock()

    def embed_here(self, pixels):
        assert threading.current_thread().name.startswith("xlda-decoder")
        with self._turn:
            return super().embed(pixels)

    def embed(self, pixels):
        raise AssertionError("one thread is left to do it all")


def shop(n, bad=()):
    """Photos of known colours, some of them broken."""
    photos = []
    for number in range(n):
        path = Path(f"{number:03}.png")
        Image.new("RGB", (5, 5), colour(number)).save(path)
        if number in bad:
            path.write_bytes(path.read_bytes()[:40])
        photos.append(Photo(path, ["pear", "äpple"][number % 2]))
    return photos


def colour(number):
    return number, 2 * number % 256, 255 - number


def decoding_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("xlda-decoder")]


def stored(path="out.parquet"):
    return pq.read_table(path).to_pydict()


def embed(photos, embedder, out="out.parquet", **options):
    return embed_to_parquet(photos, embedder, out, **{"backbone": TINY, "batch_size": 4, **options})


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(embedding_files, "PART_PHOTOS", 8)


@pytest.mark.parametrize("kind", [Tiny, TinyInThreads])
class TestEmbedPhotos:
    @pytest.mark.parametrize("batch_size", [1, 4, 100])
    @pytest.mark.parametrize("decoders", [1, 5])
    def test_embeddings_come_in_the_order_of_the_photos(self, kind, batch_size, decoders):
        photos = shop(10)
        batches = list(embed_photos(photos, kind(), batch_size=batch_size, decoders=decoders))
        assert [len(batch.photos) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
        assert list(itertools.chain(*(batch.photos for batch in batches))) == photos
        embeddings = np.concatenate([batch.embeddings for batch in batches])
        assert embeddings.dtype == np.float32
        np.testing.assert_array_equal(embeddings, [colour(number) for number in range(10)])

    def test_bad_photos_stop_it_or_are_skipped(self, kind):
        photos = [*shop(6, bad={1, 4}), Photo(Path("gone.png"), "pear")]
        with pytest.raises(BadImage, match=r"001\.png is broken"):
            list(embed_photos(photos, kind()))
        batches = list(embed_photos(photos, kind(), on_error="skip", batch_size=2))
        assert [photo.path.stem for batch in batches for photo in batch.photos] == [
            "000",
            "002",
            "003",
            "005",
        ]
        assert [photo.path.stem for batch in batches for photo, _ in batch.skipped] == ["001", "004", "gone"]
        assert "001.png is broken or cut short" in batches[0].skipped[0][1]
        assert "gone.png" in batches[-1].skipped[0][1]
        assert batches[-1].embeddings.shape == (0, 3)
        (all_at_once,) = embed_photos(photos, kind(), on_error="skip", batch_size=7)
        assert [photo.path.stem for photo, _ in all_at_once.skipped] == ["001", "004", "gone"]
        assert len(all_at_once.photos) == len(all_at_once.embeddings) == 4

    def test_it_looks_ahead_no_further_than_a_batch(self, kind):
        backbone, taken = kind(), 0

        def endless():
            nonlocal taken
            for photo in itertools.cycle(shop(4)):
                taken += 1
                yield photo

        batches = embed_photos(endless(), backbone, batch_size=8, decoders=2)
        next(batches)
        assert taken <= 8 + 8 + (2 + 1) * (4 if kind is TinyInThreads else 1)
        batches.close()
        assert not decoding_threads()

    @pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
    def test_threads_end_with_an_error(self, kind, error):
        with pytest.raises(error):
            list(embed_photos(shop(40), kind(break_at=8, error=error), batch_size=4))
        assert not decoding_threads()

    def test_decoding_goes_on_while_the_network_is_at_work(self, kind):
        backbone = kind(seconds=0.3)
        next(embed_photos(shop(12), backbone, batch_size=4, decoders=2 if kind is TinyInThreads else 1))
        assert backbone.n_prepared >= 8

    def test_a_backbone_that_does_not_keep_its_word_is_told(self, kind):
        backbone = kind()
        backbone.n_features = 5
        with pytest.raises(ValueError, match=r"shape \(2, 3\) for 2 photos; expected \(2, 5\)"):
            list(embed_photos(shop(2), backbone))

    def test_options_are_checked_at_once(self, kind):
        with pytest.raises(ValueError, match="on_error='ignore'"):
            embed_photos([], kind(), on_error="ignore")
        with pytest.raises(ValueError, match="batch_size=0"):
            embed_photos([], kind(), batch_size=0)


class TestPhotoSource:
    def test_it_teaches_what_the_embeddings_teach(self):
        photos, backbone = shop(70), Tiny()
        learned = XLDA().fit_source(photo_source(photos, backbone))
        expected = XLDA().fit(np.array([colour(n) for n in range(70)], np.float32), [p.label for p in photos])
        np.testing.assert_allclose(learned.covariance_, expected.covariance_, rtol=1e-4)
        assert learned.n_samples_seen_ == 70
        assert learned.source_position_ == ("photos", 70)
        assert not decoding_threads()

    @pytest.mark.parametrize("size", [1, 5, 1000])
    def test_batches_are_no_larger_than_asked_and_go_on_anywhere(self, size):
        source = photo_source(shop(40), Tiny())
        assert source.n_samples() == 40
        for start in (0, 7, 40):
            batches = list(source.batches(size, ("photos", start)))
            assert all(len(batch.embeddings) <= size for batch in batches)
            rows = [row for batch in batches for row in batch.embeddings.tolist()]
            assert rows == [list(map(float, colour(n))) for n in range(start, 40)]
            labels = [label for batch in batches for label in batch.labels]
            assert labels == [["pear", "äpple"][n % 2] for n in range(start, 40)]

    def test_memory_does_not_grow_with_the_photos(self):
        backbone = Tiny()
        n_features = backbone.n_features = 20_000
        backbone.embed = lambda pixels: np.ones((len(pixels), n_features), np.float32)
        in_hand = []
        tracemalloc.start()
        try:
            for _ in photo_source(shop(1) * 400, backbone).batches(4096):
                in_hand.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        assert len(in_hand) > 10
        assert max(in_hand) < 4 * 32 * n_features * 4 < 400 * n_features * 4 / 3

    def test_a_bad_photo_is_told_with_its_place(self):
        photos = shop(40, bad={35})
        with pytest.raises(SourceError, match=r"035\.png is broken") as caught:
            XLDA().fit_source(photo_source(photos, Tiny()))
        assert caught.value.position == ("photos", 32)
        with pytest.raises(ValueError, match="on_error='ignore'"):
            photo_source(photos, Tiny(), on_error="ignore")

    def test_bad_photos_are_skipped_and_rows_counted_without_them(self):
        photos, skipped = [*shop(12, bad={0, 5, 11}), Photo(Path("gone.png"), "pear")], []
        good = [n for n in range(12) if n not in (0, 5, 11)]
        source = photo_source(photos, Tiny(), on_error="skip", on_skipped=lambda *one: skipped.append(one))
        learned = XLDA().fit_source(source, batch_size=4)
        assert learned.n_samples_seen_ == 9
        assert learned.source_position_ == ("photos", 9)
        assert [photo.path.stem for photo, _ in skipped] == ["000", "005", "011", "gone"]
        assert "000.png is broken" in skipped[0][1]
        for start in range(10):
            rows = [
                row for batch in source.batches(4, ("photos", start)) for row in batch.embeddings.tolist()
            ]
            assert rows == [list(map(float, colour(n))) for n in good[start:]]

    def test_photos_without_a_label(self):
        photos = [Photo(photo.path, None) for photo in shop(40)]
        with pytest.raises(SourceError, match=r"000\.png has no label"):
            XLDA().fit_source(photo_source(photos, Tiny()))
        (first, *_) = photo_source(photos, Tiny(), labels=False).batches(100)
        assert first.labels is None

    def test_a_layer_is_converted_with_photos(self):
        photos = [Photo(photo.path, None) for photo in shop(40)]
        weight, bias = np.array([[1.0, 0, 0], [-1.0, 0, 0]]), np.array([-20.0, 20.0])
        rows = np.array([colour(n) for n in range(40)], np.float32)
        from_rows = XLDA.from_linear(weight, bias, embeddings=rows)
        from_photos = XLDA.from_linear(weight, bias, embeddings=photo_source(photos, Tiny(), labels=False))
        assert from_photos.n_samples_seen_ == 40
        np.testing.assert_allclose(from_photos.means_, from_rows.means_, rtol=1e-5)
        np.testing.assert_allclose(from_photos.covariance_, from_rows.covariance_, rtol=1e-4)


class TestWriter:
    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    def test_what_it_writes_is_a_source(self, dtype, rng):
        values = rng.normal(size=(50, 6)).astype(dtype)
        photos = [Photo(Path(f"{n}.jpg"), ["pear", "äpple", "kiwi"][n % 3]) for n in range(50)]
        with EmbeddingWriter("a.parquet", 6, backbone=TINY, dtype=dtype) as writer:
            writer.write(values[:20], photos[:20])
            writer.write(values[20:], photos[20:])
        (batch,) = open_source("a.parquet").batches(100)
        np.testing.assert_array_equal(batch.embeddings, values)
        assert list(batch.labels) == [photo.label for photo in photos]
        read = XLDA().fit_source("a.parquet")
        direct = XLDA().fit(values, np.array([photo.label for photo in photos]))
        np.testing.assert_array_equal(read.predict(values), direct.predict(values))
        assert embedding_info("a.parquet") == TINY

    def test_an_error_leaves_nothing(self):
        def fail():
            with EmbeddingWriter("a.parquet", 1, backbone=TINY) as writer:
                writer.write(np.ones((1, 1)), [Photo(Path("1.jpg"), None)])
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fail()
        assert list(Path().iterdir()) == []

    def test_a_missing_folder_is_told(self):
        with pytest.raises(FileNotFoundError, match="No folder nowhere"):
            EmbeddingWriter("nowhere/a.parquet", 1, backbone=TINY).__enter__()

    def test_info_of_other_files(self):
        pq.write_table(pa.table({"a": [1]}), "a.parquet")
        Path("b.parquet").write_text("PAR1")
        with pytest.raises(ValueError, match=r"a\.parquet does not say which backbone"):
            embedding_info("a.parquet")
        with pytest.raises(ValueError, match=r"b\.parquet is not a complete Parquet file"):
            embedding_info("b.parquet")

    @pytest.mark.parametrize("written", ["null", "[]", '{"name": 3}', "{"])
    def test_metadata_that_say_nothing_are_told(self, written):
        pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({"xlda.backbone": written}), "a.parquet")
        with pytest.raises(ValueError, match=r"a\.parquet (does not say which|has metadata xlda\.backbone)"):
            embedding_info("a.parquet")


def as_version_0_1_wrote(path, backbone):
    """Put the metadata of a file as that version had them."""
    table = pq.read_table(path)
    old = {key: backbone.to_json()[key] for key in ("name", "identity", "preprocessing", "cut_head")}
    metadata = {**table.schema.metadata, b"xlda.backbone": json.dumps(old, sort_keys=True).encode()}
    times = path.stat()
    pq.write_table(table.replace_schema_metadata(metadata), path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


class TestFilesOfBefore:
    """Written by version 0.1: `xlda.backbone` has name, identity, preprocessing and cut_head."""

    TINY = BackboneIdentity.of("tiny", "0a False", {"size": 8}, width=3)

    def test_they_say_their_backbone(self):
        embed(shop(3), Tiny(), backbone=self.TINY)
        as_version_0_1_wrote(Path("out.parquet"), self.TINY)
        found = embedding_info("out.parquet")
        assert found == BackboneIdentity("tiny", self.TINY.identity, preprocessing={"size": 8})
        assert found.is_same(self.TINY)

    def test_a_run_goes_on_from_them(self, small_parts):
        photos, again = shop(20), Tiny()
        with pytest.raises(KeyboardInterrupt):
            embed(photos, Tiny(break_at=18), backbone=self.TINY)
        for part in Path("out.parquet.parts").iterdir():
            as_version_0_1_wrote(part, self.TINY)
        other = BackboneIdentity.of("tiny", "0b False", {"size": 8}, width=3)
        with pytest.raises(ValueError, match="of another backbone"):
            embed(photos, Tiny(), backbone=other)
        assert embed(photos, again, backbone=self.TINY) == (4, 16, [])
        as_version_0_1_wrote(Path("out.parquet"), self.TINY)
        assert embed(photos, again, backbone=self.TINY) == (0, 20, [])
        assert again.n_embedded == 4


class TestEmbedToParquet:
    def test_all_at_once(self, small_parts):
        photos = [*shop(20), Photo(Path("plain.png"), None)]
        Image.new("RGB", (3, 3), (1, 2, 3)).save("plain.png")
        done = []
        summary = embed(photos, Tiny(), progress=done.append)
        assert summary == (21, 0, [])
        assert sum(done) == 21
        table = stored()
        np.testing.assert_array_equal(table["embedding"], [*map(colour, range(20)), (1, 2, 3)])
        assert table["label"] == [photo.label for photo in photos]
        assert table["path"] == [str(photo.path) for photo in photos]
        assert embedding_info("out.parquet") == TINY
        assert not Path("out.parquet.parts").exists()

    @pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
    def test_what_was_done_before_is_not_done_again(self, small_parts, error):
        photos, first, second = shop(30), Tiny(break_at=14, error=error), Tiny()
        with pytest.raises(error):
            embed(photos, first)
        assert first.n_embedded == 12
        assert not Path("out.parquet").exists()
        done = []
        assert embed(photos, second, progress=done.append) == (18, 12, [])
        assert (second.n_embedded, sum(done)) == (18, 30)
        np.testing.assert_array_equal(stored()["embedding"], [colour(n) for n in range(30)])
        assert not Path("out.parquet.parts").exists()

    def test_a_photo_that_was_changed_is_embedded_again(self, small_parts):
        photos = shop(20)
        with pytest.raises(KeyboardInterrupt):
            embed(photos, Tiny(break_at=17))
        Image.new("RGB", (9, 9), (1, 2, 3)).save(photos[10].path)
        later = time.time() + 5
        os.utime(photos[10].path, (later, later))
        summary = embed(photos, Tiny())
        assert (summary.n_resumed, summary.n_embedded) == (8, 12)
        np.testing.assert_array_equal(stored()["embedding"][10], [1, 2, 3])
        os.utime(photos[3].path, (later + 9, later + 9))
        with pytest.raises(ValueError, match=r"003\.png is newer than out\.parquet"):
            embed(photos, Tiny())
        assert embed(photos, Tiny(), overwrite=True).n_embedded == 20

    def test_parts_are_written_in_time_too(self, monkeypatch):
        monkeypatch.setattr(embedding_files, "PART_SECONDS", 0.0)
        monkeypatch.setattr(embedding_files._Parts, "close", counted := Counted(embedding_files._Parts.close))
        embed(shop(12), Tiny())
        assert counted.calls == 3 + 1

    def test_nothing_to_do(self, small_parts):
        photos, again, done = shop(9, bad={2}), Tiny(), []
        first = embed(photos, Tiny(), on_error="skip")
        Path("out.parquet.parts").mkdir()  # as if killed just before it was removed
        before = Path("out.parquet").stat()
        second = embed(photos, again, on_error="skip", progress=done.append)
        assert (first.n_embedded, second.n_embedded, second.n_resumed) == (8, 0, 8)
        assert second.skipped == first.skipped == [(photos[2], first.skipped[0][1])]
        assert (again.n_embedded, sum(done)) == (0, 9)
        assert Path("out.parquet").stat().st_mtime_ns == before.st_mtime_ns
        assert not Path("out.parquet.parts").exists()

    @pytest.mark.parametrize("finished", [True, False])
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"backbone": OTHER}, "of another backbone"),
            ({"photos": "order"}, "of other photos or labels"),
            ({"photos": "label"}, "of other photos or labels"),
            ({"dtype": "float16"}, "of another dtype or length"),
        ],
    )
    def test_another_kind_is_refused_unless_overwritten(self, small_parts, finished, change, message):
        photos = shop(20)
        if finished:
            embed(photos, Tiny())
        else:
            with pytest.raises(KeyboardInterrupt):
                embed(photos, Tiny(break_at=10))
        options = dict(change)
        if options.pop("photos", None) == "order":
            photos = photos[::-1]
        elif change.get("photos") == "label":
            photos = [*photos[:-1], Photo(photos[-1].path, "plum")]
        with pytest.raises(ValueError, match=rf"{message}\. .*overwrite=True"):
            embed(photos, Tiny(), **options)
        backbone = Tiny()
        assert embed(photos, backbone, overwrite=True, **options) == (20, 0, [])
        assert backbone.n_embedded == 20
        assert stored()["label"] == [photo.label for photo in photos]

    def test_a_file_that_is_not_ours_is_left_alone(self):
        Path("out.parquet").write_text("my notes")
        with pytest.raises(ValueError, match=r"out\.parquet is not a complete Parquet file.*overwrite=True"):
            embed(shop(1), Tiny())
        assert Path("out.parquet").read_text() == "my notes"
        assert embed(shop(1), Tiny(), overwrite=True).n_embedded == 1

    def test_an_interrupted_overwrite_leaves_the_old_file_and_goes_on(self, small_parts):
        photos, last = shop(20), Tiny()
        embed(photos[:5], Tiny())
        with pytest.raises(KeyboardInterrupt):
            embed(photos, Tiny(break_at=10), overwrite=True)
        assert len(stored()["label"]) == 5
        assert embed(photos, last, overwrite=True) == (12, 8, [])

    def test_skipped_photos_stay_skipped(self, small_parts):
        photos, last = shop(20, bad={3, 15}), Tiny()
        with pytest.raises(KeyboardInterrupt):
            embed(photos, Tiny(break_at=12), on_error="skip")
        with pytest.raises(BadImage, match=r"003\.png is broken.* on_error=.skip"):
            embed(photos, Tiny())
        summary = embed(photos, last, on_error="skip")
        assert [photo for photo, _ in summary.skipped] == [photos[3], photos[15]]
        assert summary.n_embedded + summary.n_resumed == 18
        assert last.n_embedded == summary.n_embedded == 7
        assert [int(path[:3]) for path in stored()["path"]] == [n for n in range(20) if n not in (3, 15)]
        with pytest.raises(BadImage, match="It was skipped before, as one of 2"):
            embed(photos, Tiny())

    def test_overwriting_parts_of_another_kind_removes_them_all(self, small_parts):
        photos = shop(20)
        with pytest.raises(KeyboardInterrupt):
            embed(photos, Tiny(break_at=18))
        with pytest.raises(KeyboardInterrupt):
            embed(photos, Tiny(break_at=8), backbone=OTHER, overwrite=True)
        assert embed(photos, Tiny(), backbone=OTHER) == (12, 8, [])

    def test_a_run_that_did_nothing_leaves_nothing(self):
        with pytest.raises(KeyboardInterrupt):
            embed(shop(3), Tiny(break_at=0))
        assert not Path("out.parquet.parts").exists()

    def test_a_part_that_was_lost_is_made_again(self, small_parts):
        photos = shop(20)
        with pytest.raises(KeyboardInterrupt):
            embed(photos, Tiny(break_at=18))
        lost, _ = sorted(Path("out.parquet.parts").iterdir())
        lost.unlink()
        assert embed(photos, Tiny()) == (20, 0, [])
        np.testing.assert_array_equal(stored()["embedding"], [colour(n) for n in range(20)])

    def test_a_bad_photo_costs_nothing_that_is_done(self, small_parts):
        photos, second = shop(20, bad={17}), Tiny()
        with pytest.raises(BadImage, match=r"017\.png"):
            embed(photos, Tiny())
        summary = embed(photos, second, on_error="skip")
        assert (summary.n_resumed, summary.n_embedded, second.n_embedded) == (16, 3, 3)

    @pytest.mark.skipif(os.name == "nt", reason="needs locks and SIGKILL")
    def test_two_runs_do_not_write_the_same(self):
        with (
            embedding_files._locked(Path("out.parquet.parts")),
            pytest.raises(RuntimeError, match=r"Another run is at work in out\.parquet\.parts"),
        ):
            embed(shop(2), Tiny())
        assert embed(shop(2), Tiny()).n_embedded == 2

    @pytest.mark.skipif(os.name == "nt", reason="needs locks and SIGKILL")
    def test_a_killed_run_goes_on(self, small_parts):
        photos = shop(60)
        program = """
import time
from pathlib import Path
import numpy as np
from xlda.identity import BackboneIdentity
from xlda.photos import parquet as embedding_files
from xlda.photos import Photo

class Slow:
    n_features = 3
    def prepare(self, image):
        return np.asarray(image.resize((4, 4)))
    def embed(self, pixels):
        time.sleep(0.1)
        return pixels.mean(axis=(1, 2))

embedding_files.PART_PHOTOS = 8
photos = [Photo(Path(f"{n:03}.png"), ["pear", "äpple"][n % 2]) for n in range(60)]
tiny = BackboneIdentity("tiny", identity="0a")
embedding_files.embed_to_parquet(photos, Slow(), "out.parquet", backbone=tiny, batch_size=4)
"""
        process = subprocess.Popen([sys.executable, "-c", program])
        try:
            parts = Path("out.parquet.parts")
            until = time.monotonic() + 60
            while len(list(parts.glob("*.parquet"))) < 2 and time.monotonic() < until:
                assert process.poll() is None
                time.sleep(0.02)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert not Path("out.parquet").exists()
        (parts / ".x.parquet.tmp").write_text("half a part")
        n_there = sum(pq.read_metadata(part).num_rows for part in parts.glob("*.parquet"))
        summary = embed(photos, Tiny())
        assert (summary.n_resumed, summary.n_embedded) == (n_there, 60 - n_there)
        assert 16 <= n_there < 60
        np.testing.assert_array_equal(stored()["embedding"], [colour(n) for n in range(60)])
        assert sorted(path.name for path in Path().iterdir() if path.suffix != ".png") == ["out.parquet"]

    def test_a_kill_while_joining_leaves_nothing_that_looks_whole(self, small_parts, monkeypatch):
        photos, again = shop(12), Tiny()

        with monkeypatch.context() as patch:  # two parts are written, then the first is joined
            patch.setattr(EmbeddingWriter, "write_table", interrupted_after(3, EmbeddingWriter.write_table))
            with pytest.raises(KeyboardInterrupt):
                embed(photos, Tiny())
        assert not Path("out.parquet").exists()
        assert embed(photos, again) == (0, 12, [])
        assert again.n_embedded == 0
        assert len(stored()["label"]) == 12

    def test_no_photos_and_no_folder(self):
        with pytest.raises(ValueError, match="No photos to embed"):
            embed([], Tiny())
        with pytest.raises(FileNotFoundError, match="No folder nowhere"):
            embed(shop(1), Tiny(), out="nowhere/out.parquet")


class Counted:
    """A method that counts its calls."""

    def __init__(self, method):
        self.calls, self._method = 0, method

    def __get__(self, instance, owner):
        def call(*arguments):
            self.calls += 1
            return self._method(instance, *arguments)

        return call


def interrupted_after(n, method):
    calls = itertools.count()

    def call(*arguments):
        if next(calls) >= n:
            raise KeyboardInterrupt
        return method(*arguments)

    return call


def test_memory_does_not_grow_with_the_photos(small_parts, monkeypatch):
    n_features, in_hand = 20_000, []

    class Wide(Tiny):
        def embed(self, pixels):
            in_hand.append(tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes())
            return np.ones((len(pixels), n_features), np.float32)

    def watched(writer, table):
        in_hand.append(tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes())
        write_table(writer, table)

    write_table = EmbeddingWriter.write_table
    monkeypatch.setattr(EmbeddingWriter, "write_table", watched)
    backbone = Wide()
    backbone.n_features = n_features
    tracemalloc.start()
    try:
        embed(shop(1) * 200, backbone)
    finally:
        tracemalloc.stop()
    one_part, everything = 8 * n_features * 4, 200 * n_features * 4
    assert max(in_hand) - in_hand[0] < 8 * one_part < everything / 3
