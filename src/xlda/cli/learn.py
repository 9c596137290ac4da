"""`xlda learn`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from xlda.cli import options
from xlda.cli.choice import Choice
from xlda.cli.console import counted, first_few, say, say_json
from xlda.cli.labels import for_learning, meant
from xlda.cli.models import changed, n_samples
from xlda.cli.samples import for_model


def learn(
    model: options.ModelFile,
    where: options.Where,
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
    backbone: options.OwnBackbone = None,
    on_error: options.Skip = "stop",
    json: options.Json = False,
) -> None:
    """Learn more: new classes, or more samples of known ones. The file is replaced whole, or not at all.

    A label that is the end of one known label means it: `Kiwi` is `Fruit/Kiwi`. One that is only much like a
    known one is asked about, or refused where nobody can be asked. Every new class is named.

    $ xlda learn shop.xlda new/
    $ xlda learn shop.xlda kiwi1.jpg kiwi2.jpg --label kiwi
    """
    with changed(model, backbone) as recognizer:
        clf = recognizer.classifier
        known, n_learned = set(recognizer.classes), 0
        resolver = for_learning(recognizer.classes, new_class)
        is_repeated = key is not None and key in clf.batch_keys_
        if not is_repeated:
            choice = Choice(only, without, label, resolver)
            samples = for_model(where, recognizer, backbone, on_error, choice)
            with recognizer.changing():
                for batch in samples.labelled("learning"):
                    clf.partial_fit(batch.embeddings, batch.labels)
                    n_learned += len(batch.names)
                clf.calibrate_if_due()
                clf.backbone_ = recognizer.identity
                clf.batch_keys_ = [*clf.batch_keys_, *([] if key is None else [key])]
    new = [name for name in clf.classes_.tolist() if name not in known]
    result: dict[str, Any] = {
        "model": str(model),
        "learned": n_learned,
        "learned_already": is_repeated,
        "taken_for_known": meant(resolver),
        "new_classes": new,
        "classes": len(clf.classes_),
        "samples": n_samples(clf),
    }
    if json:
        say_json(result)
    elif is_repeated:
        say(f"{model}: learned already, with the key {key}; nothing is changed")
    else:
        named = f"{counted(len(new), 'new class')} ({first_few(new)})" if new else "no new class"
        say(f"{model}: {counted(n_learned, 'sample')} learned; {named}, {len(clf.classes_):,} in all")
