"""A model file as it was when it was opened: written by one at a time, unless another has changed it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from xlda import model_file
from xlda._internal.model_lock import ModelLock, check_wait
from xlda.errors import ChangedModelError
from xlda.learner.learner import Learner

Stamp = tuple[int, int, int]  # of a file: inode, size, time of the last change


class OpenedFile:
    """A place for a model, with its lock and what was last seen there. `name` is what it was called."""

    def __init__(self, path: str | os.PathLike[str], wait: float) -> None:
        check_wait(wait)
        self.name = os.fspath(path)
        self.lock = ModelLock(path)
        self.path = self.lock.model
        self._wait = wait
        self._seen: Stamp | None = None
        if self.path.is_dir():
            raise IsADirectoryError(f"{self.name} is a folder; a model is a file.")
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"No folder {self.path.parent} to write {self.path.name} in.")

    def take_lock(self) -> None:
        """Keep all others from changing the file."""
        self.lock.take(self._wait)

    def read(self, params: dict[str, Any], kind: type[Any]) -> Any:
        """The model in the file, or a new one with these parameters where there is none, of this kind."""
        while (stamp := _stamp(self.path)) is not None:
            clf = model_file.read(self.path, kind)
            if _stamp(self.path) == stamp:  # else it was replaced meanwhile
                self._seen = stamp
                _check_params(clf, self.name, params)
                return clf
        return kind(**params)

    def check_unchanged(self) -> None:
        """Refuse to go on where the file is not the one that was read or written last."""
        now = _stamp(self.path)
        if now == self._seen:
            return
        what = "been removed" if now is None else "appeared" if self._seen is None else "been changed"
        raise ChangedModelError(
            f"{self.name} has {what} since it was opened here; open it again and repeat the change."
        )

    def write(self, clf: Learner) -> None:
        """Put the model in the file, whole or not at all."""
        clf.save(self.path)
        self._seen = _stamp(self.path)


def _check_params(clf: Learner, name: str, params: dict[str, Any]) -> None:
    """Refuse parameters that a model, which has its own already, does not have."""
    own = clf.get_params(deep=False)
    for param, value in params.items():
        if param not in own:
            raise TypeError(f"XLDA has no parameter {param!r}.")
        if own[param] != value:
            raise ValueError(
                f"{name} was made with {param}={own[param]!r}; got {value!r}, which is for a new model. "
                "Leave it out, or choose another name."
            )


def _stamp(path: Path) -> Stamp | None:
    """What is different once a file was changed; None where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
