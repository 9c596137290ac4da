"""What to expect of classes, and what would help."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import apsw

from xlda.calibration.class_figures import MOST_NAMED
from xlda.service.changes import CLASS, ClassRow, sample_number
from xlda.service.database import SUBTREE, one
from xlda.service.engine import Engine
from xlda.service.plans import etag
from xlda.service.problems import Problem

MOST_SEQ = 2**63 - 1
FEW_JUDGED = 5  # answers, below which the share of wrong ones says nothing


def detail_of(engine: Engine, class_id: str, limit: int, after: str) -> tuple[dict[str, Any], str]:
    """A class with some of its samples and advice, and what stands for its state."""
    entry = engine.book.by_id.get(class_id)
    if entry is None:
        raise Problem(404, f"There is no class with the id {class_id}.")
    before = sample_number(after) if after else MOST_SEQ
    with closing(engine.reading()) as db:
        row = ClassRow(*one(db, f"SELECT {CLASS} FROM classes WHERE id = ?", (class_id,)))
        found: list[Any] = db.execute(
            f'{SUBTREE} SELECT id, "group", photo, embedding IS NOT NULL FROM samples WHERE home IN '
            "(SELECT number FROM tree) AND number < ? ORDER BY number DESC LIMIT ?",
            (row.number, before, limit + 1),
        ).fetchall()
        samples = [_sample(engine, *sample) for sample in found[:limit]]
        tag, corrections = etag(db, row.number), _corrections(db, row.number)
    accuracy, advice, enough = _advice(engine, str(entry.label), entry.count)
    return {
        **entry.to_json(),
        "samples": samples,
        "next": samples[-1]["id"] if len(found) > limit else None,
        "expected_accuracy": accuracy,
        "corrections": corrections,
        "advice": advice,
        "enough": enough,
    }, tag


def _sample(
    engine: Engine, sample_id: str, group: str | None, photo: str | None, has_embedding: int
) -> dict[str, Any]:
    contradiction = engine.contradictions.get(sample_id)
    return {
        "id": sample_id,
        "group": group,
        "photo": photo is not None,
        "can_be_changed": bool(has_embedding),
        "hurts": contradiction is not None and not contradiction.is_solved,
    }


def _corrections(db: apsw.Connection, number: int) -> float | None:
    """The share of answers of a class that people called wrong, of those that they have judged."""
    query = (
        f"{SUBTREE} SELECT coalesce(sum(n), 0), coalesce(sum(n * (1 - is_right)), 0) FROM answers WHERE "
        "class IN (SELECT id FROM classes WHERE number IN (SELECT number FROM tree)) AND event NOT IN "
        "(SELECT seq FROM undone)"
    )
    n_judged, n_wrong = one(db, query, (number,))
    return n_wrong / n_judged if n_judged >= FEW_JUDGED else None


def _advice(engine: Engine, label: str, count: float) -> tuple[float | None, str, bool | None]:
    """Share of right answers to expect, where it is known, one sentence, and whether it has enough photos."""
    found = engine.assessment
    if count == 0:
        return None, "It has no photos yet: teach one, and it can be an answer.", False
    if found is None:
        few = "There is too little to judge by yet; more photos, of other days and places, always help."
        return None, few, None
    needs = next((one for one in found.classes.need_samples if str(one.label) == label), None)
    for confusion in found.classes.confused:
        if str(confusion.label) == label:
            said = (
                f"It is taken for {confusion.taken_for} in {confusion.share:.0%} of cases: teach photos of "
                "both that show the difference."
            )
            return 1.0 - confusion.share, said, False
    if needs is not None:
        return needs.estimate, f"It has {count:g}: more photos of it would help most.", False
    overall = None if found.visit is None else found.visit.accuracy.value
    is_all = len(found.classes.need_samples) < MOST_NAMED  # all that need more are named
    return overall, "Nothing needs to be done.", True if is_all else None


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
