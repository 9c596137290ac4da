"""What is asked of a service, and what its answers mean: plain functions, whoever sends it."""

from __future__ import annotations

import io
import json
import os
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar
from urllib.parse import quote

from xlda.client import reading
from xlda.client.answers import (
    Change,
    ClassDetails,
    ClassPage,
    Feedback,
    ModelInfo,
    Prediction,
    Taught,
    TaughtBatch,
)
from xlda.errors import BadSampleError

if TYPE_CHECKING:
    import httpx
    import numpy as np
    from numpy.typing import NDArray

    Embeddings: TypeAlias = NDArray[np.floating[Any]]

T = TypeVar("T")
PhotoLike: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview"

_KEY = re.compile(r"[!-~]{1,255}")
_BEGINNINGS = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png"}


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request, and how its answer is read. `about` is what it is refused for: a sample, or a class."""

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    params: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Path | None = None
    about: str = ""


def media_type(photo: bytes) -> str:
    r"""What a photo is sent as, by its first bytes. What is none is sent all the same: the service says why.

    >>> media_type(b"\x89PNG\r\n\x1a\n"), media_type(b"GIF89a")
    ('image/png', 'image/jpeg')
    """
    if photo[:4] == b"RIFF" and photo[8:12] == b"WEBP":
        return "image/webp"
    found = (kind for beginning, kind in _BEGINNINGS.items() if photo.startswith(beginning))
    return next(found, "image/jpeg")


# -- predicting and teaching


def predict(
    photo: PhotoLike | Embeddings,
    k: int | None,
    unknown: float | None,
    among: Sequence[str],
    backbone: str | None,
    like: int | None = None,
) -> Call[Any]:
    """What a photo shows, or each of some embeddings."""
    asked = [*_given(k=k, unknown=unknown, like=like), *(("among", label) for label in among)]
    if isinstance(photo, str | os.PathLike | bytes | bytearray | memoryview):
        one: Call[Prediction] = Call("POST", "/v1/predict", reading.prediction)
        return _with_photo(replace(one, params=tuple(asked)), photo)
    many: Call[list[Prediction]] = Call("POST", "/v1/predict", reading.predictions)
    headers = {"Content-Type": "application/x-npy", **_backbone(backbone)}
    body = _npy(photo)
    return replace(many, params=tuple(asked), headers=headers, body=body, about="sample")


def teach(
    photo: PhotoLike, label: str, group: str | None, key: str | None, unless_warned: bool = False
) -> Call[Taught]:
    """Learn a photo; or nothing, where there are warnings and that is wanted."""
    asked = _given(label=label, group=group, unless_warned="true" if unless_warned else None)
    call = Call("POST", "/v1/samples", reading.taught, asked, _key(key))
    return _with_photo(call, photo)


def teach_embeddings(
    embeddings: Embeddings,
    labels: Sequence[str],
    groups: Sequence[str] | None,
    backbone: str | None,
    key: str | None,
) -> Call[TaughtBatch]:
    """Learn embeddings, all or nothing."""
    import numpy as np

    columns = {"embedding": _checked(embeddings), "label": _texts(labels, "labels")}
    if groups is not None:
        columns["group"] = _texts(groups, "groups")
    for name, column in columns.items():
        if len(column) != len(columns["embedding"]):
            raise BadSampleError(f"{len(columns['embedding'])} embeddings came with {len(column)} {name}s.")
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **columns)
    headers = {"Content-Type": "application/x-npz", **_backbone(backbone), **_key(key)}
    read = reading.taught_batch
    return Call("POST", "/v1/samples:batch", read, (), headers, file.getvalue(), "sample")


def feedback(
    prediction_id: str,
    correct: bool,
    label: str | None,
    not_: str | None,
    unknown: bool,
    key: str | None,
) -> Call[Feedback]:
    """Say what was right or wrong of a prediction."""
    if not isinstance(prediction_id, str):
        raise TypeError(
            f"feedback takes the id of a prediction, a text; got {prediction_id!r}. Predictions of "
            "embeddings have none: teach_embeddings says what they are."
        )
    said = _one_of({"correct": correct or None, "label": label, "not": not_, "unknown": unknown or None})
    return _change("POST", f"/v1/predictions/{_id(prediction_id)}/feedback", key, said, reading.feedback)


def relabel(sample_ids: str | Sequence[str], label: str, key: str | None) -> Call[Change]:
    """Give one sample or several another label."""
    if isinstance(sample_ids, str):
        return _change("PATCH", f"/v1/samples/{_id(sample_ids)}", key, {"label": label}, reading.change)
    said = {"ids": list(sample_ids), "label": label}
    return _change("POST", "/v1/samples:relabel", key, said, reading.change)


def forget(sample_ids: str | Sequence[str], key: str | None) -> Call[Change]:
    """Forget one sample or several."""
    if isinstance(sample_ids, str):
        return _change("DELETE", f"/v1/samples/{_id(sample_ids)}", key, None, reading.change)
    return _change("POST", "/v1/samples:forget", key, {"ids": list(sample_ids)}, reading.change)


def undo(seq: int | None, seqs: Sequence[int] | None, group: str | None, key: str | None) -> Call[Change]:
    """Undo one change, some, or those of a group."""
    said = _one_of({"seq": seq, "seqs": None if seqs is None else list(seqs), "group": group})
    if seq is not None:
        return _change("POST", f"/v1/events/{int(seq)}:undo", key, None, reading.change)
    return _change("POST", "/v1/events:undo", key, said, reading.change)


# -- classes


def classes(q: str | None, limit: int | None, after: str | None) -> Call[ClassPage]:
    """One page of them."""
    return Call("GET", "/v1/classes", reading.class_page, _given(q=q, limit=limit, after=after))


def class_(class_id: str) -> Call[ClassDetails]:
    """One of them, with its samples."""
    return Call("GET", f"/v1/classes/{_id(class_id)}", reading.class_details, about="class")


def add_class(label: str, key: str | None) -> Call[Change]:
    """A class without samples yet."""
    return _change("POST", "/v1/classes", key, {"label": label}, reading.change)


def rename_class(class_id: str, label: str, if_match: str | None, key: str | None) -> Call[Change]:
    """Another label for a class."""
    return _of_class("PATCH", f"/v1/classes/{_id(class_id)}", {"label": label}, if_match, key)


def merge_classes(class_id: str, other: str, if_match: str | None, key: str | None) -> Call[Change]:
    """One class of two."""
    return _of_class("POST", f"/v1/classes/{_id(class_id)}:merge", {"other": other}, if_match, key)


def remove_class(class_id: str, if_match: str | None, key: str | None) -> Call[Change]:
    """A class forgotten with its samples."""
    return _of_class("DELETE", f"/v1/classes/{_id(class_id)}", None, if_match, key)


# -- the model, what to look at, and files


def as_answered(name: str) -> Call[Any]:
    """What a page of the service says, decoded: `confusable`, `review` or `model/history`."""
    return Call("GET", f"/v1/{name}", reading.as_answered)


def model() -> Call[ModelInfo]:
    """What is served."""
    return Call("GET", "/v1/model", reading.model)


def review_apply(
    ids: Sequence[str],
    label: str | None,
    dismiss: bool,
    not_: str | None,
    key: str | None,
    ignore: bool = False,
    keep: bool = False,
) -> Call[Change]:
    """One act for many things to review."""
    said = {"label": label, "dismiss": dismiss or None, "not": not_}
    act = _one_of({**said, "ignore": ignore or None, "keep": keep or None})
    return _change("POST", "/v1/review:apply", key, {"ids": list(ids), **act}, reading.change)


def photo(of: str, its_id: str, size: int | None) -> Call[bytes]:
    """A small JPEG picture of one of the `samples`, `classes` or things to `review`."""
    return Call("GET", f"/v1/{of}/{_id(its_id)}/photo", reading.content, _given(size=size))


def events(last_event_id: str | None) -> Call[None]:
    """The stream of what happens."""
    last = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
    headers = {"Accept": "text/event-stream", "Cache-Control": "no-store", **last}
    return Call("GET", "/v1/events", lambda response: None, headers=headers)


def export(as_: str | None) -> Call[None]:
    """The model and its log, or all photos, as one file."""
    headers = {"Accept-Encoding": "identity"}
    return Call("GET", "/v1/export", lambda response: None, _given(**{"as": as_}), headers)


def import_(path: str | os.PathLike[str], key: str | None) -> Call[Change]:
    """A file of `export`, given back."""
    headers = {"Content-Type": "application/octet-stream", **_key(key)}
    return Call("POST", "/v1/import", reading.change, (), headers, Path(path))


# -- parts of requests


def _change(
    method: str,
    path: str,
    key: str | None,
    said: Mapping[str, Any] | None,
    read: Callable[[httpx.Response], T],
) -> Call[T]:
    headers = _key(key)
    if said is None:
        return Call(method, path, read, headers=headers)
    body = json.dumps(said, ensure_ascii=False).encode()
    return Call(method, path, read, headers={"Content-Type": "application/json", **headers}, body=body)


def _of_class(
    method: str, path: str, said: Mapping[str, Any] | None, if_match: str | None, key: str | None
) -> Call[Change]:
    call = _change(method, path, key, said, reading.change)
    match = {} if if_match is None else {"If-Match": if_match}
    return replace(call, headers={**call.headers, **match}, about="class")


def _with_photo(call: Call[T], photo: PhotoLike) -> Call[T]:
    body = Path(photo).read_bytes() if isinstance(photo, str | os.PathLike) else bytes(photo)
    headers = {"Content-Type": media_type(body), **call.headers}
    return replace(call, headers=headers, body=body, about="sample")


def _key(key: str | None) -> dict[str, str]:
    """Every change has a key, so that it may be sent again: it is made once."""
    key = uuid.uuid4().hex if key is None else key
    if not _KEY.fullmatch(key):
        raise ValueError(f"A key has 1 to 255 visible ASCII characters; got {key!r}.")
    return {"Idempotency-Key": key}


def _given(**params: object) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in params.items() if value is not None)


def _one_of(said: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in said.items() if value is not None}
    if len(given) != 1:
        raise TypeError(f"Give one of {', '.join(said)}; got {', '.join(given) or 'none'}.")
    return given


def _id(text: str) -> str:
    return quote(text, safe="")


def _backbone(name: str | None) -> dict[str, str]:
    return {} if name is None else {"XLDA-Backbone": name}


def _npy(embeddings: Embeddings) -> bytes:
    import numpy as np

    file = io.BytesIO()
    np.save(file, _checked(embeddings), allow_pickle=False)
    return file.getvalue()


def _checked(embeddings: Embeddings) -> Embeddings:
    """Float32 or float16 (n, d): what the service takes."""
    import numpy as np

    array = np.asarray(embeddings)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise BadSampleError(
            f"Embeddings are an array of numbers (n, d); got {array.dtype} of shape {array.shape}."
        )
    return array if array.dtype in (np.float32, np.float16) else array.astype(np.float32)


def _texts(given: Sequence[str], what: str) -> Any:
    """An array of text, never of objects, which could be anything."""
    import numpy as np

    texts = list(given)
    strange = [text for text in texts if not isinstance(text, str)]
    if strange:
        raise BadSampleError(f"The {what} for a service are text; got {strange[0]!r}.")
    return np.array(texts, dtype=np.str_)
