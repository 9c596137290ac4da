"""Nodes and constants of an ONNX graph, as they are added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from xlda._internal.arrays import Array

AXES_ARE_INPUTS = 18  # the opset from which on a ReduceMean takes its axes as an input


class GraphParts:
    """What a graph is made of. Every name begins with `prefix`, so that it can stand beside another graph."""

    def __init__(self, opset: int, prefix: str = "") -> None:
        self.opset, self.prefix = opset, prefix
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._n_unnamed = 0

    def add(self, kind: str, *inputs: str, name: str | None = None, **settings: Any) -> str:
        """A node with one output, whose name is given back."""
        return self.add_several(kind, *inputs, names=[name], **settings)[0]

    def add_several(self, kind: str, *inputs: str, names: Sequence[str | None], **settings: Any) -> list[str]:
        """A node with an output of each name."""
        from onnx import helper

        outputs = [self._named(name) for name in names]
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, **settings))
        return outputs

    def floats(self, values: Any, name: str | None = None) -> str:
        """A constant of float32."""
        return self._constant(np.asarray(values, np.float32), name)

    def whole(self, values: Any, name: str | None = None) -> str:
        """A constant of int64."""
        return self._constant(np.asarray(values, np.int64), name)

    def texts(self, values: Iterable[str], name: str | None = None) -> str:
        """A constant of texts."""
        return self._constant(np.array(list(values), object), name)

    def part(self, last: str, start: int, stop: int, axis: int) -> str:
        """What is from `start` up to `stop` along an axis."""
        bounds = [self.whole([number]) for number in (start, stop, axis)]
        return self.add("Slice", last, *bounds)

    def mean(self, last: str, axes: Sequence[int]) -> str:
        """The mean over some axes, which go away."""
        if self.opset >= AXES_ARE_INPUTS:
            return self.add("ReduceMean", last, self.whole(axes), keepdims=0)
        return self.add("ReduceMean", last, axes=list(axes), keepdims=0)

    def give(self, outputs: Mapping[str, str]) -> None:
        """Nodes that give what is there another name, as it is: that of an output."""
        from onnx import helper

        for name, last in outputs.items():
            self.nodes.append(helper.make_node("Identity", [last], [name]))

    def _constant(self, values: Array, name: str | None) -> str:
        from onnx import numpy_helper

        named = self._named(name)
        self.constants.append(numpy_helper.from_array(values, named))
        return named

    def _named(self, name: str | None) -> str:
        if name is None:
            self._n_unnamed += 1
            name = f"{self._n_unnamed}"
        return self.prefix + name
