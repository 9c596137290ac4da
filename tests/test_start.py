"""The command starts without what it does not need. How long it takes is the business of a benchmark."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_info

for needed in ("typer", "PIL", "onnx", "onnxruntime", "pyarrow"):
    pytest.importorskip(needed)

from cli_shop import OLD, paint  # noqa: E402
from conftest import blobs  # noqa: E402
from xlda import XLDA, load, model_file, storage  # noqa: E402
from xlda.calibration import calibration, calibration_stored  # noqa: E402
from xlda.cli.app import run  # noqa: E402
from xlda.errors import DamagedFileError  # noqa: E402
from xlda.learner.learner import Learner  # noqa: E402

pytest_plugins = ("cli_shop",)

HEAVY = {"faiss", "matplotlib", "onnx", "pandas", "pyarrow", "rich", "sklearn", "torch"}
OTHER_COMMANDS = {f"xlda.cli.{name}" for name in ("embed", "fit", "evaluate", "convert", "demo", "glyphs")}
PROGRAM = (
    "import sys; from xlda.cli import main\n"
    "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
    "print(); print(*sys.modules)"
)


def modules_of(*arguments):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    modules = set(done.stdout.splitlines()[-1].split())
    return modules | {name.split(".")[0] for name in modules}


@pytest.fixture(scope="module")
def builtin(tmp_path_factory, cache_of_its_own):
    """A model with the built-in network, and with enough photos to say how sure it is."""
    folder = tmp_path_factory.mktemp("builtin")
    paint(folder / "many", OLD, 20, 4)
    assert run(["fit", str(folder / "many"), "-o", str(folder / "many.xlda")]) == 0
    assert load(folder / "many.xlda")._model.calibration.can_tell
    return folder / "many.xlda"


def test_predicting_imports_nothing_heavy(builtin, shop):
    modules = modules_of("predict", builtin, "test/red/0.png")
    assert {"numpy", "onnxruntime", "xlda.cli.predict"} <= modules
    assert not modules & (HEAVY | OTHER_COMMANDS | {"scipy", "xlda.classifier"})


def test_learning_imports_scipy_alone(builtin, shop):
    model = shutil.copy(builtin, shop)
    modules = modules_of("learn", model, "test/kiwi/0.png", "--label", "kiwi")
    assert {"numpy", "onnxruntime", "scipy", "xlda.cli.learn"} <= modules
    assert not modules & (HEAVY | OTHER_COMMANDS | {"xlda.classifier"})
    assert "kiwi" in load(model).classes_


def test_serving_imports_no_scikit_learn():
    pytest.importorskip("fastapi")
    code = "import sys, xlda.service.server, xlda.service.app; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = {name.split(".")[0] for name in done.stdout.split()}
    assert "fastapi" in modules
    assert not modules & (HEAVY - {"rich"})  # which typer brings


# -- the same without scikit-learn


def test_a_learner_is_the_estimator_without_scikit_learn(rng, tmp_path):
    X, y = blobs(rng, n_classes=4, n_features=6)
    one, other = XLDA().fit(X, y), Learner().fit(X, y)
    assert one.get_params() == other.get_params() == XLDA(**other.get_params()).get_params()
    for each in (one, other):
        each.partial_fit((X[:2] + 9).tolist(), [7, 8])  # a list, which takes scikit-learn's way
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))
    other.save(tmp_path / "a.xlda")
    np.testing.assert_array_equal(load(tmp_path / "a.xlda").predict(X), other.predict(X))
    assert isinstance(model_file.read(tmp_path / "a.xlda", Learner).merge(one), Learner)


def test_a_learner_with_names_of_features_takes_arrays_too(rng, tmp_path):
    X, y = blobs(rng, n_classes=3, n_features=2)
    XLDA().fit(pd.DataFrame(X, columns=["a", "b"]), y).save(tmp_path / "a.xlda")
    learner = model_file.read(tmp_path / "a.xlda", Learner)
    with pytest.warns(UserWarning, match="feature names"):
        learner.predict(X)


def test_the_blas_of_scipy_is_known_once_it_is_there():
    code = (
        "from xlda._internal import threads; threads.n_threads(); import scipy.linalg\n"
        "print(*sorted(one.filepath for one in threads._blas().lib_controllers), sep='\\n')"
    )
    known = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    paths = {pool["filepath"] for pool in threadpool_info() if pool["user_api"] == "blas"}
    blas = {path for path in paths if "numpy" in path or "scipy" in path}
    assert blas <= set(known.splitlines())


# -- what is fitted once is in the file


@pytest.fixture
def sure(rng):
    """A classifier that knows how sure it is, and some samples."""
    X, y = blobs(rng, n_samples=240, n_classes=12)
    return XLDA().fit(X, y).calibrate(progress=False), X


def never(*_):
    raise AssertionError("it is in the file")


def test_the_first_answer_fits_nothing(sure, tmp_path, monkeypatch):
    clf, X = sure
    clf.save(tmp_path / "a.xlda")
    for name in ("temperature", "correction", "known_line"):
        monkeypatch.setattr(calibration, name, never)
    again = load(tmp_path / "a.xlda")
    for one, other in zip(again.judge(X), clf.judge(X), strict=True):
        np.testing.assert_array_equal(one, other)
    again.save(tmp_path / "b.xlda")
    with pytest.raises(AssertionError, match="in the file"):
        again.judge(X, like="same")  # which nobody asked for before


def test_what_was_fitted_does_not_outlive_what_is_confirmed(sure, tmp_path):
    clf, X = sure
    clf.save(tmp_path / "a.xlda")
    again = load(tmp_path / "a.xlda")
    for each in (clf, again):
        each.confirm(X[:8], [None] * 8)
    np.testing.assert_array_equal(again.judge(X).p_known, clf.judge(X).p_known)
    assert not np.array_equal(load(tmp_path / "a.xlda").judge(X).p_known, clf.judge(X).p_known)


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.0},
        {"temperature": "1"},
        {"like": "others"},
        {"correction": [0.0, 1.0]},
        {"correction": [0.0, float("nan"), 1.0]},
        {"known_line": [0.0, -1.0, 1.0]},
        {"known_line": [0.0, 1.0, 1.5]},
        {"known_line": None},
    ],
)
def test_figures_that_cannot_be_are_refused(sure, tmp_path, change):
    sure[0].save(tmp_path / "a.xlda")
    sections = storage.read(tmp_path / "a.xlda", model_file.KNOWN)
    sections[calibration_stored.FIGURES].info.update(change)
    storage.write(tmp_path / "b.xlda", list(sections.values()))
    with pytest.raises(DamagedFileError):
        load(tmp_path / "b.xlda")


def test_a_file_without_them_answers_as_well(sure, tmp_path):
    clf, X = sure
    clf.save(tmp_path / "a.xlda")
    sections = storage.read(tmp_path / "a.xlda", model_file.KNOWN)
    del sections[calibration_stored.FIGURES]
    storage.write(tmp_path / "b.xlda", list(sections.values()))
    np.testing.assert_array_equal(load(tmp_path / "b.xlda").judge(X).p_known, clf.judge(X).p_known)
