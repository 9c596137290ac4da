"""Errors about a missing extra give a line that pip takes, however xlda was installed."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from cli_shop import OLD, paint

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
METADATA = "Metadata-Version: 2.1\nName: xlda\nVersion: 0.1.0\nProvides-Extra: images\n"
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "xlda"
"""
BACKEND = f"""
import pathlib

def prepare_metadata_for_build_wheel(folder, settings=None):
    info = pathlib.Path(folder, "xlda-0.1.0.dist-info")
    info.mkdir()
    info.joinpath("METADATA").write_text({METADATA!r})
    return info.name

prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel

def build_wheel(folder, settings=None, metadata=None):
    raise NotImplementedError

build_editable = build_wheel
"""
NOT_SERVED = ("faiss", "fontTools", "matplotlib", "onnx", "pandas", "pyarrow", "torch")  # not in `serve`
SERVED = f"""
import sys
class Missing:
    def find_spec(name, path=None, target=None):
        if name.split(".")[0] in {NOT_SERVED}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing)
from xlda.cli.app import run
for line in sys.argv[1:]:
    if code := run(line.split()):
        sys.exit(code)
"""
posix = pytest.mark.skipif(os.name == "nt", reason="the line is for a Unix shell")


def copied(folder):
    """As much of xlda as says what is missing, in a folder of packages."""
    inside = folder / "xlda" / "_internal"
    inside.mkdir(parents=True)
    (inside / "__init__.py").touch()
    (inside.parent / "__init__.py").touch()
    shutil.copy(ROOT / "src/xlda/_internal/extras.py", inside)
    return folder


def installed(folder, origin=None):
    """The same as pip installs it, with its note of where that came from."""
    info = copied(folder) / "xlda-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    if origin is not None:
        (info / "direct_url.json").write_text(json.dumps(origin))
    return folder


def project(folder):
    """A project of that name which pip can look into without any other package."""
    folder.mkdir()
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "backend.py").write_text(BACKEND)
    return folder


def line_of(packages):
    """What the copy in the folder `packages` says."""
    code = "from xlda._internal.extras import needs; print(needs('This', 'pillow', 'images'))"
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    told = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert told.startswith("This needs pillow: pip install ")
    return told.removeprefix("This needs pillow: ")


def assert_pip_takes(line):
    """A shell and pip understand the line, and pip finds the extra."""
    pytest.importorskip("pip")
    options = "--dry-run --no-deps --no-index --ignore-installed --disable-pip-version-check"
    ran = subprocess.run(
        f"{shlex.quote(sys.executable)} -m {line} {options}", shell=True, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert "Would install xlda-0.1.0" in ran.stdout
    assert "does not provide the extra" not in ran.stderr


@posix
def test_from_a_checkout(tmp_path):
    checkout = project(tmp_path / "it's a clone")
    line = line_of(copied(checkout / "src"))
    assert shlex.split(line) == ["pip", "install", "--editable", f"{checkout}[images]"]
    assert_pip_takes(line)


@posix
def test_installed_from_a_folder(tmp_path):
    clone = project(tmp_path / "my clone")
    line = line_of(installed(tmp_path / "site", {"url": clone.as_uri(), "dir_info": {}}))
    assert shlex.split(line) == ["pip", "install", f"{clone}[images]"]
    assert_pip_takes(line)


@posix
def test_installed_from_a_wheel(tmp_path):
    wheel = tmp_path / "two words" / "xlda-0.1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("xlda-0.1.0.dist-info/METADATA", METADATA)
        archive.writestr("xlda-0.1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("xlda-0.1.0.dist-info/RECORD", "")
    line = line_of(installed(tmp_path / "site", {"url": wheel.as_uri(), "archive_info": {}}))
    assert shlex.split(line) == ["pip", "install", f"{wheel}[images]"]
    assert_pip_takes(line)


@posix
@pytest.mark.parametrize(
    ("origin", "url"),
    [
        (
            {"url": "https://example.org/xlda.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
            "git+https://example.org/xlda.git@c0ffee",
        ),
        ({"url": "https://example.org/xlda.tar.gz", "archive_info": {}}, "https://example.org/xlda.tar.gz"),
    ],
)
def test_installed_from_an_address(tmp_path, origin, url):
    *command, wanted = shlex.split(line_of(installed(tmp_path, origin)))
    assert command == ["pip", "install"]
    requirement = Requirement(wanted)
    assert (requirement.name, requirement.extras, requirement.url) == ("xlda", {"images"}, url)


@posix
@pytest.mark.parametrize("origin", [None, {"url": "file:///nowhere/any/more", "dir_info": {}}])
def test_installed_from_an_index_or_a_place_that_is_gone(tmp_path, origin):
    assert line_of(installed(tmp_path, origin)) == "pip install 'xlda[images]'"


@posix
def test_another_project_that_carries_a_copy_is_no_checkout(tmp_path):
    packages = installed(tmp_path / "src")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    assert line_of(packages) == "pip install 'xlda[images]'"


def test_every_place_names_an_extra_that_is_there():
    """And none has a line of its own, which would be wrong for a clone."""
    asked = []
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text()
        assert not re.search(r"pip install ['\"]?xlda", text), path
        asked += re.findall(r"needs\([^()]*\"(\w+)\"\)", text)
    assert len(asked) >= 12
    assert set(asked) <= set(EXTRAS)


@pytest.mark.parametrize(
    ("missing", "statement", "message"),
    [
        ("typer", "import xlda.cli; xlda.cli.main()", "xlda: the command needs typer"),
        ("rich", "import xlda.cli; xlda.cli.main()", "xlda: the command needs rich"),
        ("matplotlib", "import xlda.demo", "ImportError: xlda.demo needs matplotlib"),
    ],
)
def test_the_command_and_the_demo_say_what_they_need(missing, statement, message):
    code = f"import sys; sys.modules[{missing!r}] = None; {statement}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 1
    assert re.search(rf"{message}: pip install .*\[cli\]['\"]$", ran.stderr.strip())


def run_with_serve_alone(folder, *lines):
    """The command as it is with the extra `serve` and nothing more, once for each line, in one process."""
    paint(folder / "photos", OLD, 3, 1)
    for needed in ("typer", "rich", "PIL", "onnxruntime"):
        pytest.importorskip(needed)
    environment = {**os.environ, "XLDA_CACHE": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, "-c", SERVED, *lines],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )


def test_with_serve_alone_the_command_learns_from_photos_and_keeps_models(tmp_path):
    assert not {name.lower() for name in NOT_SERVED} & {
        Requirement(needed).name.lower()
        for extra in ("serve", "client", "images")
        for needed in EXTRAS[extra]
    }
    ran = run_with_serve_alone(
        tmp_path,
        "--help",
        "fit photos --out shop.xlda",
        "learn shop.xlda photos/red --label scarlet",
        "predict shop.xlda photos/blue/0.png",
        "evaluate shop.xlda photos",
        "classes shop.xlda",
        "rename shop.xlda scarlet ruby",
        "forget shop.xlda photos/blue/0.png --label blue",
        "fit photos --out other.xlda",
        "merge shop.xlda other.xlda --out both.xlda",
        "merge-classes both.xlda red ruby",
        "remove both.xlda green",
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    ("line", "package", "extra"),
    [
        ("embed photos --out photos.parquet", "pyarrow", "parquet"),
        ("fit photos.parquet --out shop.xlda", "pyarrow", "parquet"),
        ("fit photos --backbone network.onnx --cut-head --out shop.xlda", "onnx", "onnx"),
        ("convert network.onnx --out shop.xlda", "onnx", "onnx"),
        ("glyphs characters", "fontTools", "glyphs"),
        ("demo", "fontTools", "cli"),
    ],
)
def test_with_serve_alone_other_commands_say_in_a_sentence_what_they_need(tmp_path, line, package, extra):
    for name in ("network.onnx", "photos.parquet"):
        (tmp_path / name).touch()
    ran = run_with_serve_alone(tmp_path, line)
    assert ran.returncode == 1
    (said,) = ran.stderr.splitlines()
    assert re.search(rf"^xlda: .*needs .*\b{package}: pip install .*\[{extra}\]['\"]?$", said)


def test_work_on_ray_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "xlda.extras.ray", raising=False)
    with pytest.raises(ImportError, match=r"needs ray\[data\]: pip install .*\[ray\]"):
        importlib.import_module("xlda.extras.ray")
