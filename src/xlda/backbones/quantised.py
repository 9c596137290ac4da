"""EfficientNet-Lite computed in whole numbers of 8 bits, as an ONNX network of the same form.

All but the first three layers and the pooling: in float32 those cost nothing and lose less. Values are bytes,
weights whole numbers from -127 to 127, with a step of its own for each output channel.

No pictures are needed to find the ranges of values, so the network is the same on every machine. Values after
most layers are bounded by 0 and 6. The others, of the stream that goes from block to block, have in each
channel the mean and the standard deviation that the batch norms keep from training. The stream's channels are
brought to mean 0 and equal ranges, which costs nothing: the layers before and after take it on. The same
numbers tell how far the rounding of weights moves each output in the mean, and biases take that back.

Processors without instructions for it (VNNI) add the products of two neighbouring inputs in 16 bits, and what
does not fit is cut off without a word. Steps are so large that all sums fit: the result is the same as with
these instructions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlda._internal.arrays import Array
from xlda.backbones import onnx_bytes

VERSION = 1  # to be raised when the network computes something else
SIX = 6.0  # the bound of values
DEVIATIONS = 6.0  # of the stream's values: farther ones are cut off
LEAST_SPREAD = 0.05  # of a channel, in shares of the widest one: narrower ones are not widened as much
OPSET = 17
MICROSOFT = "com.microsoft"  # whose nodes onnxruntime has beside the usual ones

BlockForm = tuple[str, int, bool]  # name in the weights, stride, whether channels are expanded


@dataclass
class _FoldedLayer:
    """A convolution with the batch norm after it folded in."""

    name: str
    kernel: Array  # (outputs, inputs, height, width), float64
    bias: Array
    mean: Array  # of its outputs over ImageNet, as the batch norm has them, before they are bounded
    spread: Array  # their standard deviation
    stride: int = 1

    @property
    def is_depthwise(self) -> bool:
        return bool(self.kernel.shape[1] == 1)


@dataclass
class _Block:
    expand: _FoldedLayer | None
    depthwise: _FoldedLayer
    project: _FoldedLayer
    is_added: bool  # to what came in
    spread: float = 1.0  # of the widest channel of the stream after it


def build(weights: dict[str, Array], blocks: Iterable[BlockForm], epsilon: float) -> bytes:
    """The ONNX network of these weights: "image" (n, 3, height, width) to "embedding" (n, features).

    `epsilon` is that of the batch norms. The first block must not be expanded, nor added to what comes in.
    """
    stem, head = (
        _folded(weights, epsilon, "_conv_stem", "_bn0", 2),
        _folded(weights, epsilon, "_conv_head", "_bn1"),
    )
    read = [_read_block(weights, epsilon, block) for block in blocks]
    _even_out(read, head)
    graph = _WholeGraph()
    last = graph.convolution("image", stem)
    last = graph.convolution(last, read[0].depthwise)
    last = graph.convolution(last, read[0].project, is_bounded=False)
    value = graph.to_bytes(last, read[0].spread)
    for block in read[1:]:
        value = graph.block(value, block)
    graph.pool(graph.bounded(value, head, np.zeros(head.kernel.shape[1])))
    return graph.content(len(head.kernel))


def _folded(weights: dict[str, Array], epsilon: float, name: str, norm: str, stride: int = 1) -> _FoldedLayer:
    kernel = weights[f"{name}.weight"].astype(np.float64)
    factor, mean, old_mean, old_variance = (
        weights[f"{norm}.{key}"].astype(np.float64)
        for key in ("weight", "bias", "running_mean", "running_var")
    )
    scale = factor / np.sqrt(old_variance + epsilon)
    return _FoldedLayer(
        name, kernel * scale[:, None, None, None], mean - old_mean * scale, mean, abs(factor), stride
    )


def _read_block(weights: dict[str, Array], epsilon: float, block: BlockForm) -> _Block:
    name, stride, is_expanded = block
    expand = _folded(weights, epsilon, f"{name}._expand_conv", f"{name}._bn0") if is_expanded else None
    depthwise = _folded(weights, epsilon, f"{name}._depthwise_conv", f"{name}._bn1", stride)
    project = _folded(weights, epsilon, f"{name}._project_conv", f"{name}._bn2")
    n_inputs = (expand or depthwise).kernel.shape[1 if expand else 0]
    return _Block(expand, depthwise, project, stride == 1 and n_inputs == len(project.kernel))


def _even_out(blocks: list[_Block], head: _FoldedLayer) -> None:
    """Bring the channels of the stream to mean 0 and to ranges that are equal at its widest place.

    What a block adds is taken to be independent of what was there.
    """
    consumers = [block.expand for block in blocks[1:]] + [head]
    starts = [i for i, block in enumerate(blocks) if not block.is_added]
    for start, end in zip(starts, [*starts[1:], len(blocks)], strict=True):
        stream = blocks[start:end]
        variances = np.cumsum([block.project.spread**2 for block in stream], axis=0)
        means = np.cumsum([block.project.mean for block in stream], axis=0)
        scale = np.sqrt(variances[-1])
        scale = np.maximum(scale, LEAST_SPREAD * scale.max())
        after = zip(stream, variances, means, consumers[start:end], strict=True)
        for block, variance, mean, consumer in after:
            project = block.project
            project.kernel = project.kernel / scale[:, None, None, None]
            project.bias = (project.bias - project.mean) / scale
            project.spread = project.spread / scale
            block.spread = float((np.sqrt(variance) / scale).max())
            assert consumer is not None, "only the first block may be without expansion"
            consumer.bias = consumer.bias + consumer.kernel[:, :, 0, 0] @ mean
            consumer.kernel = consumer.kernel * scale[:, None, None]


def mean_of_bounded(mean: Array, spread: Array) -> Array:
    """The mean of normally distributed values that are then kept between 0 and 6."""
    from scipy.special import ndtr

    spread = np.maximum(spread, 1e-9)
    low, high = -mean / spread, (SIX - mean) / spread
    density = [np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) for z in (low, high)]
    bounded: Array = mean * (ndtr(high) - ndtr(low)) + spread * (density[0] - density[1]) + SIX * ndtr(-high)
    return bounded


def whole_weights(kernel: Array, least_step: Array) -> tuple[Array, Array]:
    """Weights as whole numbers, and the step of each output channel, float32, at least as large as said."""
    flat = kernel.reshape(len(kernel), -1)
    largest = abs(flat).max(axis=1)
    if kernel.shape[1] > 1:  # with 127 for what two neighbours of one sign have together, 128 after rounding
        pairs = flat.reshape(len(flat), -1, 2)
        for sign in (1, -1):
            largest = np.maximum(largest, np.maximum(sign * pairs, 0).sum(axis=2).max(axis=1))
    steps = np.maximum(largest / 127, least_step).astype(np.float32)
    steps[steps == 0] = 1  # no weights, and no bias
    whole = np.clip(np.rint(flat / steps.astype(np.float64)[:, None]), -127, 127)
    return whole.reshape(kernel.shape), steps


@dataclass(frozen=True)
class _Bytes:
    """A value in bytes: one that stands for `step * (byte - zero)`."""

    name: str
    step: np.float32
    zero: int

    @property
    def inputs(self) -> list[str]:
        return [self.name, *self.described]

    @property
    def described(self) -> list[str]:
        return [f"{self.name}.step", f"{self.name}.zero"]


class _WholeGraph:
    """Nodes and constants, as they are added."""

    def __init__(self) -> None:
        self.nodes: list[bytes] = []
        self.constants: list[bytes] = []
        self.keep("0", 0, np.float32)
        self.keep("6", SIX, np.float32)

    def keep(self, name: str, values: Any, kind: Any) -> str:
        self.constants.append(onnx_bytes.constant(name, np.asarray(values, kind)))
        return name

    def add(self, kind: str, inputs: list[str], output: str, domain: str = "", **settings: Any) -> str:
        self.nodes.append(onnx_bytes.node(kind, inputs, [output], settings, domain))
        return output

    def described(self, name: str, step: float, zero: int) -> _Bytes:
        value = _Bytes(name, np.float32(step), zero)
        self.keep(f"{name}.step", value.step, np.float32)
        self.keep(f"{name}.zero", zero, np.uint8)
        return value

    def of_stream(self, name: str, spread: float) -> _Bytes:
        """A value of the stream, whose widest channel has this spread."""
        return self.described(name, DEVIATIONS * spread / 127, 128)

    def convolution(self, last: str, layer: _FoldedLayer, is_bounded: bool = True) -> str:
        """A layer computed in float32."""
        kernel = self.keep(f"{layer.name}.weight", layer.kernel, np.float32)
        bias = self.keep(f"{layer.name}.bias", layer.bias, np.float32)
        last = self.add("Conv", [last, kernel, bias], f"{layer.name}.out", **_settings(layer))
        return self.add("Clip", [last, "0", "6"], f"{layer.name}.bounded") if is_bounded else last

    def to_bytes(self, last: str, spread: float) -> _Bytes:
        value = self.of_stream(f"{last}.bytes", spread)
        self.add("QuantizeLinear", [last, *value.described], value.name)
        return value

    def block(self, before: _Bytes, block: _Block) -> _Bytes:
        expand, depthwise, project = block.expand, block.depthwise, block.project
        assert expand is not None, "only the first block may be without expansion"
        last = self.bounded(before, expand, np.zeros(expand.kernel.shape[1]))
        last = self.bounded(last, depthwise, mean_of_bounded(expand.mean, expand.spread))
        output = self.of_stream(f"{project.name}.out", float(project.spread.max()))
        last = self.whole(last, project, mean_of_bounded(depthwise.mean, depthwise.spread), output)
        if not block.is_added:
            return last
        total = self.of_stream(f"{project.name}.sum", block.spread)
        inputs = [*before.inputs, *last.inputs, *total.described]
        self.add("QLinearAdd", inputs, total.name, domain=MICROSOFT)
        return total

    def bounded(self, last: _Bytes, layer: _FoldedLayer, mean_input: Array) -> _Bytes:
        """A layer whose outputs are kept between 0 and 6, as the bytes 0 and 255."""
        return self.whole(last, layer, mean_input, self.described(f"{layer.name}.out", SIX / 255, 0))

    def whole(self, last: _Bytes, layer: _FoldedLayer, mean_input: Array, output: _Bytes) -> _Bytes:
        """A layer computed in whole numbers. `mean_input` is the mean of each input channel."""
        name, step = layer.name, float(last.step)
        weights, steps = whole_weights(layer.kernel, abs(layer.bias) / (step * 2**30))
        moved = (weights * steps.astype(np.float64)[:, None, None, None] - layer.kernel).sum(axis=(2, 3))
        moved = moved[:, 0] * mean_input if layer.is_depthwise else moved @ mean_input
        bias = np.rint((layer.bias - moved) / (step * steps.astype(np.float64)))
        inputs = [
            *last.inputs,
            self.keep(f"{name}.weight", weights, np.int8),
            self.keep(f"{name}.weight.steps", steps, np.float32),
            self.keep(f"{name}.weight.zeros", np.zeros(len(steps)), np.int8),
            *output.described,
            self.keep(f"{name}.bias", bias, np.int32),
        ]
        self.add("QLinearConv", inputs, output.name, **_settings(layer))
        return output

    def pool(self, last: _Bytes) -> None:
        """The embedding: the mean over height and width, in float32."""
        numbers = self.add("DequantizeLinear", last.inputs, f"{last.name}.float")
        self.add("Flatten", [self.add("GlobalAveragePool", [numbers], "pooled")], "embedding")

    def content(self, n_features: int) -> bytes:
        """The ONNX file."""
        return onnx_bytes.network(
            "int8",
            self.nodes,
            self.constants,
            [onnx_bytes.floats("image", ["n", 3, "height", "width"])],
            [onnx_bytes.floats("embedding", ["n", n_features])],
            {"": OPSET, MICROSOFT: 1},
        )


def _settings(layer: _FoldedLayer) -> dict[str, Any]:
    return {
        "kernel_shape": layer.kernel.shape[2:],
        "strides": [layer.stride, layer.stride],
        "group": len(layer.kernel) if layer.is_depthwise else 1,
        "auto_pad": "SAME_UPPER",
    }
