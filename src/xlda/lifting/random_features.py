"""Which random features an embedding has: all that is to be chosen about them is in this file.

A feature is v or, where that is negative, a part of v, with v = x . p for a direction p of nearly normal
numbers that add up to 0. So what all numbers of an embedding have in common, as that none is negative, is
left out, and nothing need be known of the data. What is linear of the features, (1 + SLOPE) / 2 v, varies by
more than what is bent, (1 - SLOPE) / 2 |v|: as long as samples are few, shrinkage leaves mostly the first.

A file has the number of the rule that its features are made by: another rule may come beside this one.
"""

from __future__ import annotations

import math

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.one_thread import few_times
from xlda.lifting.drawing import MOST, VARIANCE, WholeNumbers

RULE = 1
SLOPE = 0.4  # of a feature on its negative side
AT_ONCE = 128  # features that are drawn at once
FEWEST_INPUTS = 8  # of which one can be spared, for the numbers of a direction to add up to 0
LONGEST = MOST / math.sqrt(VARIANCE)  # that a direction may be


def drawn(seed: int, n_inputs: int, width: int) -> Array:
    """Directions (width, n_inputs), float32: O(width n_inputs). More features have the same first ones."""
    stream, directions = WholeNumbers(seed), np.empty((width, n_inputs), np.float32)
    unit = 1.0 / (n_inputs * math.sqrt(VARIANCE * n_inputs))
    for start in range(0, width, AT_ONCE):
        some = slice(start, min(start + AT_ONCE, width))
        numbers = stream.next((some.stop - start) * n_inputs).reshape(-1, n_inputs).astype(np.int64)
        sums = numbers.sum(axis=1, keepdims=True)
        numbers *= n_inputs  # so that the mean is whole as well
        if n_inputs >= FEWEST_INPUTS:
            numbers -= sums
        directions[some] = numbers * unit
    return directions


def features(embeddings: Array, directions: Array) -> Array:
    """Features (n, width) of embeddings (n, n_inputs), all float32."""
    found = few_times(embeddings, directions.T)
    return np.maximum(found, np.float32(SLOPE) * found, out=found)
