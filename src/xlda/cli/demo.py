"""`xlda demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from xlda.cli import options
from xlda.cli.console import note, say, say_json


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the report and the model.")] = Path(
        "demo"
    ),
    classes: Annotated[int, typer.Option("--classes", "-n", min=6, help="Characters to learn.")] = 300,
    train: Annotated[int, typer.Option("--train", min=2, help="Images of each to learn from.")] = 6,
    test: Annotated[int, typer.Option("--test", min=1, help="Images of each to test on.")] = 2,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same figures.")] = 0,
    json: options.Json = False,
) -> None:
    """Learn characters one class after the other, and write a page about it.

    $ xlda demo
    """
    from xlda.demo import run_demo

    result = run_demo(out, n_classes=classes, per_class=(train, test), seed=seed, show=note if json else say)
    if json:
        say_json(result)
