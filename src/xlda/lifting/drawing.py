"""Random numbers that are the same on every machine and in every version, for ever.

They are made of the raw words of a published generator (Philox4x64-10; Salmon et al. 2011) by whole numbers
alone: no logarithm or cosine, whose last digits depend on a library, is between.
"""

from __future__ import annotations

import numpy as np

from xlda._internal.arrays import Array

BYTES = 8  # in a word, whose sum is nearly normal
MIDDLE = MOST = BYTES * 255 // 2
VARIANCE = BYTES * (256**2 - 1) / 12
WORDS_AT_ONCE = 2**18


class WholeNumbers:
    """A stream of whole numbers that are nearly normal, of the mean 0 and the variance `VARIANCE`.

    >>> WholeNumbers(seed=0).next(4).tolist()
    [119, 8, -186, 36]
    """

    def __init__(self, seed: int) -> None:
        self._words = np.random.Philox(key=seed)

    def next(self, n: int) -> Array:
        """The next `n`, as int16."""
        numbers = np.empty(n, np.int16)
        for start in range(0, n, WORDS_AT_ONCE):
            some = numbers[start : start + WORDS_AT_ONCE]
            words = self._words.random_raw(len(some))
            some[:] = words.view(np.uint8).reshape(-1, BYTES).sum(axis=1, dtype=np.int16) - MIDDLE
        return numbers
