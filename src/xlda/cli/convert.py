"""`xlda convert`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import xlda
from xlda.cli import options
from xlda.cli.console import say, say_json
from xlda.cli.models import DEFAULT, named_backbone, refuse_existing
from xlda.cli.samples import Input, for_new_model

if TYPE_CHECKING:
    from xlda.arrays import Array
    from xlda.convert import Layer


class Covariance(StrEnum):
    """How the layer's rows are understood."""

    auto = "auto"
    identity = "identity"
    weights = "weights"


def convert(
    layer: Annotated[
        str,
        typer.Argument(
            help="Where the layer is: a network or layer in an .onnx file, tensors in a .safetensors or .npz "
            "file, or efficientnet-lite0 for its 1,000 classes of ImageNet.",
            show_default=False,
        ),
    ],
    out: options.Out,
    samples: Annotated[
        list[str] | None,
        typer.Option(
            "--samples",
            "-s",
            help="Photos or embeddings of the layer's classes; labels are not needed. A few of each class.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels", help="Text file with the label of each row, a line each.", show_default=False
        ),
    ] = None,
    weight: Annotated[
        str | None, typer.Option("--weight", help="Name of the weight among tensors.", show_default=False)
    ] = None,
    bias: Annotated[
        str | None, typer.Option("--bias", help="Name of the bias among tensors.", show_default=False)
    ] = None,
    covariance: Annotated[
        Covariance, typer.Option("--covariance", help="identity and weights are the paper's, to compare.")
    ] = Covariance.auto,
    power: Annotated[
        float | None, typer.Option("--power", help="Signed power; the layer then only labels the samples.")
    ] = None,
    backbone: options.BackboneName = None,
    size: options.Size = None,
    cut_head: options.CutHead = False,
    on_error: options.Skip = options.OnError.stop,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Turn a fully connected layer into a model that goes on learning.

    $ xlda convert network.onnx --backbone network.onnx --cut-head --samples photos/ --out shop.xlda
    $ xlda convert head.safetensors --labels names.txt --samples photos.parquet --out shop.xlda
    """
    refuse_existing(out, overwrite)
    names = None if labels is None else labels.read_text(encoding="utf-8").splitlines()
    rows = _layer(layer, weight, bias, names)
    backbone = DEFAULT if backbone is None and layer == DEFAULT else backbone
    given = None if not samples else for_new_model(samples, backbone, size, cut_head, on_error)
    embeddings = None if given is None else _all_of(given)
    clf = xlda.XLDA.from_linear(
        rows.weight,
        rows.bias,
        labels=rows.labels,
        covariance=covariance.value,
        embeddings=embeddings,
        power=power,
    )
    if given is not None:
        clf.backbone_ = given.info
    elif backbone is not None:
        network = named_backbone(backbone, size, cut_head)
        if network.n_features != rows.weight.shape[1]:
            raise ValueError(
                f"The layer takes {rows.weight.shape[1]} features; {network.name} gives {network.n_features}."
            )
        clf.backbone_ = network.info
    clf.save(out)
    n = 0 if embeddings is None else len(embeddings)
    if json:
        say_json({"out": str(out), "classes": len(rows.labels), "samples": n})
    else:
        say(f"{out}: {len(rows.labels):,} classes of the layer, with {n:,} samples")


def _layer(where: str, weight: str | None, bias: str | None, labels: list[str] | None) -> Layer:
    if where == DEFAULT:
        from xlda.backbones import classifier_layer

        layer = classifier_layer()
        return layer if labels is None else layer._replace(labels=list(labels))
    if Path(where).suffix == ".onnx":
        from xlda.extras import onnx

        return onnx.read_layer(where, labels)
    from xlda.extras import tensors

    return tensors.read_layer(where, weight, bias, labels)


def _all_of(given: Input) -> Array:
    import numpy as np

    return np.concatenate([batch.embeddings for batch in given.batches("reading")])
