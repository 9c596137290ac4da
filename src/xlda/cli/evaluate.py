"""`xlda evaluate`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xlda.cli import options
from xlda.cli.choice import Choice
from xlda.cli.console import counted, first_few, say, say_json, say_table
from xlda.cli.labels import for_evaluating, meant
from xlda.cli.models import opened
from xlda.cli.samples import for_model

if TYPE_CHECKING:
    from xlda.labels import Label

TOP = 5


def evaluate(
    model: options.ModelFile,
    where: options.Where,
    worst: Annotated[int, typer.Option("--worst", min=0, help="Classes and mistakes to list.")] = 5,
    only: options.Only = None,
    without: options.Without = None,
    backbone: options.OwnBackbone = None,
    on_error: options.Skip = "stop",
    json: options.Json = False,
) -> None:
    """Compare predictions with labels: accuracy, the worst classes and the commonest mistakes.

    Labels are those that the model knows, however deep one points: `Kiwi` is `Fruit/Kiwi`.

    $ xlda evaluate shop.xlda held-out/
    """
    recognizer = opened(model, backbone)
    clf = recognizer.classifier
    choice = Choice(only, without, resolver=for_evaluating(recognizer.classes), each_once=False)
    asked: Counter[Label] = Counter()
    right: Counter[Label] = Counter()
    mistakes: Counter[tuple[Label, Label]] = Counter()
    n_among = 0
    samples = for_model(where, recognizer, backbone, on_error, choice)
    for batch in samples.labelled("evaluating"):
        best, _ = clf.predict_topk(batch.embeddings, TOP)
        for label, names in zip(batch.labels, best.tolist(), strict=True):
            asked[label] += 1
            n_among += label in names
            if names[0] == label:
                right[label] += 1
            else:
                mistakes[label, names[0]] += 1
    n = asked.total()
    known = set(clf.classes_.tolist())
    result: dict[str, Any] = {
        "samples": n,
        "classes": len(asked),
        "accuracy": right.total() / n,
        f"top_{TOP}_accuracy": n_among / n,
        "taken_for_known": meant(choice.resolver),
        "unknown_classes": sorted((label for label in asked if label not in known), key=str),
        "by_class": {str(label): right[label] / times for label, times in asked.items()},
        "mistakes": [
            {"label": label, "predicted": predicted, "times": times}
            for (label, predicted), times in mistakes.most_common()
        ],
    }
    if json:
        say_json(result)
        return
    of_all = f"{right.total():,} of {counted(n, 'sample')} of {counted(len(asked), 'class')}"
    say(f"accuracy  {result['accuracy']:.1%}  ({of_all})")
    say(f"top {TOP}     {n_among / n:.1%}")
    if result["unknown_classes"]:
        names = first_few(result["unknown_classes"])
        say(f"never learned: {len(result['unknown_classes']):,} of these classes ({names})")
    rows = [(100 * right[label] / times, times, str(label)) for label, times in asked.items()]
    rows = sorted((row for row in rows if row[0] < 100), key=lambda row: (row[0], -row[1]))[:worst]
    say_table(("right, %", "samples", "worst classes"), rows)
    often = [(times, str(label), str(named)) for (label, named), times in mistakes.most_common(worst)]
    say_table(("times", "commonest mistakes", "taken for"), often)
