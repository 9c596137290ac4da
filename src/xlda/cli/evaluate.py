"""`xlda evaluate`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xlda.cli import options
from xlda.cli.choice import Choice
from xlda.cli.console import counted, first_few, say, say_json, say_table
from xlda.cli.labels import for_evaluating, meant
from xlda.cli.models import opened
from xlda.cli.samples import for_model

if TYPE_CHECKING:
    from xlda._internal.arrays import Array
    from xlda.calibration.rejection import Confidence, Rejection
    from xlda.labels import Label
    from xlda.predictor.answers import Judged

TOP = 5
ENOUGH = 100  # answers about known classes, to say how sure they are


def evaluate(
    model: options.ModelFile,
    where: options.Where,
    worst: Annotated[int, typer.Option("--worst", min=0, help="Classes and mistakes to list.")] = 5,
    only: options.Only = None,
    without: options.Without = None,
    backbone: options.OwnBackbone = None,
    on_error: options.Skip = "stop",
    unknown: Annotated[
        float, typer.Option("--unknown", help="The share of the known that is rejected as unknown.")
    ] = 0.05,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw all that into this file.")] = None,
    json: options.Json = False,
) -> None:
    """Compare predictions with labels: accuracy, the worst classes, and how well it knows what it knows.

    Labels are those that the model knows, however deep one points: `Kiwi` is `Fruit/Kiwi`. Samples of classes
    that it never learned show how well it tells the unknown: AUROC is the probability that a known one is
    more like the known classes than one of these.

    $ xlda evaluate shop.xlda held-out/
    $ xlda evaluate shop.xlda held-out/ --plot judged.png
    """
    if not 0 < unknown < 1:
        raise typer.BadParameter(f"--unknown is a share between 0 and 1; got {unknown:g}.")
    recognizer = opened(model, backbone)
    clf = recognizer.classifier
    choice = Choice(only, without, resolver=for_evaluating(recognizer.classes), each_once=False)
    asked: Counter[Label] = Counter()
    right: Counter[Label] = Counter()
    mistakes: Counter[tuple[Label, Label]] = Counter()
    n_among = 0
    known = set(clf.classes_.tolist())
    tally = Tally()
    samples = for_model(where, recognizer, backbone, on_error, choice)
    for batch in samples.labelled("evaluating"):
        judged = clf.judge(batch.embeddings, TOP, unknown=unknown if clf.tells_unknown else None)
        tally.add(judged, batch.labels, known)
        for label, names in zip(batch.labels, judged.labels.tolist(), strict=True):
            asked[label] += 1
            n_among += label in names
            if names[0] == label:
                right[label] += 1
            else:
                mistakes[label, names[0]] += 1
    n = asked.total()
    confidence, rejection = tally.confidence(), tally.rejection()
    if plot is not None:
        from xlda.cli.evaluation_plot import draw

        draw(plot, confidence, *tally.likeness())
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
        "calibration_error": confidence.calibration_error,
        "accuracy_at_coverage": confidence.accuracy_at(),
        "rejection": None if rejection is None else asdict(rejection),
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
    say_judged(confidence, rejection, unknown)
    rows = [(100 * right[label] / times, times, str(label)) for label, times in asked.items()]
    rows = sorted((row for row in rows if row[0] < 100), key=lambda row: (row[0], -row[1]))[:worst]
    say_table(("right, %", "samples", "worst classes"), rows)
    often = [(times, str(label), str(named)) for (label, named), times in mistakes.most_common(worst)]
    say_table(("times", "commonest mistakes", "taken for"), often)


class Tally:
    """What was told of each sample, and what was true."""

    def __init__(self) -> None:
        self._judged: list[Judged] = []
        self._right: list[bool] = []
        self._known: list[bool] = []

    def add(self, judged: Judged, labels: list[Label], known: set[Label]) -> None:
        """Some more."""
        self._judged.append(judged)
        best = judged.labels[:, 0].tolist()
        self._right += [told == label for told, label in zip(best, labels, strict=True)]
        self._known += [label in known for label in labels]

    def confidence(self) -> Confidence:
        """Of answers about known classes."""
        import numpy as np

        from xlda.calibration.rejection import Confidence

        known = np.array(self._known, bool)
        best = np.concatenate([judged.probabilities[:, 0] for judged in self._judged])
        return Confidence(best[known], np.array(self._right, bool)[known])

    def likeness(self) -> tuple[Array, Array]:
        """How much each sample is like the known classes, and whether it is of one."""
        import numpy as np

        return np.concatenate([judged.novelty for judged in self._judged]), np.array(self._known, bool)

    def rejection(self) -> Rejection | None:
        """How well known and unknown were told apart, if there were both."""
        import numpy as np

        from xlda.calibration.rejection import Rejection

        return Rejection.of(*self.likeness(), np.concatenate([judged.is_unknown for judged in self._judged]))


def say_judged(confidence: Confidence, rejection: Rejection | None, unknown: float) -> None:
    """How well it knows what it knows."""
    if len(confidence.right) >= ENOUGH:
        surest = confidence.accuracy_at()
        say(
            f"sure      probabilities are off by {confidence.calibration_error:.1%} on average; right are "
            f"{surest['0.8']:.1%} of the surest 80% of answers, {surest['0.5']:.1%} of the surest half"
        )
    if rejection is not None:
        say(
            f"unknown   AUROC {rejection.auroc:.1%}; where 95% of the known are taken for known, "
            f"{rejection.fpr_at_95:.1%} of the unknown are"
        )
        say(
            f"          rejecting {unknown:.0%}: {rejection.known_rejected:.1%} of the known are rejected, "
            f"{rejection.unknown_caught:.1%} of the unknown caught"
        )
