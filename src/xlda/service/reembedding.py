"""Another backbone: a new model made of the photos that are kept, beside the old one, which gives way."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from xlda._internal.built_in import DEFAULT_BACKBONE
from xlda._internal.progress import Progress
from xlda.backbones import Backbone, load
from xlda.labels import Label
from xlda.photos.embedding import embed_contents
from xlda.service import log as logs
from xlda.service import plans
from xlda.service.changes import NewSample, Transaction
from xlda.service.database import ROOTS
from xlda.service.engine import Engine, Keeping
from xlda.service.exchanging import exchange, finish_exchange, remove
from xlda.service.log import LogPosition
from xlda.service.marks import SETTINGS
from xlda.service.places import ServicePlaces

AT_ONCE = 32  # photos
NAMED = 5  # classes without photos that are named


class KeptPhoto(NamedTuple):
    """A sample of which there is a photo, and its class."""

    class_id: str
    label: Label
    photo: str | None
    group: str | None


def reembed(model: Path, backbone_name: str | None, keeping: Keeping, say: Callable[[str], object]) -> None:
    """Make a new model of all kept photos with another backbone, and put it in the place of the old one."""
    finish_exchange(ServicePlaces.of(model))
    backbone = load(backbone_name or DEFAULT_BACKBONE)
    old = Engine.open(model, keeping)
    try:
        made_with = old.identity
        if made_with is None or made_with.identity == backbone.identity.identity:
            say(f"{model} is of the backbone {backbone.name} already; nothing is embedded again.")
            return
        new = _made(old, backbone, say)
        name = exchange(old.places, new)
    finally:
        old.abandon()
    say(f"The model as it was is kept as {name}, with its log beside it.")


def _made(old: Engine, backbone: Backbone, say: Callable[[str], object]) -> ServicePlaces:
    """A model of another backbone, with its log and photos."""
    places = ServicePlaces.of(old.places.model.with_name(f"{old.places.model.name}.reembedded"))
    remove(places)
    samples = list(_samples(old))
    photos = [one for one in samples if one.photo is not None and old.photos.read(one.photo) is not None]
    new = Engine.open(places.model, old.keeping)
    _copy_settings(old, new)
    try:
        with Progress(lambda: len(photos), True) as bar:
            rest = iter(photos)
            while some := list(islice(rest, AT_ONCE)):
                _learn(new, old, some, backbone)
                bar.advance(len(some))
    finally:
        new.finish()
    if old.places.tls.exists():  # so that devices trust it as before
        shutil.copytree(old.places.tls, places.tls)
    _report(old, samples, photos, say)
    return places


def _copy_settings(old: Engine, new: Engine) -> None:
    """What was answered once is not asked again."""
    chosen = old.rows("SELECT name, value FROM facts WHERE name LIKE ?", (f"{SETTINGS}%",))
    new.db.executemany("INSERT OR REPLACE INTO facts(name, value) VALUES (?, ?)", chosen)


def _samples(old: Engine) -> Iterator[KeptPhoto]:
    """All samples of current classes, in their order."""
    query = (
        f'{ROOTS} SELECT roots.id, roots.label, samples.photo, samples."group" FROM samples JOIN tree ON '
        "samples.home = tree.number JOIN classes AS roots ON roots.number = tree.root "
        "ORDER BY samples.number"
    )
    for row in old.rows(query):
        yield KeptPhoto(*row)


def _learn(new: Engine, old: Engine, some: list[KeptPhoto], backbone: Backbone) -> None:
    contents = [old.photos.read(one.photo or "") or b"" for one in some]
    embeddings = embed_contents(contents, backbone)
    for one, content in zip(some, contents, strict=True):
        new.photos.put(one.photo or "", content)
    samples = [
        NewSample(embedding, one.label, one.photo, one.group)
        for one, embedding in zip(some, embeddings, strict=True)
    ]
    ids = {one.label: one.class_id for one in some}
    last = logs.last_position(new.db)
    with new.db as db:
        change = Transaction(db, new.machine, last.seq + 1)
        for label, class_id in ids.items():
            if change.labelled(label) is None:
                change.create(label, class_id)
        plans.note_backbone(change, backbone.identity)
        change.add(samples)
        change.about = {"n": len(samples), "backbone": backbone.name}
        event = logs.append(db, last, "xlda serve --reembed", "learn", None, [], change.body())
    new.machine.take(change.steps, change.samples)
    new.machine.position = LogPosition(event.seq, event.checksum)


def _report(
    old: Engine, samples: list[KeptPhoto], photos: list[KeptPhoto], say: Callable[[str], object]
) -> None:
    counts = Counter(one.label for one in photos)
    lost = [str(entry.label) for entry in old.book.by_id.values() if entry.count and not counts[entry.label]]
    n_lost = old.book.n_samples() - len(photos)
    say(f"{len(photos):,} photos of {len(counts):,} classes embedded again.")
    if n_lost > 0:
        say(f"{n_lost:,.0f} samples have no photo, and are not in the new model.")
    if lost:
        named = ", ".join(sorted(lost)[:NAMED])
        more = f" and {len(lost) - NAMED:,} more" if len(lost) > NAMED else ""
        say(f"Without any photo, and so without samples now: {named}{more}.")
