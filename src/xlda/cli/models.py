"""Model files: opened to be changed by one command at a time, counted, and never overwritten unasked."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from xlda._internal.built_in import DEFAULT_BACKBONE
from xlda._internal.model_lock import ModelLock
from xlda.cli.console import note
from xlda.errors import LockedModelError, ServedModelError

if TYPE_CHECKING:
    from xlda.backbones import Backbone
    from xlda.classifier import XLDA
    from xlda.photos.recognizer import Recognizer

T = TypeVar("T")

SOON, PATIENCE = 1.0, 600.0  # seconds: another is waited for so long without a word, and so long at all


def refuse_existing(path: Path, overwrite: bool) -> None:
    """Refuse to write where something is already, before any work is done."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; --out is a file.")
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} is there already. Choose another name, or give --overwrite.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"No folder {path.parent} to write {path.name} in.")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"Nothing can be written in the folder {path.parent}.")


def opened(path: Path, backbone: str | None = None) -> Recognizer:
    """A model that is there, to be asked."""
    _check_there(path)
    return _recognizer().open(path, backbone=backbone)


@contextmanager
def changed(path: Path, backbone: str | None = None) -> Iterator[Recognizer]:
    """A model that is there, to be changed in the block by nobody else; saved at its end, unless that fails.

    Where nothing was changed, nothing is written.
    """
    _check_there(path)
    kind = _recognizer()
    with _waited(path, lambda wait: kind.open(path, backbone=backbone, wait=wait, lock=True)) as recognizer:
        yield recognizer


@contextmanager
def written(out: Path, overwrite: bool) -> Iterator[None]:
    """Keep others from changing the model `out`, which is written in the block."""
    refuse_existing(out, overwrite)
    lock = ModelLock(out)
    _waited(out, lock.take)
    try:
        refuse_existing(out, overwrite)  # another may have been quicker
        yield
    finally:
        lock.give_back()


def _waited(path: Path, take: Callable[[float], T]) -> T:
    """Take the lock of a model, given how long to wait for it; if another has it, that is said."""
    try:
        return take(SOON)
    except ServedModelError:
        raise
    except LockedModelError:
        note(f"waiting for another that is changing {path}")
        return take(PATIENCE)


def _recognizer() -> type[Recognizer]:
    from xlda.photos.quick_start import QuickRecognizer

    return QuickRecognizer


def _check_there(path: Path) -> None:
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def n_samples(clf: XLDA) -> int:
    """Samples that the classes of a model have learned."""
    return round(float(clf.class_count_.sum()))


def whole(count: float) -> float | int:
    """A count as an int, unless weights made it a fraction."""
    return int(count) if count == int(count) else float(count)


def named_backbone(
    name: str | None, size: int | None = None, cut_head: bool = False, views: int | None = None
) -> Backbone:
    """The backbone that was asked for."""
    from xlda import backbones

    return backbones.load(name or DEFAULT_BACKBONE, size=size, cut_head=cut_head, views=views)
