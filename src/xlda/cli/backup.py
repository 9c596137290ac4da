"""`xlda backup`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from xlda.cli import options
from xlda.cli.console import say, say_json
from xlda.cli.served import Service


def backup(
    file: Annotated[Path, typer.Argument(help="File to write; one that is there is replaced.")],
    server: Annotated[
        str, typer.Option("--server", help="Address of the service.")
    ] = "http://127.0.0.1:8765",
    token_from: options.TokenFrom = None,
    json: options.Json = False,
) -> None:
    """Write the model of a service, and its log, to one file, while it goes on serving.

    The file is as of one moment, and written whole, or not at all.

    $ xlda backup shop-monday.xlda
    """
    with Service(server, token_from).client() as client:
        client.export(file)
    n_bytes = file.stat().st_size
    if json:
        say_json({"file": str(file), "server": server, "bytes": n_bytes})
    else:
        say(f"{file}: {n_bytes:,} bytes from {server}")
