"""Writes docs/lift.md from what benchmarks/lift_cost.py measured.

python benchmarks/lift_page.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import machine

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "lift.md"
COST = HERE / "results" / "lift_cost.json"


def write() -> None:
    """The page."""
    PAGE.write_text(page(json.loads(COST.read_text())))


def page(results: dict[str, Any]) -> str:
    """All of it."""
    parts = {"learning": learning, "predicting": predicting, "sizes": sizes}
    found = [part(results[name]["found"]) for name, part in parts.items() if name in results]
    measured = machine.in_words(results["learning"]["machine"])
    return "\n".join(
        [INTRODUCTION, *found, f"Measured by `python benchmarks/lift_cost.py` on: {measured}.", ""]
    )
