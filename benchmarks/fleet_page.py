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


def folder_rows(found: dict[str, Any]) -> list[list[str]]:
    """Messages, with a folder as the hub."""
    sizes = found["bytes"]
    share = sizes["whole"] / sizes["model"]
    return [
        [f"{found['samples']} new samples to the hub", f"{sizes['sent'] / 1e3:,.0f} kB"],
        ["the same, on to another box", f"{sizes['got'] / 1e3:,.0f} kB"],
        ["written, checked, kept, read and added, at both", f"{found['seconds']:.2f} s"],
        ["all that a box has, for one that was away", f"{sizes['whole'] / 1e6:,.1f} MB"],
        ["beside its model file, without a head", f"{sizes['model'] / 1e6:,.1f} MB: {share:.3f}x"],
    ]


def service_rows(found: dict[str, Any]) -> list[list[str]]:
    """Whole syncs, with a service as the hub."""
    told = [f"{there['seconds']:.2f} + {back['seconds']:.2f} s" for there, back in found["deltas"]]
    most = max(one["bytes"] for pair in found["deltas"] for one in pair)
    first, again, _ = found["first"]
    return [
        [f"{found['samples']} new samples to the hub, and on to another box", "; ".join(told)],
        ["bytes of such a sync, both ways, at most", f"{most / 1e3:,.0f} kB"],
        [
            "first sync of a box, which brings what both began from, and of another",
            f"{first['seconds']:.0f} s; {again['seconds']:.0f} s",
        ],
        [
            "a box that has nothing gets all, and makes its model",
            f"{found['whole']['bytes'] / 1e6:,.1f} MB, {found['whole']['seconds']:.0f} s",
        ],
    ]


def one_table(found: dict[str, Any], rows: list[list[str]], hub: str, option: str) -> str:
    """The table, and how it came about."""
    told = table(["what", "measured"], rows)
    options = f"--classes {found['classes']} --width {found['width']} --samples {found['samples']}{option}"
    busy = "; the machine had much else to do" if found["load"] > 1 else ""
    return (
        f"\nA box of {found['classes']:,} classes, width {found['width']}, half precision, and a hub that "
        f"is {hub}{busy}.\n\n{told}\n\n"
        f"*`python benchmarks/fleet.py {options}`, {machine.in_words(found['machine'])}*\n"
    )


def figures(found: dict[str, Any]) -> str:
    """Both tables."""
    folder, services = found["folder"], found["services"]
    return one_table(folder, folder_rows(folder), "a folder", "") + one_table(
        services, service_rows(services), "a service in another process", " --services"
    )


def page(found: dict[str, Any], text: str) -> str:
    """The page with these figures."""
    return between(text, START, END, figures(found))


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(json.loads(RESULTS.read_text()), PAGE.read_text()))


if __name__ == "__main__":
    main()
