"""`xlda backup`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from xlda.cli import options
from xlda.cli.console import say, say_json
from xlda.cli.served import RemoteService

ZIP = b"PK\3\4"


def backup(
    file: Annotated[Path, typer.Argument(help="File to write; a backup that is there is replaced.")],
    server: Annotated[
        str, typer.Option("--server", help="Address of the service.")
    ] = "http://127.0.0.1:8765",
    token_from: options.TokenFrom = None,
    json: options.Json = False,
) -> None:
    """Write the model of a service, its log and its photos to one zip file, while it goes on serving.

    The file is as of one moment, and written whole, or not at all. `xlda restore` puts it into place.

    $ xlda backup shop-monday.zip
    """
    if file.is_file() and not _begins_as_zip(file):
        raise FileExistsError(
            f"{file} is there and is no backup, so it is not replaced. Choose another name."
        )
    with RemoteService(server, token_from).client() as client:
        client.export(file)
    n_bytes = file.stat().st_size
    if json:
        say_json({"file": str(file), "server": server, "bytes": n_bytes})
    else:
        say(f"{file}: {n_bytes:,} bytes from {server}")


def _begins_as_zip(file: Path) -> bool:
    with file.open("rb") as content:
        return content.read(len(ZIP)) == ZIP
