"""Changes that are asked for, each as what is written down for it. They run in the writer's thread."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from xlda._internal.arrays import Array
from xlda.identity import BackboneIdentity
from xlda.labels import Label
from xlda.service import marks, undoing
from xlda.service.changes import ClassRow, NewSample, Transaction
from xlda.service.database import SUBTREE, one
from xlda.service.likeness import unlike
from xlda.service.problems import Problem
from xlda.service.review import Item
from xlda.service.steps import packed
from xlda.service.writer import ChangePlan


@dataclass
class Warned:
    """What may be wrong with a photo: sentences for people, and a code for each, for programs."""

    texts: list[str]
    codes: list[str]
    other: dict[str, Any] | None = None  # the class that it looks like

    def add(self, code: str, text: str) -> None:
        """One more."""
        self.codes, self.texts = [*self.codes, code], [*self.texts, text]

    def to_json(self) -> dict[str, Any]:
        """As it is sent."""
        other = {} if self.other is None else {"other": self.other}
        return {"warnings": self.texts, "codes": self.codes, **other}


def teach(
    sample: NewSample, said: Warned, identity: BackboneIdentity | None, unless_again: bool = False
) -> ChangePlan:
    """Learn a photo; or nothing, where it is one again that was learned before."""

    def plan(change: Transaction) -> dict[str, Any]:
        again = one(
            change.db, "SELECT 1 FROM samples WHERE photo = ? AND home IS NOT NULL LIMIT 1", (sample.photo,)
        )
        if again is not None:
            said.add("same_photo", "the same photo again")
            if unless_again:
                return {"learned": False, **said.to_json()}
        return {**_taught(change, sample, identity), **said.to_json()}

    return plan


def correct(
    sample: NewSample, old: str | None, identity: BackboneIdentity | None, old_id: str | None = None
) -> ChangePlan:
    """Learn a photo that was taken for another class, or not surely for this one; `old_id` is of that."""

    def plan(change: Transaction) -> dict[str, Any]:
        taught = _taught(change, sample, identity)
        marks.note_answer(change, old_id, old_id == taught["class_id"])
        change.about |= {"old": old, "new": str(sample.label)}
        return {**taught, "taught": True}

    return plan


def _taught(change: Transaction, sample: NewSample, identity: BackboneIdentity | None) -> dict[str, Any]:
    note_backbone(change, identity)
    is_new = change.labelled(sample.label) is None
    [row] = change.add([sample])
    home = change.numbered(row.home or 0)
    change.about |= {"label": str(home.label), "class_id": home.id, "sample_id": row.id, "new_class": is_new}
    return {"id": row.id, "label": str(home.label), "class_id": home.id, "new_class": is_new}


def note_backbone(change: Transaction, identity: BackboneIdentity | None) -> None:
    """Note what makes the embeddings, where nobody knows yet."""
    classifier = change.machine.classifier
    if identity is None or change.fact("backbone") is not None:
        return
    if change.machine.is_started and classifier.backbone_ is not None:
        return
    change.set_fact("backbone", json.dumps(identity.to_json()))
    change.steps.append(["backbone", identity.to_json()])


def teach_batch(samples: Sequence[NewSample]) -> ChangePlan:
    """Learn embeddings, all or none."""

    def plan(change: Transaction) -> dict[str, Any]:
        change.add(samples)
        new = [str(label) for label in change.new_classes]
        change.about |= {"n": len(samples), "new_classes": new[:100]}
        if len({sample.label for sample in samples}) == 1:
            change.about["label"] = str(samples[0].label)
        return {"learned": len(samples), "new_classes": new}

    return plan


def relabel(ids: Sequence[str], label: Label) -> ChangePlan:
    """Give samples to another class."""

    def plan(change: Transaction) -> dict[str, Any]:
        rows = [change.sample_of(sample_id) for sample_id in ids]
        to = change.class_for(label)
        homes = {row.id: change.root(change.numbered(row.home or 0)) for row in rows}
        moved = [row for row in rows if homes[row.id].number != to.number]
        if moved:
            change.move(moved, to)
            old = sorted({str(homes[row.id].label) for row in moved})
            told = {"old": old[0] if len(old) == 1 else old, "new": str(to.label), "class_id": to.id}
            change.about |= {**told, "n": len(moved), "sample_ids": [row.id for row in moved][:100]}
        return {"label": str(to.label), "class_id": to.id, "new_class": bool(change.new_classes)}

    return plan


def relabel_if_other(sample_id: str, label: Label) -> ChangePlan:
    """Give the sample of an answer to another class, if it is of another."""

    def plan(change: Transaction) -> dict[str, Any]:
        relabel([sample_id], label)(change)
        return {"taught": not change.is_empty, "id": sample_id}

    return plan


def forget(ids: Sequence[str]) -> ChangePlan:
    """Forget samples."""

    def plan(change: Transaction) -> dict[str, Any]:
        rows = [change.sample_of(sample_id) for sample_id in ids]
        labels = sorted({str(change.root(change.numbered(row.home or 0)).label) for row in rows})
        change.move(rows, None)
        change.about |= {"n": len(rows), "label": labels[0] if len(labels) == 1 else labels}
        return {}

    return plan


def confirm(class_id: str | None, embedding: Array, said: str) -> ChangePlan:
    """Note that an answer was right, or that there was no right one; nothing is learned from it."""

    def plan(change: Transaction) -> dict[str, Any]:
        row = None if class_id is None else change.class_of(class_id)
        marks.confirm(change, class_id, packed(embedding))
        marks.note_answer(change, class_id, True)
        change.about |= {"said": said, "class_id": class_id, "label": None if row is None else str(row.label)}
        return {"taught": False, "noted": True}

    return plan


def deny(class_id: str) -> ChangePlan:
    """Note that an answer was wrong, where nobody knows the right one."""

    def plan(change: Transaction) -> dict[str, Any]:
        row = change.class_of(class_id)
        marks.note_answer(change, row.id, False)
        change.of_marks.append([marks.ANSWER, row.id, 0, 1])  # so that it can be undone
        change.about |= {"said": "not", "class_id": row.id, "label": str(row.label)}
        return {"taught": False, "noted": True}

    return plan


def create_class(label: Label) -> ChangePlan:
    """A new class, without samples."""

    def plan(change: Transaction) -> dict[str, Any]:
        change.check_free(label)
        row = change.create(label)
        change.about |= {"label": str(label), "class_id": row.id}
        return {"id": row.id}

    return plan


def _matching(change: Transaction, class_id: str, if_match: str | None) -> ClassRow:
    row = change.class_of(class_id)
    if if_match is not None:
        tags = {tag.strip() for tag in if_match.split(",")}
        if tags.isdisjoint({"*", etag(change.db, row.number)}):
            raise Problem(412, f"Class {row.label} was changed since then. Look at it again first.")
    return row


def etag(db: apsw.Connection, number: int) -> str:
    """What stands for the state of a class: its label, what was merged into it, and its samples."""
    changed = "SELECT max(touched), count(*) FROM classes WHERE number IN (SELECT number FROM tree)"
    taught = "SELECT max(touched), count(*) FROM samples WHERE home IN (SELECT number FROM tree)"
    touched, n_classes = one(db, f"{SUBTREE} {changed}", (number,))
    learned, n_samples = one(db, f"{SUBTREE} {taught}", (number,))
    return f'"{max(touched or 0, learned or 0)}-{n_classes}-{n_samples}"'


def rename_class(class_id: str, label: Label, if_match: str | None) -> ChangePlan:
    """Give a class another label."""

    def plan(change: Transaction) -> dict[str, Any]:
        row = _matching(change, class_id, if_match)
        change.rename(row, label)
        if change.of_classes:
            change.about |= {"old": str(row.label), "new": str(label), "class_id": row.id}
        return {"id": row.id}

    return plan


def remove_class(class_id: str, if_match: str | None, final: bool) -> ChangePlan:
    """Let a class go."""

    def plan(change: Transaction) -> dict[str, Any]:
        row = _matching(change, class_id, if_match)
        if change.machine.is_of_layer(row.id) and not final:
            raise Problem(
                409,
                f"Class {row.label} comes from a converted layer: its removal cannot be undone whole. "
                "Send ?final=true to remove it all the same.",
            )
        change.remove(row)
        change.about |= {"label": str(row.label), "class_id": row.id}
        return {"id": row.id}

    return plan


def merge_classes(class_id: str, other_id: str, if_match: str | None) -> ChangePlan:
    """Make one class a part of another, which survives."""

    def plan(change: Transaction) -> dict[str, Any]:
        into, other = _matching(change, class_id, if_match), change.class_of(other_id)
        change.merge(into, other)
        change.about |= {
            "old": str(other.label),
            "new": str(into.label),
            "class_id": into.id,
            "other": other.id,
        }
        return {"id": into.id}

    return plan


def undo(seqs: list[int]) -> ChangePlan:
    """Undo events, as one."""
    return _undoing(lambda change: seqs)


def undo_group(group: str) -> ChangePlan:
    """Undo all that was taught with a group."""
    return _undoing(lambda change: undoing.seqs_of_group(change, group))


def _undoing(seqs_of: Callable[[Transaction], list[int]]) -> ChangePlan:
    def plan(change: Transaction) -> dict[str, Any]:
        undoing.undo(change, seqs_of(change))
        return {"undone": change.undoes, "undid": change.about["undid"]}

    return plan


@dataclass(frozen=True)
class ReviewAct:
    """What is to become of things that somebody has looked at."""

    what: str  # `label`, `not`, `dismiss`, `ignore` or `keep`
    label: Label | None = None
    denied: str | None = None  # id of the class that they are not

    @property
    def said(self) -> str:
        """As the log has it."""
        return {"not": "not", "dismiss": "dismissed", "ignore": "ignored", "keep": "kept"}[self.what]


def apply_review(
    items: Sequence[Item], sample_ids: Sequence[str], act: ReviewAct, identity: BackboneIdentity | None = None
) -> ChangePlan:
    """Settle answers that were put aside, and samples that contradict others, as one event."""

    def plan(change: Transaction) -> dict[str, Any]:
        for item in items:
            if one(change.db, "SELECT 1 FROM review WHERE id = ? AND NOT is_settled", (item.id,)) is None:
                raise Problem(404, "Some of these were settled since. Look at the list again.")
        learned: list[str] = []
        if act.label is not None:
            learned = _name_reviewed(change, items, sample_ids, act.label, identity)
        elif act.denied is not None:
            row = change.class_of(act.denied)
            marks.note_answer(change, row.id, False, len(items))
            change.about |= {"said": act.said, "class_id": row.id, "label": str(row.label)}
        else:
            change.about |= {"said": act.said}
            for sample_id in sample_ids:
                marks.mark(change, marks.KEPT, change.sample_of(sample_id).id)
        if act.what == "ignore":
            for place in unlike([item.embedding for item in items]):
                marks.mark(change, marks.IGNORED, items[place].id, items[place].embedding)
        for item in items:
            marks.settle(change, item.id)
        change.about["n"] = len(items) + len(sample_ids)
        return {"taught": bool(change.of_samples), "ids": learned}

    return plan


def _name_reviewed(
    change: Transaction,
    items: Sequence[Item],
    sample_ids: Sequence[str],
    label: Label,
    identity: BackboneIdentity | None,
) -> list[str]:
    """Learn answers with a label, and give samples to its class; gives the samples that are new."""
    rows = []
    if items:
        note_backbone(change, identity)
        rows = change.add([NewSample(item.embedding, label, item.photo) for item in items])
    if sample_ids:
        home = change.class_for(label)
        right = [one_id for one_id in sample_ids if _class_of_sample(change, one_id).number == home.number]
        relabel(sample_ids, label)(change)
        for sample_id in right:
            marks.mark(change, marks.KEPT, sample_id)
    named = change.class_for(label)
    for item in items:
        marks.note_answer(change, item.judged.get("class_id"), item.judged.get("class_id") == named.id)
    change.about = {"label": str(named.label), "class_id": named.id}
    return [row.id for row in rows]


def _class_of_sample(change: Transaction, sample_id: str) -> ClassRow:
    return change.root(change.numbered(change.sample_of(sample_id).home or 0))


def set_settings(settings: dict[str, Any]) -> ChangePlan:
    """Remember choices."""

    def plan(change: Transaction) -> dict[str, Any]:
        for name, value in settings.items():
            marks.set_setting(change, name, int(value))
        change.about |= {"settings": settings}
        return dict(settings)

    return plan
