"""Every test and example runs in a folder of its own, so that the files it writes are nobody else's."""

import os

import pytest

# Threads of OpenBLAS wait spinning for 2 to the power of this many cycles, 26 unless told, before they sleep:
# on cores that other tests and the processes they start need. It is read when NumPy is imported.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
