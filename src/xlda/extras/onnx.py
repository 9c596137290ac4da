"""The last linear layer of an ONNX network; classifiers as ONNX graphs. Needs the extra `onnx`."""

from __future__ import annotations

import json
import os

from xlda._internal.files import replaced
from xlda.classifier import XLDA
from xlda.extras._onnx_graph import GraphParts
from xlda.extras._onnx_head import ExportedHead
from xlda.layers.onnx_files import LABELS, LIFT, POWER, SQUARES, read_layer, split

__all__ = ["read_layer", "split", "write"]

OPSET, IR_VERSION = 17, 8  # old enough for every onnxruntime of the last years


def write(clf: XLDA, path: str | os.PathLike[str], top_k: int | None = None) -> None:
    """The classifier as an ONNX graph from "embedding" (n, n_features) to "logits" (n, n_classes).

    With `top_k`, to "scores" and "indices" (n, top_k) instead, best first. The label of index i is entry i of
    the JSON list in the metadata under "xlda.labels". The power and the lift are part of the graph, and so is
    what the squares of a query add by the number of samples of a class: scores are exact.
    """
    import onnx
    from onnx import TensorProto, helper

    head = ExportedHead(clf, "onnx.write")
    k = None if top_k is None else head.checked_top_k(top_k)
    graph = GraphParts(OPSET)
    logits = head.add_to(graph, "embedding")
    if k is None:
        outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", len(head.labels)])]
    else:
        graph.add_several("TopK", logits, graph.whole([k], "k"), names=["scores", "indices"], axis=1)
        outputs = [
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", k]),
            helper.make_tensor_value_info("indices", TensorProto.INT64, ["n", k]),
        ]
    inputs = [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["n", head.n_inputs])]
    model = helper.make_model(
        helper.make_graph(graph.nodes, "xlda", inputs, outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="xlda",
    )
    power = {} if clf.power_ is None else {POWER: json.dumps(float(clf.power_))}
    squares = {} if head.arrays.curvature is None else {SQUARES: json.dumps(True)}
    lift = {} if clf.lift is None else {LIFT: json.dumps(int(clf.lift))}
    helper.set_model_props(model, {LABELS: json.dumps(head.labels), **power, **lift, **squares})
    onnx.checker.check_model(model)
    with replaced(path) as unfinished:
        onnx.save(model, os.fspath(unfinished))
