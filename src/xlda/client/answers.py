"""What a service answers, as types. Fields that this version does not know are left out, or in `more`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Guess(NamedTuple):
    """A class that a photo may show, and its probability if it is one of the known classes."""

    label: str
    class_id: str
    probability: float


@dataclass(frozen=True)
class Prediction:
    """What a photo shows: `label` is None where it is unknown, or where nothing was learned yet.

    `probability` is that of the best class, if it is a known one, and `p_known` that it is; None where nobody
    can tell. `id` is for feedback; embeddings have none. `seq` is the last change that the answer had seen.
    `sure` says that nobody need look at it, `warnings` what may be wrong with the photo, and `like` are the
    samples that it looks most like, where these were asked for.
    """

    id: str | None
    label: str | None
    class_id: str | None
    probability: float | None
    p_known: float | None
    top: tuple[Guess, ...]
    seq: int
    sure: bool = False
    warnings: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    like: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Change:
    """A change that is on the service's disk. `id` is that of a class that was changed.

    `replayed` says that the change had been made before, by a request with the same key.
    """

    seq: int
    id: str | None = None
    replayed: bool = False


@dataclass(frozen=True)
class Taught:
    """A photo that was learned; `warnings` are sentences on what may be wrong with it, `codes` the same.

    With `unless_warned`, `learned` is False where there are warnings, and its ids are empty then.
    """

    id: str
    label: str
    class_id: str
    new_class: bool
    warnings: tuple[str, ...]
    seq: int
    replayed: bool = False
    codes: tuple[str, ...] = ()
    learned: bool = True


@dataclass(frozen=True)
class TaughtBatch:
    """Embeddings that were learned, all of them."""

    learned: int
    new_classes: tuple[str, ...]
    seq: int
    replayed: bool = False


@dataclass(frozen=True)
class Feedback:
    """What became of feedback: whether the photo was learned."""

    taught: bool
    seq: int
    replayed: bool = False


@dataclass(frozen=True)
class ClassInfo:
    """A class, and how many samples it has."""

    id: str
    label: str
    count: int


@dataclass(frozen=True)
class ClassDetails:
    """A class with its samples; `etag` is for `if_match`, so that what others changed is not changed."""

    id: str
    label: str
    count: int
    samples: tuple[Mapping[str, Any], ...] = ()
    expected_accuracy: Any = None
    advice: str | None = None
    etag: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class ModelInfo:
    """The model that is served; `more` has all that the service says beside this."""

    classes: int
    samples: int
    seq: int
    backbone: Any = None
    expected_accuracy: Any = None
    more: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class ServiceEvent:
    """Something that happened: `id` is its `seq` as text, `kind` the name of the event."""

    id: str | None
    kind: str
    data: Any


class ClassPage(NamedTuple):
    """Some classes, and what to give as `after` for the next; None where there are no more."""

    classes: tuple[ClassInfo, ...]
    next: str | None
