"""The commands together, and what becomes of their errors."""

from __future__ import annotations

import inspect
import os
import sys
import traceback
import warnings
from io import TextIOWrapper
from typing import Annotated, TextIO

import typer

import xlda
from xlda.cli.console import note, say
from xlda.cli.convert import convert
from xlda.cli.demo import demo
from xlda.cli.embed import embed
from xlda.cli.evaluate import evaluate
from xlda.cli.export import export
from xlda.cli.fit import fit
from xlda.cli.forget import forget
from xlda.cli.glyphs import glyphs
from xlda.cli.inspect import inspect as inspect_command
from xlda.cli.learn import learn
from xlda.cli.merge import merge
from xlda.cli.predict import predict

INTERRUPTED = 130  # as typer has it
IN_OPTIONS = {  # what the library calls it, and what the command does
    "overwrite=True": "--overwrite",
    'on_error="skip"': "--on-error skip",
    ", or allow it with max_pixels": "",
    'fonts="system"': "--fonts system",
    "min_fonts": "--min-fonts",
    "Call fit or partial_fit first.": "Use `xlda learn` first.",
}
COMMANDS = (
    embed,
    fit,
    learn,
    predict,
    evaluate,
    convert,
    export,
    inspect_command,
    merge,
    forget,
    glyphs,
    demo,
)

app = typer.Typer(
    name="xlda",
    help="A classifier that learns new classes for ever, from photos or embeddings.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _help(docstring: str) -> str:
    """A docstring as click wants it: examples are marked, and so keep their lines."""
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return "\n\n".join(f"\b\n{text}" if text.startswith("$") else text for text in paragraphs)


for command in COMMANDS:
    app.command(help=_help(command.__doc__ or ""))(command)


@app.callback(invoke_without_command=True)
def settings(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    """Options of the command itself; `--debug` may stand anywhere."""
    if version:
        say(f"xlda {xlda.__version__}")
        raise typer.Exit


def run(arguments: list[str]) -> int:
    """Run a command and give its exit code: 0, 1 where the work failed, 2 for wrong usage."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # whatever the terminal cannot show
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = _show_warning
            result = app(arguments, prog_name="xlda", standalone_mode=False)
        if result == INTERRUPTED:
            raise KeyboardInterrupt
        return result if isinstance(result, int) else 0
    except KeyboardInterrupt:
        note("xlda: interrupted.")
        return 1
    except Exception as error:
        if debug:
            traceback.print_exc()
        if hasattr(error, "format_message"):  # wrong usage, as click and typer say it
            usage = error.format_message()
            note(usage if usage.startswith("Usage") else f"xlda: {usage}")
            return 2
        if isinstance(error, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on
            return 1
        note(f"xlda: {_sentence(error)}")
        return 1


def _sentence(error: Exception) -> str:
    """An error as one line."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    text = " ".join(str(error).split())
    for words, option in IN_OPTIONS.items():
        text = text.replace(words, option)
    known = isinstance(error, ValueError | OSError | ImportError | MemoryError | RuntimeError)
    return text if known and text else f"{type(error).__name__}: {text} (--debug shows where)"


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    note(f"xlda: warning: {message}")
