"""Which classes to score: all of them, or the few that can win.

`dense` scores all. `fisher` finds the few by a short prefix of the coordinates in which the best class is the
nearest one, `fast scan` by codes of these coordinates and with FAISS. `lsh` is the paper's way, and `faiss`
uses that library's indexes over the same coordinates.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

from xlda.errors import NewerFileError
from xlda.search.class_rows import ClassRows
from xlda.search.dense import Dense
from xlda.search.faiss import Faiss
from xlda.search.fast_scan import FastScan
from xlda.search.fisher import Fisher
from xlda.search.lsh import LSH
from xlda.search.protocol import Changed, Classes, Index, OrderedClasses, Search, restored, saved_by

__all__ = [
    "LSH",
    "Changed",
    "ClassRows",
    "Classes",
    "Dense",
    "Faiss",
    "FastScan",
    "Fisher",
    "Index",
    "OrderedClasses",
    "Search",
    "check_search",
    "chosen_search",
    "restored",
    "saved_by",
    "search_from_json",
    "search_to_json",
]

MANY = 2**22  # numbers in the weights: with more, looking at all of them takes longer than searching
MANY_HALF = 2**20  # the same in half precision: they are converted at every call
PICKED_BY = ("queries", "plan")  # of a search: not written with it
KINDS = {"dense": Dense, "fisher": Fisher, "lsh": LSH, "faiss": Faiss, "fast scan": FastScan}
_DEFAULTS: dict[str, Search] = {name: kind() for name, kind in KINDS.items()}


def check_search(search: Any) -> None:
    """Refuse what is neither the name of a search nor one."""
    if isinstance(search, str):
        if search != "auto" and search not in KINDS:
            raise ValueError(f"search is 'auto', one of {tuple(KINDS)}, or a Search; got {search!r}.")
    elif not callable(getattr(search, "index", None)):
        raise ValueError(f"search is 'auto', one of {tuple(KINDS)}, or a Search; got {search!r}.")


def chosen_search(search: str | Search, n_rows: int, d: int, half: bool = False) -> Search:
    """The search that a parameter stands for, with this many classes of this width and precision."""
    if not isinstance(search, str):
        return search
    if search == "auto":
        many = n_rows * d > (MANY_HALF if half else MANY)
        search = ("fast scan" if _has_faiss() else "fisher") if many else "dense"
    return _DEFAULTS[search]


@cache
def _has_faiss() -> bool:
    return find_spec("faiss") is not None


def search_to_json(search: str | Search) -> Any:
    """A search as it is written to a file."""
    if isinstance(search, str):
        return search
    for name, kind in KINDS.items():
        if type(search) is kind:
            return {
                "name": name,
                **{key: value for key, value in vars(search).items() if key not in PICKED_BY},
            }
    raise ValueError(f"A search of one's own cannot be saved: {search!r}. Set search='auto' before `save`.")


def search_from_json(value: Any) -> str | Search:
    """A search as it was read from a file.

    What this version does not know is a `NewerFileError`, what cannot be a ValueError: parts of a sentence.
    """
    name = value.get("name") if isinstance(value, dict) else value
    if not isinstance(name, str):
        raise ValueError("its search is neither a name nor has one")
    if name not in KINDS and value != "auto":
        raise NewerFileError("a search that this xlda does not know")
    if isinstance(value, str):
        return value
    fields = {key: setting for key, setting in value.items() if key != "name"}
    defaults = {key: setting for key, setting in vars(_DEFAULTS[name]).items() if key not in PICKED_BY}
    for key, setting in fields.items():
        if key not in defaults:
            raise NewerFileError("a setting of its search that this xlda does not know")
        kinds = (int, float) if type(defaults[key]) is float else (type(defaults[key]),)
        if type(setting) not in kinds or (isinstance(setting, int) and setting < 0):
            raise ValueError(f"{key} of its search is nothing that can be")
    search: Search = KINDS[name](**fields)
    return search
