"""A few rows of each class that tell how its own samples vary, kept as sums.

Every sample is added to one row of its class, or taken off it; which row, and which of both, a hash of its
embedding says. What such rows are less as many class means is a few random sums of how samples differ from
the mean: on average their products are the scatter of the class. (That is a count sketch: Charikar, Chen and
Farach-Colton, 2002.) As sums they do not depend on the order, they can be added, and samples can be taken
away again.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda._internal.growing import copied, lengthened
from xlda.moments.batch_update import crowds_and_turns
from xlda.moments.kept_samples import embedding_hashes

AT_ONCE = 2048  # samples
NOT_ALL = 1e-6  # of the count of a class: if so much is missing, the rows are not those of all its samples


class SketchRows(NamedTuple):
    """The rows of one class wherever it goes: sums of samples as they are learned, not less an origin."""

    sums: Array  # (n_rows, n_features), float64
    signs: Array  # (n_rows,)
    weight: float  # of all samples that are in them

    @classmethod
    def of(cls, samples: Array, n_rows: int) -> SketchRows:
        """Of samples (n, n_features), one or more."""
        sketches = Sketches(n_rows, samples.shape[1])
        sketches.reserve(1)
        origin = samples.mean(axis=0)
        sketches.add(samples, origin, np.zeros(len(samples), np.intp), None, 1)
        return sketches.rows_of(0, origin)

    def plus(self, other: SketchRows, sign: float = 1.0) -> SketchRows:
        """Those of both together, or of this one without the other."""
        return SketchRows(
            self.sums + sign * other.sums,
            self.signs + sign * other.signs,
            self.weight + sign * other.weight,
        )


class Sketches:
    """Rows of classes: sums of samples less an origin, which whoever calls takes care of.

    >>> sketches = Sketches(n_rows=2, n_features=1)
    >>> sketches.reserve(1)
    >>> sketches.add(np.array([[1.0], [4.0]]), np.zeros(1), np.array([0, 0]), None, 1)
    >>> residuals, weights = sketches.residuals(np.array([0]), np.array([[2.5]]), np.array([2.0]))
    >>> sorted(np.abs(residuals).ravel().tolist()), weights
    ([1.5, 1.5], array([2.]))
    """

    def __init__(self, n_rows: int, n_features: int) -> None:
        self.n_rows = n_rows  # of each class
        # Sums of samples, with signs and roots of weights.
        self.sums = np.zeros((0, n_rows, n_features), np.float32)
        self.signs = np.zeros((0, n_rows))  # of these signs and roots alone
        self.weights = np.zeros(0)  # of all samples that are in the rows of a class

    @property
    def nbytes(self) -> int:
        """Memory."""
        return self.sums.nbytes + self.signs.nbytes + self.weights.nbytes

    def reserve(self, n_classes: int) -> None:
        """Have rows for so many classes."""
        arrays = [lengthened(array, n_classes) for array in (self.sums, self.signs, self.weights)]
        self.sums, self.signs, self.weights = arrays  # all or none

    def first(self, n_classes: int) -> Self:
        """Those of so many classes, without the memory that there may be for more; they share the arrays."""
        return self.from_arrays(self.to_arrays(n_classes))

    def residuals(self, classes: Rows | slice, offsets: Array, counts: Array) -> tuple[Array, Array]:
        """Rows of some classes less their means, (n, n_rows, n_features), and the weight of their samples.

        `offsets` are the means less the origin. Where not all of the `counts` are in the rows, as in a class
        of which nobody has seen the samples, both are 0.
        """
        sums, signs, weights = self._of(classes)
        missing = np.abs(weights - counts) > NOT_ALL * counts
        residuals: Array = sums - signs[:, :, None].astype(sums.dtype) * offsets[:, None, :].astype(
            sums.dtype
        )
        residuals[missing] = 0.0
        return residuals, np.where(missing, 0.0, weights)

    def _of(self, classes: Rows | slice) -> tuple[Array, Array, Array]:
        return self.sums[classes], self.signs[classes], self.weights[classes]

    # -- what happens to samples

    def add(self, embeddings: Array, origin: Array, rows: Rows, weights: Array | None, sign: int) -> None:
        """Samples (n, n_features) of these classes were learned (`sign` 1), or forgotten (-1)."""
        for start in range(0, len(rows), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            self._add(embeddings[some], origin, rows[some], None if weights is None else weights[some], sign)

    def _add(self, embeddings: Array, origin: Array, rows: Rows, weights: Array | None, sign: int) -> None:
        with np.errstate(over="ignore"):
            hashes = embedding_hashes(embeddings.astype(np.float16))  # as they are kept for checking
        scale = np.where(hashes >> np.uint64(63), -1.0, 1.0)
        each = np.ones(len(rows)) if weights is None else weights
        scale *= sign * np.sqrt(each)
        places = rows * self.n_rows + (hashes % np.uint64(self.n_rows)).astype(np.intp)
        np.add.at(self.signs.reshape(-1), places, scale)
        np.add.at(self.weights, rows, sign * each)
        added: Array = (embeddings - origin).astype(np.float32)
        added *= scale[:, None].astype(np.float32)
        sums = self.sums.reshape(-1, added.shape[1])
        crowds, turns = crowds_and_turns(places)
        for crowd in crowds:
            sums[places[crowd[0]]] += added[crowd].sum(axis=0)
        for turn in turns:
            sums[places[turn]] += added[turn]

    def merge(self, other: Sketches, rows: Rows, shift: Array, sign: int = 1) -> None:
        """Add what another one has, or take it away: its class i is `rows[i]` here.

        `shift` is its origin less the one here.
        """
        shift = shift.astype(np.float32)
        for theirs, mine in enumerate(rows.tolist()):
            sums, signs = other.sums[theirs], other.signs[theirs]
            self.sums[mine] += sign * (sums + signs[:, None].astype(np.float32) * shift)
            self.signs[mine] += sign * signs
            self.weights[mine] += sign * other.weights[theirs]

    def join(self, into: int, other: int) -> None:
        """Samples of one class are another's too, until it is cleared."""
        for array in (self.sums, self.signs, self.weights):
            array[into] += array[other]

    def clear(self, rows: Rows) -> None:
        """Classes have no samples, or nobody knows which ones."""
        self.sums[rows], self.signs[rows], self.weights[rows] = 0.0, 0.0, 0.0

    # -- leaving and coming back

    def rows_of(self, row: int, origin: Array) -> SketchRows:
        """The rows of one class, which are less this origin here."""
        signs = self.signs[row].copy()
        sums = self.sums[row] + signs[:, None] * origin.astype(np.float64)
        return SketchRows(sums, signs, float(self.weights[row]))

    def add_rows(self, row: int, rows: SketchRows, origin: Array, sign: int = 1) -> None:
        """Add what `rows_of` gave to the rows of a class, or take it away."""
        sums = rows.sums - rows.signs[:, None] * origin.astype(np.float64)
        self.sums[row] += (sign * sums).astype(np.float32)
        self.signs[row] += sign * rows.signs
        self.weights[row] += sign * rows.weight

    def taken(self, rows: Rows) -> tuple[Array, Array, Array]:
        """All there is of some classes, as a copy."""
        return self.sums[rows].copy(), self.signs[rows].copy(), self.weights[rows].copy()

    def put_back(self, rows: Rows, taken: tuple[Array, Array, Array]) -> None:
        """Have what `taken` gave."""
        self.sums[rows], self.signs[rows], self.weights[rows] = taken

    def to_arrays(self, n_classes: int) -> dict[str, Array]:
        """All there is of so many classes, by name."""
        sums, signs, weights = self._of(slice(n_classes))
        return {"sums": sums, "signs": signs, "weights": weights}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> Self:
        """What `to_arrays` gave; it keeps the arrays, and changes them."""
        sketches = cls(*arrays["sums"].shape[1:])
        sketches.sums, sketches.signs, sketches.weights = (
            arrays[name] for name in ("sums", "signs", "weights")
        )
        return sketches

    def __deepcopy__(self, memo: object) -> Self:
        return self.from_arrays(
            {name: copied(array) for name, array in self.to_arrays(len(self.sums)).items()}
        )


class SketchesView(Sketches):
    """What sketches were when it was made, while they are changed: see `MomentsView`. Only to be read."""

    def __init__(self, sketches: Sketches) -> None:
        super().__init__(sketches.n_rows, sketches.sums.shape[2])
        self.sums, self.signs, self.weights = sketches.sums, sketches.signs, sketches.weights
        self._kept: dict[int, tuple[Array, Array, Array]] = {}

    def keep(self, row: int) -> None:
        """Put aside the rows of a class, which are about to change."""
        self._kept[row] = (self.sums[row].copy(), self.signs[row].copy(), self.weights[row].copy())

    def _of(self, classes: Rows | slice) -> tuple[Array, Array, Array]:
        sums, signs, weights = (array[classes].copy() for array in (self.sums, self.signs, self.weights))
        numbers = np.arange(len(self.weights))[classes].tolist()
        kept = dict(self._kept)  # read after the others, once: what changes later was copied before
        for place, number in enumerate(numbers):
            if number in kept:
                sums[place], signs[place], weights[place] = kept[number]
        return sums, signs, weights

    def __deepcopy__(self, memo: object) -> Self:
        raise TypeError("A view of sketches cannot be copied.")
