"""What to expect of classes, and what would help."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from xlda.service.changes import CLASS, ClassRow
from xlda.service.database import SUBTREE, one
from xlda.service.engine import Engine
from xlda.service.plans import etag
from xlda.service.problems import Problem

SHOWN = 200  # samples of a class, the newest


def detail_of(engine: Engine, class_id: str) -> tuple[dict[str, Any], str]:
    """A class with its samples and advice, and what stands for its state."""
    entry = engine.book.by_id.get(class_id)
    if entry is None:
        raise Problem(404, f"There is no class with the id {class_id}.")
    with closing(engine.reading()) as db:
        row = ClassRow(*one(db, f"SELECT {CLASS} FROM classes WHERE id = ?", (class_id,)))
        samples = [
            {
                "id": found[0],
                "group": found[1],
                "photo": found[2] is not None,
                "can_be_changed": bool(found[3]),
            }
            for found in db.execute(
                f'{SUBTREE} SELECT id, "group", photo, embedding IS NOT NULL FROM samples WHERE home IN '
                "(SELECT number FROM tree) ORDER BY number DESC LIMIT ?",
                (row.number, SHOWN),
            )
        ]
        tag = etag(db, row.number)
    accuracy, advice = _advice(engine, str(entry.label), entry.count)
    return {
        **entry.to_json(),
        "samples": samples,
        "expected_accuracy": accuracy,
        "advice": advice,
    }, tag


def _advice(engine: Engine, label: str, count: float) -> tuple[float | None, str]:
    """Share of right answers to expect, where it is known, and one sentence."""
    found = engine.assessment
    if count == 0:
        return None, "It has no photos yet: teach one, and it can be an answer."
    if found is None:
        return (
            None,
            "There is too little to judge by yet; more photos, of other days and places, always help.",
        )
    for confusion in found.classes.confused:
        if str(confusion.label) == label:
            return 1.0 - confusion.share, (
                f"It is taken for {confusion.taken_for} in {confusion.share:.0%} of cases: teach photos of "
                "both that show the difference."
            )
    for figure in found.classes.need_samples:
        if str(figure.label) == label:
            return figure.estimate, f"It has {count:g}: more photos of it would help most."
    overall = None if found.visit is None else found.visit.accuracy.value
    return overall, "Nothing needs to be done."


def confusable(engine: Engine) -> list[dict[str, Any]]:
    """Pairs of classes that are taken for each other, the most often first."""
    found, id_of = engine.assessment, engine.book.id_of
    if found is None:
        return []
    return [
        {
            "label": str(one_pair.label),
            "class_id": id_of(one_pair.label),
            "taken_for": str(one_pair.taken_for),
            "taken_for_id": id_of(one_pair.taken_for),
            "share": one_pair.share,
            "samples": one_pair.samples,
        }
        for one_pair in found.classes.confused
    ]


def expected(engine: Engine) -> dict[str, Any] | None:
    """How good the model is, as far as it can tell itself."""
    found = engine.assessment
    if found is None or found.same is None or found.visit is None:
        return None
    return {
        name: {
            "accuracy": part.accuracy.value,
            "low": part.accuracy.low,
            "high": part.accuracy.high,
            "top_five": part.top_five.value,
        }
        for name, part in (("same", found.same), ("visit", found.visit))
    }
