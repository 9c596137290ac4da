"""Random signs that are the same on every machine and in every version, for ever.

They are the bits of the raw words of a published generator (Philox4x64-10; Salmon et al. 2011).
"""

from __future__ import annotations

import numpy as np

from xlda._internal.arrays import Array

BITS = 64  # in a word


class Signs:
    """A stream of signs, -1 or 1: the bits of each word, the lowest first, 1 being -1.

    >>> Signs(seed=0).next(64)[:8].tolist()
    [-1.0, -1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0]
    """

    def __init__(self, seed: int) -> None:
        self._words = np.random.Philox(key=seed)

    def next(self, n: int) -> Array:
        """The next `n`, a multiple of 64, as float32."""
        words = np.asarray(self._words.random_raw(n // BITS)).astype("<u8", copy=False)
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")
        signs: Array = 1.0 - 2.0 * bits.astype(np.float32)
        return signs
