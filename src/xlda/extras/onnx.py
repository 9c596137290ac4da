"""The last linear layer of an ONNX network; classifiers as ONNX graphs. Needs the extra `onnx`."""

from __future__ import annotations

import json
import os
from numbers import Integral

import numpy as np

from xlda._internal.files import replaced
from xlda.classifier import XLDA
from xlda.head.linear import scoring_arrays
from xlda.layers.onnx_files import LABELS, POWER, SQUARES, read_layer, split

__all__ = ["read_layer", "split", "write"]

OPSET, IR_VERSION = 17, 8  # old enough for every onnxruntime of the last years


def write(clf: XLDA, path: str | os.PathLike[str], top_k: int | None = None) -> None:
    """The classifier as an ONNX graph from "embedding" (n, n_features) to "logits" (n, n_classes).

    With `top_k`, to "scores" and "indices" (n, top_k) instead, best first. The label of index i is entry i of
    the JSON list in the metadata under "xlda.labels". The power is part of the graph, and so is what the
    squares of a query add by the number of samples of a class: scores are exact.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    head = clf._renewed_head("onnx.write")
    rows = head.table.sorted_rows
    arrays = scoring_arrays(head).taken(rows)
    live = np.flatnonzero(np.isfinite(arrays.bias))
    arrays, labels = arrays.taken(live), head.table.sorted()[live].tolist()
    if top_k is not None:
        if isinstance(top_k, bool) or not isinstance(top_k, Integral) or not 1 <= top_k <= len(labels):
            raise ValueError(f"top_k is between 1 and the number of classes, {len(labels)}; got {top_k!r}.")
        top_k = int(top_k)
    constants = {"centre": arrays.centre, "weight": arrays.weights, "bias": arrays.bias}
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
    query, linear = ("query" if arrays.rotation is None else "centred"), "logits"
    nodes.append(helper.make_node("Sub", [last, "centre"], [query]))
    if arrays.rotation is not None:
        constants["rotation"] = arrays.rotation
        nodes.append(helper.make_node("MatMul", ["centred", "rotation"], ["query"]))
    indices = {}
    if arrays.curvature is not None and arrays.groups is not None:
        linear, constants["curvature"], indices["groups"] = "linear", arrays.curvature, arrays.groups
        nodes += [
            helper.make_node("Mul", ["query", "query"], ["squares"]),
            helper.make_node("MatMul", ["squares", "curvature"], ["by_count"]),
            helper.make_node("Gather", ["by_count", "groups"], ["looked_up"], axis=1),
        ]
    nodes.append(helper.make_node("Gemm", ["query", "weight", "bias"], [linear], transB=1))
    if linear != "logits":
        nodes.append(helper.make_node("Add", [linear, "looked_up"], ["logits"]))
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", len(labels)])]
    initializers = [
        numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in constants.items()
    ]
    initializers += [
        numpy_helper.from_array(np.asarray(value, np.int64), name) for name, value in indices.items()
    ]
    if top_k is not None:
        initializers.append(numpy_helper.from_array(np.array([top_k], np.int64), "k"))
        nodes.append(helper.make_node("TopK", ["logits", "k"], ["scores", "indices"], axis=1))
        outputs = [
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", top_k]),
            helper.make_tensor_value_info("indices", TensorProto.INT64, ["n", top_k]),
        ]
    inputs = [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["n", len(arrays.centre)])]
    graph = helper.make_graph(nodes, "xlda", inputs, outputs, initializers)
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="xlda")
    power = {} if clf.power_ is None else {POWER: json.dumps(float(clf.power_))}
    squares = {} if arrays.curvature is None else {SQUARES: json.dumps(True)}
    helper.set_model_props(model, {LABELS: json.dumps(labels), **power, **squares})
    onnx.checker.check_model(model)
    with replaced(path) as unfinished:
        onnx.save(model, os.fspath(unfinished))
