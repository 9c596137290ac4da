"""Graphs that onnxruntime has optimised are kept, and give the same bits."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

for needed in ("onnx", "onnxruntime", "PIL"):
    pytest.importorskip(needed)

from xlda.backbones import cache, efficientnet_lite, load, network, sessions  # noqa: E402

LITE0 = efficientnet_lite.VARIANTS["efficientnet-lite0"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XLDA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def batch(rng):
    return rng.integers(0, 256, (3, 224, 224, 3), dtype=np.uint8)


@pytest.fixture
def plain(batch):
    """Embeddings of the graph as it is written, optimised in the session alone."""
    values = LITE0.preprocessing.normalise(batch)
    return network.open_session(efficientnet_lite.network(LITE0), "lite0", 2).run(None, {"image": values})[0]


def kept(folder):
    return list(folder.glob("*-onnxruntime-*.onnx"))


def test_what_is_kept_gives_the_same_bits(folder, batch, plain, monkeypatch):
    np.testing.assert_array_equal(load(threads=2, views=1).embed(batch), plain)
    assert len(kept(folder)) == 1
    monkeypatch.setattr(efficientnet_lite, "network", lambda _: pytest.fail("it is kept"))
    again = load(threads=2, views=1)
    np.testing.assert_array_equal(again.embed(batch), plain)
    assert again.n_features == plain.shape[1]


@pytest.mark.parametrize("is_signed", [False, True], ids=["damaged", "foreign"])
def test_what_cannot_be_used_is_made_anew(folder, batch, plain, is_signed):
    load(threads=2, views=1)
    (path,) = kept(folder)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1000])
    if is_signed:
        path.with_name(f"{path.name}.sha256").write_text(hashlib.sha256(whole[:-1000]).hexdigest())
    for _ in range(2):
        np.testing.assert_array_equal(load(threads=2, views=1).embed(batch), plain)
    assert path.read_bytes() == whole


def test_a_folder_that_cannot_be_written_costs_time_alone(tmp_path, monkeypatch, batch, plain):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XLDA_CACHE", str(tmp_path / "file"))
    np.testing.assert_array_equal(load(threads=2, views=1).embed(batch), plain)


def test_another_processor_or_onnxruntime_has_a_file_of_its_own(folder, tmp_path, monkeypatch):
    load(views=1)
    monkeypatch.setattr(sessions, "CPU_INFO", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nflags\t\t: sse sse2\n")
    load(views=1)
    assert len(kept(folder)) == 2
    monkeypatch.setattr(sessions.onnxruntime, "__version__", "0.0.1")
    load(views=1)
    assert len(kept(folder)) == 3


@pytest.mark.parametrize("said", [None, "processor\t: 0\n"])
def test_where_the_processor_is_not_told_nothing_is_kept(folder, tmp_path, monkeypatch, said, batch, plain):
    monkeypatch.setattr(sessions, "CPU_INFO", tmp_path / "cpuinfo")
    if said is not None:
        (tmp_path / "cpuinfo").write_text(said)
    np.testing.assert_array_equal(load(threads=2, views=1).embed(batch), plain)
    assert not kept(folder)
    assert (cache.cache_folder() / "efficientnet-lite0-1.onnx").exists()


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 16])
def test_threads_share_pictures_out_and_lose_none(rng, n):
    pixels = rng.integers(0, 256, (n, 64, 64, 3), dtype=np.uint8)
    one, two = (load(size=64, views=1, threads=threads) for threads in (1, 2))
    np.testing.assert_allclose(two.embed(pixels), one.embed(pixels), rtol=1e-4, atol=1e-5)
    assert two.embed(pixels[:0]).shape == (0, 1280)
