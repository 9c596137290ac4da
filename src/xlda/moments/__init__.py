"""Running sums of a stream of embeddings: counts, class means, pooled scatter."""

from xlda.moments.moments import ForgetError, Moments

__all__ = ["ForgetError", "Moments"]
