"""What people say that teaches nothing: settled, ignored, right as it is, a right or wrong answer, a setting.

Each is an effect of an event, `[kind, id, before, after]`, so that it is undone as any other.
"""

from __future__ import annotations

from typing import Any

from xlda._internal.arrays import Array
from xlda.service.changes import Transaction
from xlda.service.database import one
from xlda.service.problems import Problem
from xlda.service.review import IGNORED as IGNORED

SETTLED, KEPT, ANSWER, SETTING, CONFIRMED = "settled", "kept", "answer", "setting", "confirmed"
SETTINGS = "setting "  # what names of settings begin with, among the facts


def settle(change: Transaction, item_id: str) -> None:
    """Nobody need look at it any more."""
    _set_settled(change, item_id, 1)
    change.of_marks.append([SETTLED, item_id, 0, 1])


def mark(change: Transaction, kind: str, its_id: str, embedding: Array | None = None) -> None:
    """Ignore things that look like this, or keep a sample as it is."""
    content = None if embedding is None else embedding.astype("float32").tobytes()
    change.db.execute(
        "INSERT OR REPLACE INTO marks(kind, id, embedding, is_there) VALUES (?, ?, ?, 1)",
        (kind, its_id, content),
    )
    change.of_marks.append([kind, its_id, 0, 1])


def note_answer(change: Transaction, class_id: str | None, is_right: bool, n: int = 1) -> None:
    """Count answers of a class as right or wrong; those of events that were undone do not count."""
    if class_id is not None:
        row = (change.seq, class_id, int(is_right), n)
        change.db.execute("INSERT INTO answers(event, class, is_right, n) VALUES (?, ?, ?, ?)", row)


def confirm(change: Transaction, class_id: str | None, embedding: str) -> None:
    """An answer was right, or there was no right one: the model is told how sure it may be."""
    change.steps.append(["confirm", class_id, embedding])
    change.of_marks.append([CONFIRMED, class_id, None, embedding])


def set_setting(change: Transaction, name: str, value: Any) -> None:
    """Remember a choice."""
    before = change.fact(SETTINGS + name)
    change.set_fact(SETTINGS + name, value)
    change.of_marks.append([SETTING, name, before, value])


def turn_round(change: Transaction, effects: list[list[Any]]) -> None:
    """Undo effects, the last first."""
    n_back = 0
    for kind, its_id, before, after in reversed(effects):
        if kind == SETTLED:
            n_back += _set_settled(change, its_id, before)
        elif kind == SETTING:
            change.set_fact(SETTINGS + its_id, before)
        elif kind == CONFIRMED:
            change.steps.append(["confirm", its_id, before] if before else ["unconfirm", its_id, after])
        elif kind in (IGNORED, KEPT):
            row = (int(bool(before)), kind, its_id)
            n_back += 1
            change.db.execute("UPDATE marks SET is_there = ? WHERE kind = ? AND id = ?", row)
        change.of_marks.append([kind, its_id, after, before])
    if effects and not n_back and all(effect[0] == SETTLED for effect in effects) and not change.of_samples:
        raise Problem(409, "What was put aside for review then is not kept any more.")


def _set_settled(change: Transaction, item_id: str, is_settled: int) -> int:
    """Settle an answer, or have it again; 0 where it is not kept any more."""
    known = one(change.db, "SELECT 1 FROM review WHERE id = ?", (item_id,))
    change.db.execute("UPDATE review SET is_settled = ? WHERE id = ?", (is_settled, item_id))
    return int(known is not None)
