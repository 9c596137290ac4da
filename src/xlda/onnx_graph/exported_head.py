"""The head of a classifier as nodes of an ONNX graph: from embeddings to logits."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from xlda.classifier import XLDA
from xlda.head.linear import ScoringArrays, scoring_arrays
from xlda.labels import Label
from xlda.lifting import Lift
from xlda.lifting.random_features import SLOPE
from xlda.onnx_graph.graph_parts import GraphParts


class ExportedHead:
    """A head as it is now, without the classes that have no samples."""

    def __init__(self, clf: XLDA, what: str) -> None:
        if clf.second_look is not None:
            raise ValueError(
                f"{what}: a graph has no second look. set_params(second_look=None) drops the rows."
            )
        head = clf._renewed_head(what)
        arrays = scoring_arrays(head).taken(head.table.sorted_rows)
        live = np.flatnonzero(np.isfinite(arrays.bias))
        self.arrays: ScoringArrays = arrays.taken(live)
        self.labels: list[Label] = head.table.sorted()[live].tolist()
        self.power = clf.power_
        self.lift = head.space.lift
        self.n_inputs = head.n_inputs

    def checked_top_k(self, top_k: Any) -> int:
        """How many classes to give, refused where there are not so many."""
        if (
            isinstance(top_k, bool)
            or not isinstance(top_k, Integral)
            or not 1 <= int(top_k) <= len(self.labels)
        ):
            raise ValueError(
                f"top_k is between 1 and the number of classes, {len(self.labels)}; got {top_k!r}."
            )
        return int(top_k)

    def add_to(self, graph: GraphParts, embedding: str) -> str:
        """Nodes from `embedding` (n, n_features) to "logits" (n, n_classes)."""
        arrays = self.arrays
        last = embedding if self.power is None else self._add_power(graph, embedding)
        if self.lift is not None:
            last = self._add_lift(graph, last, self.lift)
        query = graph.add("Sub", last, graph.floats(arrays.centre, "centre"), name="centred")
        if arrays.rotation is not None:
            query = graph.add("MatMul", query, graph.floats(arrays.rotation, "rotation"), name="query")
        layer = (graph.floats(arrays.weights, "weight"), graph.floats(arrays.bias, "bias"))
        if arrays.curvature is None or arrays.groups is None:
            return graph.add("Gemm", query, *layer, transB=1, name="logits")
        squares = graph.add("Mul", query, query, name="squares")
        by_count = graph.add("MatMul", squares, graph.floats(arrays.curvature, "curvature"), name="by_count")
        groups = graph.whole(arrays.groups, "groups")
        looked_up = graph.add("Gather", by_count, groups, axis=1, name="looked_up")
        linear = graph.add("Gemm", query, *layer, transB=1, name="linear")
        return graph.add("Add", linear, looked_up, name="logits")

    def _add_lift(self, graph: GraphParts, last: str, lift: Lift) -> str:
        """Nodes that do what `xlda.lifting.random_features` does."""
        if lift.centre is not None:
            last = graph.add("Sub", last, graph.floats(lift.centre, "lift_centre"), name="lift_centred")
        directions = graph.floats(lift.directions(), "lift_directions")
        along = graph.add("Gemm", last, directions, transB=1, name="lift_along")
        return graph.add("LeakyRelu", along, name="lifted", alpha=SLOPE)

    def _add_power(self, graph: GraphParts, embedding: str) -> str:
        magnitude = graph.add("Abs", embedding, name="magnitude")
        raised = graph.add("Pow", magnitude, graph.floats(self.power, "power"), name="raised")
        return graph.add("Mul", raised, graph.add("Sign", embedding, name="sign"), name="powered")
