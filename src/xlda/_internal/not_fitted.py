"""scikit-learn's error of what has learned nothing, imported when it is raised: that takes about a second."""

from __future__ import annotations


def not_fitted(message: str) -> Exception:
    """A `sklearn.exceptions.NotFittedError`: a ValueError and an AttributeError, so that hasattr works."""
    from sklearn.exceptions import NotFittedError

    error: Exception = NotFittedError(message)
    return error


def is_not_fitted(error: Exception) -> bool:
    """Whether an error is that one.

    >>> is_not_fitted(not_fitted("Call fit first.")), is_not_fitted(ValueError("k is at least 1."))
    (True, False)
    """
    if not isinstance(error, ValueError) or not isinstance(error, AttributeError):
        return False
    from sklearn.exceptions import NotFittedError

    return isinstance(error, NotFittedError)
