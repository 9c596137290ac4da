"""From moments to scores: an immutable head, and what it is computed from."""

from xlda.head.head import Head, new_head, spread_to_keep

__all__ = ["Head", "new_head", "spread_to_keep"]
