"""Numbers in the documentation are those that the benchmarks stored."""

from __future__ import annotations

import json
import re
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


def test_the_page_on_parameters_has_the_texts_of_its_program(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import parameters

    page = (ROOT / "docs" / "parameters.md").read_text()
    for text in (parameters.SHRINKAGE, parameters.MODEL, parameters.TOGETHER, parameters.RENEWAL):
        assert text in page


@pytest.fixture
def results_page(monkeypatch):
    pytest.importorskip("markdown_it")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import results_page

    yield results_page
    for path in (ROOT / "benchmarks").glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_the_page_on_scale_shows_the_stored_results(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import scale_page

    stored = json.loads(scale_page.STORED.read_text())
    page = (ROOT / "docs" / "scale.md").read_text()
    assert scale_page.page(stored) == page
    stored["fit"]["fit_ray"][0]["seconds"] *= 2
    assert scale_page.page(stored) != page


def test_the_report_shows_the_stored_results(results_page):
    results = results_page.stored(ROOT / "benchmarks" / "results")
    assert set(results) == {name for name, _ in results_page.SECTIONS}
    page = (ROOT / "docs" / "results.md").read_text()
    assert results_page.page(results, "standard") == page
    html = (ROOT / "docs" / "results.html").read_text()
    assert results_page.as_html(page, ROOT / "docs") == html


def test_a_changed_figure_would_be_noticed_in_the_report(results_page):
    page = (ROOT / "docs" / "results.md").read_text()
    for name in results_page.stored(ROOT / "benchmarks" / "results"):
        results = results_page.stored(ROOT / "benchmarks" / "results")
        seconds = results[name]["seconds"]  # of the whole run, which the opening shows
        results[name] = {**doubled(results[name]), "seconds": seconds}
        assert results_page.page(results, "standard") != page, name


def test_a_changed_count_would_be_noticed_in_the_report(results_page):
    page = (ROOT / "docs" / "results.md").read_text()
    changes = {
        "accuracy": lambda found: found["sources"][0]["methods"]["XLDA"][0]["checkpoints"][-1],
        "race": lambda found: found["courses"][0]["heads"]["XLDA"],
        "on_par": lambda found: found["cases"][0]["points"][0]["runs"][0]["methods"]["XLDA"],
    }
    for name, place in changes.items():
        results = results_page.stored(ROOT / "benchmarks" / "results")
        changed = place(results[name])
        right = changed["right"]
        changed["right"] = [0 * n for n in right] if isinstance(right, list) else right // 2
        assert results_page.page(results, "standard") != page, name


def doubled(value):
    """Every number with a fraction of some results, twice as large."""
    if isinstance(value, dict):
        return {key: doubled(inside) for key, inside in value.items()}
    if isinstance(value, list):
        return [doubled(inside) for inside in value]
    return 2 * value if isinstance(value, float) else value


def test_every_plot_of_the_report_is_there(results_page):
    page = (ROOT / "docs" / "results.md").read_text()
    plots = re.findall(r"\]\((results/[^)]+)\)", page)
    assert len(plots) == len(set(plots)) > len(results_page.DRAWINGS)
    assert all((ROOT / "docs" / plot).exists() for plot in plots)


@pytest.mark.parametrize(("preset", "folder"), [("standard", "docs"), ("quick", "report/quick")])
def test_the_report_links_to_pages_that_are_there(results_page, preset, folder):
    page = results_page.page(results_page.stored(ROOT / "benchmarks" / "results"), preset)
    links = re.findall(r"\]\(([^)]+\.md)\)", page)
    assert len(set(links)) == (5 if preset == "standard" else 3)
    assert all((ROOT / folder / link).resolve().exists() for link in links)


def test_every_command_has_a_page_with_its_options():
    """The page shows what --help prints, in whatever layout the installed typer gives it."""
    typer = pytest.importorskip("typer")
    from xlda.cli.app import app

    commands = typer.main.get_command(app()).commands
    pages = {path.stem: path.read_text() for path in (ROOT / "docs" / "commands").glob("*.md")}
    assert set(pages) == set(commands)
    for name, command in commands.items():
        block = " ".join(pages[name].split("```text")[1].split())
        for sentence in command.help.replace("\b", "").split("\n"):
            assert sentence.strip() in block
        named = [option for param in command.params for option in (*param.opts, *param.secondary_opts)]
        options = {option for option in named if option.startswith("--")}
        for param in command.params:
            assert " ".join(param.help.split()) in block, (name, param.name)
        assert options | {"--help"} == set(
            re.findall(r"(?<![\w-])--[a-z][a-z-]*", block.split("Options:")[1])
        )


def test_the_readme_names_every_command_page():
    readme = (ROOT / "README.md").read_text()
    for path in (ROOT / "docs" / "commands").glob("*.md"):
        assert f"(docs/commands/{path.name})" in readme


def test_the_page_of_the_service_has_its_options(monkeypatch):
    pytest.importorskip("typer")
    monkeypatch.syspath_prepend(ROOT / "docs" / "commands")
    import write_help

    page = write_help.SERVE.read_text()
    assert write_help.with_options(page) == page
    assert write_help.with_options(page.replace("| 8765 |", "| 8766 |")) == page


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link, part in re.findall(r"\]\((?!\w+:)([^)#]*)(#[^)]*)?\)", text):
        target = (page.parent / link).resolve() if link else page
        assert target.exists(), link
        if part and target.suffix == ".md":
            titles = re.findall(r"^#+ (.*)$", target.read_text(), re.M)
            names = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert part[1:] in names, link + part


def test_the_page_of_a_lift_shows_the_stored_results(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import lift_page

    page, results = (ROOT / "docs" / "lift.md").read_text(), json.loads(lift_page.COST.read_text())
    assert lift_page.page(results) == page
    results["sizes"]["found"][0]["file"] *= 2
    assert lift_page.page(results) != page
    sys.modules.pop("lift_page")
