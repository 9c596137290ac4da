"""Which random features an embedding has: all that is to be chosen about them is in this file.

A feature is v or, where that is negative, a part of v, with v = x . p for a direction p. The numbers of an
embedding are taken less their mean first: so what all have in common, as that none is negative, is left out,
and nothing need be known of the data. What is linear of the features, (1 + SLOPE) / 2 v, varies by more than
what is bent, (1 - SLOPE) / 2 |v|: as long as samples are few, shrinkage leaves mostly the first.

Directions come in blocks, each of which is a random rotation: with H the Hadamard matrix of the next power of
two, n, and D diagonal matrices of random signs, the rows of H D H D H D, of which the first columns are taken
(structured orthogonal random features; Yu et al. 2016). They are as good as independent ones, are not kept,
and take O(n log n) numbers in place of n². H is the Kronecker product of two smaller ones, so that it is
applied by two products of small matrices.

A file has the number of the rule that its features are made by.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.threads import in_parallel, parts_for
from xlda.lifting.drawing import Signs

RULE = 2
SLOPE = 0.4  # of a feature on its negative side
ROUNDS = 3  # of H D
FEWEST_INPUTS = 8  # of which one can be spared, for embeddings to be taken less their mean
NARROWEST = 64  # numbers that are rotated: with fewer, all rotations there are would be much alike
LONGEST = math.sqrt(NARROWEST)  # that a direction may be
AT_ONCE = 2**16  # numbers that are rotated at once: they fit into a cache


class RandomFeatures:
    """`width` features of embeddings with `n_inputs` numbers; with more, the first ones are the same."""

    def __init__(self, seed: int, n_inputs: int, width: int) -> None:
        self.n_inputs, self.width = n_inputs, width
        self._n = max(NARROWEST, 1 << (n_inputs - 1).bit_length())
        self._n_blocks = -(-width // self._n)
        stream = Signs(seed)
        blocks = [stream.next(ROUNDS * self._n).reshape(ROUNDS, self._n) for _ in range(self._n_blocks)]
        self.signs = np.ascontiguousarray(np.stack(blocks, axis=1))  # (rounds, blocks, n)
        half = 1 << (self._n.bit_length() // 2)
        self._left, self._right = _hadamard(self._n // half), _hadamard(half)
        # Rotations of n numbers leave lengths as they are; those of n_inputs are 1 on the whole.
        self._scale = np.float32(math.sqrt(self._n / n_inputs) / self._n ** (ROUNDS / 2))

    def of(self, embeddings: Array) -> Array:
        """Features (n, width) of embeddings (n, n_inputs), float32."""
        along = self.along(embeddings)
        return np.maximum(along, np.float32(SLOPE) * along, out=along)

    def directions(self) -> Array:
        """Those of all features, (width, n_inputs), for whoever makes a product in place of this."""
        return np.ascontiguousarray(self.along(np.eye(self.n_inputs, dtype=np.float32)).T)

    def along(self, embeddings: Array) -> Array:
        """What embeddings are along the directions, before anything is bent."""
        found = np.empty((len(embeddings), self.width), np.float32)
        step = max(1, AT_ONCE // (self._n_blocks * self._n))

        def rotate(start: int, stop: int, _part: int) -> None:
            for first in range(start, stop, step):
                some = slice(first, min(first + step, stop))
                found[some] = self._rotated(embeddings[some]).reshape(-1, self._n_blocks * self._n)[
                    :, : self.width
                ]

        n_small = len(self._left) + len(self._right)
        n_multiplications = ROUNDS * n_small * self._n_blocks * self._n * len(embeddings)
        in_parallel(rotate, len(embeddings), min(parts_for(n_multiplications), max(len(embeddings), 1)))
        return found

    def _rotated(self, embeddings: Array) -> Array:
        """A few embeddings in all blocks, (n, n_blocks, left, right)."""
        scaled = embeddings * self._scale
        if self.n_inputs >= FEWEST_INPUTS:
            scaled -= scaled.mean(axis=1, keepdims=True)
        numbers = np.zeros((len(embeddings), self._n_blocks, self._n), np.float32)
        np.multiply(scaled[:, None], self.signs[0][:, : self.n_inputs], out=numbers[..., : self.n_inputs])
        shape = (len(embeddings), self._n_blocks, len(self._left), len(self._right))
        matrices, between = numbers.reshape(shape), np.empty(shape, np.float32)
        for number in range(ROUNDS):
            if number:
                numbers *= self.signs[number]
            np.matmul(matrices, self._right, out=between)  # each so small that the BLAS does it alone
            np.matmul(self._left, between, out=matrices)
        return matrices


@cache
def _hadamard(n: int) -> Array:
    """Sylvester's matrix of 1 and -1, for a power of two."""
    if n == 1:
        return np.ones((1, 1), np.float32)
    half = _hadamard(n // 2)
    return np.block([[half, half], [half, -half]])
