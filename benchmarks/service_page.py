"""Writes the figures of docs/serve.md from what benchmarks/service.py measured.

python benchmarks/service_page.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import machine
from markdown import between, table

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "serve.md"
RESULTS = HERE / "results" / "service.json"
START, END = "<!-- service figures -->\n", "<!-- end of service figures -->\n"


def ms(seconds: float) -> str:
    """Seconds as milliseconds."""
    return f"{1e3 * seconds:,.1f} ms" if seconds < 0.01 else f"{1e3 * seconds:,.0f} ms"


def spread(seconds: dict[str, float]) -> str:
    """Median and 95 %."""
    return f"{ms(seconds['median'])}, {ms(seconds['95 %'])}"


def beside(seconds: dict[str, float], network: dict[str, float]) -> str:
    """The same, and as many times what the network takes."""
    ratios = " and ".join(f"{seconds[name] / network[name]:.2f}x" for name in ("median", "95 %"))
    return f"{spread(seconds)}: {ratios} the network's"


def rows(found: dict[str, Any]) -> list[list[str]]:
    """What was measured, and the figure."""
    photos, speed, learned = found["photos"], found["throughput"], found["learned"]
    waits = found["waits"]
    network = photos["network"]
    share = speed["service"] / speed["xlda embed"]
    syncs = learned["1 a request, 1 client"] / learned["syncs of the disk"]
    return [
        [
            "start to ready, first and later",
            f"{found['first start']:.1f} s, {found['start']['median']:.1f} s",
        ],
        ["the network's own time for a photo, all views: median, 95 %", spread(network)],
        ["predict a photo: median, 95 %", beside(photos["predict"], network)],
        [
            f"the same while {photos['taught meanwhile, a second']:.0f} samples a second are taught",
            beside(photos["predict while taught"], network),
        ],
        ["teach a photo, 95 % acknowledged within", ms(photos["teach"]["95 %"])],
        ["known by the next call", photos["known by the next"]],
        [
            "photos a second, 16 callers; beside `xlda embed`",
            f"{speed['service']:.0f}, {speed['xlda embed']:.0f}: {share:.2f}",
        ],
        [
            "embeddings learned a second, 32 a request, 8 clients",
            f"{learned['32 a request, 8 clients']:,.0f}",
        ],
        [
            "the same, 1 a request, 1 client; syncs of the disk a second",
            f"{learned['1 a request, 1 client']:,.0f}, {learned['syncs of the disk']:,.0f}: {syncs:.2f}",
        ],
        [
            "predict an embedding while others teach: median, 99.9 %",
            f"{ms(waits['median'])}, {ms(waits['99.9 %'])}",
        ],
        [
            "the longest of these waits; the longest gap of a clock",
            f"{ms(waits['longest'])}; {ms(waits['gap'])}",
        ],
        ["memory at the start", f"{found['resident at start'] / 1e6:,.0f} MB"],
        ["memory after all of this", f"{found['resident after waits'] / 1e6:,.0f} MB"],
        *remembered(found),
    ]


def remembered(found: dict[str, Any]) -> list[list[str]]:
    """Memory over many calls, where that was measured."""
    if "memory" not in found:
        return []
    first, last = found["memory"][1], found["memory"][-1]
    told = f"{first / 1e6:,.0f} MB, {last / 1e6:,.0f} MB: {last / first - 1:+.1%}"
    most = f"{max(found['memory']) / 1e6:,.0f} MB"
    return [
        ["memory after the first and the last tenth of many calls", told],
        ["the most after any tenth of them, where a head was made or the model measured itself", most],
    ]


def figures(found: dict[str, Any]) -> str:
    """The table, and how it came about."""
    told = table(["what", "measured"], rows(found))
    command = f"python benchmarks/service.py --photos FOLDER {found['options']}".strip()
    return f"\n{told}\n\n*`{command}`, {machine.in_words(found['machine'])}*\n"


def page(found: dict[str, Any], text: str) -> str:
    """The page with these figures."""
    return between(text, START, END, figures(found))


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(json.loads(RESULTS.read_text()), PAGE.read_text()))


if __name__ == "__main__":
    main()
