"""Model files, the backbone that each was made with, and changing one without losing anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from filelock import BaseFileLock, FileLock, Timeout

from xlda.cli.console import note
from xlda.errors import LockedModelError

if TYPE_CHECKING:
    from xlda.backbones import Backbone
    from xlda.classifier import XLDA

DEFAULT = "efficientnet-lite0"
SOON, PATIENCE = 1.0, 600.0  # seconds: wait so long without a word, and so long at all


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


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes from changing a model in the block; one that is at it already is waited for."""
    lock = FileLock(f"{os.path.realpath(path)}.lock")
    try:
        lock.acquire(timeout=SOON)
    except Timeout:
        note(f"waiting for another process that is changing {path}")
        _acquire(lock, path)
    try:
        yield
    finally:
        lock.release()


def _acquire(lock: BaseFileLock, path: Path) -> None:
    try:
        lock.acquire(timeout=PATIENCE)
    except Timeout:
        raise LockedModelError(f"{path} is being changed by another process. Try again later.") from None


def n_samples(clf: XLDA) -> int:
    """Samples that the classes of a model have learned."""
    return round(float(clf.class_count_.sum()))


def whole(count: float) -> float | int:
    """A count as an int, unless weights made it a fraction."""
    return int(count) if count == int(count) else float(count)


def named_backbone(name: str | None, size: int | None = None, cut_head: bool = False) -> Backbone:
    """The backbone that was asked for."""
    from xlda import backbones

    return backbones.load(name or DEFAULT, size=size, cut_head=cut_head)


def own_backbone(info: dict[str, Any] | None, model: Path, name: str | None) -> Backbone:
    """The backbone that a model was made with; an error where that cannot be had.

    An ONNX file is looked for beside the model and here, unless `name` says where it is.
    """
    from xlda import backbones

    if not _is_known(info):
        raise ValueError(
            f"{model} does not say which backbone made its embeddings, so it cannot take photos. "
            "Give it embeddings."
        )
    if name is None:
        name = DEFAULT if info["name"] == DEFAULT else _found(info["name"], model)
    settings = {**info["preprocessing"]}
    backbone = backbones.load(name, cut_head=info["cut_head"] and name != DEFAULT, **settings)
    check_same_backbone(backbone.info, info, str(model))
    return backbone


def check_same_backbone(found: dict[str, Any] | None, wanted: dict[str, Any] | None, model: str) -> None:
    """Refuse embeddings of another backbone than the model's, where both are known."""
    if not _is_known(found) or not _is_known(wanted) or found["identity"] == wanted["identity"]:
        return
    theirs, own = found["name"], wanted["name"]
    if theirs == own and found["preprocessing"] != wanted["preprocessing"]:
        theirs, own = _described(found, wanted), _described(wanted, found)
    elif theirs == own:
        theirs = f"another network of the name {theirs}"
    raise ValueError(f"{model} was made with the backbone {own}; got embeddings of {theirs}.")


def _is_known(info: dict[str, Any] | None) -> TypeGuard[dict[str, Any]]:
    """Whether this says which backbone it is; what other programs wrote need not."""
    return info is not None and {"name", "identity", "preprocessing", "cut_head"} <= set(info)


def _described(info: dict[str, Any], other: dict[str, Any]) -> str:
    """A backbone with what is different in its preprocessing."""
    theirs = other["preprocessing"]
    settings = [f"{key} {value}" for key, value in info["preprocessing"].items() if value != theirs.get(key)]
    return f"{info['name']} ({', '.join(settings)})"


def _found(name: str, model: Path) -> str:
    for folder in (model.parent, Path()):
        if (path := folder / f"{name}.onnx").exists():
            return str(path)
    raise FileNotFoundError(
        f"{model} was made with the backbone {name}, and there is no {name}.onnx beside it or here. "
        "Say where it is with --backbone."
    )
