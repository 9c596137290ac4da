"""A network as a part of a larger ONNX graph: from pixels to embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlda.backbones.loading import open_network
from xlda.backbones.network import Backbone, first_line
from xlda.backbones.view_nodes import add_views
from xlda.onnx_graph.graph_parts import GraphParts

LEAST_OPSET, USUAL_OPSET = 13, 17  # that the nodes here are written for; what an older network is brought to
VIEWS, NETWORK, ANSWER = "views/", "network/", "answer/"  # what names of each part begin with


class WholeGraph:
    """The network of a backbone with its views before it; more nodes can be added to `parts`."""

    def __init__(self, backbone: Backbone, source: str) -> None:
        self.model = _network(source, backbone)
        self.parts = GraphParts(_opset(self.model), ANSWER)
        self._backbone = backbone
        self.n_photos = self._fixed_photos()

    def add_embedding(self, pixels: str) -> str:
        """Nodes from `pixels` (n, side, side, 3), uint8, to embeddings (n, n_features)."""
        backbone, graph = self._backbone, self.model.graph
        before = GraphParts(self.parts.opset, VIEWS)
        prepared = add_views(before, pixels, backbone.preprocessing)
        (taken,) = (value for value in graph.input if value.name == NETWORK + backbone._input.name)
        before.nodes.append(_cast(prepared, taken.name, taken.type.tensor_type.elem_type))
        network = list(graph.node)
        del graph.node[:]
        graph.node.extend([*before.nodes, *network])
        graph.initializer.extend(before.constants)
        return self._add_pooled(graph.output[0].name)

    def finished(self, inputs: list[Any], outputs: list[Any]) -> Any:
        """The model with all that was added, of these inputs and outputs."""
        graph = self.model.graph
        for values, wanted in ((graph.input, inputs), (graph.output, outputs)):
            del values[:]
            values.extend(wanted)
        del graph.value_info[:]  # which may say how many photos there are
        graph.node.extend(self.parts.nodes)
        graph.initializer.extend(self.parts.constants)
        graph.name = "xlda"
        return self.model

    def _add_pooled(self, output: str) -> str:
        """Nodes from what the network gives to embeddings: maps are averaged, and views."""
        from onnx import TensorProto

        backbone, parts, n_views = self._backbone, self.parts, len(self._backbone.preprocessing.shares)
        last = parts.add("Cast", output, to=int(TensorProto.FLOAT))
        shape = self._output_shape()
        if len(shape) == 4:
            last = parts.mean(last, backbone._map_axes(shape))
        if n_views > 1:
            shape_of_views = parts.whole([n_views, -1, backbone.n_features])
            last = parts.mean(parts.add("Reshape", last, shape_of_views), [0])
        return last

    def _output_shape(self) -> tuple[int, ...]:
        backbone = self._backbone
        size, n = backbone.preprocessing.size, backbone._n_fixed or 1
        return backbone._raw(np.zeros((n, size, size, 3), np.uint8), backbone._session).shape

    def _fixed_photos(self) -> int | None:
        """How many photos it takes at once; None: any number."""
        n_fixed, n_views = self._backbone._n_fixed, len(self._backbone.preprocessing.shares)
        if n_fixed is not None and n_fixed % n_views:
            raise ValueError(
                f"{self._backbone.name} takes {n_fixed} pictures at once, and a photo is looked at in "
                f"{n_views} views. Export the network for any number of pictures, and make the model with it."
            )
        return None if n_fixed is None else n_fixed // n_views


def _network(source: str, backbone: Backbone) -> Any:
    """The network as onnx has it, of an opset that the nodes here are written for."""
    import onnx

    model = open_network(source, backbone.identity.cut_head)
    try:
        if _opset(model) < LEAST_OPSET:
            model = onnx.version_converter.convert_version(model, USUAL_OPSET)
        return onnx.compose.add_prefix(model, NETWORK)
    except Exception as error:  # the converter's own errors have no class in common
        raise ValueError(
            f"{backbone.name}, of ONNX opset {_opset(model)}, cannot be made a part of another graph: "
            f"{first_line(error)}. Export the network with opset {USUAL_OPSET}."
        ) from error


def _opset(model: Any) -> int:
    return next((int(used.version) for used in model.opset_import if used.domain in ("", "ai.onnx")), 1)


def _cast(last: str, name: str, to: int) -> Any:
    """A node that gives the network its input, under the name and of the type that it has there."""
    from onnx import helper

    return helper.make_node("Cast", [last], [name], to=to)
