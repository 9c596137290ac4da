"""Writes the figures of docs/fleet.md from what benchmarks/fleet.py measured.

python benchmarks/fleet_page.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import machine
from markdown import between, table

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "fleet.md"
RESULTS = HERE / "results" / "fleet.json"
START, END = "<!-- fleet figures -->\n", "<!-- end of fleet figures -->\n"


def rows(found: dict[str, Any]) -> list[list[str]]:
    """What was measured, and the figure."""
    sizes = found["bytes"]
    share = sizes["whole"] / sizes["model"]
    return [
        [f"{found['samples']} new samples to the hub", f"{sizes['sent'] / 1e3:,.0f} kB"],
        ["the same, on to another box", f"{sizes['got'] / 1e3:,.0f} kB"],
        ["written, checked, kept, read and added, at both", f"{found['seconds']:.2f} s"],
        ["all that a box has, for one that was away", f"{sizes['whole'] / 1e6:,.1f} MB"],
        ["beside its model file, without a head", f"{sizes['model'] / 1e6:,.1f} MB: {share:.3f}x"],
    ]


def figures(found: dict[str, Any]) -> str:
    """The table, and how it came about."""
    told = table(["what", "measured"], rows(found))
    options = f"--classes {found['classes']} --width {found['width']} --samples {found['samples']}"
    return (
        f"\nA box of {found['classes']:,} classes, width {found['width']}, half precision, and a hub that "
        f"is a folder; the machine had much else to do.\n\n{told}\n\n"
        f"*`python benchmarks/fleet.py {options}`, {machine.in_words(found['machine'])}*\n"
    )


def page(found: dict[str, Any], text: str) -> str:
    """The page with these figures."""
    return between(text, START, END, figures(found))


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(json.loads(RESULTS.read_text()), PAGE.read_text()))


if __name__ == "__main__":
    main()
