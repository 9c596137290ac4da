"""Whether a search finds what it should, and what that saves."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlda._internal.arrays import Array
from xlda.head.head import Head
from xlda.head.model_samples import sampled_queries
from xlda.model import Model
from xlda.search.dense import DenseIndex

MOST_TIMED = 200  # queries timed one by one


@dataclass(frozen=True)
class Audit:
    """What `XLDA.audit` found; `print` shows it as a table. Times are seconds a query, one query a call."""

    n_classes: int
    n_queries: int
    drawn: bool  # whether the queries were drawn from the model
    picked: dict[str, Any]  # the search and its settings
    agreement: float  # share of queries with the winner of exact LDA
    found: float  # share of queries whose exact winner was among the classes looked at
    seconds: dict[str, float]  # median and 95th percentile of the search
    dense_seconds: dict[str, float]  # the same for all classes
    nbytes: dict[str, int]  # memory of each part

    def __str__(self) -> str:
        picked = ", ".join(f"{key} {value}" for key, value in self.picked.items() if key != "search")
        origin = "drawn from the model" if self.drawn else "given"
        lines = [
            ("classes", f"{self.n_classes:,}"),
            ("queries", f"{self.n_queries:,}, {origin}"),
            ("search", str(self.picked["search"]) + (f" ({picked})" if picked else "")),
            ("agrees with exact LDA", f"{self.agreement:.2%}"),
            ("winner in the shortlist", f"{self.found:.2%}"),
            ("one query, search", _times(self.seconds)),
            ("one query, all classes", _times(self.dense_seconds)),
            *((f"memory, {part}", f"{size / 2**20:,.1f} MiB") for part, size in self.nbytes.items()),
        ]
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in lines)


def _times(seconds: dict[str, float]) -> str:
    return f"{1e3 * seconds['median']:.2f} ms (median), {1e3 * seconds['p95']:.2f} ms (95th percentile)"


def drawn_for_audit(model: Model, head: Head, n: int) -> Array:
    """`n` embeddings (n, d) drawn from a model; with a lift, features."""
    if n < 1:
        raise ValueError(f"n is at least 1; got {n!r}.")
    if model.layer_rows is not None:
        raise ValueError("audit needs X: rows of an imported layer do not say what its queries look like.")
    queries, _ = sampled_queries(model.moments, head.centre, n, np.random.default_rng(0))
    embeddings: Array = queries + head.centre
    return embeddings


def audited(head: Head, embeddings: Array, drawn: bool, nbytes: dict[str, int]) -> Audit:
    """Compare the search of `head` with looking at all classes, on checked `embeddings` (n, d)."""
    exact = head.with_index(DenseIndex(head.index.rows))
    winners, best = exact.top(embeddings, 1)
    predicted, scores = head.top(embeddings, 1)
    same = (winners == predicted) | (scores >= best)  # of equal classes either is right
    shortlists = head.shortlists(embeddings, 1)
    found = [winner in shortlist for winner, shortlist in zip(winners[:, 0], shortlists, strict=True)]
    return Audit(
        n_classes=head.n_seen,
        n_queries=len(embeddings),
        drawn=drawn,
        picked=head.index.describe(),
        agreement=float(same.mean()),
        found=float(np.mean(found)),
        seconds=_timed(head, embeddings),
        dense_seconds=_timed(exact, embeddings),
        nbytes=nbytes,
    )


def _timed(head: Head, embeddings: Array) -> dict[str, float]:
    seconds = []
    for number in range(min(len(embeddings), MOST_TIMED)):
        start = time.perf_counter()
        head.top(embeddings[number : number + 1], 1)
        seconds.append(time.perf_counter() - start)
    return {"median": float(np.median(seconds)), "p95": float(np.quantile(seconds, 0.95))}
