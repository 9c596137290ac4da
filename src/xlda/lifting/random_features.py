"""Which random features an embedding has: all that is to be chosen about them is in this file.

A feature is relu(x . p + b), with a direction p of nearly normal numbers and a bias b, both random. A file
has the number of the rule that its features are made by, so that another rule may come beside this one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.one_thread import few_times
from xlda.lifting.drawing import VARIANCE, WholeNumbers

RULE = 1
AT_ONCE = 128  # features that are drawn at once
BIAS = 0.5  # standard deviation of the biases, beside 1 / sqrt(n_inputs) of the numbers in a direction


class Drawn(NamedTuple):
    """Directions (width, n_inputs) and biases (width,), float32."""

    directions: Array
    biases: Array


def drawn(seed: int, n_inputs: int, width: int) -> Drawn:
    """The random numbers of a rule: O(width n_inputs). More features have the same first ones."""
    stream = WholeNumbers(seed)
    directions, biases = np.empty((width, n_inputs), np.float32), np.empty(width, np.float32)
    unit, bias_unit = np.float32((VARIANCE * n_inputs) ** -0.5), np.float32(BIAS * VARIANCE**-0.5)
    for start in range(0, width, AT_ONCE):
        some = slice(start, min(start + AT_ONCE, width))
        numbers = stream.next((some.stop - start) * (n_inputs + 1)).reshape(-1, n_inputs + 1)
        np.multiply(numbers[:, :-1], unit, out=directions[some])
        np.multiply(numbers[:, -1], bias_unit, out=biases[some])
    return Drawn(directions, biases)


def features(embeddings: Array, drawn: Drawn) -> Array:
    """Features (n, width) of embeddings (n, n_inputs), all float32."""
    found = few_times(embeddings, drawn.directions.T)
    found += drawn.biases
    return np.maximum(found, 0.0, out=found)
