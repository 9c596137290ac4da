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
    without_second_look: Annotated[
        bool,
        typer.Option(
            "--without-second-look",
            help="Leave the model's second look out, which no graph or layer can have: answers differ then.",
        ),
    ] = False,
    backbone: options.OwnBackbone = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Write a model as the equal fully connected layer, with its labels; or with its backbone, as one file.

    $ xlda export shop.xlda shop.onnx --top-k 5
    $ xlda export shop.xlda shop.onnx --with-backbone
    $ xlda export shop.xlda shop.onnx --without-second-look
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
        shop = opened(model, backbone)
        _check_second_look(shop.classifier, without_second_look)
        written = shop.export(out, top_k)
        result = {"out": str(out), **written}
        how = "as the model does without its second look" if without_second_look else "as the model does"
        said = (
            f"{out}: {written['classes']:,} classes, pixels of {written['size']} x {written['size']}, "
            f"{written['bytes'] / 1e6:.1f} MB; it answers {how}"
        )
    else:
        clf = xlda.load(model)
        _check_second_look(clf, without_second_look)
        _write_head(clf, out, top_k)
        result = {"out": str(out), "classes": len(clf.classes_), "features": clf.n_features_in_}
        said = f"{out}: {len(clf.classes_):,} classes, {clf.n_features_in_:,} features"
    if json:
        say_json(result)
    else:
        say(said)


def _check_second_look(clf: XLDA, leave_out: bool) -> None:
    """Leave a second look out, where that was asked for; refuse one otherwise."""
    if leave_out:
        clf.second_look = None
    elif clf.second_look is not None:
        raise typer.BadParameter(
            f"no graph or layer can have second_look={clf.second_look}; --without-second-look leaves it out."
        )


def _write_head(clf: XLDA, out: Path, top_k: int | None) -> None:
    """The head alone, in the format that the name of the file says."""
    if out.suffix.lower() == ".onnx":
        from xlda.extras import onnx

        onnx.write(clf, out, top_k)
    else:
        from xlda.extras import tensors

        tensors.write_layer(clf, out)
