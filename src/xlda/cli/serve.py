"""`xlda serve`."""

from __future__ import annotations

import inspect
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from xlda._internal.extras import needs
from xlda.cli.console import say

OTHERS = {"XLDA_SERVER", "XLDA_TOKEN", "XLDA_DATA", "XLDA_FAULT"}  # variables that are no options of this
AUTO = "auto"


def serve(
    model: Annotated[
        Path,
        typer.Argument(
            help="Model file; a new one where there is none.", envvar="XLDA_MODEL", show_default=False
        ),
    ],
    host: Annotated[str, typer.Option(help="Address to listen at.", envvar="XLDA_HOST")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any.", envvar="XLDA_PORT")] = 8765,
    tls: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="CERT KEY",
            help="Files of a certificate and its key, for https; or `auto`, for an authority of its own.",
            envvar="XLDA_TLS",
            show_default=False,
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="Tokens that are asked for, as `xlda token add` writes them.",
            envvar="XLDA_TOKEN_FILE",
            show_default=False,
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="A host name that it is reached by; may be given again.",
            envvar="XLDA_ALLOW_HOST",
            show_default=False,
        ),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            help="Address of a proxy whose X-Forwarded headers count; may be given again.",
            envvar="XLDA_TRUSTED_PROXY",
            show_default=False,
        ),
    ] = None,
    base_path: Annotated[
        str,
        typer.Option(
            help="Where a proxy has it, as /shop, if not at the top.",
            envvar="XLDA_BASE_PATH",
            show_default=False,
        ),
    ] = "",
    backbone: Annotated[
        str | None,
        typer.Option(
            "--backbone",
            "-b",
            help="As for `xlda fit`; `none` for embeddings alone.",
            envvar="XLDA_BACKBONE",
            show_default=False,
        ),
    ] = None,
    photos: Annotated[
        bool, typer.Option(help="Keep small photos of what is taught.", envvar="XLDA_PHOTOS")
    ] = True,
    photos_limit: Annotated[
        float, typer.Option(min=0, help="Gigabytes that they may take.", envvar="XLDA_PHOTOS_LIMIT")
    ] = 4.0,
    review: Annotated[
        bool, typer.Option(help="Put unsure answers aside for a person to look at.", envvar="XLDA_REVIEW")
    ] = True,
    undo_days: Annotated[
        float, typer.Option(min=0, help="Days in which a change can be undone.", envvar="XLDA_UNDO_DAYS")
    ] = 90.0,
    body_limit: Annotated[
        float, typer.Option(min=0.001, help="Megabytes of a request.", envvar="XLDA_BODY_LIMIT")
    ] = 20.0,
    rate: Annotated[
        float, typer.Option(min=1, help="Requests a second of one client.", envvar="XLDA_RATE")
    ] = 5000.0,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Log as JSON.", envvar="XLDA_LOG_JSON")
    ] = False,
    reembed: Annotated[
        bool,
        typer.Option(
            "--reembed",
            help="Embed all kept photos by another backbone first; the old model is kept.",
            envvar="XLDA_REEMBED",
        ),
    ] = False,
) -> None:
    """Serve a model over HTTP: it predicts, learns while it serves, and loses nothing that it has confirmed.

    Every option is also an environment variable, as --undo-days is XLDA_UNDO_DAYS.

    $ xlda serve shop.xlda
    """
    _check_variables()
    is_auto = tls == (AUTO, AUTO)
    if is_auto and find_spec("cryptography") is None:
        raise needs("`--tls auto`", "cryptography", "tls")
    for package in ("fastapi", "uvicorn"):  # which are imported later, beside the reading of the model
        if find_spec(package) is None:
            raise needs("`xlda serve`", package, "serve")
    try:
        from xlda.service.engine import Keeping
        from xlda.service.server import Settings
        from xlda.service.server import serve as run
        from xlda.service.service import Limits
    except ImportError as error:
        raise needs("`xlda serve`", str(error.name), "serve") from None
    settings = Settings(
        model=model,
        host=host,
        port=port,
        tls_auto=is_auto,
        tls=None if tls is None or is_auto else (_file(tls[0], "--tls"), _file(tls[1], "--tls")),
        token_file=token_file,
        allow_hosts=tuple(allow_host or ()),
        trusted_proxies=tuple(trusted_proxy or ()),
        base_path=_path(base_path),
        backbone=backbone,
        keeping=Keeping(photos, int(photos_limit * 1e9), review, undo_days),
        limits=Limits(body=int(body_limit * 1e6), rate=rate),
        log_json=log_json,
    )
    if reembed:
        from xlda.service.reembedding import reembed as embed_again

        embed_again(model, backbone, settings.keeping, _say_now)
    run(settings, _say_now)
    sys.stderr.flush()
    os._exit(0)  # all is on disk; threads that still compute could hold up the end of the interpreter


def _say_now(text: str) -> None:
    """A line that is seen at once, also in a file or a journal: what says it may run for months."""
    say(text)
    sys.stdout.flush()


def _file(name: str, option: str) -> Path:
    if not Path(name).is_file():
        raise typer.BadParameter(f"{option}: there is no file {name}.")
    return Path(name)


def _path(text: str) -> str:
    if text and not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+/?", text):
        raise typer.BadParameter(f"--base-path is like /shop; got {text!r}.")
    return text.rstrip("/")


def _check_variables() -> None:
    """Refuse a variable that nobody would look at: it was meant to say something."""
    options = (f"XLDA_{name.upper()}" for name in inspect.signature(serve).parameters)
    known = OTHERS.union(options)
    for name in os.environ:
        if name.startswith("XLDA_") and name not in known:
            raise typer.BadParameter(f"The environment variable {name} is not an option of xlda.")
