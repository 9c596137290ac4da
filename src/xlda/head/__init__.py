"""From moments to scores: an immutable head, and what it is computed from."""

from xlda.head.head import Head, new_head

__all__ = ["Head", "new_head"]
