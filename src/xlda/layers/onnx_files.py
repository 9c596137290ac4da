"""The last linear layer of an ONNX network, and the network without it. Needs the extra `onnx`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from xlda._internal.extras import needs

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    raise needs("Taking ONNX files apart, or writing one,", "onnx", "onnx") from None

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.files import replaced
from xlda.layers.layer import Layer, checked_layer

LABELS, POWER, SQUARES = "xlda.labels", "xlda.power", "xlda.squares"  # in the metadata, as JSON
LIFT = "xlda.lift"
AFTER = ("Softmax", "LogSoftmax", "Identity")  # may follow the layer: the best class stays the best


def read_layer(path: str | os.PathLike[str], labels: Any = None) -> Layer:
    """The linear layer that a network ends with: a Gemm, or a MatMul and perhaps an Add.

    A Softmax after it is passed over, and a constant added before it becomes part of the bias. Labels are
    those that `write` wrote, unless others are given.
    """
    model, ours = open_model(path), (LABELS, POWER, LIFT, SQUARES)
    known = {prop.key: json.loads(prop.value) for prop in model.metadata_props if prop.key in ours}
    if POWER in known:
        raise ValueError(f"{path} takes the power {known[POWER]} of its input first: it is not a layer.")
    if LIFT in known:
        raise ValueError(f"{path} makes {known[LIFT]} features of its input first: it is not a layer.")
    if SQUARES in known:
        raise ValueError(f"{path} uses the squares of its input, too: it is not a layer.")
    _, weight, bias = _last_layer(model, Path(path))
    return checked_layer(weight, bias, known.get(LABELS) if labels is None else labels)


def split(path: str | os.PathLike[str], backbone: str | os.PathLike[str], labels: Any = None) -> Layer:
    """Write the network without its last layer to the file `backbone`, and give that layer.

    The backbone's output is what the layer took: the embedding.
    """
    model = open_model(path)
    embedding, _, _ = _last_layer(model, Path(path))
    layer = read_layer(path, labels)
    nodes, used = _needed_for(embedding, model.graph)
    if not nodes:
        raise ValueError(f"{path} is nothing but a layer: there is no backbone to split off.")
    inferred = onnx.shape_inference.infer_shapes(model).graph.value_info
    unknown = helper.make_tensor_value_info(embedding, TensorProto.FLOAT, [None, layer.weight.shape[1]])
    graph = helper.make_graph(
        nodes,
        model.graph.name or "backbone",
        [value for value in model.graph.input if value.name in used],
        [next((value for value in inferred if value.name == embedding), unknown)],
        [tensor for tensor in model.graph.initializer if tensor.name in used],
    )
    cut = helper.make_model(
        graph, opset_imports=model.opset_import, ir_version=model.ir_version, functions=model.functions
    )
    cut.metadata_props.extend(model.metadata_props)
    try:
        onnx.checker.check_model(cut)
    except onnx.checker.ValidationError as error:
        raise ValueError(f"{path} cannot be split: {str(error).splitlines()[0]}") from error
    with replaced(backbone) as unfinished:
        onnx.save(cut, os.fspath(unfinished))
    return layer


def open_model(path: str | os.PathLike[str]) -> Any:
    """The file as onnx has it, checked; a ValueError where it is not complete."""
    path = Path(path)
    with path.open("rb"):
        pass  # a missing or forbidden file is the system's own error, with its name
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
    except Exception as error:  # the parser's own errors have no class in common
        raise ValueError(f"{path} is not a complete ONNX file: {str(error).splitlines()[0]}") from error
    return model


def _last_layer(model: Any, path: Path) -> tuple[str, Array, Array]:
    """Name of what the last layer takes, its weight (n_classes, n_features) and its bias."""
    made_by = {name: node for node in model.graph.node for name in node.output}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t

    def constant(name: str, n_axes: int) -> Array | None:
        array = numpy_helper.to_array(constants[name]) if name in constants else None
        return array if array is not None and array.ndim <= n_axes and array.dtype.kind == "f" else None

    node = made_by.get(model.graph.output[0].name)
    while node is not None and node.op_type in AFTER:
        node = made_by.get(node.input[0])
    bias = None
    if node is not None and node.op_type == "Add":
        for one, other in (node.input, node.input[::-1]):
            if one in made_by and made_by[one].op_type == "MatMul" and constant(other, 2) is not None:
                node, bias = made_by[one], constant(other, 2)
                break
    weight = constant(node.input[1], 2) if node is not None and node.op_type in ("Gemm", "MatMul") else None
    settings = {} if node is None else {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if node is None or weight is None or weight.ndim != 2 or settings.get("transA"):
        last = "no node at all" if node is None else f"{node.op_type} node"
        raise ValueError(f"{path} does not end with a linear layer (Gemm or MatMul), but with {last}.")
    if node.op_type == "Gemm":
        weight = settings.get("alpha", 1.0) * weight
        if len(node.input) > 2 and node.input[2]:
            bias = constant(node.input[2], 2)
            if bias is None:
                raise ValueError(f"{path} ends with a linear layer whose bias is computed, not stored.")
            bias = settings.get("beta", 1.0) * bias
    weight = weight if settings.get("transB") else weight.T
    bias = np.zeros(len(weight), weight.dtype) if bias is None else np.broadcast_to(bias.ravel(), len(weight))
    embedding = node.input[0]
    while embedding in made_by and made_by[embedding].op_type in ("Add", "Sub"):
        before = made_by[embedding]
        added = constant(before.input[1], 2)
        if added is None or added.size not in (1, weight.shape[1]):
            break
        sign = 1 if before.op_type == "Add" else -1
        bias = bias + sign * weight.astype(np.float64) @ np.broadcast_to(added.ravel(), weight.shape[1])
        embedding = before.input[0]
    return embedding, weight, bias


def _needed_for(output: str, graph: Any) -> tuple[list[Any], set[str]]:
    """Nodes that `output` depends on, in order, and the names that they use."""
    needed = {output}
    chosen: list[Any] = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            chosen.append(node)
            needed.update(_names_in(node))
    return chosen[::-1], needed


def _names_in(node: Any) -> set[str]:
    """What a node uses, the graphs within it included."""
    names = set(node.input)
    for attribute in node.attribute:
        for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
            names.update(*(_names_in(inner) for inner in graph.node), {value.name for value in graph.output})
    return names
