"""`xlda glyphs`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from xlda.cli import options
from xlda.cli.console import progress_bar, say, say_json


def glyphs(
    out: Annotated[Path, typer.Argument(help="Folder to write `train` and `test` in.", show_default=False)],
    classes: Annotated[int, typer.Option("--classes", "-n", min=1, help="Characters.")] = 200,
    train: Annotated[int, typer.Option("--train", min=1, help="Training images of each.")] = 6,
    test: Annotated[int, typer.Option("--test", min=0, help="Test images of each.")] = 2,
    fonts: Annotated[
        list[str] | None,
        typer.Option("--fonts", help="`system`, font files or folders; default: matplotlib's fonts."),
    ] = None,
    min_fonts: Annotated[int, typer.Option("--min-fonts", min=1, help="Fonts that must have it.")] = 3,
    holdout: Annotated[
        str,
        typer.Option("--holdout", help="Test images: rendering, new ones; or font, one never trained on."),
    ] = "rendering",
    size: Annotated[int, typer.Option("--size", min=16, help="Pixels a side.")] = 96,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same images.")] = 0,
    json: options.Json = False,
) -> None:
    """Draw characters of the fonts on this machine: an image data set with a folder for each class.

    $ xlda glyphs characters --classes 300
    """
    from xlda.glyphs import find_glyphs

    for split in ("train", "test"):
        if (out / split).exists():
            raise FileExistsError(f"{out / split} is there already. Choose another folder.")
    where = "default" if not fonts else fonts[0] if fonts == ["system"] else fonts
    found = find_glyphs(where, min_fonts=min_fonts, n_classes=classes, seed=seed)
    how: dict[str, Any] = {"holdout": holdout, "seed": seed}  # which the library checks
    splits: dict[Literal["train", "test"], int] = {"train": train, "test": test}
    with progress_bar("drawing", classes * (train + test)) as advance:
        for split, per_class in splits.items():
            samples = found.samples(split, per_class, **how) if per_class else []
            for start in range(0, len(samples), per_class or 1):
                found.write_folder(out / split, samples[start : start + per_class], size)
                advance(per_class)
    result = {"out": str(out), "classes": len(found), "fonts": len(found.fonts)}
    if json:
        say_json({**result, "train": len(found) * train, "test": len(found) * test})
    else:
        say(
            f"{out}: {len(found):,} characters of {len(found.fonts):,} fonts, "
            f"{len(found) * train:,} training and {len(found) * test:,} test images"
        )
