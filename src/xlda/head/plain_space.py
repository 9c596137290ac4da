"""Plain linear discriminant analysis: class means are taken for the truth.

The logit of a class is x . w + b with w = P m and b = -1/2 m . w + log prior, where m is the class mean and P
the inverse of the shrunk covariance. Scores are logits with x and m relative to the mean of all samples: the
numbers stay small, and all that is missing is a term common to all classes, which `common_term` gives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.one_thread import few_times
from xlda._internal.threads import in_parallel_with_blas, parts_for
from xlda.head.changed_rows import NewRows
from xlda.lifting import Lift
from xlda.moments import Moments

ROWS_AT_ONCE = 1024  # classes whose weights are computed in one product


@dataclass(frozen=True, eq=False)
class PlainSpace:
    """Queries as they are, but for the centre, and what makes rows of class means."""

    centre: Array  # (n_features,)
    inverse: Array  # (n_features, n_features), of the shrunk covariance
    centre_weight: Array  # inverse times centre, float64: what `common_term` needs, once a head
    lift: Lift | None = None  # what makes of embeddings the features that this is the space of

    @property
    def width(self) -> int:
        """Coordinates of a query."""
        return len(self.centre)

    @property
    def nbytes(self) -> int:
        """Memory."""
        return self.inverse.nbytes

    def queries(self, embeddings: Array) -> Array:
        """Embeddings as the rows of this space take them."""
        return self.of_features(embeddings if self.lift is None else self.lift.features(embeddings))

    def of_features(self, features: Array) -> Array:
        """The same of what is learned of embeddings."""
        queries: Array = features.astype(self.centre.dtype, copy=False) - self.centre
        return queries

    def common_term(self, embeddings: Array) -> Array:
        """What the logits of all rows have in common, shape (n,), float64."""
        weight, bias = self.common
        features = embeddings if self.lift is None else self.lift.features(embeddings)
        term: Array = features.astype(np.float64, copy=False) @ weight + bias
        return term

    @property
    def common(self) -> tuple[Array, float]:
        """The same as weight and bias."""
        return self.centre_weight, float(-0.5 * self.centre.astype(np.float64) @ self.centre_weight)

    def squared_lengths(self, differences: Array) -> Array:
        """Of differences between embeddings (n, n_features), in standard deviations within classes."""
        lengths: Array = np.einsum("ij,ij->i", differences @ self.inverse, differences)
        return lengths

    def with_rows(self, moments: Moments, rows: Rows, with_priors: bool) -> tuple[PlainSpace, NewRows]:
        """Rows as `moments` has them now, and the space that they are in."""
        return self, self.rows_of(moments, rows, with_priors)

    def rows_of(self, moments: Moments, rows: Rows | slice, with_priors: bool) -> NewRows:
        """Weights, bias and half norm of `rows` as `moments` has them now."""
        means = moments.means_from(self.centre, rows)
        counts = moments.counts_of(rows)
        seen = counts > 0
        means[~seen] = 0.0
        weights = few_times(means, self.inverse)
        half_norms = 0.5 * np.einsum("ij,ij->i", means, weights)
        bias = -half_norms
        if with_priors:  # the total of the counts is in the common term
            bias = bias + np.log(np.where(seen, counts, 1.0))
        bias = np.where(seen, bias, -np.inf).astype(weights.dtype)
        return NewRows(weights, bias, half_norms)

    def all_rows(self, moments: Moments, n_rows: int, with_priors: bool) -> NewRows:
        """The same of all rows: O(C d^2)."""
        dtype = moments.dtype
        weights = np.empty((n_rows, moments.n_features), np.float16 if moments.half else dtype)
        bias, half_norms = np.empty(n_rows, dtype), np.empty(n_rows, dtype)

        def weigh(start: int, stop: int, _part: int) -> None:
            for first in range(start, stop, ROWS_AT_ONCE):
                block = slice(first, min(first + ROWS_AT_ONCE, stop))
                if not moments.counts_of(block).any():  # as with a layer's rows that have no samples yet
                    weights[block], bias[block], half_norms[block] = 0.0, -np.inf, 0.0
                    continue
                with np.errstate(over="ignore"):  # it is refused below
                    new = self.rows_of(moments, block, with_priors)
                    weights[block], bias[block], half_norms[block] = new.weights, new.bias, new.half_norms

        in_parallel_with_blas(weigh, n_rows, parts_for(n_rows * moments.n_features**2))
        check_half(weights)
        return NewRows(weights, bias, half_norms)


def check_half(weights: Array) -> None:
    """Refuse weights that float16 cannot hold."""
    if weights.dtype == np.float16 and not np.isfinite(weights).all():
        raise ValueError(
            "precision='half' cannot hold the weights of classes that differ so little. "
            "Scale the embeddings up, or use precision='full'."
        )
