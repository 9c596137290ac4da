"""What `xlda inspect --licences` prints."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import xlda
from xlda._internal.built_in import INT8, is_built_in
from xlda._internal.third_party import THIRD_PARTY
from xlda.cli.console import say_json, say_table


def say_licences(model: Path | None, json: bool) -> None:
    """The works of others that are used, the backbone of the model first."""
    backbone = None if model is None else xlda.load(model).backbone_
    works = licences(None if backbone is None else backbone.name)
    if json:
        say_json({"model": None if model is None else str(model), "licences": works})
        return
    columns = ("kind", "name", "licence", "source")
    say_table(columns, [[work[column] or "not known" for column in columns] for work in works])


def licences(backbone: str | None = None) -> list[dict[str, Any]]:
    """All works of others, that of the backbone first; of one that is not built in, only its name is known.

    >>> [work["name"] for work in licences("efficientnet-lite1")][:2]
    ['efficientnet-lite1', 'efficientnet-lite0']
    >>> licences("efficientnet-lite2-int8")[0]["name"]
    'efficientnet-lite2'
    >>> licences("mine")[0]["licence"] is None
    True
    """
    works = [asdict(work) for work in THIRD_PARTY]
    if backbone is not None and is_built_in(backbone):
        backbone = backbone.removesuffix(INT8)  # the same weights
    own = [work for work in works if work["name"] == backbone]
    if backbone is not None and not own:
        own = [{**dict.fromkeys(works[0]), "kind": "weights", "name": backbone}]
    return own + [work for work in works if work["name"] != backbone]
