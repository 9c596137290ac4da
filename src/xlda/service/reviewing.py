"""What a person should look at, put together as a page shows it."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import Any

import apsw
import numpy as np

from xlda.service.changes import sample_number
from xlda.service.contradictions import Contradiction
from xlda.service.database import one
from xlda.service.engine import REJECTED, Engine
from xlda.service.judging import predictions
from xlda.service.marks import KEPT
from xlda.service.review import Item, grouped

AT_ONCE = 50  # that are judged together, so that others need not wait for long


class ReviewList:
    """What is to be looked at now; what the model says of each is remembered until it learns more."""

    def __init__(self) -> None:
        self._seq = -1
        self._judged: dict[str, dict[str, Any]] = {}  # by the id of the item

    def groups(self, engine: Engine) -> list[dict[str, Any]]:
        """Things that look alike together, the largest group first, and last what is probably solved."""
        engine.review.flush()
        items = engine.review.items()
        now = self._present(engine, items)
        found = _contradicting(engine)
        for group in grouped(items):
            for is_solved in (False, True):
                some = [item for item in group if now[item.id]["sure"] is is_solved]
                if some:
                    found.append(_shown(some, now, is_solved))
        return sorted(found, key=lambda group: (group["solved"], -group["size"]))

    def _present(self, engine: Engine, items: list[Item]) -> dict[str, dict[str, Any]]:
        """What the model says now of each, by id."""
        seq = engine.machine.seq
        known = self._judged if seq == self._seq else {}
        new = [item for item in items if item.id not in known and len(item.embedding) == engine.machine.width]
        for start in range(0, len(new), AT_ONCE):
            some = new[start : start + AT_ONCE]
            embeddings = np.stack([item.embedding for item in some])
            _, judged = predictions(engine, embeddings, 1, REJECTED, None)
            known = known | {item.id: one for item, one in zip(some, judged, strict=True)}
        nothing = {"label": None, "class_id": None, "sure": False}
        self._seq, self._judged = seq, {item.id: known.get(item.id, nothing) for item in items}
        return self._judged


def _shown(items: list[Item], now: dict[str, dict[str, Any]], is_solved: bool) -> dict[str, Any]:
    guesses = Counter((now[item.id]["label"], now[item.id]["class_id"]) for item in items)
    (label, class_id), _ = guesses.most_common(1)[0]
    fields = ("label", "class_id", "sure")
    return {
        "size": len(items),
        "kind": "unknown" if label is None else "unsure",
        "solved": is_solved,
        "label": label,
        "class_id": class_id,
        "items": [{**item.to_json(), "now": {name: now[item.id][name] for name in fields}} for item in items],
    }


def _contradicting(engine: Engine) -> list[dict[str, Any]]:
    """Samples that contradict others, those of one class that are taken for one other together."""
    pairs: dict[tuple[str, str, bool], list[dict[str, Any]]] = {}
    with closing(engine.reading()) as db:
        for (sample_id, taught, taken_for, is_solved), has_photo in _standing(engine, db):
            entry = {
                "id": sample_id,
                "sample_id": sample_id,
                "photo": has_photo,
                "taught_id": taught,
                "taught_label": str(engine.book.by_id[taught].label),
            }
            pairs.setdefault((taught, taken_for, is_solved), []).append(entry)
    return [
        {
            "size": len(items),
            "kind": "contradicts",
            "solved": is_solved,
            "label": str(engine.book.by_id[taken_for].label),
            "class_id": taken_for,
            "items": items,
        }
        for (_, taken_for, is_solved), items in pairs.items()
    ]


def _standing(engine: Engine, db: apsw.Connection) -> list[tuple[Contradiction, bool]]:
    """Contradictions of samples that are still where they were, and that nobody has called right."""
    kept = {name for (name,) in db.execute("SELECT id FROM marks WHERE kind = ? AND is_there", (KEPT,))}
    found = []
    for contradiction in list(engine.contradictions.values()):
        sample_id, taught, taken_for, _ = contradiction
        if sample_id in kept or not {taught, taken_for} <= engine.book.by_id.keys():
            continue
        row = one(db, "SELECT home, photo FROM samples WHERE number = ?", (sample_number(sample_id),))
        if row is not None and row[0] is not None and _root_id(db, row[0]) == taught:
            found.append((contradiction, row[1] is not None))
    return found


def _root_id(db: apsw.Connection, home: int) -> str:
    while True:
        name, parent = one(db, "SELECT id, parent FROM classes WHERE number = ?", (home,))
        if parent is None:
            return str(name)
        home = parent
