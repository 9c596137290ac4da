"""Every test and example runs in a folder of its own, so that the files it writes are nobody else's."""

import pytest


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
