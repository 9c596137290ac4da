"""Calls that predict and teach."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from xlda._internal.arrays import Array
from xlda.service import plans
from xlda.service.arrays_in import embeddings_of, read_npy, read_npz
from xlda.service.arrays_in import texts_of as texts_of_array
from xlda.service.changes import NewSample
from xlda.service.labels_in import clean_label, clean_text
from xlda.service.photo_quality import CODES
from xlda.service.plans import Warned
from xlda.service.problems import Problem
from xlda.service.recent import AskedPhoto
from xlda.service.requests_in import (
    IMAGES,
    NPY,
    NPZ,
    Id,
    answered,
    asker_of,
    body_of,
    ids_of,
    json_of,
    media_type,
    only_fields,
    scoped,
    service_of,
    text_of,
)
from xlda.service.service import Asker, Service, photo_name
from xlda.service.shapes import (
    ID,
    IDS,
    LABEL,
    YES,
    ChangedShape,
    FeedbackShape,
    LearnedShape,
    NotTaughtShape,
    PredictionShape,
    PredictionsShape,
    TaughtShape,
    responses,
    takes_json,
)
from xlda.service.similar import similar
from xlda.service.small_photos import small_jpeg
from xlda.service.writer import Reply

router = APIRouter()
T = TypeVar("T")

SMALL = 300_000  # bytes of a file that is read at once
ENOUGH = 10  # samples of a class, from which on a sure answer that is confirmed adds nothing
SURE = 0.9  # probability of one
BINARY = {"schema": {"type": "string", "format": "binary"}}


def _takes(*kinds: str) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": dict.fromkeys(kinds, BINARY)}}


def _check_kind(kind: str, *kinds: str) -> None:
    if kind in ("image/heic", "image/heif", "image/avif"):
        raise Problem(
            415,
            f"{kind} cannot be read. Send JPEG; on an iPhone, choose Settings > Camera > Formats > Most "
            "Compatible.",
        )
    if kind not in kinds:
        raise Problem(415, f"This call takes {', '.join(kinds)}; got {kind[:80] or 'no Content-Type'}.")


@router.post(
    "/v1/predict",
    dependencies=[scoped("read")],
    responses={
        **responses(PredictionShape, 415),
        200: {"model": PredictionShape | PredictionsShape, "description": "What they are."},
    },
    openapi_extra=_takes(*IMAGES, NPY),
)
async def predict(
    request: Request,
    k: Annotated[int, Query(ge=1, le=1000)] = 5,
    unknown: Annotated[float | None, Query(gt=0, lt=1)] = None,
    among: Annotated[list[str] | None, Query(max_length=1000)] = None,
    like: Annotated[int, Query(ge=0, le=10)] = 0,
) -> Response:
    """Say what a photo shows, or what embeddings (n, d) are: the `k` best classes of each.

    With `unknown=0.05` the label is null where it is like no known class, so that at most 5 % of the known
    are rejected. `among` are labels that can win. With `like=3`, the answer has the samples that a photo
    looks most like, of those whose photos are kept.
    """
    service, kind = service_of(request), media_type(request)
    _check_kind(kind, *IMAGES, NPY)
    labels = None if among is None else _known_labels(service, among)
    content = await body_of(request)
    if kind == NPY:
        _check_backbone(request, service)
        embeddings = await _unpacked(service, content, partial(_asked_embeddings, service, content))
        seq, found = await service.judged(embeddings, k, unknown, labels)
        return JSONResponse({"predictions": found, "seq": seq})
    photo = await service.embedded(content, want_warnings=True)
    seq, [judged] = await service.judged(photo.embedding[None], k, unknown, labels)
    service.look_at(content, photo.embedding, judged)
    asked_id = service.recent.add(photo.embedding, content, judged)
    said = {"warnings": photo.warnings, "codes": [CODES[warning] for warning in photo.warnings]}
    alike = {}
    if like:
        find = partial(similar, service.engine, photo.embedding, judged["top"], like)
        alike["like"] = await service.read(find)
    return JSONResponse({"id": asked_id, **judged, **said, **alike, "seq": seq})


def _asked_embeddings(service: Service, content: bytes) -> Array:
    machine = service.engine.machine
    power = getattr(machine.classifier, "power_", None)
    return embeddings_of(read_npy(content), machine.width, power)


async def _unpacked(service: Service, content: bytes, work: Callable[[], T]) -> T:
    """What is in a file: a large one is read by another thread, so that nobody waits for it."""
    return work() if len(content) < SMALL else await service.read(work)


def _known_labels(service: Service, texts: list[str]) -> list[Any]:
    book = service.engine.book
    labels = [clean_label(text, book) for text in texts]
    for label in labels:
        entry = book.by_label.get(label)
        if entry is None:
            raise Problem(422, f"There is no class {str(label)[:80]}; `among` names known classes.")
    if not any(book.by_label[label].count > 0 for label in labels):
        raise Problem(422, "`among` needs a class that has samples.")
    return [label for label in labels if book.by_label[label].count > 0]


def _check_backbone(request: Request, service: Service) -> None:
    named, own = request.headers.get("xlda-backbone"), service.engine.identity
    if named is None or own is None or own.identity is None:
        return
    if named != own.identity:
        raise Problem(422, f"These embeddings are of another backbone; this model was made with {own.name}.")


@router.post(
    "/v1/samples",
    status_code=201,
    dependencies=[scoped("teach")],
    responses={
        **responses(TaughtShape, 415, 507, status=201),
        200: {"model": NotTaughtShape, "description": "Nothing was learned, since there are warnings."},
    },
    openapi_extra=_takes(*IMAGES),
)
async def teach(
    request: Request,
    label: Annotated[str, Query(min_length=1, max_length=1000)],
    group: Annotated[str | None, Query(min_length=1, max_length=1000)] = None,
    unless_warned: bool = False,
) -> Response:
    """Teach a photo. Photos with the same `group` were taken together: in a visit, by a burst.

    With `unless_warned`, nothing is learned where there is a warning.
    """
    service = service_of(request)
    _check_kind(media_type(request), *IMAGES)
    clean = clean_label(label, service.engine.book)
    together = None if group is None else clean_text(group, "group")
    content = await body_of(request)
    asker = asker_of(request, content)
    before = await service.answered_before(asker)
    if before is not None:
        return _taught(before)
    photo, small = await service.embedded_and_small(content)
    name = photo_name(content)
    judging = service.judged(photo.embedding[None], 1, None, None)
    not_kept = None
    if unless_warned:
        seq, [judged] = await judging
    else:
        not_kept, (seq, [judged]) = await asyncio.gather(service.keep_photo(name, small), judging)
    said = Warned(photo.warnings, [CODES[warning] for warning in photo.warnings])
    if _looks_like_another(service, clean, judged):
        said.add("like_another", f"looks like another class: {judged['label']}")
        said.other = {"class_id": judged["class_id"], "label": judged["label"]}
    if unless_warned:  # and so nothing is kept of it before that is known
        if said.codes:
            return JSONResponse({"learned": False, **said.to_json(), "seq": seq})
        not_kept = await service.keep_photo(name, small)
    if not_kept is not None:
        said.add("not_kept", not_kept)
    sample = NewSample(photo.embedding, clean, name, together)
    plan = plans.teach(sample, said, service.identity, unless_again=unless_warned)
    return _taught(await service.changed(asker, "learn", plan, 201, together))


def _taught(reply: Reply) -> Response:
    """The answer to a photo: 201 where it was learned."""
    return answered(reply._replace(status=201 if reply.body.get("learned", True) else 200))


def _looks_like_another(service: Service, label: Any, judged: dict[str, Any]) -> bool:
    """Whether a photo is surely taken for another class: one of few may be, of those that are new to it."""
    if judged["label"] in (None, str(label)) or judged["probability"] < SURE:
        return False
    own = service.engine.book.by_label.get(label)
    is_known = judged["p_known"] is not None and judged["p_known"] >= SURE
    return is_known if own is None or not own.count else len(service.engine.book) > 1


@router.post(
    "/v1/samples:batch",
    dependencies=[scoped("teach")],
    responses=responses(LearnedShape, 415, 507),
    openapi_extra=_takes(NPZ),
)
async def teach_batch(request: Request) -> Response:
    """Learn embeddings: a .npz file with `embedding` (n, d), `label` (n,) and perhaps `group` (n,)."""
    service = service_of(request)
    _check_kind(media_type(request), NPZ)
    content = await body_of(request)
    asker = asker_of(request, content)
    _check_backbone(request, service)
    samples, alike = await _unpacked(service, content, partial(_taught_samples, service, content))
    return answered(await service.changed(asker, "learn", plans.teach_batch(samples), group=alike))


def _taught_samples(service: Service, content: bytes) -> tuple[list[NewSample], str | None]:
    """Samples of a .npz file, and the group that all of them have."""
    arrays, engine = read_npz(content, service.limits.unpacked), service.engine
    machine = engine.machine
    power = getattr(machine.classifier, "power_", None)
    half, lifted = machine.classifier.precision == "half", machine.classifier.lift is not None
    embeddings = embeddings_of(arrays["embedding"], machine.width, power, half, lifted)
    texts = texts_of_array(arrays["label"], len(embeddings), "label")
    clean = {text: clean_label(text, engine.book) for text in set(texts)}
    groups: list[str | None] = [None] * len(embeddings)
    if "group" in arrays:
        named = texts_of_array(arrays["group"], len(embeddings), "group")
        known = {text: clean_text(text, "group") if text.strip() else None for text in set(named)}
        groups = [known[text] for text in named]
    samples = [
        NewSample(embedding, clean[text], None, group)
        for embedding, text, group in zip(embeddings, texts, groups, strict=True)
    ]
    return samples, groups[0] if len(set(groups)) == 1 else None


@router.patch(
    "/v1/samples/{sample_id}",
    dependencies=[scoped("teach")],
    responses=responses(ChangedShape, 404, 409, 415, 507),
    openapi_extra=takes_json({"label": LABEL}),
)
async def relabel(request: Request, sample_id: Id) -> Response:
    """Give a sample to another class, as if it had been so from the start. Body: `{label}`."""
    return await _relabel(request, [sample_id])


@router.post(
    "/v1/samples:relabel",
    dependencies=[scoped("teach")],
    responses=responses(ChangedShape, 404, 409, 415, 507),
    openapi_extra=takes_json({"ids": IDS, "label": LABEL}),
)
async def relabel_many(request: Request) -> Response:
    """Give several samples to another class, as one event. Body: `{ids, label}`."""
    return await _relabel(request, None)


async def _relabel(request: Request, ids: list[str] | None) -> Response:
    service, found = service_of(request), await json_of(request)
    only_fields(found, "label", *([] if ids else ["ids"]))
    label = clean_label(text_of(found, "label"), service.engine.book)
    plan = plans.relabel(ids or ids_of(found, "ids"), label)
    asker = asker_of(request, await request.body())
    return answered(await service.changed(asker, "relabel", plan))


@router.delete(
    "/v1/samples/{sample_id}",
    dependencies=[scoped("teach")],
    responses=responses(ChangedShape, 404, 409, 507),
)
async def forget(request: Request, sample_id: Id) -> Response:
    """Forget a sample, as if it had never been."""
    return answered(await service_of(request).changed(asker_of(request), "forget", plans.forget([sample_id])))


@router.post(
    "/v1/samples:forget",
    dependencies=[scoped("teach")],
    responses=responses(ChangedShape, 404, 409, 415, 507),
    openapi_extra=takes_json({"ids": IDS}),
)
async def forget_many(request: Request) -> Response:
    """Forget several samples, as one event. Body: `{ids}`."""
    service, found = service_of(request), await json_of(request)
    only_fields(found, "ids")
    asker = asker_of(request, await request.body())
    return answered(await service.changed(asker, "forget", plans.forget(ids_of(found, "ids"))))


@router.post(
    "/v1/predictions/{prediction_id}/feedback",
    dependencies=[scoped("teach")],
    responses=responses(FeedbackShape, 404, 409, 410, 415, 507),
    openapi_extra=takes_json({"correct": YES}, {"label": LABEL}, {"not": ID}, {"unknown": YES}),
)
async def feedback(request: Request, prediction_id: Id) -> Response:
    """Say what became of an answer: `{correct: true}`, `{label}`, `{not: class_id}` or `{unknown: true}`."""
    service, found = service_of(request), await json_of(request)
    asker = asker_of(request, await request.body())
    before = await service.answered_before(asker)
    if before is not None:
        return answered(before)
    only_fields(found, "correct", "label", "not", "unknown")
    if len(found) != 1:
        raise Problem(422, "The body has one of `correct`, `label`, `not` and `unknown`.")
    for name in ("correct", "unknown"):
        if name in found and found[name] is not True:
            raise Problem(422, f"`{name}` is true, or is not there.")
    if "label" in found:
        clean_label(text_of(found, "label"), service.engine.book)
    if "not" in found:
        text_of(found, "not", "id")
    asked = service.recent.find(prediction_id)
    if asked is None:
        raise Problem(410, "This answer is not remembered any more. Teach the photo instead.")
    return answered(await _took(service, asker, asked, found))


async def _took(service: Service, asker: Asker, asked: AskedPhoto, found: dict[str, Any]) -> Reply:
    """Learn what somebody says of an answer."""
    book = service.engine.book
    if "label" in found:
        return await _corrected(service, asker, asked, clean_label(text_of(found, "label"), book))
    if "unknown" in found:
        return await service.changed(asker, "feedback", plans.confirm(None, asked.embedding, "unknown"))
    if "not" in found:
        class_id = text_of(found, "not", "id")
        return await service.changed(asker, "feedback", plans.deny(class_id))
    entry = book.by_id.get(asked.judged["class_id"] or "")
    if entry is None:
        raise Problem(409, "There was no answer that could be right. Say what it is with `label`.")
    if asked.judged["probability"] >= SURE and entry.count >= ENOUGH:
        return await service.changed(asker, "feedback", plans.confirm(entry.id, asked.embedding, "correct"))
    return await _corrected(service, asker, asked, entry.label)


async def _corrected(service: Service, asker: Asker, asked: AskedPhoto, label: Any) -> Reply:
    """Teach the photo that was asked, or move the sample that it has taught already."""
    async with asked.turn:
        return await _corrected_alone(service, asker, asked, label)


async def _corrected_alone(service: Service, asker: Asker, asked: AskedPhoto, label: Any) -> Reply:
    if asked.sample_id is not None:
        try:
            return await service.changed(asker, "relabel", plans.relabel_if_other(asked.sample_id, label))
        except Problem as problem:
            if problem.status != 404:
                raise
            asked.sample_id = None  # that was undone or forgotten since
    name = None
    if asked.content is not None:
        content = asked.content
        name = photo_name(content)
        if service.engine.keeps_photos:
            await service.keep_photo(name, await service.read(lambda: small_jpeg(content)))
    old = asked.judged["label"]
    sample = NewSample(asked.embedding, label, name)
    plan = plans.correct(sample, old, service.identity, asked.judged["class_id"])
    answer = await service.changed(asker, "correct", plan)
    asked.sample_id = answer.body["id"]
    return answer
