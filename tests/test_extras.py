"""Layers of other libraries, in and out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import xlda
from conftest import blobs
from xlda import XLDA
from xlda.extras import keras, tensors


@pytest.fixture
def clf(rng):
    X, y = blobs(rng, n_features=8)
    names = np.array(["apple", "kiwi", "lime", "pear", "plum", "fig"])
    return XLDA(model="lda", shrinkage=0.3, power=None).fit(X + 2.0, names[y])


@pytest.fixture
def unequal(rng):
    """Classes with 1 to 60 samples, whose scores no layer has."""
    X, y = blobs(rng, n_samples=400, n_features=8)
    kept = [i for i in range(len(y)) if i < 12 or rng.random() < 0.2 * y[i]]
    return XLDA(power=None).fit(X[kept] + 2.0, y[kept])


@pytest.fixture
def asked(rng):
    return (blobs(rng, n_features=8)[0] + 2.0).astype(np.float32)


def taken_over(layer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return XLDA.from_linear(layer.weight, layer.bias, labels=layer.labels)


def test_the_core_imports_none_of_them():
    code = "import sys, xlda; xlda.XLDA; print([m for m in sys.modules if m.startswith('xlda.extras')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "what"),
    [("torch", "xlda.extras.torch"), ("onnx", "Taking ONNX files apart, or writing one,")],
)
def test_what_is_missing_is_said(name, what):
    code = f"import sys; sys.modules[{name!r}] = None; import xlda.extras.{name}"
    error = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr
    assert re.search(rf"ImportError: {what} needs {name}: pip install .*\[{name}\]'$", error.strip())


# -- Keras


def test_keras_dense(clf, asked):
    kernel, bias = keras.to_weights(clf)
    np.testing.assert_allclose(asked @ kernel + bias, clf.decision_function(asked), rtol=1e-4, atol=1e-3)
    again = taken_over(keras.read_layer([kernel, bias], clf.classes_))
    np.testing.assert_array_equal(again.predict(asked), clf.predict(asked))
    assert not keras.read_layer([kernel]).bias.any()

    class Dense:
        def get_weights(self):
            return [kernel, bias]

    np.testing.assert_array_equal(keras.read_layer(Dense()).weight, kernel.T)
    with pytest.raises(ValueError, match=r"got shapes \[\(6,\)\]"):
        keras.read_layer([bias])


# -- files of tensors


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_files_of_tensors(clf, asked, tmp_path, suffix):
    path = tmp_path / f"layer{suffix}"
    tensors.write_layer(clf, path)
    again = taken_over(tensors.read_layer(path))
    assert again.classes_.tolist() == clf.classes_.tolist()
    np.testing.assert_array_equal(again.predict(asked), clf.predict(asked))
    np.testing.assert_array_equal(tensors.read_layer(path, "weight").bias, tensors.read_layer(path).bias)
    assert tensors.read_layer(path, labels=range(6)).labels == list(range(6))


def test_tensors_by_name(tmp_path, rng):
    weight, bias = rng.normal(size=(3, 4)), rng.normal(size=3)
    path = tmp_path / "model.npz"
    np.savez(path, **{"head.weight": weight, "head.bias": bias, "step": 7})
    layer = tensors.read_layer(path)
    np.testing.assert_array_equal(layer.bias, bias)
    np.savez(path, a=weight, b=weight)
    with pytest.raises(ValueError, match=r"2 tensors with two axes \(a, b\): say which"):
        tensors.read_layer(path)
    np.testing.assert_array_equal(tensors.read_layer(path, "b").weight, weight)
    with pytest.raises(ValueError, match="no tensor 'c'; it has a, b"):
        tensors.read_layer(path, "c")


def test_files_that_are_none(tmp_path, clf):
    with pytest.raises(FileNotFoundError):
        tensors.read_layer(tmp_path / "none.npz")
    for name in ("bad.npz", "bad.safetensors"):
        (tmp_path / name).write_bytes(b"nonsense, but long enough to have a header")
        with pytest.raises(ValueError, match="cannot be read as named tensors"):
            tensors.read_layer(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="No folder"):
        tensors.write_layer(clf, tmp_path / "nowhere" / "layer.npz")
    with pytest.raises(ValueError, match="neither"):
        tensors.write_layer(clf, tmp_path / "layer.txt")


# -- ONNX


@pytest.fixture
def onnx():
    return pytest.importorskip("xlda.extras.onnx", reason="needs the extra onnx", exc_type=ImportError)


def run(path, X, name="embedding"):
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    outputs = session.run(None, {name: X})
    return dict(zip([output.name for output in session.get_outputs()], outputs, strict=True)), session


@pytest.mark.parametrize("power", [None, 0.5])
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_logits_as_a_graph(onnx, rng, tmp_path, power, offset):
    X, y = blobs(rng, n_features=8)
    X = (X + offset).astype(np.float32)
    clf = XLDA(power=power).fit(X, y)
    onnx.write(clf, tmp_path / "clf.onnx")
    outputs, session = run(tmp_path / "clf.onnx", X)
    want = clf.decision_function(X)
    np.testing.assert_allclose(outputs["logits"], want, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(clf.classes_[outputs["logits"].argmax(axis=1)], clf.predict(X))
    assert json.loads(session.get_modelmeta().custom_metadata_map["xlda.labels"]) == list(range(6))


def test_a_graph_has_the_squares_of_unequal_counts(onnx, unequal, asked, tmp_path):
    assert len(set(unequal.class_count_)) > 3
    onnx.write(unequal, tmp_path / "clf.onnx")
    logits = run(tmp_path / "clf.onnx", asked)[0]["logits"]
    np.testing.assert_allclose(logits, unequal.decision_function(asked), rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="uses the squares of its input"):
        onnx.read_layer(tmp_path / "clf.onnx")


def test_a_graph_of_equal_counts_is_a_layer(onnx, rng, asked, tmp_path):
    y = np.repeat(np.arange(5), 6)
    clf = XLDA(power=None).fit(rng.normal(size=(30, 8)) + 4 * rng.normal(size=(5, 8))[y], y)
    onnx.write(clf, tmp_path / "clf.onnx")
    layer = onnx.read_layer(tmp_path / "clf.onnx")
    np.testing.assert_allclose(layer.logits(asked), clf.decision_function(asked), rtol=1e-3, atol=1e-3)


def test_the_nearest_layer_says_how_often_it_differs(unequal, asked):
    with pytest.warns(UserWarning, match=r"another best class for .*% of 1,024 queries drawn"):
        unequal.to_linear()
    with pytest.warns(UserWarning, match=r"of 300 queries given\. An ONNX graph is exact"):
        weight, bias = unequal.to_linear(asked)
    same = unequal.classes_[(asked @ weight.T + bias).argmax(axis=1)] == unequal.predict(asked)
    assert same.mean() > 0.9


def test_the_best_as_a_graph(onnx, clf, asked, tmp_path):
    onnx.write(clf, tmp_path / "clf.onnx", top_k=3)
    outputs, session = run(tmp_path / "clf.onnx", asked)
    labels, scores = clf.predict_topk(asked, 3)
    names = np.array(json.loads(session.get_modelmeta().custom_metadata_map["xlda.labels"]))
    np.testing.assert_array_equal(names[outputs["indices"]], labels)
    np.testing.assert_allclose(outputs["scores"], scores, rtol=1e-4, atol=1e-4)
    for k in (0, 7, True, 2.5):
        with pytest.raises(ValueError, match="top_k is between 1 and the number of classes, 6"):
            onnx.write(clf, tmp_path / "clf.onnx", top_k=k)


def test_a_class_without_samples_never_wins_in_a_graph(onnx, clf, asked, tmp_path):
    clf.partial_fit(np.empty((0, 8)), [], classes=["date"])
    onnx.write(clf, tmp_path / "clf.onnx", top_k=6)
    outputs, _ = run(tmp_path / "clf.onnx", asked)
    assert (outputs["indices"] < 6).all()


def test_a_graph_is_a_layer_again(onnx, clf, asked, tmp_path):
    onnx.write(clf, tmp_path / "clf.onnx")
    layer = onnx.read_layer(tmp_path / "clf.onnx")
    assert layer.labels == clf.classes_.tolist()
    np.testing.assert_array_equal(taken_over(layer).predict(asked), clf.predict(asked))
    with pytest.raises(ValueError, match="nothing but a layer"):
        onnx.split(tmp_path / "clf.onnx", tmp_path / "backbone.onnx")


def test_a_power_is_no_layer(onnx, rng, tmp_path):
    X, y = blobs(rng, n_features=8)
    clf = XLDA(model="lda", power=0.5).fit(X, y)
    onnx.write(clf, tmp_path / "clf.onnx")
    with pytest.raises(ValueError, match=r"takes the power 0\.5 of its input first"):
        onnx.read_layer(tmp_path / "clf.onnx")
    for write in (keras.to_weights, lambda clf: tensors.write_layer(clf, tmp_path / "a.npz")):
        with pytest.raises(ValueError, match=r"A layer cannot hold power=0\.5"):
            write(clf)


def network(onnx, path, ends_with, weight, bias):
    """pixels (n, 6) -> Relu(Gemm) -> "hidden" -> one of several last layers."""
    import onnx as library
    from onnx import TensorProto, helper, numpy_helper

    first = np.random.default_rng(0).normal(size=(6, weight.shape[1])).astype(np.float32)
    constants = {
        "first": first,
        "W": weight,
        "WT": np.ascontiguousarray(weight.T),
        "b": bias,
        "half": bias / 2,
        "two W": 2 * weight,
    }
    nodes = [
        helper.make_node("MatMul", ["pixels", "first"], ["before"]),
        helper.make_node("Relu", ["before"], ["hidden"]),
        *{
            "gemm": [helper.make_node("Gemm", ["hidden", "W", "b"], ["out"], transB=1)],
            "gemm, not transposed": [helper.make_node("Gemm", ["hidden", "WT", "half"], ["out"], beta=2.0)],
            "gemm, scaled": [
                helper.make_node("Gemm", ["hidden", "two W", "b"], ["out"], transB=1, alpha=0.5)
            ],
            "gemm without bias": [helper.make_node("Gemm", ["hidden", "WT"], ["out"])],
            "matmul": [
                helper.make_node("MatMul", ["hidden", "WT"], ["product"]),
                helper.make_node("Add", ["b", "product"], ["out"]),
            ],
            "softmax": [
                helper.make_node("Gemm", ["hidden", "W", "b"], ["logits"], transB=1),
                helper.make_node("Softmax", ["logits"], ["out"]),
            ],
            "relu": [
                helper.make_node("Gemm", ["hidden", "W", "b"], ["logits"], transB=1),
                helper.make_node("Relu", ["logits"], ["out"]),
            ],
            "product of two inputs": [
                helper.make_node("Transpose", ["hidden"], ["turned"]),
                helper.make_node("MatMul", ["hidden", "turned"], ["out"]),
            ],
        }[ends_with],
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, [None, 6])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [None, None])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    library.save(model, path)


@pytest.mark.parametrize(
    "ends_with", ["gemm", "gemm, scaled", "gemm, not transposed", "gemm without bias", "matmul", "softmax"]
)
def test_a_network_is_split(onnx, tmp_path, rng, ends_with):
    weight = rng.normal(size=(5, 4)).astype(np.float32)
    bias = rng.normal(size=5).astype(np.float32)
    network(onnx, tmp_path / "net.onnx", ends_with, weight, bias)
    layer = onnx.split(tmp_path / "net.onnx", tmp_path / "backbone.onnx")
    np.testing.assert_allclose(layer.weight, weight)
    np.testing.assert_allclose(layer.bias, 0.0 if ends_with == "gemm without bias" else bias)
    pixels = rng.normal(size=(20, 6)).astype(np.float32)
    whole = run(tmp_path / "net.onnx", pixels, "pixels")[0]["out"]
    embedding = run(tmp_path / "backbone.onnx", pixels, "pixels")[0]["hidden"]
    np.testing.assert_array_equal(taken_over(layer).predict(embedding), whole.argmax(axis=1))


@pytest.mark.parametrize(
    ("ends_with", "last"), [("relu", "Relu node"), ("product of two inputs", "MatMul node")]
)
def test_a_network_that_does_not_end_with_a_layer(onnx, tmp_path, ends_with, last):
    network(onnx, tmp_path / "net.onnx", ends_with, np.ones((5, 4), np.float32), np.ones(5, np.float32))
    with pytest.raises(ValueError, match=f"does not end with a linear layer .*, but with {last}"):
        onnx.read_layer(tmp_path / "net.onnx")
    with pytest.raises(ValueError, match="does not end with"):
        onnx.split(tmp_path / "net.onnx", tmp_path / "backbone.onnx")
    assert not (tmp_path / "backbone.onnx").exists()


def test_a_file_that_is_no_network(onnx, tmp_path):
    (tmp_path / "net.onnx").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="not a complete ONNX file"):
        onnx.read_layer(tmp_path / "net.onnx")
    with pytest.raises(FileNotFoundError):
        onnx.read_layer(tmp_path / "none.onnx")


# -- torch


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="needs the extra torch")


@pytest.fixture
def extra(torch):
    return pytest.importorskip("xlda.extras.torch")


def test_a_linear_in_and_out(torch, extra, clf, asked):
    linear = extra.to_linear(clf)
    logits = linear(torch.from_numpy(asked)).detach().numpy()
    np.testing.assert_allclose(logits, clf.decision_function(asked), rtol=1e-4, atol=1e-3)
    again = taken_over(extra.read_layer(linear, clf.classes_))
    np.testing.assert_array_equal(again.predict(asked), clf.predict(asked))
    assert not extra.read_layer(torch.nn.Linear(4, 3, bias=False)).bias.any()


def test_the_last_linear_of_a_module(torch, extra):
    network = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3), torch.nn.Softmax(1)
    )
    np.testing.assert_array_equal(extra.read_layer(network).weight, network[2].weight.detach().numpy())
    with pytest.raises(ValueError, match=r"ReLU has no torch\.nn\.Linear"):
        extra.read_layer(torch.nn.ReLU())


@pytest.mark.parametrize("power", [None, 0.5])
def test_a_head_in_a_network(torch, extra, rng, power):
    X, y = blobs(rng, n_features=8, dtype=np.float32)
    X, names = torch.from_numpy(X), np.array([f"product {number}" for number in y])
    head = extra.XLDAHead(power=power)
    network = torch.nn.Sequential(torch.nn.Identity(), head)
    head.learn(X[:200], names[:200])
    n_before = head(X).shape[1]
    head.learn(X[200:], names[200:])
    head.learn(X[:1] + 90.0, ["new"])
    logits = network(X)
    assert logits.shape == (300, 7)
    assert n_before <= 6
    np.testing.assert_array_equal(head.labels[logits.argmax(dim=1).numpy()], head.clf.predict(X.numpy()))
    np.testing.assert_allclose(logits.numpy(), head.clf.decision_function(X.numpy()), rtol=1e-3, atol=1e-2)
    again = torch.nn.Sequential(torch.nn.Identity(), extra.XLDAHead())
    again.load_state_dict(network.state_dict())
    torch.testing.assert_close(again(X), logits)
    assert again[1].clf.power == power


def test_a_head_of_unequal_counts_is_exact_and_has_gradients(torch, extra, unequal, asked):
    head, x = extra.XLDAHead(unequal), torch.from_numpy(asked).double().requires_grad_()
    logits = head(x)
    np.testing.assert_allclose(logits.detach(), unequal.decision_function(asked.astype(float)), atol=1e-6)
    logits[0, 0].backward()
    step = 1e-4 * torch.eye(8, dtype=torch.float64)
    slopes = [(head(x[:1] + s)[0, 0] - head(x[:1] - s)[0, 0]).item() / 2e-4 for s in step]
    np.testing.assert_allclose(x.grad[0], slopes, rtol=1e-5)


def test_a_head_lets_gradients_through_and_has_none(torch, extra, clf):
    head = extra.XLDAHead(clf)
    x = torch.randn(5, 8, requires_grad=True)
    head(x).sum().backward()
    torch.testing.assert_close(x.grad[0], torch.from_numpy(clf.to_linear()[0].sum(axis=0)).float())
    assert not list(head.parameters())
    with torch.inference_mode():
        head(x.detach().clone())
    head(x).sum().backward()
    torch.testing.assert_close(head(x.bfloat16()).float(), head(x), rtol=0.1, atol=1.0)
    np.testing.assert_allclose(
        head(x).detach().numpy(), clf.decision_function(x.detach().numpy()), rtol=1e-4, atol=1e-3
    )
    powered = extra.XLDAHead(power=0.5).learn(torch.eye(8), list(range(8)))
    zero = torch.zeros(1, 8, requires_grad=True)
    powered(zero).sum().backward()
    assert torch.isfinite(zero.grad).all()
    with pytest.raises(ValueError, match="Parameters are for a new classifier"):
        extra.XLDAHead(clf, shrinkage=0.9)
    assert head(x.double()).dtype == torch.float64


def test_a_head_that_has_learned_nothing_is_kept_as_such(torch, extra):
    head = extra.XLDAHead(shrinkage=0.5)
    other = extra.XLDAHead(shrinkage=0.5).learn(torch.eye(3), [1, 2, 3])
    other.load_state_dict(head.state_dict())
    assert not hasattr(other.clf, "classes_")


def test_a_head_survives_torch_save(torch, extra, clf, asked, tmp_path):
    head = extra.XLDAHead(clf)
    torch.save(head.state_dict(), tmp_path / "head.pt")
    again = extra.XLDAHead()
    again.load_state_dict(torch.load(tmp_path / "head.pt", weights_only=True))
    np.testing.assert_array_equal(again.clf.predict(asked), clf.predict(asked))


def test_a_head_takes_over_from_a_linear(torch, extra, rng):
    linear = torch.nn.Linear(8, 4)
    X = rng.normal(size=(200, 8)).astype(np.float32)
    head = extra.XLDAHead.from_linear(linear, labels=list("abcd"), embeddings=X)
    assert isinstance(head.clf, xlda.XLDA)
    head.learn(torch.full((3, 8), 9.0) + torch.randn(3, 8), ["e", "e", "e"])
    assert head.labels[head(torch.full((1, 8), 9.0)).argmax()] == "e"
