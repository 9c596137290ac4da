"""What each step of a sharded model costs a class, a sample or a query: for benchmarks/scale.py costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from xlda import XLDA
from xlda._internal.lapack import eigenvectors
from xlda.head.covariance import Whitening, covariance_factor
from xlda.shards import ClassShard, ShardedXLDA
from xlda.shards.sharded import shard_of

D, CLASSES, SAMPLES = 1280, 20_000, 60_000


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Of a core, that it took, whatever else the machine did; and what came of it."""
    begun = time.process_time()
    found = work()
    return time.process_time() - begun, found


def measure() -> dict[str, Any]:
    """Of one shard of 20,000 classes, in seconds of a core; and how several answer beside one model."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((CLASSES, D), dtype=np.float32)
    y = np.concatenate([np.arange(CLASSES), rng.integers(0, CLASSES, SAMPLES - CLASSES)])
    X = centres[y] + rng.standard_normal((len(y), D), dtype=np.float32)
    clf = XLDA()
    learning, _ = seconds(lambda: clf.partial_fit(X, y))
    to_bytes, data = seconds(clf.to_bytes)
    from_bytes, other = seconds(lambda: XLDA.from_bytes(data))
    merging, _ = seconds(lambda: XLDA.from_bytes(data).merge(other))
    shard = ClassShard(clf)
    first, within = seconds(shard.within)
    covariance = within.scatter / within.dof
    factor, _ = covariance_factor(covariance, within.dof)
    assert factor is not None
    whitening = Whitening.by(factor)
    inverting, _ = seconds(lambda: eigenvectors(covariance))
    base, matrix = within.sum / within.weight, whitening.matrix.astype(np.float32)
    second, _ = seconds(lambda: shard.group_sums(base, matrix[:, :64], within.counts, within.rounded))
    scale = np.ones(len(within.counts), np.float32)
    third, _ = seconds(lambda: shard.products(base, scale, within.counts, within.rounded))
    sharded = ShardedXLDA.of([clf])
    heads, _ = seconds(lambda: sharded.predict(X[:1]))
    queries = X[:256]
    asking, _ = seconds(lambda: [sharded.predict(query[None]) for query in queries])
    return {
        "classes": CLASSES, "samples": SAMPLES, "features": D, "groups": len(within.counts),
        "bytes": len(data), "learning": learning, "to_bytes": to_bytes, "from_bytes": from_bytes,
        "merging": merging - from_bytes, "first": first, "second": second, "third": third,
        "inverting": inverting, "heads": heads, "query": asking / len(queries), **_compared(),
    }  # fmt: skip


def _compared(n_shards: int = 4) -> dict[str, Any]:
    """Shards beside one model of the same samples, smaller ones."""
    rng = np.random.default_rng(1)
    y = np.concatenate([np.arange(3000), rng.integers(0, 3000, 9000)])
    X = rng.standard_normal((3000, 256), dtype=np.float32)[y] + rng.standard_normal(
        (len(y), 256), dtype=np.float32
    )
    homes = np.array([shard_of(int(label), n_shards) for label in y])
    parts = [XLDA().partial_fit(X[homes == home], y[homes == home]) for home in range(n_shards)]
    sharded, whole = ShardedXLDA.of(parts), XLDA(search="dense").fit(X, y)
    queries = X + rng.standard_normal(X.shape, dtype=np.float32)
    labels, scores = whole.predict_topk(queries, 1)
    found, of_shards = sharded.predict_topk(queries, 1)
    return {
        "shards": n_shards, "same_answers": float((labels == found).mean()), "compared": len(queries),
        "scores_differ": float(np.abs(scores - of_shards).max()),
    }  # fmt: skip
