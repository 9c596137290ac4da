"""A shop for the tests of the command: a network so small that its photos are coloured squares."""

from __future__ import annotations

import json

import numpy as np
import pytest

COLOURS = {"red": (200, 40, 40), "green": (40, 180, 60), "blue": (50, 60, 200), "kiwi": (120, 140, 30)}
OLD = ("red", "green", "blue")


def write_network(path, seed, n_classes=None):
    """8 x 8 photos -> a random projection of their mean colour and two squares of it, and perhaps a layer."""
    import onnx

    rng = np.random.default_rng(seed)
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    tensors = {"W": rng.normal(size=(3, 6)), "bias": rng.normal(size=6)}
    nodes = [
        helper.make_node("GlobalAveragePool", ["photo"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["colour"]),
        helper.make_node("MatMul", ["colour", "W"], ["mixed"]),
        helper.make_node("Add", ["mixed", "bias"], ["moved"]),
        helper.make_node("Tanh", ["moved"], ["embedding"]),
    ]
    last, width = "embedding", 6
    if n_classes:
        tensors |= {"head": rng.normal(size=(6, n_classes)), "head_bias": rng.normal(size=n_classes)}
        nodes.append(helper.make_node("Gemm", ["embedding", "head", "head_bias"], ["logits"]))
        last, width = "logits", n_classes
    photo = helper.make_tensor_value_info("photo", onnx.TensorProto.FLOAT, ["n", 3, 8, 8])
    graph = helper.make_graph(
        nodes,
        "tiny",
        [photo],
        [helper.make_tensor_value_info(last, onnx.TensorProto.FLOAT, ["n", width])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in tensors.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def paint(folder, names, n, seed):
    from PIL import Image

    rng = np.random.default_rng(seed)
    for name in names:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(n):
            pixels = (
                np.array(COLOURS[name.split("/")[-1].lower()])
                + rng.normal(0, 8)
                + rng.normal(0, 25, size=(12, 12, 3))
            )
            Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(folder / name / f"{number}.png")


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder with photos to train and test on, and a backbone."""
    monkeypatch.chdir(tmp_path)
    paint(tmp_path / "train", OLD, 6, 1)
    paint(tmp_path / "new", ["kiwi"], 6, 2)
    paint(tmp_path / "test", COLOURS, 5, 3)
    write_network(tmp_path / "tiny.onnx", 0)
    return tmp_path


@pytest.fixture
def call(capsys):
    """Run a command; gives what it printed, as JSON where that was asked for."""
    from xlda.cli.app import run

    def call(*arguments, expect=0):
        code = run([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        assert code == expect, printed.err
        call.err = printed.err
        assert "Traceback" not in printed.err or "--debug" in arguments
        if expect:
            assert printed.out == ""
            assert sum(line.startswith("xlda:") for line in printed.err.splitlines()) == 1
            return printed.err.splitlines()[-1]
        return json.loads(printed.out) if "--json" in arguments else printed.out

    return call


@pytest.fixture
def model(shop, call):
    call("fit", "train", "-o", "shop.xlda", "--backbone", "tiny.onnx")
    return shop / "shop.xlda"


def embedded(call, where, name="some.parquet"):
    """Embeddings and labels of photos, read with pyarrow alone."""
    import pyarrow.parquet as pq

    call("embed", where, "-o", name, "--backbone", "tiny.onnx")
    table = pq.read_table(name)
    return np.array(table["embedding"].to_pylist()), table["label"].to_pylist()
