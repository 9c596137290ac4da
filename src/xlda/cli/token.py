"""`xlda token`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from xlda.cli import options
from xlda.cli.console import note, say, say_json, say_table
from xlda.service.tokens import SCOPES, Tokens


def token(
    action: Annotated[
        Literal["add", "list", "remove"], typer.Argument(help="What to do.", show_default=False)
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            help="Name of the token to add or remove: letters, digits, `.`, `_` and `-`.", show_default=False
        ),
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            help="What a new one allows: read, which is to predict and to look; teach, which is also to "
            "change; admin, which is all but sync; sync, for a fleet. May be given again.",
            show_default=False,
        ),
    ] = None,
    token_file: Annotated[Path, typer.Option("--token-file", help="File of tokens.")] = Path("tokens.json"),
    json: options.Json = False,
) -> None:
    """Add, list or remove the tokens of a service.

    A new token is printed once: the file has its hash alone.

    $ xlda token add till --scope teach
    $ xlda token list
    $ xlda token remove till
    """
    if (name is None) is not (action == "list"):
        raise typer.BadParameter(f"`xlda token {action}` needs {'no' if action == 'list' else 'a'} name.")
    if (not scope) is (action == "add"):
        raise typer.BadParameter(
            "--scope says what a new token allows: give it to `add`, and to nothing else."
        )
    for one in scope or ():
        if one not in SCOPES:
            raise typer.BadParameter(f"--scope is one of {', '.join(SCOPES)}; got {one!r}.")
    if action == "add" and name is not None:
        known = Tokens.read(token_file) if token_file.exists() else Tokens()
        tokens, text = known.with_new(name, list(scope or ()))
        tokens.write(token_file)
        note(f"{token_file}: added {name}. This is the only time that its token is shown:")
        say_json({"name": name, "scopes": scope, "token": text}) if json else say(text)
    elif action == "remove" and name is not None:
        Tokens.read(token_file).without(name).write(token_file)
        say_json({"removed": name}) if json else say(f"{token_file}: removed {name}")
    else:
        listed = Tokens.read(token_file)
        found = [{"name": one.name, "scopes": list(one.scopes), "created": one.created} for one in listed]
        if json:
            say_json(found)
        else:
            rows = [(one.name, ", ".join(one.scopes), one.created) for one in listed]
            say_table(("name", "scopes", "created"), rows)
