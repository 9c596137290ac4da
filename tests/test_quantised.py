"""The built-in network in whole numbers of 8 bits."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from PIL import Image

from conftest import DATA
from xlda import Recognizer
from xlda.backbones import cache, efficientnet_lite, load, quantised
from xlda.errors import OtherBackboneError

LITE0 = efficientnet_lite.VARIANTS["efficientnet-lite0"]


pytestmark = pytest.mark.usefixtures("cache_of_its_own")


@pytest.fixture(scope="module")
def whole(cache_of_its_own):
    return load(precision="int8", views=1, threads=2)


@pytest.fixture(scope="module")
def content(whole):
    return (cache.cache_folder() / "efficientnet-lite0-int8-1-1.onnx").read_bytes()


def pictures(rng, n, size):
    """Noise of every coarseness, so that they are as different from each other as photos are."""
    rows = []
    for _ in range(n):
        side = int(rng.integers(2, 40))
        small = Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8))
        rows.append(np.array(small.resize((size, size), Image.Resampling.BICUBIC)))
    return np.stack(rows)


def cosines(one, other):
    return (one * other).sum(axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)


def test_weights_are_rounded_and_no_pair_of_them_is_too_large(rng):
    kernel = rng.standard_normal((50, 24, 1, 1)) * rng.gamma(0.3, size=(50, 24, 1, 1))
    kernel[7] = 0
    kernel[8] = 1  # the worst: all as large as the largest
    kernel[9, :, 0, 0] = np.resize([1, -1], 24)  # the best: neighbours take from each other
    found, steps = quantised.whole_weights(kernel, np.zeros(50))
    assert (
        abs(found * steps[:, None, None, None] - kernel).max(axis=(1, 2, 3)).tolist()
        <= (steps / 1.99).tolist()
    )
    pairs = found.reshape(50, 12, 2)
    assert np.maximum(pairs, 0).sum(axis=2).max() <= 128
    assert np.maximum(-pairs, 0).sum(axis=2).max() <= 128
    assert abs(found[9]).max() == 127
    assert (found[7] == 0).all()
    assert steps[7] == 1
    _, wider = quantised.whole_weights(kernel, np.full(50, 0.5))
    assert wider.min() == 0.5  # so that a bias can be told in steps


def test_depthwise_weights_have_no_neighbours(rng):
    found, _ = quantised.whole_weights(rng.standard_normal((30, 1, 5, 5)), np.zeros(30))
    assert (abs(found).max(axis=(1, 2, 3)) == 127).all()


@pytest.mark.parametrize(("mean", "spread"), [(-3, 1), (0, 1), (2, 4), (7, 2), (1, 0)])
def test_the_mean_of_bounded_values(mean, spread, rng):
    drawn = np.clip(mean + spread * rng.standard_normal(400_000), 0, 6).mean()
    found = quantised.mean_of_bounded(np.array([mean]), np.array([spread]))
    assert found == pytest.approx(drawn, abs=0.01)


@pytest.mark.parametrize("size", [224, 96, 75])
def test_embeddings_are_nearly_those_of_float32(whole, rng, size):
    batch = pictures(rng, 12, size)
    one, other = (
        load(size=size, views=1, precision=precision).embed(batch) for precision in ("float32", "int8")
    )
    assert other.dtype == np.float32
    assert cosines(one, other).min() > 0.97
    centred = cosines(one - one.mean(axis=0), other - one.mean(axis=0))
    assert centred.min() > 0.9  # what tells them from each other is kept too


@pytest.mark.parametrize("name", ["efficientnet-lite1", "efficientnet-lite2"])
def test_the_larger_ones_too(name, rng):
    pytest.importorskip(efficientnet_lite.VARIANTS[name].package)
    batch = pictures(rng, 6, 224)
    one, other = (load(each, size=224, views=1).embed(batch) for each in (name, f"{name}-int8"))
    assert cosines(one, other).min() > 0.97
    centred = cosines(one - one.mean(axis=0), other - one.mean(axis=0))
    assert centred.min() > 0.9


def test_embeddings_of_photos_are_nearly_those_of_float32(whole):
    folder = DATA / "grocery"
    if not folder.is_dir():
        pytest.skip(
            "needs the photos of the Grocery Store data set; set XLDA_DATA to the folder of `grocery`"
        )
    names = [line.split(",")[0] for line in (folder / "val.txt").read_text().splitlines()][::15]
    batch = np.stack([whole.prepare(Image.open(folder / name)) for name in names])
    found = cosines(load(views=1).embed(batch), whole.embed(batch))
    assert found.mean() > 0.998
    assert found.min() > 0.995


def test_no_sum_overflows(whole, content, rng):
    """With weights moved to 1 to 255, which no processor adds in 16 bits, the embeddings are the same."""
    model = onnx.load_from_string(content)
    of_whole = {
        name for node in model.graph.node if node.op_type == "QLinearConv" for name in node.input[3:6:2]
    }
    for constant in model.graph.initializer:
        if constant.name in of_whole:
            values = numpy_helper.to_array(constant).astype(np.int16) + 128
            constant.CopyFrom(numpy_helper.from_array(values.astype(np.uint8), constant.name))
    batch = np.concatenate([pictures(rng, 6, 224), np.full((1, 224, 224, 3), 255, np.uint8)])
    values = whole.preprocessing.normalise(batch)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(
        session.run(None, {"image": values})[0], whole.embed(batch), rtol=1e-5, atol=1e-6
    )


def test_the_network_is_the_same_each_time_it_is_built(content):
    again = quantised.build(
        efficientnet_lite.read_weights(LITE0),
        efficientnet_lite.blocks(LITE0.repeats),
        efficientnet_lite.EPSILON,
    )
    assert again == content
    assert len(content) < 0.3 * len(efficientnet_lite.network(LITE0))


def test_nearly_all_layers_are_whole(content):
    kinds = [node.op_type for node in onnx.load_from_string(content).graph.node]
    assert (kinds.count("Conv"), kinds.count("QLinearConv"), kinds.count("QLinearAdd")) == (3, 46, 9)


def test_it_has_a_name_and_an_identity_of_its_own(whole):
    plain, named = load(views=1), load("efficientnet-lite0-int8", views=1)
    assert repr(whole) == "Backbone('efficientnet-lite0-int8', n_features=1280, size=224)"
    assert whole.identity == named.identity == load(named.name, views=1, precision="int8").identity
    assert load(views=1, precision="float32").identity == plain.identity
    assert whole.identity.network != plain.identity.network
    with pytest.raises(
        OtherBackboneError, match="efficientnet-lite0; got embeddings of efficientnet-lite0-int8"
    ):
        plain.identity.check_same(whole.identity, "shop.xlda")


def test_what_cannot_be_is_refused(tmp_path):
    with pytest.raises(ValueError, match='precision is "float32" or "int8"; got \'int4\''):
        load(precision="int4")
    with pytest.raises(
        ValueError, match=r"precision is for efficientnet-lite0, .*; efficientnet-lite0-int8 has its own"
    ):
        load("efficientnet-lite0-int8", precision="float32")
    with pytest.raises(ValueError, match=r"precision is for efficientnet-lite0, .*; net.onnx has its own"):
        load("net.onnx", precision="int8")
    with pytest.raises(ValueError, match="no head to cut"):
        load(precision="int8", cut_head=True)


def test_a_model_opens_it_again(tmp_path, rng):
    photos = [Image.fromarray(row) for row in pictures(rng, 4, 64)]
    with Recognizer.open(tmp_path / "shop.xlda", backbone="efficientnet-lite0-int8") as shop:
        for photo, label in zip(photos, "aabb", strict=True):
            shop.learn(photo, label)
        shop.save()
    with Recognizer.open(tmp_path / "shop.xlda") as shop:
        assert shop.predict(photos[0]).label == "a"
    with (
        Recognizer.open(tmp_path / "shop.xlda", backbone="efficientnet-lite0") as shop,
        pytest.raises(OtherBackboneError, match="int8"),
    ):
        shop.predict(photos[0])


def test_the_page_shows_the_stored_figures(monkeypatch):
    root = Path(__file__).parents[1]
    monkeypatch.syspath_prepend(root / "benchmarks")
    import quantised as benchmark

    page = (root / "docs" / "backbones.md").read_text()
    results = json.loads((root / "benchmarks" / "results" / "quantised.json").read_text())
    assert benchmark.updated(page, results) == page
    assert min(min(row["by the clock"]) for row in results["speed"]) >= 1.3
    for kind in ("photos", "characters"):
        before, after = (np.mean(results[kind]["halves"][name]) for name in benchmark.PRECISIONS)
        assert after >= before - 0.5
    results["speed"][0]["by the clock"] = [99]
    assert benchmark.updated(page, results) != page
    for name in ("quantised", "machine", "markdown"):
        sys.modules.pop(name, None)
