"""What `import xlda` brings along. How long it takes is the business of a benchmark."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import xlda

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def modules_after(statement):
    # scikit-learn imports pandas where it is installed, and pandas pyarrow: that is theirs.
    program = f"import sys; sys.modules['pandas'] = None; {statement}; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in result.stdout.split()}


@pytest.mark.parametrize("module", ["xlda", "xlda.errors", "xlda.identity", "xlda.cli"])
def test_importing_is_light(module):
    more = modules_after(f"import {module}") - modules_after("pass") - {"xlda"}
    assert more <= set(sys.stdlib_module_names)
    assert not more & {"ssl", "http"}  # which take as long as all the others


def test_the_estimator_needs_no_more_than_the_core():
    of_extras = {"torch", "onnx", "onnxruntime", "faiss", "pyarrow", "fontTools", "matplotlib", "PIL"}
    of_command = {"filelock", "rich", "typer"}
    assert not modules_after("from xlda import XLDA, load; XLDA()") & (of_extras | of_command)


def test_the_core_depends_on_four_packages():
    names = {dependency.split(">")[0] for dependency in PROJECT["dependencies"]}
    assert names == {"numpy", "scipy", "scikit-learn", "safetensors"}


def test_public_names_are_there():
    assert dir(xlda) == sorted(xlda.__all__)
    assert all(hasattr(xlda, name) for name in xlda.__all__)
    assert not hasattr(xlda, "nothing")


def test_there_is_one_version():
    assert xlda.__version__ == PROJECT["version"] == version("xlda")
