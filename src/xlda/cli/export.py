"""`xlda export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import xlda
from xlda.cli import options
from xlda.cli.console import say, say_json
from xlda.cli.models import refuse_existing


def export(
    model: options.ModelFile,
    out: Annotated[Path, typer.Argument(help=".onnx, .safetensors or .npz file.", show_default=False)],
    top_k: Annotated[
        int | None,
        typer.Option(
            "--top-k", min=1, help="ONNX: give the best so many, not all logits.", show_default=False
        ),
    ] = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Write a model as the equal fully connected layer, with its labels.

    $ xlda export shop.xlda shop.onnx --top-k 5
    """
    refuse_existing(out, overwrite)
    suffix = out.suffix.lower()
    if suffix not in (".onnx", ".safetensors", ".npz"):
        raise typer.BadParameter(f"{out} is neither .onnx nor .safetensors nor .npz.")
    if top_k is not None and suffix != ".onnx":
        raise typer.BadParameter("--top-k is for .onnx files.")
    clf = xlda.load(model)
    if suffix == ".onnx":
        from xlda.extras import onnx

        onnx.write(clf, out, top_k)
    else:
        from xlda.extras import tensors

        tensors.write_layer(clf, out)
    result = {"out": str(out), "classes": len(clf.classes_), "features": clf.n_features_in_}
    if json:
        say_json(result)
    else:
        say(f"{out}: {len(clf.classes_):,} classes, {clf.n_features_in_:,} features")
