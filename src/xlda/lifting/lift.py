"""Embeddings on their way into a wider space, where classes with many samples are told apart better."""

from __future__ import annotations

import threading
from hashlib import sha256
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from xlda._internal.arrays import Array
from xlda.lifting.random_features import RULE, RandomFeatures

AT_ONCE = 512  # samples whose features are in memory at once

_drawing = threading.Lock()
_drawn: WeakValueDictionary[tuple[int, int, int], _Shared] = WeakValueDictionary()


class _Shared:
    """Random numbers that all lifts of one seed and width have in common, and their checksum."""

    def __init__(self, seed: int, n_inputs: int, width: int) -> None:
        self.made = RandomFeatures(seed, n_inputs, width)
        self.checksum = sha256(self.made.signs.astype("<f4").data).hexdigest()


class Lift:
    """`width` random features of embeddings with `n_inputs` numbers; the seed says which.

    Nothing of it depends on data, so that classifiers with the same lift can be merged. It never changes, and
    a copy of it is itself: the random numbers are in memory once.

    >>> Lift(n_inputs=3, width=4, seed=0).features(np.ones((2, 3))).shape
    (2, 4)
    """

    def __init__(self, n_inputs: int, width: int, seed: int = 0, centre: Array | None = None) -> None:
        self.n_inputs, self.width, self.seed = n_inputs, width, seed
        self.centre = None if centre is None else np.asarray(centre, np.float32)  # what is taken off first
        key = (seed, n_inputs, width)
        with _drawing:
            shared = _drawn.get(key)
            if shared is None:
                shared = _drawn[key] = _Shared(*key)
        self._shared = shared

    def directions(self) -> Array:
        """Those of the features, (width, n_inputs): for whoever makes a product of them."""
        return self._shared.made.directions()

    @property
    def nbytes(self) -> int:
        """Memory, whoever else has it in common."""
        return self._shared.made.signs.nbytes

    def features(self, embeddings: Array) -> Array:
        """Features (n, width) of embeddings (n, n_inputs), float32; O(n width log n_inputs)."""
        centred = embeddings if self.centre is None else embeddings - self.centre  # before it is rounded
        return self._shared.made.of(np.asarray(centred, np.float32))

    # -- leaving and coming back

    def to_json(self) -> dict[str, Any]:
        """What a file has of it beside the parameters."""
        return {"rule": RULE, "n_inputs": self.n_inputs, "checksum": self._shared.checksum}

    def __deepcopy__(self, memo: dict[int, Any]) -> Lift:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Lift, (self.n_inputs, self.width, self.seed, self.centre)
