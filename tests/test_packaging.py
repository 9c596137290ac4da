"""What is built: the sdist has what its tests need, the wheel has the package."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
TARGETS = SETTINGS["tool"]["hatch"]["build"]["targets"]
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


def wanted_by(name, extra):
    """What a package asks for with this extra: xlda in pyproject.toml, others in their installed metadata."""
    if name == "xlda":
        project = SETTINGS["project"]
        return project["dependencies"] + (project["optional-dependencies"][extra] if extra else [])
    try:
        return distribution(name).requires or []
    except PackageNotFoundError:
        pytest.skip(f"needs {name} installed: xlda[dev]")


def closure(extra):
    """Names of all packages that come with an extra, itself and through others."""
    waiting, found = [("xlda", ""), ("xlda", extra)], set()
    while waiting:
        name, of = waiting.pop()
        if (name, of) in found:
            continue
        found.add((name, of))
        for line in wanted_by(name, of):
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": of}):
                waiting += [(canonicalize_name(needed.name), one) for one in ("", *sorted(needed.extras))]
    return {name for name, _ in found}


def test_the_service_comes_without_what_is_large_and_not_for_it():
    packages = closure("serve")
    assert {"apsw", "fastapi", "httpx", "onnxruntime", "pillow", "starlette", "typer", "uvicorn"} <= packages
    assert not packages & {"faiss-cpu", "matplotlib", "onnx", "pandas", "pyarrow", "sympy", "torch"}
    assert {"matplotlib", "onnx", "pyarrow"} <= closure("cli")


def test_a_client_needs_one_package_more_than_the_core():
    assert SETTINGS["project"]["optional-dependencies"]["client"] == ["httpx>=0.27"]
