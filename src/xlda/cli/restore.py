"""`xlda restore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from xlda._internal.extras import needs
from xlda.cli import options
from xlda.cli.console import say


def restore(
    file: Annotated[Path, typer.Argument(help="What `xlda backup` wrote.", show_default=False)],
    out: options.Out,
) -> None:
    """Put a backup of a service into place: the model file, and the folder of its service beside it.

    Nothing that is there is replaced. `xlda serve` then goes on from there.

    $ xlda restore shop-backup.zip --out shop.xlda
    """
    try:
        from xlda.service.backup import restore as put_back
    except ImportError as error:
        raise needs("`xlda restore`", str(error.name), "serve") from None
    seq = put_back(file, out)
    say(f"{out}: restored up to event {seq}")
