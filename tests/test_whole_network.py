"""A model and its backbone as one ONNX file, mostly over a small network, and run without xlda."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from conftest import DATA

Image = pytest.importorskip("PIL.Image")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("filelock")

from xlda import XLDA, Recognizer, backbones  # noqa: E402
from xlda.backbones.view_nodes import add_views, pixels_needed  # noqa: E402
from xlda.calibration.figures import Line, corrected, shares  # noqa: E402
from xlda.errors import OtherBackboneError  # noqa: E402
from xlda.onnx_graph import probabilities as probability_nodes  # noqa: E402
from xlda.onnx_graph.graph_parts import GraphParts  # noqa: E402
from xlda.photos import whole_network, whole_network_check  # noqa: E402

helper, numpy_helper, TensorProto = onnx.helper, onnx.numpy_helper, onnx.TensorProto
COLOURS = {"cherry": (190, 40, 50), "kiwi": (120, 140, 30), "plum": (90, 40, 120), "pear": (170, 170, 60)}
SIZES = ((400, 300), (300, 700), (200, 200), (1600, 1300))
ROOT = Path(__file__).parents[1]
AFTERWARDS = """
import json, sys
found = answers(onnxruntime.InferenceSession("shop.onnx"), "photo.jpg")
assert not [name for name in sys.modules if name.split(".")[0] in ("xlda", "onnx", "sklearn", "scipy")]
print(json.dumps([[label, float(probability)] for label, probability in found]))
"""


def write_network(path, *, n="n", opset=17, layout="NCHW", dtype=np.float32, ends_with="vector", seed=0):
    """32 x 32 photos -> 4 x 4 patches, each a few features; then their mean, the map, or a layer after it."""
    rng = np.random.default_rng(seed)
    kernel = numpy_helper.from_array(rng.normal(0, 0.3, (12, 3, 8, 8)).astype(dtype), "kernel")
    layer = numpy_helper.from_array(rng.normal(size=(12, 5)).astype(dtype), "layer")
    pixels = "pixels" if layout == "NCHW" else "moved"  # a name that the whole file has, too
    nodes = [helper.make_node("Transpose", ["pixels"], ["moved"], perm=[0, 3, 1, 2])][: layout == "NHWC"]
    nodes += [
        helper.make_node("Conv", [pixels, "kernel"], ["mixed"], kernel_shape=[8, 8], strides=[8, 8]),
        helper.make_node("Relu", ["mixed"], ["map"]),
        helper.make_node("GlobalAveragePool", ["map"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["vector"]),
        helper.make_node("MatMul", ["vector", "layer"], ["scores"]),
    ]
    last, shape = {"vector": ("vector", [12]), "map": ("map", [12, 4, 4]), "layer": ("scores", [5])}[
        ends_with
    ]
    nodes = nodes[: {"vector": -1, "map": -3, "layer": None}[ends_with]]
    kind = TensorProto.FLOAT if dtype == np.float32 else TensorProto.FLOAT16
    size = [n, 3, 32, 32] if layout == "NCHW" else [n, 32, 32, 3]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("pixels", kind, size)],
        [helper.make_tensor_value_info(last, kind, [n, *shape])],
        [kernel, layer] if ends_with == "layer" else [kernel],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    helper.set_model_props(model, {"author": "somebody", "xlda.old": "gone"})
    onnx.save(model, path)


def scene(rng, colour, width=90, height=70):
    small = rng.integers(0, 256, (5, 6, 3), dtype=np.uint8)
    image = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
    tint = Image.new("RGB", (width, height), colour)
    return Image.blend(image, tint, 0.6)


def scenes(rng, n, colours=COLOURS):
    names = [name for name in colours for _ in range(n)]
    return [scene(rng, colours[name]) for name in names], names


@pytest.fixture
def shop(rng):
    """Makes a model over a small network, and gives it opened again."""

    def made(n=20, names=lambda label: label, backbone="small.onnx", views=None, cut_head=False, **params):
        photos, labels = scenes(rng, n)
        settings = {"views": views} if views else {}
        loaded = backbones.load(backbone, cut_head=cut_head, **settings)
        with Recognizer.open("shop.xlda", backbone=loaded, **params) as recognizer:
            recognizer.learn(photos, [names(label) for label in labels])
        return Recognizer.open("shop.xlda")

    return made


def box_of(photo, share):
    """As docs/onnx.md has it."""
    half, x, y = share * min(photo.size) / 2, photo.width / 2, photo.height / 2
    return x - half, y - half, x + half, y + half


def run(path, photos, n_at_once=None):
    """Outputs by name, for photos that are prepared as the file says."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    pixels = json.loads(session.get_modelmeta().custom_metadata_map["xlda.pixels"])
    side = pixels["size"]
    assert session.get_inputs()[0].shape[1:] == [side, side, 3]
    way = Image.Resampling[pixels["interpolation"].upper()]
    share = pixels["crop"]
    crops = [
        photo.resize((side, side), way, None if share is None else box_of(photo, share)) for photo in photos
    ]
    batch = np.stack([np.asarray(crop) for crop in crops])
    names = [output.name for output in session.get_outputs()]
    step = n_at_once or len(batch)
    runs = [session.run(names, {"pixels": batch[i : i + step]}) for i in range(0, len(batch), step)]
    return {name: np.concatenate(found) for name, found in zip(names, zip(*runs, strict=True), strict=True)}


def assert_same(found, answers, near=0.05):
    """Same label where the second is not as likely, and nearly the same probabilities of each label."""
    for labels, probabilities, answer in zip(found["labels"], found["probabilities"], answers, strict=True):
        own = {candidate.label: candidate.probability for candidate in answer.top}
        lead = answer.top[0].score - answer.top[1].score if len(answer.top) > 1 else np.inf
        assert labels[0] == answer.label or lead < 3
        assert len(labels) == len(answer.top)
        for label, probability in zip(labels, probabilities, strict=True):
            assert abs(own.get(label, 0.0) - probability) < near


# -- the parts


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear", "lanczos", "nearest"])
@pytest.mark.parametrize("views", [1, (1, 0.7, 0.5), (0.9, 0.33), 2])
def test_views_are_those_of_pillow(rng, interpolation, views):
    settings = backbones.Preprocessing(
        size=56, resize=None, views=views, interpolation=interpolation, mean=(0, 0, 0), std=(1 / 255,) * 3
    )
    side = pixels_needed(settings)
    graph = GraphParts(17)
    last = add_views(graph, "pixels", settings)
    pictures = rng.integers(0, 256, (3, side, side, 3), dtype=np.uint8)
    found = computed(graph, {"pixels": pictures}, last)
    expected = np.stack([settings.prepare(Image.fromarray(picture)) for picture in pictures])
    expected = expected.reshape(3, -1, 56, 56, 3).transpose(1, 0, 4, 2, 3).reshape(-1, 3, 56, 56)
    difference = abs(found - expected.astype(float))
    assert difference.max() <= 1
    assert difference.mean() < 0.01


def test_so_many_pixels_that_no_view_is_enlarged():
    sides = [pixels_needed(backbones.Preprocessing(views=views)) for views in (1, 2, 3, [0.5], [1, 0.3])]
    assert sides == [224, 320, 448, 448, 747]
    with pytest.raises(ValueError, match="would need 224,000 pixels a side"):
        pixels_needed(backbones.Preprocessing(views=[1, 0.001]))


@pytest.mark.parametrize("line", [Line(0, 1), Line(0.4, 1.7, 0.97), Line(-2.5, 0.6, 0.8), Line(3, 0.1, 0.5)])
@pytest.mark.parametrize("n_scores", [2, 7, 20, 26])
def test_probabilities_are_those_of_the_calibration(rng, line, n_scores, monkeypatch):
    class Calibrated:
        temperature, correction = 7.0, line

    scores = -np.sort(-rng.normal(0, 1, (400, n_scores)) * np.geomspace(0.01, 300, 400)[:, None])
    scores[:3] = scores[:3, :1]  # all alike
    scores = scores.astype(np.float32)
    made = probability_nodes.Probabilities.__new__(probability_nodes.Probabilities)
    made._calibrated, made._usual = Calibrated(), 12.0
    graph = GraphParts(13)
    found = computed(graph, {"scores": scores}, made.add_to(graph, "scores", n_scores))
    expected = corrected(shares(scores[:, :20], 7.0), line)
    np.testing.assert_allclose(found[:, : expected.shape[1]], expected, atol=2e-5)
    np.testing.assert_array_equal(found[:, 20:], 0)
    made._calibrated = None
    graph = GraphParts(13)
    found = computed(graph, {"scores": scores}, made.add_to(graph, "scores", n_scores))
    np.testing.assert_allclose(found[:, :20], shares(scores[:, :20], 12.0), atol=2e-5)


def computed(graph, inputs, output):
    """What a graph gives for its one input."""
    ((name, values),) = inputs.items()
    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    whole = helper.make_graph(
        graph.nodes,
        "part",
        [helper.make_tensor_value_info(name, kind, values.shape)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        graph.constants,
    )
    opset = [helper.make_opsetid("", graph.opset)]
    content = helper.make_model(whole, opset_imports=opset, ir_version=8).SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run([output], inputs)[0]


# -- the whole


@pytest.mark.parametrize(
    "network",
    [
        {},
        {"layout": "NHWC"},
        {"ends_with": "map"},
        {"ends_with": "map", "opset": 18},
        {"opset": 11},
        {"opset": 20},
        {"dtype": np.float16},
    ],
    ids=str,
)
def test_it_answers_as_the_model(shop, rng, network):
    write_network("small.onnx", **network)
    recognizer = shop()
    written = recognizer.export("whole.onnx")
    assert written == {"classes": 4, "top_k": 4, "size": 46, "bytes": written["bytes"]}
    photos = [scene(rng, colour, *size) for colour in COLOURS.values() for size in ((90, 70), (46, 200))]
    assert_same(run("whole.onnx", photos), recognizer.predict(photos))


@pytest.mark.parametrize("views", [1, 3, [0.8], [1, 0.9, 0.6, 0.4]])
def test_it_has_the_views_of_the_model(shop, rng, views):
    write_network("small.onnx")
    recognizer = shop(views=views)
    recognizer.export("whole.onnx", top_k=2)
    photos = scenes(rng, 3)[0]
    found = run("whole.onnx", photos)
    assert found["labels"].shape == found["probabilities"].shape == found["indices"].shape == (12, 2)
    assert_same(found, recognizer.predict(photos, k=2))


@pytest.mark.parametrize(
    "params",
    [{"model": "lda"}, {"power": None}, {"check_samples": 0}, {"like": "same"}, {"search": "fisher"}],
    ids=str,
)
def test_it_has_the_parameters_of_the_model(shop, rng, params):
    write_network("small.onnx")
    recognizer = shop(**params)
    recognizer.export("whole.onnx")
    photos = scenes(rng, 3)[0]
    assert_same(run("whole.onnx", photos), recognizer.predict(photos))


def test_scores_and_indices(shop, rng):
    write_network("small.onnx")
    recognizer = shop()
    recognizer.learn(scene(rng, (250, 250, 250)), "garlic")  # fewer samples: squares count
    recognizer.export("whole.onnx")
    photos = scenes(rng, 2)[0]
    found = run("whole.onnx", photos)
    session = onnxruntime.InferenceSession("whole.onnx")
    labels = json.loads(session.get_modelmeta().custom_metadata_map["xlda.labels"])
    assert labels == sorted([*COLOURS, "garlic"])
    np.testing.assert_array_equal(np.array(labels, object)[found["indices"]], found["labels"])
    np.testing.assert_allclose(found["probabilities"].sum(axis=1), 1, atol=1e-5)
    pictures = rng.integers(0, 256, (6, 46, 46, 3), dtype=np.uint8)  # no need to be resized
    found = session.run(["scores", "labels", "probabilities"], {"pixels": pictures})
    settings = dataclasses.replace(recognizer.backbone.preprocessing, resize=None)
    views = np.stack([settings.prepare(Image.fromarray(picture)) for picture in pictures])
    judged = recognizer.classifier.judge(recognizer.backbone.embed(views))
    np.testing.assert_allclose(found[0], judged.scores, rtol=1e-3, atol=0.05)
    np.testing.assert_array_equal(found[1], judged.labels)
    np.testing.assert_allclose(found[2], judged.probabilities, atol=1e-3)


def test_a_network_whose_last_layer_was_cut(shop, rng):
    write_network("small.onnx", ends_with="layer")
    recognizer = shop(cut_head=True)
    assert recognizer.classifier.n_features_in_ == 12
    recognizer.export("whole.onnx")
    photos = scenes(rng, 2)[0]
    assert_same(run("whole.onnx", photos), recognizer.predict(photos))


def test_a_photo_that_is_stretched(shop, rng):
    write_network("small.onnx")
    backbones.describe("small.onnx", backbones.Preprocessing(size=32, resize=None, interpolation="bicubic"))
    recognizer = shop()
    recognizer.export("whole.onnx")
    photos = [scene(rng, colour, 50, 140) for colour in COLOURS.values()]
    assert_same(run("whole.onnx", photos), recognizer.predict(photos))


def test_labels_that_are_whole_numbers(shop, rng):
    write_network("small.onnx")
    recognizer = shop(names=lambda label: 100 * len(label) + ord(label[0]))
    recognizer.export("whole.onnx", top_k=1)
    photos = scenes(rng, 2)[0]
    found = run("whole.onnx", photos)
    assert found["labels"].dtype == np.int64
    assert found["labels"].shape == (8, 1)
    assert_same(found, recognizer.predict(photos, k=1))


def test_labels_of_every_script(shop, rng):
    write_network("small.onnx")
    names = {"cherry": "桜んぼ", "kiwi": "κίουι", "plum": 'a "plum"\n', "pear": "poire d'été 🍐"}
    recognizer = shop(names=names.get)
    recognizer.export("whole.onnx")
    photos = scenes(rng, 2)[0]
    assert_same(run("whole.onnx", photos), recognizer.predict(photos))


def test_one_class_and_more_classes_than_share_a_probability(rng):
    write_network("small.onnx")
    loaded = backbones.load("small.onnx")
    one = Recognizer.open("one.xlda", backbone=loaded)
    one.learn([scene(rng, "red"), scene(rng, "blue")], "all")
    assert one.export("whole.onnx")["top_k"] == 1
    assert run("whole.onnx", [scene(rng, "green")])["probabilities"].tolist() == [[1.0]]
    many = Recognizer.open("many.xlda", backbone=loaded)
    colours = {f"class {i}": tuple(rng.integers(0, 256, 3).tolist()) for i in range(24)}
    many.learn(*scenes(rng, 4, colours))
    many.export("whole.onnx", top_k=23)
    photos = scenes(rng, 1, colours)[0]
    found = run("whole.onnx", photos)
    assert_same(found, many.predict(photos, k=23), near=0.2)  # resized twice, and many are much alike
    np.testing.assert_array_equal(found["probabilities"][:, 20:], 0)
    assert (np.diff(found["scores"], axis=1) <= 0).all()


def test_a_network_for_a_fixed_number_of_pictures(shop, rng):
    write_network("small.onnx", n=4)
    recognizer = shop()
    recognizer.export("whole.onnx")
    photos = scenes(rng, 2)[0]
    assert_same(run("whole.onnx", photos, n_at_once=2), recognizer.predict(photos))
    (here := recognizer.path).unlink()
    recognizer = shop(views=3)
    with pytest.raises(ValueError, match="takes 4 pictures at once, and a photo is looked at in 3 views"):
        recognizer.export("other.onnx")
    assert not (here.parent / "other.onnx").exists()


def test_what_is_written_in_it(shop):
    write_network("small.onnx")
    recognizer = shop()
    recognizer.export("whole.onnx")
    about = onnxruntime.InferenceSession("whole.onnx").get_modelmeta()
    assert about.producer_name == "xlda"
    assert "4 classes" in about.description
    assert "46 x 46" in about.description
    written = about.custom_metadata_map
    assert set(written) == {"author", "xlda.labels", "xlda.pixels", "xlda.backbone"}
    assert json.loads(written["xlda.labels"]) == sorted(COLOURS)
    assert json.loads(written["xlda.pixels"]) == {
        "size": 46,
        "crop": 32 / 37,
        "channels": "RGB",
        "interpolation": "bilinear",
    }
    assert json.loads(written["xlda.backbone"])["identity"] == recognizer.identity.identity
    with pytest.raises(ValueError, match="does not end with a linear layer"):
        onnx_extra().read_layer("whole.onnx")
    with pytest.raises(ValueError, match="expected one input, of floats with 4 axes"):
        backbones.load("whole.onnx")


def onnx_extra():
    from xlda.extras import onnx

    return onnx


# -- without xlda


def by_itself():
    """What the program of docs/onnx.md says of photo.jpg by shop.onnx."""
    program = (ROOT / "docs" / "onnx.md").read_text().split("```python\n")[1].split("```")[0]
    done = subprocess.run([sys.executable, "-I", "-c", program + AFTERWARDS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return zip(*json.loads(done.stdout.splitlines()[-1]), strict=True)


def test_it_needs_no_xlda_with_the_network_that_is_built_in(rng):
    with Recognizer.open("shop.xlda") as recognizer:
        recognizer.learn(*scenes(rng, 6))
    recognizer = Recognizer.open("shop.xlda")
    assert recognizer.export("shop.onnx")["size"] == 320
    about = onnxruntime.InferenceSession("shop.onnx").get_modelmeta().custom_metadata_map
    assert about["xlda.licence"].startswith("weights of efficientnet-lite0: Apache-2.0, Google")
    assert json.loads(about["xlda.pixels"])["crop"] == 0.875
    for colour, size in zip(COLOURS.values(), SIZES, strict=True):
        scene(rng, colour, *size).save("photo.jpg", quality=95)
        labels, probabilities = by_itself()
        found = {"labels": [labels], "probabilities": [probabilities]}
        assert_same(found, [recognizer.predict("photo.jpg")], near=0.1)


def test_the_network_in_whole_numbers(rng):
    with Recognizer.open("shop.xlda", backbone="efficientnet-lite0-int8", views=1) as recognizer:
        recognizer.learn(*scenes(rng, 3))
    recognizer = Recognizer.open("shop.xlda")
    assert recognizer.export("shop.onnx")["size"] == 224
    about = onnxruntime.InferenceSession("shop.onnx").get_modelmeta().custom_metadata_map
    assert about["xlda.licence"].startswith("weights of efficientnet-lite0: Apache-2.0")
    photos = [scene(rng, colour, 256, 256) for colour in COLOURS.values()]  # of which 224 pixels are the crop
    assert_same(run("shop.onnx", photos), recognizer.predict(photos), near=0.01)


@pytest.mark.skipif("XLDA_LONG" not in os.environ, reason="takes a minute, for 600 photos; set XLDA_LONG=1")
def test_photos_of_a_shop(rng):
    """Few of each product to learn, and of other photos every fifth."""
    folder = DATA / "grocery"
    if not folder.exists():
        pytest.skip(
            "needs the photos of the Grocery Store data set; set XLDA_DATA to the folder that has them"
        )
    from xlda.photos import find_photos, open_photo

    train = [
        photo
        for photo in find_photos(folder / "train")
        if photo.path.stem.endswith(("_001", "_002", "_003", "_004"))
    ]
    asked = [photo.path for photo in find_photos(folder / "val")[::5]]
    with Recognizer.open("shop.xlda") as recognizer:
        recognizer.learn([photo.path for photo in train], [photo.label for photo in train])
    recognizer = Recognizer.open("shop.xlda")
    recognizer.export("whole.onnx")
    found = run("whole.onnx", [open_photo(path) for path in asked], n_at_once=8)
    answers = recognizer.predict(asked)
    same = np.array([answer.label for answer in answers]) == found["labels"][:, 0]
    leads = np.array([answer.top[0].score - answer.top[1].score for answer in answers])
    gaps = abs(np.array([answer.probability for answer in answers]) - found["probabilities"][:, 0])
    print(
        f"{same.mean():.1%} same labels, probabilities differ by {gaps.mean():.4f}, at most {gaps.max():.3f}"
    )
    assert same[leads > 5].all()
    assert same.mean() > 0.9
    assert gaps.mean() < 0.03


# -- what is refused


def test_a_file_that_answers_otherwise_is_not_written(shop, monkeypatch, tmp_path):
    write_network("small.onnx")
    recognizer = shop()
    add = whole_network.ExportedHead.add_to

    def other(self, graph, embedding):
        return graph.add("Neg", add(self, graph, embedding))

    monkeypatch.setattr(whole_network.ExportedHead, "add_to", other)
    with pytest.raises(ValueError, match=r"answers otherwise than the model: . of 8 drawn pictures.*Nothing"):
        recognizer.export("whole.onnx")
    assert not (tmp_path / "whole.onnx").exists()


def test_other_labels_are_noticed(shop, monkeypatch, tmp_path):
    write_network("small.onnx")
    recognizer = shop()

    class Mislabelled(whole_network.ExportedHead):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.labels.reverse()

    monkeypatch.setattr(whole_network, "ExportedHead", Mislabelled)
    with pytest.raises(ValueError, match="8 of 8 drawn pictures have another label"):
        recognizer.export("whole.onnx")
    assert not (tmp_path / "whole.onnx").exists()


def test_another_temperature_is_noticed(shop, monkeypatch, tmp_path):
    write_network("small.onnx")
    recognizer = shop()
    monkeypatch.setattr(whole_network, "Probabilities", Warmer)
    with pytest.raises(ValueError, match="probabilities differ by up to"):
        recognizer.export("whole.onnx")
    assert not (tmp_path / "whole.onnx").exists()


class Warmer(probability_nodes.Probabilities):
    def add_to(self, graph, scores, n_scores):
        return super().add_to(graph, graph.add("Mul", scores, graph.floats(0.7)), n_scores)


def test_bad_calls(shop, rng):
    write_network("small.onnx")
    recognizer = shop()
    for top_k in (0, 5, True, 2.5, "3"):
        with pytest.raises(ValueError, match="top_k is between 1 and the number of classes, 4"):
            recognizer.export("whole.onnx", top_k=top_k)
    with pytest.raises(FileNotFoundError, match="No folder nowhere"):
        recognizer.export("nowhere/whole.onnx")


def test_a_model_of_embeddings_has_no_backbone(rng):
    XLDA().fit(rng.normal(size=(20, 12)), ["a", "b"] * 10).save("made.xlda")
    with pytest.raises(OtherBackboneError, match="does not say which backbone made its embeddings"):
        Recognizer.open("made.xlda").export("whole.onnx")


def test_a_model_that_has_learned_nothing():
    from sklearn.exceptions import NotFittedError

    write_network("small.onnx")
    with pytest.raises(NotFittedError):
        Recognizer.open("new.xlda", backbone="small.onnx").export("whole.onnx")


def test_a_backbone_that_cannot_be_found_again(shop, tmp_path):
    write_network("small.onnx")
    recognizer = shop()
    (tmp_path / "small.onnx").rename(tmp_path / "elsewhere.onnx")
    with pytest.raises(OtherBackboneError, match=r"there is no small\.onnx beside it or here"):
        recognizer.export("whole.onnx")
    moved = backbones.load("elsewhere.onnx")
    named = dataclasses.replace(moved.identity, name="small")
    assert named.is_same(recognizer.identity)
    Recognizer.open("shop.xlda", backbone="elsewhere.onnx").export("whole.onnx")


def test_a_file_that_would_be_too_large(shop, monkeypatch):
    write_network("small.onnx")
    recognizer = shop()
    monkeypatch.setattr(whole_network, "MOST_BYTES", 1000)
    with pytest.raises(ValueError, match=r"bytes, and an ONNX file at most 1,000\. Export the head alone"):
        recognizer.export("whole.onnx")


def test_drawn_pictures_are_always_the_same():
    one, other = (whole_network_check.drawn_pictures(40, 3) for _ in range(2))
    np.testing.assert_array_equal(one, other)
    assert len({picture.tobytes() for picture in one}) == 3
