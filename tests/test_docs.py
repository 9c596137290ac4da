"""Numbers in the documentation are those that the benchmarks stored."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def performance_page(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import performance_page

    yield performance_page
    for name in ("performance_page", "machine"):
        sys.modules.pop(name, None)


def test_the_performance_page_shows_the_stored_results(performance_page):
    page = (ROOT / "docs" / "performance.md").read_text()
    assert performance_page.updated(page) == page


def test_a_changed_result_would_be_noticed(performance_page, monkeypatch):
    page = (ROOT / "docs" / "performance.md").read_text()
    stored = performance_page.stored

    def changed(name):
        results = stored(name)
        if name == "training":
            results["shapes"]["Birds"]["timings"]["limit beside xlda 512"] = [1.0] * 5
        return results

    monkeypatch.setattr(performance_page, "stored", changed)
    assert performance_page.updated(page) != page


def test_the_conversion_page_shows_the_stored_results(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import conversion_page

    page = (ROOT / "docs" / "conversion.md").read_text()
    results = conversion_page.stored()
    assert conversion_page.page(results) == page
    results["data"][0]["splits"][0]["after"]["5"]["old"] += 0.1
    assert conversion_page.page(results) != page
    sys.modules.pop("conversion_page")
