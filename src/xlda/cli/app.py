"""The commands together, and what becomes of their errors."""

from __future__ import annotations

import inspect
import os
import sys
import traceback
import warnings
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any, TextIO

import typer

import xlda
from xlda.cli.console import note, say
from xlda.errors import XLDAError

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130  # exit codes, as shells have them
USAGE_ERROR: Any = typer.BadParameter.__base__  # click's, wherever typer keeps it
IN_OPTIONS = {  # what the library calls it, and what the command does
    "overwrite=True": "--overwrite",
    'on_error="skip"': "--on-error skip",
    ", or allow it with max_pixels": "",
    'fonts="system"': "--fonts system",
    "min_fonts": "--min-fonts",
    "with backbone=": "with --backbone",
    "Call fit or partial_fit first.": "Use `xlda learn` first.",
    "Use merge_classes to join two classes.": "`xlda merge-classes` makes one of two.",
    "merge_classes needs two classes;": "merge-classes needs two classes;",
}
COMMANDS = {  # in the order of --help, and where each is: only what is asked for is imported
    "serve": "xlda.cli.serve",
    "embed": "xlda.cli.embed",
    "fit": "xlda.cli.fit",
    "learn": "xlda.cli.learn",
    "predict": "xlda.cli.predict",
    "evaluate": "xlda.cli.evaluate",
    "convert": "xlda.cli.convert",
    "export": "xlda.cli.export",
    "inspect": "xlda.cli.inspect",
    "merge": "xlda.cli.merge",
    "forget": "xlda.cli.forget",
    "classes": "xlda.cli.classes",
    "rename": "xlda.cli.rename",
    "merge-classes": "xlda.cli.merge_classes",
    "remove": "xlda.cli.remove",
    "backup": "xlda.cli.backup",
    "restore": "xlda.cli.restore",
    "token": "xlda.cli.token",
    "sync": "xlda.cli.sync",
    "glyphs": "xlda.cli.glyphs",
    "demo": "xlda.cli.demo",
}


def app(*names: str) -> typer.Typer:
    """The command with these of its commands, or with all of them."""
    made = typer.Typer(
        name="xlda",
        help="A classifier that learns new classes for ever, from photos or embeddings.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 130 Ctrl-C.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    made.callback(invoke_without_command=True)(settings)
    for name in names or COMMANDS:
        command = getattr(import_module(COMMANDS[name]), name.replace("-", "_"))
        made.command(help=_help(command.__doc__ or ""))(command)
    return made


def _help(docstring: str) -> str:
    """A docstring as click wants it: examples are marked, and so keep their lines."""
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return "\n\n".join(f"\b\n{text}" if text.startswith("$") else text for text in paragraphs)


def settings(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    """Options of the command itself; `--debug` may stand anywhere."""
    if version:
        say(f"xlda {xlda.__version__}")
        raise typer.Exit


def run(arguments: list[str]) -> int:
    """Run a command and give its exit code: 0, 1 where it failed, 2 for wrong usage, 130 for Ctrl-C."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # whatever the terminal cannot show
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = _show_warning
            made = app(*_asked_for(arguments))
            result = made(_one_auto(arguments), prog_name="xlda", standalone_mode=False)
        if result == INTERRUPTED:  # typer's way to say it
            raise KeyboardInterrupt
        return result if isinstance(result, int) else 0
    except KeyboardInterrupt:
        note("xlda: interrupted.")
        return INTERRUPTED
    except Exception as error:
        if debug:
            for line in traceback.format_exc().splitlines():
                note(line)
        return _failed(error)


def _asked_for(arguments: list[str]) -> list[str]:
    """The command that is named first, if it is one: the options before it take no values."""
    first = [argument for argument in arguments if not argument.startswith("-")][:1]
    return [name for name in first if name in COMMANDS]


def _one_auto(arguments: list[str]) -> list[str]:
    """`--tls auto` is one word where `--tls CERT KEY` is two: it is said twice."""
    places = [
        place
        for place, word in enumerate(arguments[:-1])
        if word == "--tls" and arguments[place + 1] == "auto"
    ]
    for place in reversed(places):
        arguments = [*arguments[: place + 1], "auto", *arguments[place + 1 :]]
    if os.environ.get("XLDA_TLS", "").strip() == "auto":
        os.environ["XLDA_TLS"] = "auto auto"
    return arguments


def _failed(error: Exception) -> int:
    """Say what went wrong, in a line, and give the exit code."""
    if isinstance(error, USAGE_ERROR):
        usage = str(error.format_message())
        for line in usage.splitlines() if usage.startswith("Usage") else [f"xlda: {usage}"]:
            note(line)
        return WRONG_USAGE
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on
        return FAILED
    note(f"xlda: {_sentence(error)}")
    return FAILED


def _sentence(error: Exception) -> str:
    """An error as one line."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    text = " ".join(str(error).split())
    for words, option in IN_OPTIONS.items():
        text = text.replace(words, option)
    expected = isinstance(error, XLDAError | ValueError | OSError | ImportError | MemoryError | RuntimeError)
    return text if expected and text else f"{type(error).__name__}: {text} (--debug shows where)"


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    note(f"xlda: warning: {message}")
