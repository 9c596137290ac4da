"""Running sums of a stream of embeddings: counts, class means, pooled scatter."""

from xlda.moments.forgetting import ForgetError
from xlda.moments.moments import Moments

__all__ = ["ForgetError", "Moments"]
