"""The section on a peer's own code: what benchmarks/peer.py measured."""

from __future__ import annotations

from typing import Any

from markdown import table

STREAMS = {"groups": "ten groups of classes", "shuffled": "shuffled"}


def section(results: dict[str, Any]) -> str:
    """Cost, accuracy, and how often the answers are the same."""
    data, peer = results["data"], results["peer"]
    rows = [
        [
            STREAMS[one["stream"]],
            one["name"],
            f"{one['learn']:.2f}",
            f"{one['first_answer']:.2f}",
            f"{one['predict_one_by_one_ms']:.2f}",
            f"{one['accuracy']:.1%}",
            f"{one['equal_to_loop']:.1%}",
            f"{one['equal_to_double']:.1%}",
            f"{one['memory']['learning_and_predicting'] / 2**20:.0f}",
        ]
        for one in results["runs"]
    ]
    header = ["stream", "", "learning, s", "first answer, s", "one query, ms", "accuracy"]
    header += ["answers as the peer's", "as the peer's in float64", "memory, MiB"]
    text = (
        "## Beside a peer's own code\n\n"
        f"`StreamingLDA` of avalanche-lib {peer['avalanche-lib']}, in an environment of its own (torch "
        f"{peer['torch']}), on the same embeddings in the same order: {data['classes']:,} characters, "
        f"{data['learned']:,} samples, {data['asked']:,} queries. Its own training loop, and its bare `fit` "
        "without that loop. The published rule, computed by XLDA, gives the answers that the peer's code "
        "gives in float64; in float32, as it comes, that code inverts a matrix too ill-conditioned for it. "
        "With more shrinkage, the peer shows what of plain LDA's difference is not the rule. "
        "Memory is the peak above that of the data."
    )
    return f"{text}\n\n{table(header, rows)}"
