"""Products of a matrix and a vector, or of small matrices, by one thread, whatever the BLAS may do.

OpenBLAS shares out a product of some size, and then waits for another core: on a busy machine a hundred times
as long as the product takes. Smaller ones it does alone. Limiting its threads instead would be for the whole
process, so the product is made in blocks.
"""

from __future__ import annotations

import numpy as np

from xlda._internal.arrays import Array

ALONE = 2**18  # numbers of a matrix; OpenBLAS 0.3.27 and later share out a product from 460,800 on
A_FEW = 16  # vectors, or pairs of matrices
MULTIPLICATIONS_ALONE = 2**18  # of two matrices; it shares out a product of more
SIDE = 64  # rows and columns of a block of a product


def times_vector(matrix: Array, vector: Array) -> Array:
    """`matrix @ vector` for a matrix (m, n) in either order of memory and a vector (n,) of the same kind.

    >>> times_vector(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([10.0, 1.0]))
    array([12., 34.])
    """
    n_rows, width = matrix.shape
    if matrix.size <= ALONE:
        product: Array = matrix @ vector
        return product
    step = max(1, ALONE // width)
    whole = n_rows - n_rows % step
    product = np.empty(n_rows, matrix.dtype)
    np.matmul(matrix[:whole].reshape(-1, step, width), vector, out=product[:whole].reshape(-1, step))
    np.matmul(matrix[whole:], vector, out=product[whole:])
    return product


def few_times(vectors: Array, matrix: Array) -> Array:
    """`vectors @ matrix` for vectors (n, m), by one thread where there are but a few of them.

    >>> few_times(np.array([[10.0, 1.0]]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[13., 24.]])
    """
    if not 0 < len(vectors) <= A_FEW or matrix.size <= ALONE // A_FEW:
        product: Array = vectors @ matrix
        return product
    if len(vectors) == 1:
        return times_vector(matrix.T, vectors[0])[None]
    return np.stack([times_vector(matrix.T, vector) for vector in vectors])


def inner_products(left: Array, right: Array) -> Array:
    """`left @ right` transposed, for pairs (n, a, p) and (n, b, p): by one thread where they are but a few.

    >>> inner_products(np.array([[[1.0, 2.0]]]), np.array([[[10.0, 1.0]]]))
    array([[[12.]]])
    """
    (n, a, width), b = left.shape, right.shape[1]
    if n > A_FEW or a * b * width <= MULTIPLICATIONS_ALONE:
        product: Array = left @ right.transpose(0, 2, 1)
        return product
    products = np.empty((n, a, b), left.dtype)
    for i in range(0, a, SIDE):
        for j in range(0, b, SIDE):
            block = products[:, i : i + SIDE, j : j + SIDE]
            if left is right and j < i:
                block[:] = products[:, j : j + SIDE, i : i + SIDE].transpose(0, 2, 1)
            else:
                block[:] = _in_pieces(left[:, i : i + SIDE], right[:, j : j + SIDE])
    return products


def _in_pieces(left: Array, right: Array) -> Array:
    """The same, a part of the numbers of each vector at a time."""
    (n, a, width), b = left.shape, right.shape[1]
    step = min(MULTIPLICATIONS_ALONE // (a * b), width)
    whole = width - width % step
    pieces = left[:, :, :whole].reshape(n, a, -1, step).transpose(0, 2, 1, 3)
    products = pieces @ right[:, :, :whole].reshape(n, b, -1, step).transpose(0, 2, 3, 1)
    total: Array = products.sum(axis=1)
    if whole < width:
        total += left[:, :, whole:] @ right[:, :, whole:].transpose(0, 2, 1)
    return total
