"""An engine in this process, asked from one thread."""

from __future__ import annotations

import asyncio
import random
from contextlib import contextmanager

import numpy as np

from xlda.service import plans
from xlda.service.changes import NewSample
from xlda.service.engine import Engine, Keeping
from xlda.service.writer import Wanted

WIDTH = 8


class Shop:
    """Changes, and what they were answered."""

    def __init__(self, engine):
        self.engine, self._dice = engine, random.Random(1)

    def change(self, operation, plan, **more):
        wanted = Wanted(operation, plan, "a test", alone=True, **more)
        return asyncio.run(self.engine.writer.change(wanted))

    def teach(self, labels, **more):
        rows = np.random.default_rng(self._dice.getrandbits(32)).normal(size=(len(labels), WIDTH))
        rows[:, 0] = -np.abs(rows[:, 0])
        samples = [NewSample(row.astype(np.float32), label) for row, label in zip(rows, labels, strict=True)]
        return self.change("learn", plans.teach_batch(samples), **more)

    def ids(self, label):
        """Of a class, and of its samples, the oldest first."""
        class_id = self.engine.book.by_label[label].id
        rows = self.engine.rows(
            "SELECT samples.id FROM samples JOIN classes ON samples.home = classes.number "
            "WHERE classes.id = ? ORDER BY samples.number",
            (class_id,),
        )
        return class_id, [row[0] for row in rows]


@contextmanager
def running(path, ends_well=False, **more):
    """A shop at this model, which is left at the end as by a kill, or as by an operator."""
    engine = Engine.open(path, Keeping(photos=False), **more)
    engine.start()
    try:
        yield Shop(engine)
    except BaseException:
        engine.abandon()
        raise
    engine.close() if ends_well else engine.abandon()
