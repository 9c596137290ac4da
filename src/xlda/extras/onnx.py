"""The last linear layer of an ONNX network; classifiers as ONNX graphs. Needs the extra `onnx`."""

from __future__ import annotations

import json
import os
from numbers import Integral

import numpy as np

from xlda._internal.files import replaced
from xlda.classifier import XLDA
from xlda.layers.onnx_files import LABELS, POWER, read_layer, split

__all__ = ["read_layer", "split", "write"]

OPSET, IR_VERSION = 17, 8  # old enough for every onnxruntime of the last years


def write(clf: XLDA, path: str | os.PathLike[str], top_k: int | None = None) -> None:
    """The classifier as an ONNX graph from "embedding" (n, n_features) to "logits" (n, n_classes).

    With `top_k`, to "scores" and "indices" (n, top_k) instead, best first. The label of index i is entry i of
    the JSON list in the metadata under "xlda.labels". `power` is part of the graph.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weight, bias, labels = clf.to_layer()
    if top_k is not None:
        if isinstance(top_k, bool) or not isinstance(top_k, Integral) or not 1 <= top_k <= len(labels):
            raise ValueError(f"top_k is between 1 and the number of classes, {len(labels)}; got {top_k!r}.")
        top_k = int(top_k)
    centre = clf.snapshot().head.centre.astype(np.float64)
    constants = {"centre": centre, "weight": weight, "bias": bias + weight @ centre}
    nodes, last = [], "embedding"
    if clf.power_ is not None:
        constants["power"] = np.array(clf.power_)
        nodes += [
            helper.make_node("Abs", [last], ["magnitude"]),
            helper.make_node("Pow", ["magnitude", "power"], ["raised"]),
            helper.make_node("Sign", [last], ["sign"]),
            helper.make_node("Mul", ["raised", "sign"], ["powered"]),
        ]
        last = "powered"
    nodes += [
        helper.make_node("Sub", [last, "centre"], ["query"]),
        helper.make_node("Gemm", ["query", "weight", "bias"], ["logits"], transB=1),
    ]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", len(labels)])]
    initializers = [
        numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in constants.items()
    ]
    if top_k is not None:
        initializers.append(numpy_helper.from_array(np.array([top_k], np.int64), "k"))
        nodes.append(helper.make_node("TopK", ["logits", "k"], ["scores", "indices"], axis=1))
        outputs = [
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", top_k]),
            helper.make_tensor_value_info("indices", TensorProto.INT64, ["n", top_k]),
        ]
    inputs = [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["n", weight.shape[1]])]
    graph = helper.make_graph(nodes, "xlda", inputs, outputs, initializers)
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="xlda")
    power = {} if clf.power_ is None else {POWER: json.dumps(float(clf.power_))}
    helper.set_model_props(model, {LABELS: json.dumps(labels), **power})
    onnx.checker.check_model(model)
    with replaced(path) as unfinished:
        onnx.save(model, os.fspath(unfinished))
