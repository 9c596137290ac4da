"""What answers look like, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class ProblemShape(BaseModel):
    """RFC 9457."""

    model_config = ConfigDict(extra="allow", title="Problem")
    type: str
    title: str
    status: int
    detail: str


class CandidateShape(BaseModel):
    """A class that it may be."""

    label: str
    class_id: str | None
    probability: float


class JudgedShape(BaseModel):
    """What a sample is; all null where nothing is known."""

    label: str | None
    class_id: str | None
    probability: float | None
    p_known: float | None
    sure: bool
    top: list[CandidateShape]


class SimilarShape(BaseModel):
    """A sample that looks like it."""

    sample_id: str
    class_id: str | None
    label: str


class PredictionShape(JudgedShape):
    """What a photo shows."""

    id: str
    warnings: list[str]
    codes: list[str]
    like: list[SimilarShape] = []
    seq: int


class PredictionsShape(BaseModel):
    """What embeddings are."""

    predictions: list[JudgedShape]
    seq: int


class OtherShape(BaseModel):
    """The class that a photo looks like."""

    class_id: str | None
    label: str


class TaughtShape(BaseModel):
    """A photo that was learned."""

    id: str
    label: str
    class_id: str
    new_class: bool
    warnings: list[str]
    codes: list[str]
    other: OtherShape | None = None
    seq: int


class NotTaughtShape(BaseModel):
    """A photo that was not learned."""

    learned: bool
    warnings: list[str]
    codes: list[str]
    other: OtherShape | None = None
    seq: int


class LearnedShape(BaseModel):
    """Embeddings that were learned."""

    learned: int
    new_classes: list[str]
    seq: int


class ChangedShape(BaseModel):
    """A change that was made."""

    model_config = ConfigDict(extra="allow")
    seq: int


class UndidShape(BaseModel):
    """What was undone."""

    operation: str
    label: str | None
    count: int


class UndoneShape(BaseModel):
    """Events that were undone."""

    undone: list[int]
    undid: UndidShape
    seq: int


class EventShape(BaseModel):
    """Something that happened."""

    model_config = ConfigDict(extra="allow")
    seq: int
    operation: str
    undone: bool
    can_be_undone: bool


class RecentShape(BaseModel):
    """The newest events."""

    events: list[EventShape]


class FeedbackShape(BaseModel):
    """Whether something was learned from what was said."""

    model_config = ConfigDict(extra="allow")
    taught: bool
    seq: int


class ClassChangedShape(BaseModel):
    """A class that was changed."""

    id: str
    seq: int


class ClassShape(BaseModel):
    """A class."""

    id: str
    label: str
    count: float


class ClassesShape(BaseModel):
    """Some classes, and where to go on."""

    classes: list[ClassShape]
    next: str | None


class SampleShape(BaseModel):
    """A sample of a class."""

    id: str
    group: str | None
    photo: bool
    can_be_changed: bool
    hurts: bool


class ClassDetailShape(ClassShape):
    """A class with its samples, what to expect of it, and advice."""

    samples: list[SampleShape]
    next: str | None
    expected_accuracy: float | None
    corrections: float | None
    advice: str
    enough: bool | None


class PairingShape(BaseModel):
    """A code, where to use it, and the first of these as a picture."""

    code: str
    expires_in: int
    addresses: list[str]
    qr: str | None


class AnyShape(BaseModel):
    """An object, described in the documentation of the service."""

    model_config = ConfigDict(extra="allow")


LABEL = {"type": "string", "minLength": 1, "maxLength": 1000, "description": "1 to 200 characters, trimmed."}
ID = {"type": "string", "pattern": "^[0-9A-Za-z_-]{1,64}$"}
IDS = {"type": "array", "items": ID, "minItems": 1, "maxItems": 500}
SEQS = {
    "type": "array",
    "items": {"type": "integer", "minimum": 1, "maximum": 2**63 - 1},
    "minItems": 1,
    "maxItems": 10_000,
}
REFUSED: dict[str, Any] = {
    "description": "Refused.",
    "content": {"application/problem+json": {"schema": ProblemShape.model_json_schema()}},
}
YES = {"type": "boolean", "enum": [True]}


def takes_json(*choices: dict[str, Any]) -> dict[str, Any]:
    """The JSON body of a call, for the document: an object of one of these kinds, with all its fields."""
    kinds = [
        {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
        for fields in choices
    ]
    schema = kinds[0] if len(kinds) == 1 else {"oneOf": kinds}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def responses(shape: type[BaseModel], *statuses: int, status: int = 200) -> dict[int | str, Any]:
    """Answers of a call: what it gives, and how it can be refused."""
    return {status: {"model": shape, "description": "Done."}, **refusals(*statuses)}


def refusals(*statuses: int) -> dict[int | str, Any]:
    """How a call can be refused: as any, and with these."""
    return dict.fromkeys((400, 401, 403, 408, 413, 422, 429, 431, 503, *statuses), REFUSED)
