"""`xlda embed`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from xlda._internal.built_in import DEFAULT_BACKBONE
from xlda.cli import options
from xlda.cli.console import note, progress_bar, say, say_json
from xlda.cli.models import named_backbone
from xlda.cli.places import found_photos

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from xlda.photos.finding import Photo
    from xlda.photos.parquet import Summary


def embed(
    where: Annotated[
        list[str],
        typer.Argument(
            help="Photos: a folder with a folder for each class, a list of `path, label` lines, a pattern or "
            "single files.",
            show_default=False,
        ),
    ],
    out: options.Out,
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset",
            help="The folder is that of a known data set: aliproducts, birds, grocery, grocery-val, "
            "imagenet, inaturalist, inaturalist-mini or landmarks.",
            show_default=False,
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            help="Which photos of the data set, train or test; train by default.",
            show_default=False,
        ),
    ] = None,
    backbone: options.BackboneName = None,
    size: options.Size = None,
    views: options.Views = None,
    cut_head: options.CutHead = False,
    on_error: options.Skip = "stop",
    half: Annotated[bool, typer.Option("--half", help="Store float16: half the size, three digits.")] = False,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Photos at a time.")] = 32,
    overwrite: options.Overwrite = False,
    ray: options.Ray = None,
    json: options.Json = False,
) -> None:
    """Embed photos once, into a Parquet file with their labels and paths.

    What was interrupted goes on where it stopped when the same command is given again. With --ray, all
    machines of a cluster share the work, and --out is a folder of such files, which all of them see.

    $ xlda embed photos/ --out photos.parquet
    $ xlda embed photos/ --out embeddings/ --ray auto
    $ xlda embed CUB_200_2011 --dataset birds --split test --out test.parquet
    """
    from xlda.photos.parquet import embed_to_parquet

    if dataset is None and split is not None:
        raise typer.BadParameter("--split goes with --dataset.")
    photos = found_photos(where, on_error) if dataset is None else _known(dataset, where, split)
    if ray is not None:
        from xlda.extras.ray import connect
        from xlda.extras.ray import embed as embed_on_ray

        connect(ray)
        given = {"size": size, "views": views, "cut_head": cut_head or None}
        with progress_bar("embedding", len(photos)) as advance:
            summary = embed_on_ray(
                list(photos),
                out,
                backbone=backbone or DEFAULT_BACKBONE,
                on_error=on_error,
                half=half,
                overwrite=overwrite,
                progress=advance,
                **{name: value for name, value in given.items() if value is not None},
            )
        _tell(summary, out, backbone or DEFAULT_BACKBONE, json)
        return
    network = named_backbone(backbone, size, cut_head, views)
    with progress_bar("embedding", len(photos)) as advance:
        summary = embed_to_parquet(
            photos,
            network,
            out,
            backbone=network.identity,
            on_error=on_error,
            batch_size=batch_size,
            dtype="float16" if half else "float32",
            overwrite=overwrite,
            progress=advance,
        )
    _tell(summary, out, network.name, json)


def _tell(summary: Summary, out: Path, name: str, json: bool) -> None:
    """Say what was done."""
    for _, reason in summary.skipped:
        note(f"skipped: {reason}")
    n = summary.n_embedded + summary.n_resumed
    if json:
        skipped = [{"path": str(photo.path), "reason": reason} for photo, reason in summary.skipped]
        counts = {"photos": n, "embedded": summary.n_embedded, "resumed": summary.n_resumed}
        say_json({"out": str(out), **counts, "skipped": skipped})
    else:
        resumed = f", {summary.n_resumed:,} of them before" if summary.n_resumed else ""
        skipped_too = f"; {len(summary.skipped):,} skipped" if summary.skipped else ""
        say(f"{out}: {n:,} photos embedded by {name}{resumed}{skipped_too}")


def _known(dataset: str, where: list[str], split: str | None) -> Sequence[Photo]:
    from xlda import datasets

    if len(where) != 1:
        raise typer.BadParameter("--dataset goes with one folder.")
    found = datasets.load(dataset, where[0])
    parts: dict[str, Sequence[Photo]] = {"train": found.train, "test": found.test}
    if split is not None and split not in parts:
        raise typer.BadParameter(f"--split is one of {', '.join(parts)}; got {split!r}.")
    return parts[split or "train"]
