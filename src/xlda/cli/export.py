"""`xlda export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import xlda
from xlda.cli import options
from xlda.cli.console import say, say_json
from xlda.cli.models import opened, refuse_existing

if TYPE_CHECKING:
    from xlda.classifier import XLDA


def export(
    model: options.ModelFile,
    out: Annotated[Path, typer.Argument(help=".onnx, .safetensors or .npz file.", show_default=False)],
    with_backbone: Annotated[
        bool,
        typer.Option(
            "--with-backbone", help="ONNX: from pixels to labels, by the network and the model in one file."
        ),
    ] = False,
    top_k: Annotated[
        int | None,
        typer.Option(
            "--top-k",
            min=1,
            help="ONNX: give the best so many, not all logits; with the backbone, 5 unless said.",
            show_default=False,
        ),
    ] = None,
    backbone: options.OwnBackbone = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Write a model as the equal fully connected layer, with its labels; or with its backbone, as one file.

    $ xlda export shop.xlda shop.onnx --top-k 5
    $ xlda export shop.xlda shop.onnx --with-backbone
    """
    refuse_existing(out, overwrite)
    suffix = out.suffix.lower()
    if suffix not in (".onnx", ".safetensors", ".npz"):
        raise typer.BadParameter(f"{out} is neither .onnx nor .safetensors nor .npz.")
    for name, given in (("--top-k", top_k is not None), ("--with-backbone", with_backbone)):
        if given and suffix != ".onnx":
            raise typer.BadParameter(f"{name} is for .onnx files.")
    if backbone is not None and not with_backbone:
        raise typer.BadParameter("--backbone goes with --with-backbone.")
    if with_backbone:
        written = opened(model, backbone).export(out, top_k)
        result = {"out": str(out), **written}
        said = (
            f"{out}: {written['classes']:,} classes, pixels of {written['size']} x {written['size']}, "
            f"{written['bytes'] / 1e6:.1f} MB; it answers as the model does"
        )
    else:
        clf = xlda.load(model)
        _write_head(clf, out, top_k)
        result = {"out": str(out), "classes": len(clf.classes_), "features": clf.n_features_in_}
        said = f"{out}: {len(clf.classes_):,} classes, {clf.n_features_in_:,} features"
    if json:
        say_json(result)
    else:
        say(said)


def _write_head(clf: XLDA, out: Path, top_k: int | None) -> None:
    """The head alone, in the format that the name of the file says."""
    if out.suffix.lower() == ".onnx":
        from xlda.extras import onnx

        onnx.write(clf, out, top_k)
    else:
        from xlda.extras import tensors

        tensors.write_layer(clf, out)
