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


class BadSampleError(XLDAError, ValueError):
    """A photo or an embedding that cannot be learned or recognised; nothing was learned from it."""


class LockedModelError(XLDAError, OSError):
    """A model that another process is changing."""


class ChangedModelError(XLDAError, OSError):
    """A model file that was changed by another process since it was opened."""
