"""Random features of embeddings, in place of the embeddings themselves."""

from xlda.lifting.lift import Lift

__all__ = ["Lift"]
