"""The backbone of a model: the one that it was made with, loaded when it is first needed."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xlda._internal.built_in import DEFAULT_BACKBONE, is_built_in
from xlda.errors import OtherBackboneError
from xlda.identity import BackboneIdentity

if TYPE_CHECKING:
    from xlda.backbones import Backbone


class ModelBackbone:
    """What was chosen as the backbone of the model `name`: a loaded one, where to find it, or None.

    With None it is the one that the model was made with, looked for in `folders` and in the current one; and
    `DEFAULT_BACKBONE` for a model that has learned nothing. Without `views`, they are those of the model.
    """

    def __init__(
        self,
        chosen: str | os.PathLike[str] | Backbone | None,
        name: str,
        folders: list[Path],
        views: int | Sequence[float] | None = None,
    ) -> None:
        self._model, self._folders = name, folders
        self._loading = threading.Lock()
        self._chosen: str | None = None
        self.loaded: Backbone | None = None
        if isinstance(chosen, str | os.PathLike):
            there = not is_built_in(os.fspath(chosen)) and Path(chosen).exists()
            self._chosen = os.path.abspath(chosen) if there else os.fspath(chosen)  # noqa: PTH100
        else:
            self.loaded = chosen
        if views is not None and self.loaded is not None:
            raise ValueError("views are for a backbone that is yet to be loaded; this one has its own.")
        self._views = views

    def get(self, made_with: BackboneIdentity | None, width: int | None) -> Backbone:
        """The backbone, refused unless it is the one that the model was `made_with`, or has its `width`.

        Neither is known of a model that has learned nothing.
        """
        if self.loaded is None:
            with self._loading:
                self.loaded = self.loaded or self._load(made_with, width)
        self._check(self.loaded, made_with, width)
        return self.loaded

    def source(self, backbone: Backbone) -> str:
        """Where the network of this backbone, which `get` gave, is: its name or its file."""
        return self._chosen or self._found(backbone.name)

    def _check(self, backbone: Backbone, made_with: BackboneIdentity | None, width: int | None) -> None:
        if made_with is not None:
            made_with.check_same(backbone.identity, self._model)
        if width is not None and backbone.n_features != width:
            raise OtherBackboneError(
                f"{self._model} has learned embeddings of {width} features; {backbone.name} gives "
                f"{backbone.n_features}."
            )

    def _load(self, made_with: BackboneIdentity | None, width: int | None) -> Backbone:
        from xlda import backbones

        known = None if made_with is None or made_with.identity is None else made_with
        if known is None and self._chosen is None and width is not None:
            raise OtherBackboneError(
                f"{self._model} does not say which backbone made its embeddings, so it cannot take photos. "
                "Say which it was with backbone=, or give it embeddings."
            )
        source = self._chosen or (DEFAULT_BACKBONE if known is None else self._found(known.name))
        settings: dict[str, Any] = {}
        if known is not None:
            settings = {**known.preprocessing, "version": known.preprocessing_version}
        if self._views is not None:
            settings["views"] = self._views
        cut_head = known is not None and known.cut_head and not is_built_in(source)
        try:
            return backbones.load(source, cut_head=cut_head, **settings)
        except (FileNotFoundError, ValueError, TypeError) as error:  # not there, or not with these settings
            raise OtherBackboneError(f"The backbone of {self._model} cannot be had: {error}") from error

    def _found(self, name: str) -> str:
        """Where the backbone of this name is."""
        if is_built_in(name):
            return name
        for folder in (*self._folders, Path()):
            if (path := folder / f"{name}.onnx").exists():
                return str(path)
        raise OtherBackboneError(
            f"{self._model} was made with the backbone {name}, and there is no {name}.onnx beside it or "
            "here. Say where it is with backbone=."
        )
