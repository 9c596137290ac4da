"""Writes THIRD-PARTY.md from the list in src/xlda/_internal/third_party.py.

python docs/write_third_party.py
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from xlda._internal.third_party import THIRD_PARTY, ThirdParty

PAGE = Path(__file__).parents[1] / "THIRD-PARTY.md"
TITLES = {"weights": "Weights", "font": "Fonts", "data": "Data"}
OPENING = """# Works of others

Weights, fonts and data that XLDA, its figures and its benchmarks use, with their licences. None of them is in
this repository, nor in what it builds: weights and fonts come with the packages named, under their own
licences. XLDA itself is under the [Apache License 2.0](LICENSE).

The built-in weights were trained on ImageNet (ILSVRC 2012), whose photos have
[terms of their own](https://www.image-net.org/download.php). Of an ONNX file of your own,
the licence is for you to know.

`xlda inspect --licences` prints this list, and `xlda inspect MODEL --licences` that model's backbone first.
This page is written by `python docs/write_third_party.py` from `src/xlda/_internal/third_party.py`.
"""
COLUMNS = "| name | licence | authors | comes with | used for | the licence is said in |"


def page() -> str:
    """The whole page."""
    parts = [OPENING]
    for kind, works in groupby(THIRD_PARTY, key=lambda work: work.kind):
        rows = [COLUMNS, f"|{'---|' * (COLUMNS.count('|') - 1)}", *map(_row, works)]
        parts.append("\n".join((f"## {TITLES[kind]}", "", *rows, "")))
    return "\n".join(parts)


def _row(work: ThirdParty) -> str:
    cells = (work.licence, work.authors, work.package, work.used_for, work.evidence)
    return f"| [{work.name}]({work.source}) | {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
