"""`xlda convert`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import xlda
from xlda._internal.built_in import BUILT_IN
from xlda.cli import options
from xlda.cli.console import counted, say, say_json
from xlda.cli.models import n_samples, named_backbone, refuse_existing, written
from xlda.cli.samples import (
    Input,
    InputSource,
    are_embeddings,
    from_files,
    from_photos,
    with_files_of_folders,
)

if TYPE_CHECKING:
    from xlda.backbones import Backbone
    from xlda.layers.layer import Layer
    from xlda.photos.embedding import OnError


def convert(
    layer: Annotated[
        str,
        typer.Argument(
            help="Where the layer is: a network or layer in an .onnx file, tensors in a .safetensors or .npz "
            "file, or efficientnet-lite0, -lite1 or -lite2 for its 1,000 classes of ImageNet, labelled 0 to "
            "999.",
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
    assume: Annotated[
        str,
        typer.Option(
            "--assume",
            help="auto; or identity or weights, ways of the XLDA paper, which forget, to compare.",
        ),
    ] = "auto",
    power: Annotated[
        float | None, typer.Option("--power", help="Signed power; the layer then only labels the samples.")
    ] = None,
    backbone: options.BackboneName = None,
    size: options.Size = None,
    views: options.Views = None,
    cut_head: options.CutHead = False,
    on_error: options.Skip = "stop",
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Turn a fully connected layer into a model that goes on learning.

    $ xlda convert network.onnx --labels names.txt --samples photos/ --out shop.xlda
    $ xlda convert head.safetensors --labels names.txt --samples photos.parquet --out shop.xlda
    """
    refuse_existing(out, overwrite)
    rows = _layer(layer, weight, bias, None if labels is None else _lines(labels))
    if backbone is None and layer in BUILT_IN:
        backbone = layer
    elif backbone is None and _takes_photos(layer):
        backbone, cut_head = layer, True
    elif layer in BUILT_IN and backbone in BUILT_IN and backbone != layer:
        raise typer.BadParameter(f"the layer of {layer} is for no embeddings of {backbone}.")
    if backbone is None and (size is not None or views is not None or cut_head):
        raise typer.BadParameter("--size, --views and --cut-head go with --backbone.")
    network = None if backbone is None else named_backbone(backbone, size, cut_head, views)
    if network is not None and network.n_features != rows.weight.shape[1]:
        raise ValueError(
            f"The layer takes {rows.weight.shape[1]} features; {network.name} gives {network.n_features}."
        )
    given = None if not samples else _given(samples, network, on_error)
    clf = xlda.XLDA.from_linear(
        rows.weight,
        rows.bias,
        labels=rows.labels,
        assume=assume,
        embeddings=None if given is None else InputSource(given, "reading"),
        power=power,
    )
    clf.backbone_ = network.identity if network is not None else None if given is None else given.identity
    with written(out, overwrite):
        clf.save(out)
    if json:
        say_json({"out": str(out), "classes": len(rows.labels), "samples": n_samples(clf)})
    else:
        with_samples = f"with {counted(n_samples(clf), 'sample')}"
        say(f"{out}: {counted(len(rows.labels), 'class')} of the layer, {with_samples}")


def _given(where: list[str], network: Backbone | None, on_error: OnError) -> Input:
    where = with_files_of_folders(where)
    if are_embeddings(where):
        found = from_files(where, None)
        if network is not None:
            network.identity.check_same(found.identity, "The layer")
        return found
    if network is None:
        raise typer.BadParameter("say with --backbone which network the layer is of, to give it photos.")
    return from_photos(where, network, on_error)


def _lines(path: Path) -> list[str]:
    """Labels in a file, a line each; blank ones at its end do not count."""
    return path.read_text(encoding="utf-8-sig").rstrip().splitlines()


def _takes_photos(where: str) -> bool:
    """Whether this is a network in an ONNX file whose input has four axes."""
    if Path(where).suffix.lower() != ".onnx":
        return False
    from xlda.layers.onnx_files import open_model

    graph = open_model(where).graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    return len(inputs) == 1 and len(inputs[0].type.tensor_type.shape.dim) == 4


def _layer(where: str, weight: str | None, bias: str | None, labels: list[str] | None) -> Layer:
    if where in BUILT_IN:
        from xlda.backbones import classifier_layer
        from xlda.layers.layer import checked_layer

        layer = classifier_layer(where)
        return layer if labels is None else checked_layer(layer.weight, layer.bias, labels)
    if Path(where).suffix.lower() == ".onnx":
        from xlda.extras import onnx

        return onnx.read_layer(where, labels)
    from xlda.extras import tensors

    return tensors.read_layer(where, weight, bias, labels)
