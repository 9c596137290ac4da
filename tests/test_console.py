"""Every command in the documentation runs, and prints what the page says it does."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from conftest import DATA

for needed in ("typer", "onnxruntime", "PIL", "pyarrow", "fontTools", "matplotlib"):
    pytest.importorskip(needed)

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def run(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    import run_console

    return run_console.run


def alike(word, other):
    """Numbers may differ a little, with other fonts or another processor, and names with numbers in them."""
    numbers = [text.strip("(),%").replace(",", "") for text in (word, other)]
    try:
        one, two = map(float, numbers)
    except ValueError:
        return word == other or all(re.search(r"\d", text) for text in (word, other))
    return abs(one - two) <= max(5.0, 0.15 * abs(one))


def assert_alike(page, printed):
    lines, found = page.splitlines(), printed.splitlines()
    assert len(lines) == len(found), printed
    for line, other in zip(lines, found, strict=True):
        words, others = line.split(), other.split()
        same = len(words) == len(others) and all(map(alike, words, others))
        assert same, f"the page has {line!r}, but it is {other!r}"


def test_the_comparison_sees_differences():
    assert_alike("accuracy 95.0% (171 of 180)\nU+01E6", "accuracy 93.3% (168 of 180)\nU+0276")
    for other in (
        "accuracy 80.0% (171 of 180)",
        "accuracy 95.0% (171 of 180) or so",
        "error 95.0% (171 of 180)",
    ):
        with pytest.raises(AssertionError):
            assert_alike("accuracy 95.0% (171 of 180)", other)


@pytest.mark.skipif(shutil.which("bash") is None, reason="the commands are for a Unix shell")
def test_the_tutorial(run, tmp_path):
    page = (DOCS / "tutorial.md").read_text()
    assert_alike(page, run(page, tmp_path))


@pytest.mark.skipif(not (DATA / "grocery").is_dir(), reason="needs the photos; set XLDA_DATA to their folder")
def test_the_shop(run, tmp_path):
    (tmp_path / "grocery").symlink_to(DATA / "grocery")
    page = (DOCS / "shop.md").read_text()
    assert_alike(page, run(page, tmp_path))
