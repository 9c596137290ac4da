"""What a log says, by plain dictionaries and loops: it shares no code with the service.

The database is read by Python's own sqlite3. A sample is of the class that the last effect on it names; a
class that was merged stands for the one that it was merged into. Steps, which the service's model takes, are
only looked at for the label of a new class.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from contextlib import closing

import numpy as np

TOLERANCE = 1e-5


class Log:
    """All events so far, also those that the service has folded since they were seen."""

    def __init__(self, database):
        self.database = database
        self.events = {}  # by number: (id, operation, body)
        self.requests = {}  # by key: (seq, status, answer)
        self.changed = []  # events that are not what they were
        self.homes = {}  # of a sample: id of its class, or None
        self.digest_of = {}  # of a sample's embedding
        self.classes = {}  # by id
        self.times_learned = Counter()  # by digest
        self._last_row = 0

    @property
    def last(self):
        return max(self.events, default=0)

    def connect(self):
        return closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=10))

    def read(self):
        """Take in what is new; gives whether nothing was missed."""
        with self.connect() as db:
            db.execute("BEGIN")
            events = "SELECT seq, id, operation, body FROM events WHERE seq > ? ORDER BY seq"
            new = list(db.execute(events, (self.last,)))
            keys = "SELECT key, seq, status, answer FROM requests WHERE seq >= ?"
            rows = list(db.execute(keys, (self._last_row,)))
        for seq, event_id, operation, text in new:
            if seq != self.last + 1:
                return False
            self.events[seq] = (event_id, operation, json.loads(text))
            self._follow(self.events[seq][2])
        for key, seq, status, answer in rows:
            self.requests[key] = (seq, status, json.loads(answer))
            self._last_row = max(self._last_row, seq)
        return True

    def check_all(self):
        """Read everything again: what was seen is still so, and embeddings are what their events say."""
        wrong = []
        with self.connect() as db:
            db.execute("BEGIN")
            seen = dict(db.execute("SELECT seq, id FROM events"))
            folded = db.execute("SELECT value FROM facts WHERE name = 'folded'").fetchone()
            first = 1 + (json.loads(folded[0])[0] if folded else 0)
            keys = Counter(key for (key,) in db.execute("SELECT key FROM requests"))
            stored = dict(db.execute("SELECT id, embedding FROM samples WHERE embedding IS NOT NULL"))
        wrong += [f"event {seq} is gone" for seq in range(first, self.last + 1) if seq not in seen]
        wrong += [
            f"event {seq} is another one"
            for seq, new in seen.items()
            if self.events.get(seq, [new])[0] != new
        ]
        wrong += [f"key {key} is there {times} times" for key, times in keys.items() if times > 1]
        for sample, embedding in stored.items():
            if hashlib.blake2b(embedding, digest_size=16).hexdigest() != self.digest_of.get(sample):
                wrong.append(f"the embedding of sample {sample} is another one")
        return wrong

    def _follow(self, body):
        labels = {step[1]: step[2] for step in body.get("steps", []) if step[0] == "name"}
        for class_id, field, _, after, *_ in body.get("classes", []):
            blank = {"label": labels.get(class_id), "is_there": 0, "is_removed": 0, "parent": None}
            self.classes.setdefault(class_id, blank)[field] = after
        for sample, _, after, *digest in body.get("samples", []):
            self.homes[sample] = after
            if digest:
                self.digest_of[sample] = digest[0]
                self.times_learned[digest[0]] += 1

    def learned_by(self, seq):
        """Digests of the samples that an event has brought."""
        if seq not in self.events:
            return None
        return [effect[3] for effect in self.events[seq][2].get("samples", []) if len(effect) > 3]

    def root(self, class_id):
        while self.classes[class_id]["parent"] is not None:
            class_id = self.classes[class_id]["parent"]
        return class_id

    def assignment(self):
        """Of each current class, by id: digests of its samples."""
        found = {
            class_id: []
            for class_id, row in self.classes.items()
            if row["is_there"] and not row["is_removed"] and row["parent"] is None
        }
        for sample, home in self.homes.items():
            if home is not None and (root := self.root(home)) in found:
                found[root].append(self.digest_of[sample])
        return found

    def counts(self):
        """Samples of each current class, by id and label."""
        return {(root, self.classes[root]["label"]): len(some) for root, some in self.assignment().items()}


def moments(log, embedding_of):
    """Counts and means by label, and the pooled covariance, of samples as they are assigned in the end."""
    counts, means = {}, {}
    width = len(next(iter(embedding_of.values())))
    scatter = np.zeros((width, width))
    for root, digests in log.assignment().items():
        label = log.classes[root]["label"]
        if not digests:
            continue
        rows = np.array([embedding_of[digest] for digest in digests], np.float64)
        counts[label], means[label] = len(rows), rows.sum(axis=0) / len(rows)
        for row in rows:
            scatter += np.outer(row - means[label], row - means[label])
    dof = sum(counts.values()) - len(counts)
    return counts, means, scatter / max(dof, 1)


def differences(model, log, embedding_of):
    """In what a model is not the replay of its log from nothing; an empty list where it is."""
    counts, means, covariance = moments(log, embedding_of)
    found = {
        label: (count, mean)
        for label, count, mean in zip(
            model.classes_.tolist(), model.class_count_.tolist(), model.means_, strict=True
        )
        if count > 0.5
    }
    if {label: round(count) for label, (count, _) in found.items()} != counts:
        return [f"the counts differ: {sorted(counts.items())} in the log, not so in the model"]
    wrong = [
        f"the mean of {label} differs by {np.abs(found[label][1] - mean).max():g}"
        for label, mean in means.items()
        if not np.allclose(found[label][1], mean, rtol=0, atol=TOLERANCE)
    ]
    if not np.allclose(model.covariance_, covariance, rtol=0, atol=TOLERANCE):
        wrong.append(f"the covariance differs by {np.abs(model.covariance_ - covariance).max():g}")
    return wrong
