"""`xlda inspect`."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import xlda
from xlda.cli import options
from xlda.cli.console import counted, say, say_json, say_table
from xlda.cli.licences import say_licences
from xlda.cli.models import n_samples, whole

if TYPE_CHECKING:
    from xlda.calibration.assessment import Assessment
    from xlda.classifier import XLDA

FEW = 5  # samples


def inspect(
    model: Annotated[
        Path | None,
        typer.Argument(help="Model file; --licences needs none.", show_default=False, readable=False),
    ] = None,
    licences: Annotated[
        bool,
        typer.Option(
            "--licences",
            help="List licences and sources of weights, fonts and data that are used instead; those of the "
            "model's backbone come first.",
        ),
    ] = False,
    pairs: Annotated[int, typer.Option("--pairs", min=0, help="Confusable pairs to list.")] = 5,
    few: Annotated[int, typer.Option("--few", min=1, help="A class with fewer samples is listed.")] = FEW,
    try_lift: Annotated[
        int | None,
        typer.Option(
            "--try-lift",
            help="Also try, on kept samples alone, what so many random features would bring, as 4096.",
            show_default=False,
        ),
    ] = None,
    try_second_look: Annotated[
        int | None,
        typer.Option(
            "--try-second-look",
            help="The same for a second look with so many rows of each class, as 16.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Show what is in a model: classes, samples, memory, how good it is, confusable pairs, classes with few.

    How good it is was measured on samples that it kept to check itself with, as if it had never learned them.
    Pairs are listed with their distance in standard deviations within classes.

    $ xlda inspect shop.xlda
    $ xlda inspect --licences
    """
    if licences:
        say_licences(model, json)
        return
    if model is None:
        raise typer.BadParameter("give a model file, or --licences.")
    tries = {"second_look": try_second_look, "lift": try_lift}
    check_tries(**tries)
    clf = xlda.load(model)
    backbone = clf.backbone_
    counts = clf.class_count_
    names = clf.classes_.tolist()
    scarce = sorted((i for i in range(len(names)) if counts[i] < few), key=lambda i: counts[i])
    head = clf.snapshot().head
    result: dict[str, Any] = {
        "model": str(model),
        "classes": len(names),
        "samples": n_samples(clf),
        "features": clf.n_features_in_,
        "backbone": None if backbone is None else backbone.to_json(),
        "parameters": clf.get_params(),
        "power": getattr(clf, "power_", None),
        "shrinkage": head.shrinkage,
        "search": head.index.describe(),
        "bytes": clf.memory(),
        "file_bytes": model.stat().st_size,
        "confusable": confusable(clf, pairs),
        "few_samples": [{"label": names[i], "samples": whole(counts[i])} for i in scarce],
    }
    expected, why_not = assessed(clf, **tries)
    result["expected"] = None if expected is None else asdict(expected)
    if json:
        say_json(result)
        return
    name = "not known" if backbone is None else backbone.name
    say_table(
        ("", ""),
        [
            ("classes", f"{len(names):,}"),
            ("samples", f"{result['samples']:,}"),
            ("features", f"{clf.n_features_in_:,}, backbone {name}"),
            ("model", f"{clf.model}, power {clf.power_}, {_lift(clf)}shrinkage {head.shrinkage:.2f}"),
            ("search", result["search"]["search"]),
            *((f"memory, {part}", _size(size)) for part, size in result["bytes"].items()),
            ("file", _size(result["file_bytes"])),
        ],
    )
    lines = _not_tried(tries, why_not) if expected is None else str(expected).splitlines()
    for line in (*lines, "") if lines else ():
        say(line)
    say_table(
        ("apart", "confusable", "with"),
        [(pair["distance"], *map(str, pair["labels"])) for pair in result["confusable"]],
    )
    say_table(
        ("samples", f"{counted(len(scarce), 'class')} with fewer than {few}"),
        [(f"{counts[i]:g}", str(names[i])) for i in scarce[:10]],
    )


def _lift(clf: XLDA) -> str:
    lift = "" if clf.lift is None else f"lift {clf.lift:,}, "
    return lift if clf.second_look is None else f"{lift}second look {clf.second_look}, "


def _not_tried(tries: dict[str, int | None], why: str | None) -> list[str]:
    """A line for each parameter that was to be tried, where nothing can be told of the model."""
    from xlda.calibration.parameter_trial import not_tried

    return [not_tried(name, why) for name, value in tries.items() if value is not None]


def check_tries(second_look: int | None = None, lift: int | None = None) -> None:
    """Refuse what cannot be tried, before anything is read."""
    from xlda.parameters import check_features, check_rows

    check_rows(second_look, "try_second_look")
    check_features(lift, "try_lift")


def assessed(
    clf: XLDA, second_look: int | None = None, lift: int | None = None
) -> tuple[Assessment | None, str | None]:
    """How good it is, and what these would bring; or why that cannot be told."""
    try:
        return clf.assess(try_lift=lift, try_second_look=second_look), None
    except ValueError as error:
        return None, str(error)


def confusable(clf: XLDA, n: int) -> list[dict[str, Any]]:
    """The `n` pairs of classes that are closest, each class with the one whose mean is nearest to its own.

    Distances are in standard deviations within classes. Means of few samples are further apart than the
    classes are, by what chance adds; that is taken off.
    """
    import numpy as np

    head, counts = replace(clf.snapshot().head.of_features(), second_look=None), clf.class_count_
    seen = np.flatnonzero(counts > 0)
    if len(seen) < 2 or not n:
        return []
    means = clf.means_[seen].astype(head.centre.dtype)
    labels, own = head.table.of(head.top(means, 2)[0]), clf.classes_[seen]
    other = np.where(labels[:, 0] == own, labels[:, 1], labels[:, 0])
    squared = head.space.squared_lengths(means - means[np.searchsorted(own, other)])
    root = np.linalg.eigh(clf.covariance_)
    chance = float(head.space.squared_lengths((root[1] * np.sqrt(np.maximum(root[0], 0.0))).T).sum())
    per_sample = dict(zip(own.tolist(), (1 / counts[seen]).tolist(), strict=True))
    found: dict[frozenset[Any], float] = {}
    for one, two, distance in zip(own.tolist(), other.tolist(), squared.tolist(), strict=True):
        pair = frozenset((one, two))
        real = max(distance - chance * (per_sample[one] + per_sample.get(two, 0.0)), 0.0)
        found[pair] = min(real, found.get(pair, np.inf))
    closest = sorted(found.items(), key=lambda item: (item[1], sorted(map(str, item[0]))))[:n]
    return [{"labels": sorted(pair, key=str), "distance": real**0.5} for pair, real in closest]


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 2**20:,.1f} MiB"
