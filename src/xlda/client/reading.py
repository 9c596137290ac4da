"""What answers of a service mean. Fields that this version does not know are ignored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from xlda.client.answers import (
    Change,
    ClassDetails,
    ClassInfo,
    ClassPage,
    Feedback,
    Guess,
    ModelInfo,
    Prediction,
    Taught,
    TaughtBatch,
)
from xlda.client.failures import NoSuchClassError, RefusedSampleError, ServiceError

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")


def failure(response: httpx.Response, about: str) -> ServiceError:
    """The error that an answer tells of, with the service's own sentence where it has one."""
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    problem = problem if isinstance(problem, dict) else {}
    status, url = response.status_code, response.request.url.copy_with(query=None)
    title = str(problem.get("title") or response.reason_phrase)
    said = f"{url} answers {status} {title}."
    if response.is_redirect:
        said = f"{url} is elsewhere: at {response.headers.get('Location')}. Give that address."
    detail = str(problem.get("detail") or said)
    if about == "sample" and status in (413, 415, 422):
        return RefusedSampleError(status, title, detail)
    if about == "class" and status == 404 and problem:
        return NoSuchClassError(status, title, detail)
    return ServiceError(status, title, detail)


def as_answered(response: httpx.Response) -> Any:
    """JSON, decoded."""
    try:
        return response.json()
    except ValueError:
        raise _strange(response, "that is no JSON") from None


def content(response: httpx.Response) -> bytes:
    """The bytes of the answer."""
    return response.content


def prediction(response: httpx.Response) -> Prediction:
    """That of a photo."""
    return _prediction(response, _fields(response))


def predictions(response: httpx.Response) -> list[Prediction]:
    """Those of embeddings, which have no ids."""
    found = _fields(response)
    each = found.get("predictions")
    if not isinstance(each, list):
        raise _strange(response, "without predictions")
    return [_prediction(response, {"seq": found.get("seq"), **one, "id": None}) for one in each]


def change(response: httpx.Response) -> Change:
    """One that is made."""
    return _made(Change, response, _fields(response))


def taught(response: httpx.Response) -> Taught:
    """A photo that was learned."""
    found = _fields(response)
    warnings = tuple(_text(warning) for warning in found.get("warnings") or ())
    if found.get("learned") is False:
        label = response.request.url.params.get("label", "")
        found = {"id": "", "label": label, "class_id": "", "new_class": False, **found}
    return _made(Taught, response, {**found, "warnings": warnings})


def taught_batch(response: httpx.Response) -> TaughtBatch:
    """Embeddings that were learned."""
    return _made(TaughtBatch, response, _fields(response))


def feedback(response: httpx.Response) -> Feedback:
    """What became of it."""
    return _made(Feedback, response, _fields(response))


def class_page(response: httpx.Response) -> ClassPage:
    """Some classes, and where the next begin."""
    found = _fields(response)
    each = tuple(_made(ClassInfo, response, one) for one in found.get("classes") or ())
    return ClassPage(each, found.get("next") or None)


def class_details(response: httpx.Response) -> ClassDetails:
    """One class."""
    found = _fields(response)
    return _made(ClassDetails, response, {**found, "etag": response.headers.get("ETag"), "more": found})


def model(response: httpx.Response) -> ModelInfo:
    """What is served."""
    found = _fields(response)
    return _made(ModelInfo, response, {**found, "more": found})


def _fields(response: httpx.Response) -> dict[str, Any]:
    found = as_answered(response)
    if not isinstance(found, dict):
        raise _strange(response, "that is no object")
    return {**found, "replayed": response.headers.get("Idempotency-Replayed", "").lower() == "true"}


def _prediction(response: httpx.Response, found: Mapping[str, Any]) -> Prediction:
    try:
        top = tuple(Guess(one["label"], one["class_id"], one["probability"]) for one in found["top"])
    except (KeyError, TypeError):
        raise _strange(response, "without a right `top`") from None
    return _made(Prediction, response, {"id": None, **found, "top": top})


def _made(kind: type[T], response: httpx.Response, found: Mapping[str, Any]) -> T:
    """A dataclass with those of its fields that the answer has."""
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    given = {name: value for name, value in found.items() if name in known}
    try:
        return kind(**{n: tuple(value) if isinstance(value, list) else value for n, value in given.items()})
    except TypeError:
        missing = sorted(known - set(given))
        raise _strange(response, f"without {', '.join(missing)}") from None


def _text(warning: Any) -> str:
    if isinstance(warning, dict):
        return str(warning.get("detail") or warning.get("title") or json.dumps(warning, ensure_ascii=False))
    return str(warning)


def _strange(response: httpx.Response, how: str) -> ServiceError:
    url = response.request.url.copy_with(query=None)
    return ServiceError(
        response.status_code, "Strange answer", f"{url} gives an answer {how}: is it an xlda service?"
    )
