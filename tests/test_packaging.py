"""What is built: the sdist has what its tests need, the wheel has the package."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TARGETS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
LEFT_OUT = {".ci", ".gitignore"}  # of no use away from the repository


def test_the_sdist_has_all_that_is_in_the_repository():
    if shutil.which("git") is None:
        pytest.skip("needs git")
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    if not files:
        pytest.skip("needs a clone; this is no repository")
    assert {f"/{file.split('/')[0]}" for file in files if file.split("/")[0] not in LEFT_OUT} == set(
        TARGETS["sdist"]["include"]
    )


def test_all_that_the_sdist_is_to_have_is_there():
    """From an unpacked sdist, this is the one that can fail."""
    assert [name for name in TARGETS["sdist"]["include"] if not (ROOT / name[1:]).exists()] == []


def test_the_wheel_has_the_package_and_its_types():
    assert TARGETS["wheel"] == {"packages": ["src/xlda"]}
    assert (ROOT / "src" / "xlda" / "py.typed").exists()
