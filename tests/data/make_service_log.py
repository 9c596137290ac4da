"""Write `service-log-3.sqlite`, the log of a service with every operation in it, and what is to come of it.

Once a version of the database is released, its file here stays as it is: run this for a new version alone.

    python tests/data/make_service_log.py service-log-4
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

WIDTH = 4


def make(name):
    """Write both files."""
    from xlda.service import plans
    from xlda.service.changes import NewSample
    from xlda.service.engine import Engine, Keeping
    from xlda.service.writer import Wanted

    rng = np.random.default_rng(1)

    def samples(*labels):
        return [NewSample(rng.normal(size=WIDTH).astype(np.float32), label) for label in labels]

    with tempfile.TemporaryDirectory() as folder:
        engine = Engine.open(Path(folder) / "shop.xlda", Keeping(photos=False))
        engine.start()

        def change(operation, plan, **more):
            wanted = Wanted(operation, plan, "somebody", alone=True, **more)
            return asyncio.run(engine.writer.change(wanted)).body

        def class_id(label):
            return engine.book.by_label[label].id

        batch = plans.teach_batch(samples(*["apple", "pear", "fig", "plum"] * 3))
        change("learn", batch, group="visit 1", key="first", fingerprint=b"a request")
        one = change("learn", plans.teach(samples("apple")[0], plans.Warned([], []), None), status=201)
        two = change("correct", plans.correct(samples("pear")[0], "apple", None))
        change("feedback", plans.confirm(class_id("pear"), samples("pear")[0].embedding, "correct"))
        change("feedback", plans.deny(class_id("fig")))
        change("create", plans.create_class("kiwi"), status=201)
        change("rename", plans.rename_class(class_id("plum"), "prune", None))
        change("relabel", plans.relabel([one["id"]], "kiwi"))
        change("forget", plans.forget([two["id"]]))
        merged = change("merge", plans.merge_classes(class_id("apple"), class_id("fig"), None))
        change("undo", plans.undo([merged["seq"]]))
        change("merge", plans.merge_classes(class_id("apple"), class_id("prune"), None))
        change("remove", plans.remove_class(class_id("pear"), None, False))
        for _ in range(3):
            engine.review.add(
                samples("")[0].embedding, None, {"class_id": class_id("apple"), "label": "apple"}
            )
        engine.review.flush()
        change("settings", plans.set_settings({"keep_photos": False}))
        items = engine.review.items()
        change("review", plans.apply_review(items[:1], [], plans.ReviewAct("label", "apple")))
        change("review", plans.apply_review(items[1:2], [], plans.ReviewAct("ignore")))
        last = engine.rows("SELECT max(id) FROM samples WHERE home IS NOT NULL")[0][0]
        change("review", plans.apply_review([], [last], plans.ReviewAct("keep")))
        denied = plans.ReviewAct("not", denied=class_id("apple"))
        undone = change("review", plans.apply_review(items[2:], [], denied))
        change("undo", plans.undo([undone["seq"]]))
        marks = sorted(kind for (kind,) in engine.rows("SELECT kind FROM marks"))
        classes = [entry.to_json() for entry in engine.book.by_id.values()]
        means = engine.machine.classifier.means_.tolist()
        labels = engine.machine.classifier.classes_.tolist()
        seq, database = engine.machine.seq, engine.places.database
        engine.close()
        shutil.copyfile(database, Path(__file__).with_name(f"{name}.sqlite"))
    expected = {
        "seq": seq,
        "classes": classes,
        "marks": marks,
        "means": dict(zip(labels, means, strict=True)),
    }
    Path(__file__).with_name(f"{name}.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    make(*sys.argv[1:])
