"""`xlda sync`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xlda._internal.extras import needs
from xlda.cli import options
from xlda.cli.console import say, say_json
from xlda.cli.served import RemoteService

if TYPE_CHECKING:
    from xlda.fleet.exchange import AnyHub


def sync(
    hub: Annotated[
        str, typer.Argument(help="Address of a service that is the hub, or its folder.", show_default=False)
    ],
    model: Annotated[
        Path | None,
        typer.Option("--model", help="Model file of a service that does not run.", show_default=False),
    ] = None,
    server: Annotated[
        str, typer.Option("--server", help="Address of the running service of this box.")
    ] = "http://127.0.0.1:8765",
    box: Annotated[
        str | None,
        typer.Option("--box", help="Name of this box in the fleet; needed once.", show_default=False),
    ] = None,
    min_count: Annotated[
        int | None,
        typer.Option(
            "--min-count",
            min=1,
            help="Keep classes at home until so many samples are new.",
            show_default=False,
        ),
    ] = None,
    rejoin: Annotated[
        bool,
        typer.Option(
            "--rejoin", help="Come back after having been forgotten, or take the place of a box of this name."
        ),
    ] = False,
    forget: Annotated[
        str | None,
        typer.Option("--forget", help="Take this box out of the hub, and sync nothing.", show_default=False),
    ] = None,
    token_from: options.TokenFrom = None,
    hub_token_from: Annotated[
        Path | None,
        typer.Option("--hub-token-from", help="File with the token for the hub.", show_default=False),
    ] = None,
    json: options.Json = False,
) -> None:
    """Bring what this box was taught to a hub, and take in what all others were taught.

    $ xlda sync http://hub:8765 --box bern
    $ xlda sync /mnt/share/fleet --model shop.xlda --box bern
    $ xlda sync http://hub:8765 --forget bern
    """
    token = None if hub_token_from is None else hub_token_from.read_text("utf-8").strip()
    if forget is not None:
        _hub(hub, token).forget(forget)  # type: ignore[attr-defined]
        say_json({"forgotten": forget}) if json else say(f"{hub}: {forget} is forgotten")
        return
    told = (
        _by_service(RemoteService(server, token_from), hub, box, min_count, rejoin, token)
        if model is None
        else _by_files(model, _hub(hub, token), box, min_count, rejoin)
    )
    if json:
        say_json(told)
    else:
        say(f"{told['box']}: knows what {told['boxes']} contributions have taught, as of event {told['seq']}")


def _hub(where: str, token: str | None) -> AnyHub:
    try:
        from xlda.service.fleet_sync import hub_at
    except ImportError as error:
        raise needs("`xlda sync`", str(error.name), "serve") from None
    return hub_at(where, token)


def _by_service(
    service: RemoteService, hub: str, box: str | None, min_count: int | None, rejoin: bool, token: str | None
) -> dict[str, Any]:
    if "://" not in hub and Path(hub).is_dir():
        hub = str(Path(hub).resolve())  # the service may be in another folder
    asked = {"hub": hub, "box": box, "min_count": min_count, "rejoin": rejoin, "token": token}
    try:
        from xlda.fleet.remote import ask_to_sync
    except ImportError as error:
        raise needs("`xlda sync`", str(error.name), "client") from None
    given = {name: value for name, value in asked.items() if value not in (None, False)}
    return ask_to_sync(service.url, service.token(), given)


def _by_files(
    model: Path, hub: AnyHub, box: str | None, min_count: int | None, rejoin: bool
) -> dict[str, Any]:
    from xlda.service.engine import Engine
    from xlda.service.fleet_sync import synced
    from xlda.service.problems import Problem

    if not model.exists():
        raise FileNotFoundError(f"There is no model {model}.")
    engine = Engine.open(model)
    engine.start()
    try:
        return synced(engine, hub, box, min_count, rejoin)
    except Problem as problem:
        raise ValueError(problem.detail) from problem
    finally:
        engine.close()
