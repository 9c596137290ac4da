"""The recipe for Dask in docs/scale.md, run on this machine. Skipped where Dask is missing."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import oracle
from conftest import blobs
from xlda import XLDA

dask = pytest.importorskip("dask", reason="needs Dask, which .ci/run installs: pip install dask")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"


def recipe(name):
    """The code of one recipe of the page."""
    return re.search(rf"```python\n(# {name}\n.*?)```", PAGE.read_text(), re.DOTALL)[1]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_recipe_learns_what_is_in_the_files(rng, tmp_path):
    X, y = blobs(rng, n_samples=900, n_classes=20, n_features=8, dtype=np.float32)
    (tmp_path / "embeddings").mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(X)), 9)):
        column = pa.FixedSizeListArray.from_arrays(pa.array(X[part].reshape(-1)), 8)
        pq.write_table(pa.table({"embedding": column, "label": y[part]}), f"embeddings/{number}.parquet")
    names = {}
    with dask.config.set(scheduler="threads", num_workers=2):
        exec(recipe("Dask"), names)
    clf = names["clf"]
    counts, means, covariance = oracle.pooled(X, y)
    assert isinstance(clf, XLDA)
    np.testing.assert_array_equal(clf.class_count_, list(counts.values()))
    np.testing.assert_allclose(clf.means_, list(means.values()), atol=1e-5)
    np.testing.assert_allclose(clf.covariance_, covariance, atol=1e-5)
    np.testing.assert_array_equal(clf.predict(X), XLDA().fit(X, y).predict(X))
