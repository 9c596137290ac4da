"""`xlda learn`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xlda.cli import options
from xlda.cli.choice import Choice
from xlda.cli.console import counted, first_few, say, say_json
from xlda.cli.labels import for_learning, meant
from xlda.cli.models import changed, n_samples
from xlda.cli.samples import for_model
from xlda.cli.served import RemoteService, choice_of, learned, places

if TYPE_CHECKING:
    from xlda.photos.embedding import OnError


def learn(
    model: options.ModelOrNone = None,
    where: options.WhereOrThere = None,
    label: options.LabelOfAll = None,
    new_class: options.NewClass = False,
    only: options.Only = None,
    without: options.Without = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            help="A name of your own for these samples: what was learned with it once is not learned again.",
            show_default=False,
        ),
    ] = None,
    server: options.Server = None,
    token_from: options.TokenFrom = None,
    backbone: options.OwnBackbone = None,
    on_error: options.Skip = "stop",
    json: options.Json = False,
) -> None:
    """Learn more: new classes, or more samples of known ones. The file is replaced whole, or not at all.

    A label that is the end of one known label means it: `Kiwi` is `Fruit/Kiwi`. One that is only much like a
    known one is asked about, or refused where nobody can be asked. Every new class is named.

    With --server a service learns, and no model file is named: it gets the photos as they are, and keeps each
    as soon as it has it, so that Ctrl-C leaves those before it learned.

    $ xlda learn shop.xlda new/
    $ xlda learn shop.xlda kiwi1.jpg kiwi2.jpg --label kiwi
    $ xlda learn --server http://127.0.0.1:8765 new/
    """
    file, named = places(model, where, server, token_from, backbone)
    if server is not None:
        service = RemoteService(server, token_from)
        choice = choice_of(service, only, without, label, new_class)
        result = learned(service, named, choice, key, on_error)
    else:
        choice = Choice(only, without, label)
        result = _by_model(file, named, choice, new_class, key, backbone, on_error)
    if json:
        say_json(result)
    elif result["learned_already"]:
        say(f"{result['model']}: learned already, with the key {key}; nothing is changed")
    else:
        new, n_learned = result["new_classes"], counted(result["learned"], "sample")
        of_new = f"{counted(len(new), 'new class')} ({first_few(new)})" if new else "no new class"
        say(f"{result['model']}: {n_learned} learned; {of_new}, {result['classes']:,} in all")


def _by_model(
    model: Path,
    where: list[str],
    choice: Choice,
    new_class: bool,
    key: str | None,
    backbone: str | None,
    on_error: OnError,
) -> dict[str, Any]:
    with changed(model, backbone) as recognizer:
        clf = recognizer.classifier
        known, n_learned = set(recognizer.classes), 0
        resolver = for_learning(recognizer.classes, new_class)
        is_repeated = key is not None and key in clf.batch_keys_
        if not is_repeated:
            meaning = replace(choice, resolver=resolver)
            samples = for_model(where, recognizer, backbone, on_error, meaning)
            with recognizer.changing():
                for batch in samples.labelled("learning"):
                    clf.partial_fit(batch.embeddings, batch.labels)
                    n_learned += len(batch.names)
                clf.calibrate_if_due()
                clf.backbone_ = recognizer.identity
                clf.batch_keys_ = [*clf.batch_keys_, *([] if key is None else [key])]
    new = [name for name in clf.classes_.tolist() if name not in known]
    return {
        "model": str(model),
        "learned": n_learned,
        "learned_already": is_repeated,
        "taken_for_known": meant(resolver),
        "new_classes": new,
        "classes": len(clf.classes_),
        "samples": n_samples(clf),
    }
