"""What can go wrong, as types, so that a program maps types and never texts.

Each is also the ValueError or OSError that it would be without this page. What scikit-learn has a type for
keeps it: predicting before learning is its `NotFittedError`.
"""

from __future__ import annotations


class XLDAError(Exception):
    """What all errors of this page have in common."""


class DamagedFileError(XLDAError, ValueError):
    """A file that is not what it should be: damaged, incomplete, made up, or something else altogether."""


class NewerFileError(XLDAError, ValueError):
    """A file that a newer version of xlda wrote, in a format that this one does not know."""


class OtherBackboneError(XLDAError, ValueError):
    """Embeddings of another backbone than those that a model learned from, or of one that cannot be had."""


class UnknownClassError(XLDAError, ValueError):
    """A label that the model has not learned."""


class DoubtfulLabelError(XLDAError, ValueError):
    """A new label that is so like known ones, which are `alike`, that one of them may be meant."""

    def __init__(self, label: str | int, alike: tuple[str | int, ...], cure: str = "Use that label.") -> None:
        super().__init__(f"{label!r} is new, but much like the known {either(alike)}. {cure}")
        self.label, self.alike = label, alike


class BadSampleError(XLDAError, ValueError):
    """A photo or an embedding that cannot be learned or recognised; nothing was learned from it."""


class LockedModelError(XLDAError, OSError):
    """A model that another process is changing."""


class ServedModelError(LockedModelError):
    """A model that a service has for as long as it runs; the message has its address."""


class ChangedModelError(XLDAError, OSError):
    """A model file that was changed by another process since it was opened."""


class RefusedContributionError(XLDAError, ValueError):
    """What no box of a fleet could have taught, or not this one; nothing of it was taken in."""


class OtherVersionError(XLDAError, ValueError):
    """A contribution that starts from another version than is there, which is `version`, if there is any."""

    def __init__(self, message: str, version: tuple[int, int, str] | None = None) -> None:
        super().__init__(message)
        self.version = version


def either(labels: tuple[str | int, ...]) -> str:
    """Labels in a sentence, the first three of them.

    >>> either(("kiwi", "lime"))
    "'kiwi' or 'lime'"
    """
    names = [repr(label) for label in labels[:3]]
    return " or ".join(names) + (f" (or {len(labels) - 3} more)" if len(labels) > 3 else "")
