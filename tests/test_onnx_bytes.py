"""ONNX files written and read without the package `onnx`, beside what that package makes of them."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from xlda.backbones import efficientnet_lite, onnx_bytes  # noqa: E402
from xlda.backbones.loading import _in_whole_numbers  # noqa: E402

LITE0 = efficientnet_lite.VARIANTS["efficientnet-lite0"]


@pytest.mark.parametrize(
    ("kind", "settings", "domain"),
    [
        ("Conv", {"strides": [2, 2], "group": 300, "auto_pad": "SAME_UPPER", "kernel_shape": (3, 3)}, ""),
        ("Flatten", {"axis": 0}, ""),
        ("QLinearAdd", {}, "com.microsoft"),
    ],
)
def test_a_node_is_the_one_that_onnx_writes(kind, settings, domain):
    written = onnx.NodeProto.FromString(onnx_bytes.node(kind, ["a", "b"], ["ö"], settings, domain))
    assert written == helper.make_node(kind, ["a", "b"], ["ö"], domain=domain or None, **settings)


@pytest.mark.parametrize("kind", sorted(onnx_bytes.TYPES))
@pytest.mark.parametrize("shape", [(), (0,), (3,), (200, 1, 3)])
def test_a_constant_is_the_one_that_onnx_writes(rng, kind, shape):
    values = rng.integers(0, 100, shape).astype(kind)
    assert onnx.TensorProto.FromString(onnx_bytes.constant("x", values)) == numpy_helper.from_array(
        values, "x"
    )
    turned = values.T.astype(values.dtype.newbyteorder(">"))
    found = onnx.TensorProto.FromString(onnx_bytes.constant("x", turned))
    np.testing.assert_array_equal(numpy_helper.to_array(found), values.T)


@pytest.mark.parametrize(
    "build",
    [
        lambda: efficientnet_lite.build(LITE0, efficientnet_lite.read_weights(LITE0)),
        lambda: _in_whole_numbers(LITE0),
    ],
    ids=["float32", "int8"],
)
def test_the_networks_pass_the_checks_of_onnx_and_are_written_as_onnx_would(build):
    content = build()
    model = onnx.load_model_from_string(content)
    onnx.checker.check_model(model, full_check=True)
    assert model.SerializeToString() == content


def stored_apart(folder, locations):
    """A network with a constant in each of these files."""
    constants = []
    for i, location in enumerate(locations):
        tensor = numpy_helper.from_array(np.zeros(300, np.float32), f"constant {i}")
        onnx.external_data_helper.set_external_data(tensor, location)
        constants.append(tensor)
    constants.append(numpy_helper.from_array(np.ones(3, np.float32), "inside"))
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None])
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"], alpha=0.5)], "g", [value], [], constants
    )
    path = folder / "network.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    return path


@pytest.mark.parametrize("locations", [[], ["weights"], ["weights", "ö/more", "weights"]])
def test_files_beside_a_network_are_found(tmp_path, locations):
    assert onnx_bytes.files_beside(stored_apart(tmp_path, locations)) == set(locations)


def test_a_file_that_ends_too_soon_or_is_something_else_is_refused(tmp_path):
    path = stored_apart(tmp_path, ["weights"])
    whole = path.read_bytes()
    for content in (whole[:-1], whole[: len(whole) // 2], b"\xff" * 40, b"{not a network}"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"network.onnx is not a complete ONNX file"):
            onnx_bytes.files_beside(path)
