from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from scipy.special import log_softmax

from xlda import XLDA

pytest.register_assert_rewrite("cli_shop", "fake_service", "service_under_test")
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell makes its background jobs ignore

settings.register_profile("default", deadline=None, max_examples=100, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Data that are not in the repository. Where nobody says where they are, there is nothing, and tests skip.
DATA = Path(os.environ.get("XLDA_DATA") or os.devnull)


def lda(**params):
    """Plain linear discriminant analysis of the embeddings as they are, as published."""
    return XLDA(**{"model": "lda", "shrinkage": 0.3, "power": None, **params})


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def grocery():
    """Embeddings of real shop photos: train_X, train_y, val_X, val_y."""
    path = DATA / "grocery_lite0.npz"
    if not path.exists():
        pytest.skip(f"needs {path.name}; set XLDA_DATA to the folder that has it")
    with np.load(path) as arrays:
        return dict(arrays)


def blobs(rng, n_samples=300, n_classes=6, n_features=8, dtype=np.float64):
    """Overlapping classes with correlated features, so that predictions are not all easy."""
    mixing = rng.normal(size=(n_features, n_features))
    centres = rng.normal(size=(n_classes, n_features))
    labels = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n_samples - n_classes)])
    embeddings = centres[labels] + rng.normal(size=(n_samples, n_features)) @ mixing / 2
    return embeddings.astype(dtype), labels


@pytest.fixture
def data(rng):
    return blobs(rng)


def log_posteriors(clf, X):
    """What the logits say of the probabilities, uncalibrated."""
    logits = clf.decision_function(X)
    return log_softmax(logits if logits.ndim == 2 else np.c_[np.zeros(len(X)), logits], axis=1)


@pytest.fixture(scope="module")
def cache_of_its_own(tmp_path_factory):
    """A folder for networks that is empty when the tests of a file begin."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XLDA_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
