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
    rounds = [(to_hub, on) for to_hub, on in found["deltas"]]
    most = max(max(to_hub["bytes"], on["bytes"]) for to_hub, on in rounds)
    both = max(to_hub["bytes"] + on["bytes"] for to_hub, on in rounds)
    seconds = sorted(to_hub["seconds"] + on["seconds"] for to_hub, on in rounds)
    whole, size = found["whole"], found["model_bytes"]["new"]
    return [
        [f"{found['samples']} new samples, each way", f"{most / 1e3:,.0f} kB"],
        ["the same, to the hub and on to another", f"{both / 1e3:,.0f} kB"],
        ["both syncs, median and longest", f"{seconds[len(seconds) // 2]:.2f} s, {seconds[-1]:.2f} s"],
        ["all, for a box that has nothing", f"{whole['bytes'] / 1e6:,.1f} MB in {whole['seconds']:.1f} s"],
        ["beside the model file that it then has", f"{size / 1e6:,.1f} MB: {whole['bytes'] / size:.2f}x"],
    ]


def figures(found: dict[str, Any]) -> str:
    """The table, and how it came about."""
    told = table(["what", "measured"], rows(found))
    options = f"--classes {found['classes']} --width {found['width']} --precision {found['precision']}"
    return (
        f"\nBoxes of {found['classes']:,} classes, width {found['width']}, {found['precision']} precision, "
        f"and a hub in another process of the same machine.\n\n{told}\n\n"
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
